"""Recorders of a run. Memory grows with the run only if they keep rows."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import (
    check_instance,
    check_path,
    check_text,
    errors_of_functions,
    given,
)
from xpsample.core.errors import FunctionError, HyperparameterError
from xpsample.core.fields import FrozenDataclass, count, function, text
from xpsample.core.registry import check_same_home
from xpsample.core.tree import Tree, leaves
from xpsample.spaces.named import Named
from xpsample.targets.bound import BoundTarget, counter


class RunningMoments(NamedTuple):
    """Count (0-d), mean and unbiased variance (*chains, dim) of the kept positions."""

    count: Array  # type: ignore[assignment]  # a tuple's method of that name is never called
    mean: Array
    variance: Array


def welford(xp: Any, moments: RunningMoments, x: Array) -> RunningMoments:
    """Moments with one more value. Here `variance` holds the sum of squared deviations."""
    count = moments.count + 1
    delta = x - moments.mean
    mean = moments.mean + delta / xp.astype(count, x.dtype)
    return RunningMoments(count, mean, moments.variance + delta * (x - mean))


def unbiased(xp: Any, moments: RunningMoments) -> RunningMoments:
    """Sums of squared deviations divided by count - 1."""
    count = at_least(xp, moments.count, 2, moments.mean)
    return moments._replace(variance=moments.variance / (count - 1))


def at_least(xp: Any, count: Array, least: int, like: Array) -> Array:
    """A count in a floating dtype, nan where it is too small to divide by."""
    return xp.where(count >= least, xp.astype(count, like.dtype), xp.full_like(like, float("nan")))


class Recorder(FrozenDataclass):
    """Sees the state after every kept step. Final subclasses are frozen dataclasses.

    Attributes
    ----------
    name : str
        The key of its result in the trace; different recorders of a run need different names.
    chain_axis : int or None
        The first chain axis of the arrays of its result: 0, or 1 of those with an axis of draws in front. A run in
        shards puts the chains side by side along it. If it is None, such a run has the results of all shards,
        (shard, ...).
    """

    if TYPE_CHECKING:  # subclasses have it as a field

        @property
        def name(self) -> str: ...

    chain_axis: ClassVar[int | None] = None

    @abstractmethod
    def init(self, target: BoundTarget, state: Any) -> Tree:
        """Carry from step to step: a tree of arrays, or None."""

    @abstractmethod
    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        """(new carry, row): pure, like a kernel's step; rows are stacked into arrays (draw, ...), or None."""

    @abstractmethod
    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        """Result in the trace, from the last carry and the stacked rows."""


class Draws(Recorder, eq=True):
    """Every kept position, (draw, *chains, dim).

    Parameters
    ----------
    store : path, optional
        A folder, or an address such as ``s3://bucket/run.zarr`` that fsspec opens: a zarr store to which the rows of
        all recorders go, block by block, so that memory does not grow. It needs zarr: ``pip install "xpsample[io]"``.

    See Also
    --------
    Moments : Mean and variance in constant memory.
    Record : Any function of the state.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=[xps.Draws()])
    >>> trace.draws.shape, trace.statistics
    ((1000, 4, 2), {})
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     recorders = [xps.Draws(store=f"{folder}/run.zarr"), xps.Statistics()]
    ...     stored = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=recorders)
    ...     last = stored.draws[-10:]  # reads ten rows
    >>> bool(np.all(last == trace.draws[-10:]))
    True
    """

    name: str = "draws"
    chain_axis: ClassVar[int | None] = 1
    store: str | Path | None = None

    def __check_init__(self) -> None:
        if self.store is not None:
            check_path("store", self.store)

    def init(self, target: BoundTarget, state: Any) -> Tree:
        return None

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        return None, state.point.x

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows


class Statistics(Recorder, eq=True):
    """Per kept step acceptance probability, moved, diverged and log density, each (draw, *chains).

    And the energy, potential and kinetic, and the depth of the trajectories, of kernels whose info has them.

    See Also
    --------
    Draws : The positions.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=[xps.Statistics()])
    >>> sorted(trace.statistics)
    ['acceptance_probability', 'diverged', 'log_density', 'moved']
    """

    name: str = "statistics"
    chain_axis: ClassVar[int | None] = 1

    def init(self, target: BoundTarget, state: Any) -> Tree:
        return None

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        row = {
            "acceptance_probability": info.acceptance_probability,
            "diverged": info.diverged,
            "moved": info.moved,
        }
        if state.point.log_density is not None:
            row["log_density"] = state.point.log_density
        if getattr(info, "energy", None) is not None:
            row["energy"] = info.energy
        if getattr(info, "depth", None) is not None:
            row["depth"] = info.depth
        return None, row

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows


class Record(Recorder):
    """A function of the state at every kept step.

    Parameters
    ----------
    name : str
        Its key in ``trace.recorded``.
    function : callable
        ``function(state)`` -> tree of arrays; pure.

    See Also
    --------
    Draws : The positions.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> radius = xps.Record("radius", lambda state: np.sum(state.point.x**2, axis=-1))
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=[radius])
    >>> trace.recorded["radius"].shape
    (1000, 4)
    """

    name: str = text()
    function: Callable[[Any], Tree] = function("(state)")

    def init(self, target: BoundTarget, state: Any) -> Tree:
        check_rows(f"Record({self.name!r})", self.function, state, state.point.x)
        return None

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        return None, self.function(state)

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows


def check_rows(what: str, function: Callable[..., Any], argument: Any, like: Array) -> Any:
    """Value of a recorder's function at the initial positions: a tree of arrays of their library, not empty."""
    with errors_of_functions(f"the function of {what} failed at the start positions"):
        row = function(argument)
    found = leaves(row)
    for leaf in found:
        if not is_array(leaf):
            raise FunctionError(f"the function of {what} must give arrays; got {given(leaf)}")
        check_same_home(f"what the function of {what} gives", leaf, like)
    if not found:
        raise FunctionError(f"the function of {what} must give arrays; got {given(row)}")
    return row


