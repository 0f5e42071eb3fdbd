"""Every kernel: the time of a step, what it spends, and what it gives for that."""

import time
from typing import Any

import numpy as np

import xpsample as xps
from xpsample.core.registry import to_host
from xpsample.metrics.convergence import chain_ess

from .cases import CASES, FEW
from .common import PLACES, place_or_skip, runner, start

STEPS = 256
RATED = [name for name in CASES if name not in ("ais", "smc", "svgd", "two_opt")]
"""Those whose draws are a chain of numbers, of which an ESS says something."""


class _Steps:
    """Seconds for `STEPS` steps that keep moments only, compilation left out."""

    param_names = ("kernel", "place", "chains", "dim")
    warmup_time = 0
    number = 1
    repeat = (3, 5, 0.3)
    rounds = 1
    timeout = 120

    def setup(self, kernel: str, place: str, chains: int, dim: int) -> None:
        place_or_skip(place)
        if kernel == "svgd" and chains == 1:
            raise NotImplementedError("SVGD has particles, two at least")
        case = CASES[kernel]
        self.run = runner(case.target(dim), case.kernel, start(case, place, chains, dim), STEPS)
        self.run()

    def time_steps(self, kernel: str, place: str, chains: int, dim: int) -> None:
        self.run()


class Step(_Steps):
    """Every kernel, small."""

    params = (list(CASES), PLACES, [1, 100], [10])


class LargeStep(_Steps):
    """A few kernels, larger."""

    params = (FEW, PLACES, [1000], [10, 100])


class Evaluations:
    """Evaluations per step and chain; a change is a change of the algorithm."""

    params = (list(CASES),)
    param_names = ("kernel",)
    unit = "evaluations per step"

    def track_log_densities(self, kernel: str) -> float:
        return self._spent(kernel)["log_density"]

    def track_scores(self, kernel: str) -> float:
        return self._spent(kernel)["score"]

    def track_hvps(self, kernel: str) -> float:
        return self._spent(kernel)["hvp"]

    def _spent(self, kernel: str) -> dict[str, float]:
        case = CASES[kernel]
        trace = xps.sample(case.target(10), case.kernel, start(case, "numpy", 4), 40, seed=1, progress=False)
        return trace.run_statistics.evaluations


class Rate:
    """Of 100 chains in 10 dimensions: evaluations (of density, score and hvp together) and ESS by the second.

    The ESS is that of the worst coordinate, of all chains together; that of an unadjusted or a repellent chain says
    nothing of its bias.
    """

    params = (FEW, PLACES)
    param_names = ("kernel", "place")
    timeout = 120

    def setup(self, kernel: str, place: str) -> None:
        place_or_skip(place)

    def track_evaluations_per_second(self, kernel: str, place: str) -> float:
        seconds, trace = _timed(kernel, place)
        return _evaluations(trace) / seconds

    def track_ess_per_second(self, kernel: str, place: str) -> float:
        seconds, trace = _timed(kernel, place)
        return _worst_ess(trace) / seconds

    track_evaluations_per_second.unit = "evaluations/s"  # type: ignore[attr-defined]
    track_ess_per_second.unit = "ESS/s"  # type: ignore[attr-defined]


class Efficiency:
    """ESS of the worst coordinate for 1000 evaluations, which no backend changes: on NumPy."""

    params = (RATED,)
    param_names = ("kernel",)
    unit = "ESS per 1000 evaluations"

    def track_ess_per_evaluation(self, kernel: str) -> float:
        _, trace = _timed(kernel, "numpy", rounds=1)
        return 1000 * _worst_ess(trace) / _evaluations(trace)


def _timed(kernel: str, place: str, rounds: int = 4) -> tuple[float, Any]:
    """Median wall seconds of a run of `STEPS` steps, the first left out where there are more, and its trace."""
    case = CASES[kernel]
    x0, target, seconds = start(case, place, 100), case.target(10), []
    for _ in range(rounds):
        began = time.perf_counter()
        trace = xps.sample(target, case.kernel, x0, STEPS, seed=1, recorders=(xps.Draws(),), progress=False)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[min(1, rounds - 1) :])), trace


def _evaluations(trace: Any) -> float:
    return sum(trace.run_statistics.evaluations.values()) * trace.run_statistics.steps * 100


def _worst_ess(trace: Any) -> float:
    draws = np.asarray(to_host(trace.draws), dtype=np.float64)
    return float(np.min(chain_ess(draws.reshape(len(draws), -1, draws.shape[-1]))))
