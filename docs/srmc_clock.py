"""Prints "time to the same error" of docs/measurements/2026-11-repellence.md: SRMC(base()) and base(), on NumPy.

python docs/srmc_clock.py     (some minutes)
"""

import time
import warnings

import numpy as np
from srmc_alpha import BASES, problem, row

from xpsample import HMC, SRMC, Moments, sample
from xpsample.core.errors import DiagnosisWarning
from xpsample.kernels import Kernel
from xpsample.sampling.warm_up import warm_up_steps
from xpsample.targets import Target

CHAINS, DRAWS, SEEDS = 128, 1000, range(1, 6)
TARGETS = (
    "N(0, I), d = 10",
    "N(0, I), d = 100",
    "0.9^abs(i-j), d = 10",
    "logistic 0, from the prior",
    "banana",
)


def spent(
    target: Target, kernel: Kernel, x0: np.ndarray, mean: np.ndarray, seed: int
) -> tuple[float, float]:
    """Mean squared error of the chains' means, in units of the variances, and CPU seconds with the warm-up."""
    began = time.process_time()
    trace = sample(
        target, kernel, x0, DRAWS, seed=seed, recorders=(Moments(),), progress=False
    )
    seconds = time.process_time() - began
    moments = trace.recorded["moments"]
    variance = np.mean(moments.variance, axis=0) + np.var(moments.mean, axis=0)
    return float(np.mean((moments.mean - mean) ** 2 / variance)), seconds


def main() -> None:
    """A row for each target and base kernel: means over the seeds, and the least and the largest of them."""
    warnings.simplefilter("ignore", DiagnosisWarning)
    row("target", "base", "error", "time", "time to the same error", "warm-up steps")
    row(*["---"] * 6)
    for name in TARGETS:
        own = problem(name)
        x0, mean = own.start[:CHAINS], own.mean
        if mean is None:
            long = sample(own.target, HMC(), x0, 5_000, seed=9, recorders=(Moments(),))
            mean = np.mean(long.recorded["moments"].mean, axis=0)
        for label in ("MALA", "HMC"):
            kernels = BASES[label](), SRMC(BASES[label]())
            runs = np.array(
                [[spent(own.target, k, x0, mean, s) for k in kernels] for s in SEEDS]
            )
            error, seconds = (runs[:, 1] / runs[:, 0]).T
            steps = [warm_up_steps(kernel, x0, None) for kernel in kernels]
            shown = (
                f"{r.mean():.2f} ({r.min():.2f} to {r.max():.2f})"
                for r in (error, seconds, error * seconds)
            )
            row(name, label, *shown, f"{steps[0]}, {steps[1]}")


if __name__ == "__main__":
    main()
