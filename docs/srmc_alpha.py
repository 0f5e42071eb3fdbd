"""Prints "alpha that is left out" of docs/measurements/2026-11-repellence.md: errors of SRMC(base()) and base().

python docs/srmc_alpha.py [target ...]     (all of them: an hour or so; german-credit needs its data)
"""

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xpsample import HMC, MALA, RWM, SRMC, ULA, Moments, Target, sample
from xpsample.core.errors import DiagnosisWarning
from xpsample.experiments.srmc.problems import STUCK, decaying, logistic_data
from xpsample.kernels import Kernel
from xpsample.sampling.warm_up import warm_up_steps
from xpsample.zoo.benchmarks import BENCHMARKS
from xpsample.zoo.curved import banana, bend
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import logistic_regression
from xpsample.zoo.mixture import gaussian_mixture

CHAINS, STEPS, RESAMPLES = 512, 1000, 2000
BASES: dict[str, Callable[[], Kernel]] = {
    "MALA": MALA,
    "HMC": HMC,
    "RWM": RWM,
    "ULA, Exact": ULA,
}
MODES = np.array([[-2.0, 0.0], [2.0, 0.0]])
SCALES = np.geomspace(0.1, 10.0, 20)


class Problem(NamedTuple):
    """A target, start positions (chains, dim), and its mean, None where a long run is to find it."""

    target: Target
    start: np.ndarray
    mean: np.ndarray | None


def student(nu: float = 4.0) -> Target:
    """Independent Student-t coordinates."""
    return Target(
        lambda x: -0.5 * (nu + 1) * np.sum(np.log1p(x * x / nu), axis=-1),
        score=lambda x: -(nu + 1) * x / (nu + x * x),
        hvp=lambda x, v: -(nu + 1) * v * (nu - x * x) / (nu + x * x) ** 2,
    )


def quartic() -> Target:
    """exp(-x^4 / 4)."""
    return Target(
        lambda x: -0.25 * np.sum(x**4, axis=-1),
        score=lambda x: -(x**3),
        hvp=lambda x, v: -3.0 * x * x * v,
    )


def problem(name: str) -> Problem:
    """A target by its name, with starts that are too wide or at draws of it."""
    rng = np.random.default_rng(0)

    def normal(dim: int) -> np.ndarray:
        return rng.standard_normal((CHAINS, dim))

    if name.startswith("logistic"):
        target, start = logistic_regression(*logistic_data(int(name[9]))), normal(10)
        if name.endswith("posterior"):
            start = sample(target, HMC(), start, 10, seed=8, progress=False).draws[-1]
        return Problem(target, start, None)
    if name == "german-credit":  # fewer chains, since it takes long
        own = BENCHMARKS[name]
        return Problem(own.target(), own.start(rng, 64), None)
    return {
        "N(0, I), d = 10": lambda: Problem(
            gaussian(np.eye(10)), normal(10), np.zeros(10)
        ),
        "N(0, I), d = 100": lambda: Problem(
            gaussian(np.eye(100)), normal(100), np.zeros(100)
        ),
        "0.9^abs(i-j), d = 10": lambda: Problem(
            gaussian(decaying(0.9)), normal(10), np.zeros(10)
        ),
        "sds 0.1 to 10, d = 20": lambda: Problem(
            gaussian(np.diag(SCALES**2)), normal(20), np.zeros(20)
        ),
        "banana": lambda: Problem(banana(), bend(normal(2)), np.zeros(2)),
        "mixture": lambda: Problem(
            gaussian_mixture([0.3, 0.7], MODES, 1.0),
            MODES[rng.integers(0, 2, CHAINS)] + normal(2),
            np.array([0.8, 0.0]),
        ),
        "Student-t (4), d = 5": lambda: Problem(
            student(), rng.standard_t(4, (CHAINS, 5)), np.zeros(5)
        ),
        "exp(-x^4 / 4)": lambda: Problem(quartic(), normal(1), np.zeros(1)),
    }[name]()