def without_store(recorders: tuple[Recorder, ...]) -> tuple[tuple[Recorder, ...], str | None]:
    """Recorders as they are where rows stay in memory, and the store that one of them names, or None."""
    kept, stores = [], set()
    for recorder in recorders:
        if isinstance(recorder, Draws) and recorder.store is not None:
            store = str(recorder.store)
            stores.add(store if "://" in store else os.path.abspath(store))
            recorder = replace(recorder, store=None)
        kept.append(recorder)
    if len(stores) > 1:
        raise HyperparameterError(f"a run writes to one store; got {', '.join(sorted(stores))}")
    return tuple(kept), stores.pop() if stores else None


def part_of(recorder: Recorder) -> str:
    """Name of a recorder's result in a trace, separated by slashes."""
    return recorder.name if recorder.name in ("draws", "statistics") else f"recorded/{recorder.name}"


def check_recorders(recorders: Any) -> tuple[Recorder, ...]:
    """A sequence of recorders of different names."""
    if isinstance(recorders, (type, str, dict)) or is_array(recorders) or not isinstance(recorders, Iterable):
        raise HyperparameterError(
            f"recorders must be a sequence of recorders, such as (Draws(), Moments()); got {given(recorders)}"
        )
    found: dict[str, Recorder] = {}
    for recorder in recorders:
        check_instance("a recorder", recorder, Recorder, "Draws()")
        check_text(f"the name of a {type(recorder).__name__}", recorder.name)
        for name, kind in (("draws", Draws), ("statistics", Statistics)):
            if recorder.name == name and not isinstance(recorder, kind):
                raise HyperparameterError(
                    f"{name!r} is the name of the trace's {name}: rename the {type(recorder).__name__}"
                )
        if recorder.name in found:
            raise HyperparameterError(f"recorders need different names; two are called {recorder.name!r}")
        found[recorder.name] = recorder
    return tuple(found.values())


class _MomentsCarry(NamedTuple):
    origin: Array
    moments: RunningMoments  # of the differences from the origin


class Moments(Recorder, eq=True):
    """Running mean and variance of the positions of every chain (Welford 1962): memory does not grow.

    Taken are differences from the first one, so that float32 keeps its digits far from 0. Those of a `Model` are of its
    parameters' values, in the order of the rows of ``trace.summary()``.

    See Also
    --------
    BatchMeans : With the error of the mean.
    Histogram : Of each coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=[xps.Moments()])
    >>> trace.recorded["moments"].mean.shape
    (4, 2)
    """

    name: str = "moments"
    chain_axis: ClassVar[int | None] = 0

    def init(self, target: BoundTarget, state: Any) -> Tree:
        zeros = target.xp.zeros_like(_values(target, state))
        return _MomentsCarry(zeros, RunningMoments(counter(target, state.point.x), zeros, zeros))

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        xp, values = target.xp, _values(target, state)
        origin = xp.where(carry.moments.count == 0, values, carry.origin)
        return _MomentsCarry(origin, welford(xp, carry.moments, values - origin)), None

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        moments = unbiased(target.xp, carry.moments)
        return moments._replace(mean=carry.origin + moments.mean)


def _values(target: BoundTarget, state: Any) -> Array:
    """Positions as floating numbers; the parameters' values of a model, (*chains, column)."""
    x = target.as_floating(state.point.x)
    return target.space.columns(target.xp, x) if isinstance(target.space, Named) else x


class BatchStatistics(NamedTuple):
    """Batches (0-d), and the mean and its Monte Carlo standard error by batch means, both (*chains, dim)."""

    batches: Array
    mean: Array
    mcse: Array


class _BatchCarry(NamedTuple):
    origin: Array
    seen: Array
    total: Array
    over: RunningMoments  # of the means of batches, and the total above, as differences from the origin


class BatchMeans(Recorder, eq=True):
    """Mean and Monte Carlo standard error from the means of consecutive batches: memory does not grow.

    Those of a `Model` are of its parameters' values, as for `Moments`.

    Parameters
    ----------
    size : int
        Kept steps per batch; set it well above the autocorrelation time. A last, partial batch is dropped.

    See Also
    --------
    Moments : Without the error.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=[xps.BatchMeans(100)])
    >>> sorted(trace.recorded)
    ['batch_means']
    """

    size: int = count()
    name: str = "batch_means"
    chain_axis: ClassVar[int | None] = 0

    def init(self, target: BoundTarget, state: Any) -> Tree:
        x, zeros = state.point.x, target.xp.zeros_like(_values(target, state))
        return _BatchCarry(zeros, counter(target, x), zeros, RunningMoments(counter(target, x), zeros, zeros))

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        xp = target.xp
        values = _values(target, state)
        origin = xp.where((carry.seen == 0) & (carry.over.count == 0), values, carry.origin)
        seen, total = carry.seen + 1, carry.total + (values - origin)
        done = seen == self.size
        closed = welford(xp, carry.over, total / self.size)
        over = RunningMoments(*(xp.where(done, a, b) for a, b in zip(closed, carry.over, strict=True)))
        seen, total = (xp.where(done, xp.zeros_like(a), a) for a in (seen, total))
        return _BatchCarry(origin, seen, total, over), None

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        xp = target.xp
        moments = unbiased(xp, carry.over)
        count = at_least(xp, moments.count, 2, moments.mean)
        return BatchStatistics(moments.count, carry.origin + moments.mean, xp.sqrt(moments.variance / count))
