"""Prints tables of docs/measurements/2026-11-repellence.md: SR-HMC, its history plain and capped, and adaptive alpha.

python docs/srmc_stability.py [gaussian | logistic]     (8 seconds, 2 minutes)
"""

import math
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from xpsample import HMC, SRMC, Exact, Moments, PowerLaw, Target, sample
from xpsample.srmc import (
    Adaptive,
    LeapfrogAutocorrelation,
    Stable,
    autocorrelation,
    spectrum,
    stability_bound,
    warmup_steps,
)
from xpsample.zoo.gaussian import gaussian

DIM, RHO, LEAPFROG_STEPS = 10, 0.6, 10
INDEX = np.abs(np.arange(DIM)[:, None] - np.arange(DIM))


def squared_errors(
    target: Target, kernel: SRMC, x0: np.ndarray, steps: int, mean: np.ndarray
) -> np.ndarray:
    """Squared errors of the mean after a burn-in of 0.3, averaged over coordinates: (strengths, chains)."""
    burn_in = 3 * steps // 10
    run = sample(
        target,
        kernel,
        x0,
        steps - burn_in,
        burn_in=burn_in,
        seed=1,
        recorders=(Moments(),),
    )
    return np.mean((run.recorded["moments"].mean - mean) ** 2, axis=-1)


def ratio(errors: np.ndarray, base: np.ndarray) -> str:
    """Ratio of the mean of squared errors to the base's, with a 95 % bootstrap interval over chains."""
    if not np.mean(errors) < 1e6 * np.mean(base):
        return "diverges"
    picks = np.random.default_rng(0).integers(0, len(base), (2, 4000, len(base)))
    low, high = np.quantile(
        errors[picks[0]].mean(axis=1) / base[picks[1]].mean(axis=1), [0.025, 0.975]
    )
    return f"{errors.mean() / base.mean():.3g} ({low:.2g}, {high:.2g})"


def row(*cells: object) -> None:
    """Print a line of a Markdown table."""
    print("|", " | ".join(str(cell) for cell in cells), "|")


def correlated_gaussian(steps: int = 5000, chains: int = 100) -> None:
    """The paper's Gaussian at its step size and trajectory length, started from exact draws."""
    alpha = np.array([0.0, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0])
    covariance = 0.9**INDEX
    target, base = gaussian(covariance), HMC(0.2, LEAPFROG_STEPS)
    x0 = (
        np.random.default_rng(0).standard_normal((len(alpha), chains, DIM))
        @ np.linalg.cholesky(covariance).T
    )
    eigenvalues = spectrum(target, x0[0, :1])
    lag_one = LeapfrogAutocorrelation(0.2, LEAPFROG_STEPS)
    bound = np.min(
        stability_bound(np, alpha[:, None], eigenvalues, lag_one.at(np, eigenvalues)),
        axis=-1,
    )
    schedules = (PowerLaw(RHO), Stable(lag_one, eigenvalues, PowerLaw(RHO)))
    plain, capped = (
        squared_errors(target, SRMC(base, alpha[:, None], s, Exact()), x0, steps, 0.0)
        for s in schedules
    )
    row(
        r"$\alpha$",
        r"bound on $\gamma$",
        r"plain $\gamma$ below it from n =",
        "plain",
        "`Stable`, spectrum given",
    )
    row(*["---"] * 5)
    for i in range(1, len(alpha)):
        safe = max(1, math.ceil(bound[i] ** (-1 / RHO) - 1))
        row(
            f"{alpha[i]:g}",
            f"{bound[i]:.2g}",
            f"{safe:,}",
            ratio(plain[i], plain[0]),
            ratio(capped[i], capped[0]),
        )


def logistic_regression(steps: int = 2000, chains: int = 50) -> None:
    """100 observations, ten correlated covariates, prior N(0, I); started from one draw of a pilot run."""
    alpha = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0])[:, None]
    generator = np.random.default_rng(0)
    design = generator.standard_normal((100, DIM)) @ np.linalg.cholesky(0.5**INDEX).T
    logits = design @ generator.standard_normal(DIM)
    labels = (generator.random(100) < 1 / (1 + np.exp(-logits))).astype(float)

    def both(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = x @ design.T
        score = (labels - 1 / (1 + np.exp(-z))) @ design - x
        return np.sum(labels * z - np.logaddexp(0, z), axis=-1) - 0.5 * np.sum(
            x * x, axis=-1
        ), score

    def hvp(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-x @ design.T))
        return -((v @ design.T) * p * (1 - p)) @ design - v

    target = Target(lambda x: both(x)[0], hvp=hvp, log_density_and_score=both)
    tuned, base = HMC(0.1, LEAPFROG_STEPS), HMC(0.03, LEAPFROG_STEPS)
    long = sample(
        target,
        tuned,
        np.zeros((200, DIM)),
        2000,
        burn_in=100,
        seed=5,
        recorders=(Moments(),),
    )
    mean = long.recorded["moments"].mean.mean(axis=0)
    pilot = sample(target, tuned, np.zeros((50, DIM)), 1, burn_in=100, seed=6).draws[0]
    x0 = np.broadcast_to(pilot[0], (len(alpha), chains, DIM)).copy()

    adaptive = Adaptive(alpha, warmup_steps(LEAPFROG_STEPS * steps, LEAPFROG_STEPS))
    plain, lag_one = PowerLaw(RHO), autocorrelation(base)
    settings = {
        "plain": (alpha, plain),
        "`Stable`, spectrum of a pilot run": (
            alpha,
            Stable(lag_one, spectrum(target, pilot), plain),
        ),
        "`Stable`, curvature followed": (alpha, Stable(lag_one, schedule=plain)),
        "`Adaptive`": (adaptive, plain),
        "both": (adaptive, Stable(lag_one, schedule=plain)),
    }
    columns: list[Sequence[str]] = []
    for strength, schedule in settings.values():
        errors = squared_errors(
            target, SRMC(base, strength, schedule, Exact()), x0, steps, mean
        )
        columns.append([ratio(e, errors[0]) for e in errors])
    row(r"$\alpha$", *settings)
    row(*["---"] * (1 + len(settings)))
    for i in range(1, len(alpha)):
        row(f"{alpha[i, 0]:g}", *(column[i] for column in columns))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the divergences are what is shown
    chosen = {"gaussian": correlated_gaussian, "logistic": logistic_regression}
    with np.errstate(all="ignore"):
        for name in sys.argv[1:] or chosen:
            chosen[name]()
