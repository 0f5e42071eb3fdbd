"""The content of a trace, by name and by column."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xpsample.core.checks import check_function
from xpsample.core.errors import TraceError
from xpsample.core.registry import backend_of
from xpsample.diagnostics.diagnosis import RunStatistics
from xpsample.spaces.named import Named, named, named_from_json, parameters
from xpsample.trace.running import Running, running
from xpsample.trace.stored import StoredColumns, StoredRows

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class Content(ABC):
    """Fields of a `Trace`, and how its draws are read."""

    draws: Any
    statistics: dict[str, Array]
    recorded: dict[str, Any]
    run_statistics: RunStatistics
    state: Any
    metadata: dict[str, Any]
    kernel: Any = None
    warmup: dict[str, Any] | Any = None

    @abstractmethod
    def __repr__(self) -> str: ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of a model's parameters; none for other targets."""
        return self._space.names if self._space is not None and "parameters" in self.metadata else ()

    def __getitem__(self, name: str) -> Array:
        """The draws of a model's parameter, ``(draw, *chains, *shape)``, as values and not as coordinates.

        Those of other targets are ``trace["x"]``.
        """
        draws = self._some_draws()
        if isinstance(draws, StoredRows) and name in draws.values:
            return draws.values[name]
        if self._space is None and name == "x":
            return draws
        if self._space is None:
            raise TraceError(f"only the trace of a Model has parameters by name, such as {name!r}: use trace.draws")
        return self._space.value(backend_of(draws).xp, draws, name)

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Quantities that follow from the draws, in their own library.

        Parameters
        ----------
        function : callable
            ``function(p)`` of the parameters of a `Model`, as its log density has them: ``p.tau`` is
            ``(draw, *chains, *shape)`` here, all draws at once. For other targets ``function(x)``, the draws
            ``trace["x"]``.

        Returns
        -------
        What the function returns.
        """
        check_function("function", function, "(p), or (x)")
        draws = self._some_draws()
        if isinstance(draws, StoredRows):
            raise TraceError(
                f"map needs all draws in memory, and they are in {draws.where}: slice them first, such as "
                f"trace[{next(iter(draws.values), 'x')!r}][:1000], or to_arviz()"
            )
        if self._space is None or not self.parameters:
            return function(self["x"])
        values, _ = self._space.constrain(backend_of(draws).xp, draws)
        return function(parameters(self._space.names)(*values))

    def _some_draws(self) -> Array:
        """The draws, if any."""
        if self.draws is None or 0 in self.draws.shape:
            raise TraceError(
                f"the trace holds no draws (recorded: {sorted(self.recorded) or 'nothing'}). Rerun with Draws() in "
                "recorders and more steps than the burn-in."
            )
        return self.draws

    @cached_property
    def _space(self) -> Named | None:
        """Space of the parameters of a model, or of positions "x" that are no vectors."""
        if "space" in self.metadata:
            from xpsample.spaces.json_form import space_from_json  # which imports all spaces

            return named({"x": space_from_json(self.metadata["space"])})
        known = self.metadata.get("parameters")
        return None if known is None else named_from_json(known)

    @property
    def _known(self) -> dict[str, Any]:
        """Facts about the run for its diagnosis."""
        return self.metadata.get("diagnosis", {})

    def _columns(self) -> tuple[Array | StoredColumns, tuple[str, ...]]:
        """Columns (draw, *chains, column) for tables, plots and the diagnosis, and the name of each."""
        draws, space = self._some_draws(), self._space
        labels = self._labels(draws.shape[-1])
        if not isinstance(draws, StoredRows):
            return draws if space is None else space.columns(backend_of(draws).xp, draws), labels
        if space is None:
            return draws.columns(), labels
        parts = [(draws.values[name], space.varying(name)) for name in space.names]
        return StoredColumns(parts, draws.shape[1:-1]), labels

    def _labels(self, dim: int) -> tuple[str, ...]:
        """Names of so many columns."""
        if self._space is not None:
            return self._space.labels
        names = tuple(map(str, self.metadata.get("names") or map("x[{}]".format, range(dim))))
        if len(names) != dim:
            raise TraceError(f'metadata["names"] has {len(names)} names for {dim} coordinates')
        return names

    @property
    def _angles(self) -> tuple[int, ...]:
        """Columns that are angles."""
        return () if self._space is None else self._space.angles

    @property
    def _running(self) -> Running | None:
        """The figures of a run without draws, if it has any."""
        if self.draws is not None:
            return None
        return running(self.recorded.values(), self._labels, self._known.get("ensembles", False))
