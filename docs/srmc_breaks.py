"""Print a table of docs/measurements/2026-11-repellence.md: chains that break, and errors.

python docs/srmc_breaks.py [chains]     (some minutes)
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xpsample as xps
from xpsample.zoo.curved import banana, bend
from xpsample.zoo.gaussian import gaussian

STEPS, FAR = 1000, 1.0


class Problem(NamedTuple):
    """A target, exact draws (n, dim) of it, and the mean and standard deviation of each coordinate."""

    target: Any
    draws: Callable[[np.random.Generator, int], np.ndarray]
    mean: np.ndarray
    sd: np.ndarray


def student(freedom: float = 5.0) -> Problem:
    """Two independent coordinates: a score that is Lipschitz and falls off."""
    return Problem(
        xps.Target(
            lambda x: -0.5 * (freedom + 1) * np.sum(np.log1p(x * x / freedom), axis=-1),
            score=lambda x: -(freedom + 1) * x / (freedom + x * x),
        ),
        lambda g, n: g.standard_t(freedom, (n, 2)),
        np.zeros(2),
        np.full(2, np.sqrt(freedom / (freedom - 2))),
    )


def log_scale(shape: float = 3.0) -> Problem:
    """log of a Gamma(3, 2) variable: what a positive parameter is sampled as."""
    euler, log2 = 0.5772156649015329, np.log(2.0)
    return Problem(
        xps.Target(
            lambda x: np.sum(shape * x - 2 * np.exp(x), axis=-1),
            score=lambda x: shape - 2 * np.exp(x),
        ),
        lambda g, n: np.log(g.gamma(shape, 0.5, (n, 1))),
        np.asarray([1.5 - euler - log2]),
        np.asarray([np.sqrt(np.pi**2 / 6 - 1.25)]),
    )


def mean_and_scale() -> Problem:
    """x normal with the scale exp(tau), tau normal with sd 0.5: one positive scale in a model."""
    sd = 0.5

    def log_density(x: np.ndarray) -> np.ndarray:
        tau, y = x[..., 0], x[..., 1]
        return -0.5 * (tau / sd) ** 2 - tau - 0.5 * y * y * np.exp(-2 * tau)

    def score(x: np.ndarray) -> np.ndarray:
        tau, y = x[..., 0], x[..., 1]
        square = y * y * np.exp(-2 * tau)
        return np.stack([-tau / sd**2 - 1 + square, -y * np.exp(-2 * tau)], axis=-1)

    def draws(g: np.random.Generator, n: int) -> np.ndarray:
        tau = sd * g.standard_normal(n)
        return np.stack([tau, np.exp(tau) * g.standard_normal(n)], axis=-1)

    return Problem(
        xps.Target(log_density, score=score),
        draws,
        np.zeros(2),
        np.asarray([sd, np.exp(sd**2)]),
    )


def normal(dim: int, condition: float) -> Problem:
    """Independent normals whose variances go from 1 to one over the condition number."""
    variance = np.geomspace(1.0, 1 / condition, dim)
    return Problem(
        gaussian(np.diag(variance)),
        lambda g, n: np.sqrt(variance) * g.standard_normal((n, dim)),
        np.zeros(dim),
        np.sqrt(variance),
    )


def curved() -> Problem:
    """The banana of the zoo."""
    return Problem(
        banana(),
        lambda g, n: bend(g.standard_normal((n, 2))),
        np.zeros(2),
        np.sqrt([1.0, 1.5]),
    )


PROBLEMS = {
    "normal, 10 dimensions": normal(10, 1.0),
    "normal, condition 100": normal(4, 100.0),
    "Student-t, 5 degrees": student(),
    "log of a Gamma(3)": log_scale(),
    "mean and log scale": mean_and_scale(),
    "`zoo.banana()`": curved(),
}


def run(problem: Problem, kernel: Any, chains: int) -> tuple[float, int, bool]:
    """The means' squared error in units of sd, how many chains are broken, and whether the run reports it."""
    x0 = problem.draws(np.random.default_rng(0), chains)
    trace = xps.sample(
        problem.target, kernel, x0, STEPS, seed=1, progress=False, warmup=None
    )
    errors = np.mean(
        ((trace.draws.mean(axis=0) - problem.mean) / problem.sd) ** 2, axis=-1
    )
    # Broken: its mean is a standard deviation off, or it no longer moved in the last half.
    still = np.all(trace.draws[STEPS // 2 :].std(axis=0) == 0, axis=-1)
    broken = int(np.sum(~(errors < FAR) | still))
    told = any(finding.kind.startswith("tilt") for finding in trace.diagnose())
    return float(np.mean(errors)), broken, told


def main(chains: int) -> None:
    """Print the table."""
    kernels = {"RWM": xps.RWM, "MALA": xps.MALA, "HMC": xps.HMC}
    print("| target | base | alpha left out | 0.2 | 1 | 1, `PowerLaw()` |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, problem in PROBLEMS.items():
        for label, make in kernels.items():
            base, alone, _ = run(problem, make(), chains)
            cells = []
            for settings in (
                {},
                {"alpha": 0.2},
                {"alpha": 1.0},
                {"alpha": 1.0, "schedule": xps.PowerLaw()},
            ):
                error, broken, told = run(problem, xps.SRMC(make(), **settings), chains)
                extra = broken - alone
                said = (
                    ""
                    if extra <= 0
                    else f", {extra} broken" + ("" if told else " (not told)")
                )
                cells.append(f"{error / base:.2f}{said}")
            print(f"| {name} | {label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
