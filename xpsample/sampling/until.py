"""When a run has drawn enough: `Until`."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xpsample.core.arrays import is_array
from xpsample.core.checks import check_instance
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, number
from xpsample.diagnostics.coordinates import worst
from xpsample.diagnostics.findings import Finding
from xpsample.sampling.callbacks import RunState
from xpsample.sampling.program import Program, recorded_rows
from xpsample.trace.recorders import BatchMeans, Draws, Moments
from xpsample.trace.running import can_tell, running
from xpsample.trace.stored import StoredRows

FIRST_LOOKS = 256, 512  # draws; of slow targets these suffice, and segments would end after 1,024 steps

LATER = 1.1  # Smallest growth factor of the number of draws between two checks


class Until(FrozenDataclass, eq=True):
    """When `sample` may stop before it has made all draws: as soon as `ess` and `rhat` hold, or time is up.

    A run is stopped at the end of a block of steps, of up to some thousands, which takes at most a second, or one step.
    Its draws are the first ones of the run without `Until`. How many there are depends on the seed, the shapes and
    these limits, and with `seconds` on the clock: a run that is stopped by `ess` and `rhat` alone has the same length
    every time, killed and resumed or not.

    Parameters
    ----------
    ess : float, optional
        The least bulk and tail ESS, in draws of all chains of a group.
    rhat : float, optional
        The largest R-hat.
    seconds : float, optional
        Time for the steps of this call, including the warm-up and the burn-in. If it is up in the warm-up,
        there are no draws. A run that is resumed has as much again.

    See Also
    --------
    Checkpoint : Saves a run, so that it can be resumed.

    Notes
    -----
    ESS and R-hat refer to the worst coordinates, as in `Trace.diagnose`, and of the worst group. An ESS
    that is waited for is one that chance favors: where the last digit counts, ask for more than is needed.

    Without `Draws` they come from `Moments` and `BatchMeans`: the ESS of the mean, by batch means, from ten batches
    on, and an R-hat of whole chains, neither split nor rank-normalized, which does not see chains that drift together.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(), x0, 100_000, seed=1, until=xps.Until(ess=400, rhat=1.01))
    >>> len(trace.draws) < 100_000
    True
    """

    ess: float | None = number(default=None, gt=0)
    rhat: float | None = number(default=None, gt=1)
    seconds: float | None = number(default=None, gt=0)

    def __check_init__(self) -> None:
        if self.ess is None and self.rhat is None and self.seconds is None:
            raise HyperparameterError("Until() would never stop: give ess, rhat or seconds")

    @property
    def needs_figures(self) -> bool:
        """Return whether ESS or R-hat are computed."""
        return self.ess is not None or self.rhat is not None


def check_until(until: Until | None, recorders: Any, x0: Any) -> None:
    """Raise unless `until` is one, of a run that has what it looks at."""
    if until is None:
        return
    check_instance("until", until, Until, "Until(ess=400)")
    if not until.needs_figures or any(isinstance(recorder, Draws) for recorder in recorders):
        return
    if not can_tell(recorders, until.ess is not None):
        raise HyperparameterError(
            "until needs draws or running figures, but no recorder keeps them. Add Draws(), or Moments() for R-hat and "
            "BatchMeans(size) for the ESS."
        )
    if until.rhat is not None and is_array(x0) and (x0.ndim < 2 or x0.shape[-2] < 2):
        raise HyperparameterError(
            "until= waits for an R-hat of Moments(), which needs several chains; got one. Start from (chains, dim), or "
            "add Draws() to the recorders."
        )


class Stopping:
    """Stopping rule of a run: return whether `until` holds, or time is up.

    Segments of steps end at `ends`, and ``rows(steps)`` is how many draws there are then. The run's time `began` by
    ``time.perf_counter``, or begins now. ``figures(state)`` gives the least ESS and the largest R-hat.
    """

    def __init__(
        self,
        until: Until,
        ends: Iterable[int],
        rows: Callable[[int], int],
        began: float | None,
        figures: Callable[[RunState], tuple[float, float]],
    ) -> None:
        self._until, self._figures = until, figures
        self._began = time.perf_counter() if began is None else began
        self._looks = _looks(ends, rows)
        self._next = next(self._looks, None)
        self.reached, self._found = False, (math.nan, math.nan)

    def __call__(self, state: RunState) -> bool:
        while self._next is not None and self._next < state.step:
            self._next = next(self._looks, None)
        if self._until.needs_figures and state.step == self._next:
            self._found = ess, rhat = self._figures(state)
            enough = self._until.ess is None or ess >= self._until.ess
            self.reached = enough and (self._until.rhat is None or rhat <= self._until.rhat)
        limit = self._until.seconds
        return self.reached or (limit is not None and time.perf_counter() - self._began >= limit)

    def findings(self, rows: int) -> list[Finding]:
        """Finding if a run ended before the stopping rule was met."""
        if self.reached or not (self._until.needs_figures or rows == 0):
            return []
        if not self._until.needs_figures:
            text = "time was up before the first draw"
            return [Finding("until", text, 0, "allow more seconds; with a checkpoint, the same call resumes")]
        ess, rhat = self._found
        wanted = (("ESS", ess, self._until.ess), ("R-hat", rhat, self._until.rhat))
        asked = " and ".join(
            f"{name} {limit:g} ({'not known' if math.isnan(found) else f'it was {found:.4g}'})"
            for name, found, limit in wanted
            if limit is not None
        )
        return [
            Finding(
                "until",
                f"the run ended with {rows} draws before it reached the requested {asked}",
                rows,
                "allow more draws or more time; with a checkpoint, the same call resumes",
            )
        ]


def figures_of(program: Program, store: Any, metadata: dict[str, Any], state: RunState) -> tuple[float, float]:
    """Return the least ESS and the largest R-hat of a run so far."""
    draws, rows = None, recorded_rows(program, state, store)
    at = next((i for i, recorder in enumerate(program.recorders) if isinstance(recorder, Draws)), None)
    if at is not None and rows is not None:
        draws = rows[at]
    pairs = zip(program.recorders, state.carry.recorder_states, strict=True)
    results = (r.result(program.target, s, None) for r, s in pairs if isinstance(r, Moments | BatchMeans))
    return figures(draws, results, metadata["diagnosis"])


def figures(draws: Any, results: Iterable[Any], known: dict[str, Any]) -> tuple[float, float]:
    """The least ESS and the largest R-hat of a run, nan if unknown.

    Computed from its draws, if it keeps them, or from the results of recorders, and what the diagnosis knows of it.
    """
    if draws is None:
        told = running(results, ensembles=known["ensembles"])
        return (math.nan, math.nan) if told is None else told.worst()
    return worst(draws.columns() if isinstance(draws, StoredRows) else draws, known["categorical"], known["ensembles"])


def _looks(ends: Iterable[int], rows: Callable[[int], int]) -> Iterator[int]:
    """The steps after which draws are looked at."""
    last = 0
    for end in ends:
        if rows(end) >= max(1, LATER * last):
            last = rows(end)
            yield end