NAMES = (
    "N(0, I), d = 10",
    "N(0, I), d = 100",
    "0.9^abs(i-j), d = 10",
    "sds 0.1 to 10, d = 20",
    *(f"logistic {draw}, from the prior" for draw in range(4)),
    "logistic 0, from the posterior",
    "german-credit",
    "banana",
    "mixture",
    "Student-t (4), d = 5",
    "exp(-x^4 / 4)",
)


class Found(NamedTuple):
    """Squared errors of the chains' means, (chains, dim), in units of the variances; which broke; evaluations."""

    errors: np.ndarray
    broken: np.ndarray
    cost: float
    kernel: Kernel


def found(
    own: Problem, kernel: Kernel, mean: np.ndarray, seed: int, warmup: int
) -> Found:
    """A run of STEPS steps after the warm-up. Broken: a mean worse than a draw would be on average, or stuck."""
    trace = sample(
        own.target,
        kernel,
        own.start,
        STEPS,
        seed=seed,
        warmup=warmup,
        recorders=(Moments(),),
        progress=False,
    )
    moments = trace.recorded["moments"]
    variance = np.mean(moments.variance, axis=0) + np.var(moments.mean, axis=0)
    errors = np.nan_to_num((moments.mean - mean) ** 2 / variance, nan=1e9)
    accepted = trace.run_statistics.acceptance_probability
    spent = trace.run_statistics.evaluations
    broken = (np.mean(errors, axis=-1) > 1) | (accepted < STUCK)
    return Found(
        errors,
        broken,
        max(spent["score"] + spent["hvp"], spent["log_density"]),
        trace.kernel,
    )


def ratio(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Ratio of the means over chains, with a 95 % bootstrap interval."""
    picks = np.random.default_rng(0).integers(0, len(ours), (2, RESAMPLES, len(ours)))
    low, high = np.quantile(
        ours[picks[0]].mean(axis=1) / theirs[picks[1]].mean(axis=1), [0.025, 0.975]
    )
    return f"{ours.mean() / theirs.mean():.2f} ({low:.2f}-{high:.2f})"


def row(*cells: object) -> None:
    """Print a line of a Markdown table."""
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def main(names: tuple[str, ...]) -> None:
    """A row for each target and base kernel."""
    warnings.simplefilter("ignore", DiagnosisWarning)
    row(
        "target",
        "base",
        "alpha",
        "mean of coordinates",
        "worst coordinate",
        "at equal work",
        "broken: base, SRMC",
    )
    row(*["---"] * 7)
    for name in names:
        own = problem(name)
        mean = own.mean
        if mean is None:
            steps = 500 if name == "german-credit" else 5_000
            long = sample(
                own.target,
                HMC(),
                own.start[:128],
                steps,
                seed=9,
                recorders=(Moments(),),
                progress=False,
            )
            mean = np.mean(long.recorded["moments"].mean, axis=0)
        for label, make in BASES.items():
            repelled = SRMC(make())
            warmup = warm_up_steps(repelled, own.start, None)
            base, ours = (
                found(own, kernel, mean, seed, warmup)
                for seed, kernel in ((3, make()), (4, repelled))
            )
            assert isinstance(ours.kernel, SRMC)
            # Picked by one half of the chains, and measured on the other: else it would be the one with most noise.
            worst = int(
                np.argmax(ours.errors[::2].mean(axis=0) / base.errors[::2].mean(axis=0))
            )
            shares = (
                f"{100 * base.broken.mean():.2g} %, {100 * ours.broken.mean():.2g} %"
            )
            whole = ratio(ours.errors.mean(axis=-1), base.errors.mean(axis=-1))
            equal = float(whole.split()[0]) * ours.cost / base.cost
            row(
                name,
                label,
                f"{ours.kernel.alpha:.2g}",
                whole,
                ratio(ours.errors[1::2, worst], base.errors[1::2, worst]),
                f"{equal:.2f}",
                shares,
            )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or NAMES)
