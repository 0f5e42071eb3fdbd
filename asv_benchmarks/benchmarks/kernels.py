"""Every kernel: what a step spends and gives. Of a few, what a wrapper costs over its base, and seconds of a step."""

from typing import Any

import numpy as np

import xpsample as xps
from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import chain_ess

from .cases import CASES
from .common import DEVICES, device_or_skip, ratio, runner, start, step_seconds

STEPS, CHAINS = 256, 100
RATED = [name for name in CASES if name not in ("ais", "smc", "svgd", "two_opt", "swap")]
"""Those whose draws are a chain of numbers, of which an ESS says something."""


class Evaluations:
    """Evaluations per step and chain; a change is a change of the algorithm."""

    params = (list(CASES),)
    param_names = ("kernel",)
    unit = "evaluations per step"

    def track_log_densities(self, kernel: str) -> float:
        return evaluations(kernel)["log_density"]

    def track_scores(self, kernel: str) -> float:
        return evaluations(kernel)["score"]

    def track_hvps(self, kernel: str) -> float:
        return evaluations(kernel)["hvp"]


class Efficiency:
    """ESS of the worst coordinate for 1000 evaluations, which no backend changes: on NumPy."""

    params = (RATED,)
    param_names = ("kernel",)
    unit = "ESS per 1000 evaluations"

    def track_ess_per_evaluation(self, kernel: str) -> float:
        return 1000 * ess_per_evaluation(kernel)


class Wrapped:
    """A step of a wrapper over one of its base: the ratio of CPU times, with 100 chains on NumPy."""

    params = (["tempering", "srmc", "srld", "hiss"],)
    param_names = ("wrapper",)
    unit = "times the base"

    def track_overhead(self, wrapper: str) -> float:
        case = CASES[wrapper]
        target, x0 = case.target(10), start(case, "numpy", CHAINS)
        wrapped, base = step_seconds([(target, kernel, x0) for kernel in (case.kernel, case.kernel.base)], 0.1, 7)
        return ratio(wrapped, base)


class _Steps:
    """Seconds for `STEPS` steps that keep moments only, compilation left out."""

    param_names = ("kernel", "device", "chains", "dim")
    warmup_time = 0
    number = 1
    repeat = (3, 5, 0.3)
    rounds = 1
    timeout = 120

    def setup(self, kernel: str, device: str, chains: int, dim: int) -> None:
        device_or_skip(device)
        if kernel == "svgd" and chains == 1:
            raise NotImplementedError("SVGD has particles, two at least")
        case = CASES[kernel]
        self.run = runner(case.target(dim), case.kernel, start(case, device, chains, dim), STEPS)
        self.run()

    def time_steps(self, kernel: str, device: str, chains: int, dim: int) -> None:
        self.run()


class Step(_Steps):
    """A few kernels, small."""

    params = (["mala", "hmc", "srmc", "gwg"], DEVICES, [1, 100], [10])


def evaluations(kernel: str) -> dict[str, float]:
    """What a step of a chain spends, by function."""
    case = CASES[kernel]
    x0 = start(case, "numpy", 4)
    return xps.sample(case.target(10), case.kernel, x0, 40, seed=1, progress=False).run_statistics.evaluations


def ess_per_evaluation(kernel: str) -> float:
    """Of the worst coordinate, of 100 chains together; of density, score and Hessian-vector product together."""
    case = CASES[kernel]
    x0 = start(case, "numpy", CHAINS)
    trace = xps.sample(case.target(10), case.kernel, x0, STEPS, seed=1, recorders=(xps.Draws(),), progress=False)
    return worst_ess(trace) / (sum(trace.run_statistics.evaluations.values()) * STEPS * CHAINS)


def worst_ess(trace: Any) -> float:
    """The ESS of the worst coordinate, of all chains together."""
    draws = np.asarray(to_host(trace.draws), dtype=np.float64)
    return float(np.min(chain_ess(draws.reshape(len(draws), -1, draws.shape[-1]))))
