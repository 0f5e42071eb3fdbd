"""What is compared: CPU times of runs, and counts. A child process builds them with the library that it was given."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import xpsample as xps
from asv_benchmarks.benchmarks import kernels, runs
from asv_benchmarks.benchmarks.cases import CASES, FEW
from asv_benchmarks.benchmarks.common import device_or_skip, runner, start


def _moments(kernel: str, device: str, chains: int, dim: int, steps: int) -> Callable[[], Any]:
    """A run that keeps moments."""
    case = CASES[kernel]
    return runner(case.target(dim), case.kernel, start(case, device, chains, dim), steps)


def _draws(device: str, draws: int) -> Callable[[], Any]:
    """A run of one chain of MALA that keeps draws and statistics."""
    case = CASES["mala"]
    target, x0 = case.target(10), start(case, device, 1)
    return lambda: xps.sample(target, case.kernel, x0, draws, seed=1, progress=False)


def _calls(device: str, calls: int) -> Callable[[], Any]:
    """Many runs of one step."""
    run = _moments("mala", device, 4, 10, 1)

    def repeatedly() -> None:
        for _ in range(calls):
            run()

    return repeatedly


TIMED: dict[str, Callable[[], Callable[[], Any]]] = {
    "numpy-mala-1": partial(_moments, "mala", "numpy", 1, 10, 4000),
    "numpy-mala-100": partial(_moments, "mala", "numpy", 100, 10, 3000),
    "numpy-mala-1000x100": partial(_moments, "mala", "numpy", 1000, 100, 40),
    "numpy-hmc-100": partial(_moments, "hmc", "numpy", 100, 10, 1000),
    "numpy-srmc-1": partial(_moments, "srmc", "numpy", 1, 10, 1500),
    "numpy-srmc-100": partial(_moments, "srmc", "numpy", 100, 10, 1500),
    "numpy-tempering-100": partial(_moments, "tempering", "numpy", 100, 10, 1500),
    "numpy-gwg-100": partial(_moments, "gwg", "numpy", 100, 10, 800),
    "numpy-draws-1": partial(_draws, "numpy", 3000),
    "numpy-calls": partial(_calls, "numpy", 200),
    "torch-mala-1": partial(_moments, "mala", "torch", 1, 10, 1500),
    "torch-hmc-100": partial(_moments, "hmc", "torch", 100, 10, 400),
    "torch-srmc-100": partial(_moments, "srmc", "torch", 100, 10, 500),
    "jax-mala-1": partial(_moments, "mala", "jax", 1, 10, 60_000),
    "jax-hmc-100": partial(_moments, "hmc", "jax", 100, 10, 3000),
    "jax-srmc-100": partial(_moments, "srmc", "jax", 100, 10, 4000),
    "jax-calls": partial(_calls, "jax", 50),
}
"""By name: what builds a run of about a tenth of a second; it is called once before it is timed, so it compiles."""


def _evaluations(kernel: str) -> float:
    return float(sum(kernels.evaluations(kernel).values()))


def _per_effective_sample(kernel: str) -> float:
    return 1 / kernels.ess_per_evaluation(kernel)


@cache
def _traced(kernel: str) -> dict[str, tuple[int, int]]:
    device_or_skip("jax")
    return runs.traces_and_compilations(kernel, "jax")


def _compilations(kernel: str, run: str) -> float:
    return float(_traced(kernel)[run][1])


_TRACED = [(kernel, run) for kernel in ("mala", "srmc") for run in ("first", "second")]
_KEPT = [(kernel, kept) for kernel in ("mala", "srmc") for kept in ("moments", "draws")]

COUNTED: dict[str, Callable[[], float]] = {
    **{f"evaluations-{kernel}": partial(_evaluations, kernel) for kernel in CASES},
    **{f"evaluations-per-ess-{kernel}": partial(_per_effective_sample, kernel) for kernel in FEW},
    **{f"memory-{kernel}-{kept}": partial(runs.allocated, kernel, kept) for kernel, kept in _KEPT},
    **{f"compilations-{kernel}-{run}": partial(_compilations, kernel, run) for kernel, run in _TRACED},
}
"""By name: a number of which more is worse, and that is the same every time; memory may differ by a twentieth."""
