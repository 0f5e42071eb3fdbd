"""Print a table of docs/measurements/2026-11-repellence.md: errors of control variates and of SRMC.

python docs/control_variates.py [runs]     (some minutes)
"""

import sys
import warnings
from functools import partial

import numpy as np

import xpsample as xps
from xpsample.zoo.curved import banana
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import logistic_regression
from xpsample.zoo.mixture import gaussian_mixture

CHAINS, DRAWS = 4, 1000
DATA = np.random.default_rng(7)
FEATURES = np.concatenate([np.ones((200, 1)), DATA.normal(size=(200, 7))], axis=1)
TRUE = DATA.normal(size=8)
LABELS = (DATA.uniform(size=200) < 1 / (1 + np.exp(-FEATURES @ TRUE))).astype(int)
OUTCOME = FEATURES @ TRUE + DATA.standard_t(3, size=200)
EFFECTS = np.asarray([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.asarray([15.0, 10, 16, 11, 9, 11, 10, 18])


def student() -> xps.Target:
    """Regression with Student-t noise of 3 degrees, coefficients N(0, 10^2)."""

    def log_density(x: np.ndarray) -> np.ndarray:
        r = OUTCOME - x @ FEATURES.T
        return -0.005 * np.sum(x**2, axis=-1) - 2 * np.sum(np.log1p(r**2 / 3), axis=-1)

    def score(x: np.ndarray) -> np.ndarray:
        r = OUTCOME - x @ FEATURES.T
        return -0.01 * x + (4 * r / (3 + r**2)) @ FEATURES

    return xps.Target(log_density, score=score)


def eight_schools() -> xps.Target:
    """mu, log tau, and the eight effects in units of tau."""

    def log_density(x: np.ndarray) -> np.ndarray:
        mu, log_tau, eta = x[..., :1], x[..., 1:2], x[..., 2:]
        r = (EFFECTS - mu - np.exp(log_tau) * eta) / ERRORS
        prior = mu[..., 0] ** 2 / 50 + np.log1p(np.exp(2 * log_tau[..., 0]) / 25)
        return log_tau[..., 0] - prior - 0.5 * np.sum(r**2 + eta**2, axis=-1)

    def score(x: np.ndarray) -> np.ndarray:
        mu, log_tau, eta = x[..., :1], x[..., 1:2], x[..., 2:]
        tau = np.exp(log_tau)
        r = (EFFECTS - mu - tau * eta) / ERRORS**2
        of_mu = np.sum(r, axis=-1, keepdims=True) - mu / 25
        of_tau = (
            1
            - 2 * tau**2 / (25 + tau**2)
            + tau * np.sum(r * eta, axis=-1, keepdims=True)
        )
        return np.concatenate([of_mu, of_tau, tau * r - eta], axis=-1)

    return xps.Target(log_density, score=score)


TARGETS = {
    "normal, condition 100": (gaussian(np.diag(np.geomspace(1.0, 100.0, 10))), 10),
    "logistic regression": (logistic_regression(FEATURES, LABELS, 2.0), 8),
    "Student-t regression": (student(), 8),
    "eight schools": (eight_schools(), 10),
    "two modes": (
        gaussian_mixture(
            np.asarray([0.6, 0.4]), np.asarray([[1.5, 1.5], [-1.5, -1.5]]), 1.0
        ),
        2,
    ),
    "`zoo.banana()`": (banana(), 2),
}
FUNCTIONS = {
    "$x$": lambda middle, x: x,
    "$x^2$": lambda middle, x: x**2,
    "$x$ above its mean": lambda middle, x: x > middle,
}


def drawn(
    name: str, kernel: xps.HMC | xps.SRMC, shape: tuple[int, ...], draws: int, seed: int
) -> xps.Trace:
    """A run from starts near the origin."""
    target, dim = TARGETS[name]
    x0 = 0.3 * np.random.default_rng(seed).normal(size=(*shape, dim))
    recorders = (
        xps.Draws(),
        *(() if isinstance(kernel, xps.SRMC) else (xps.Scores(),)),
    )
    return xps.sample(
        target, kernel, x0, draws, seed=seed, burn_in=100, recorders=recorders
    )


def main(runs: int) -> None:
    """Print a row for each target and function: total squared errors in units of the plain mean's of HMC."""
    warnings.simplefilter("ignore")
    print(
        "| target | mean of | control variates | within 1.96 errors | `SRMC(HMC())` |\n| --- | --- | --- | --- | --- |"
    )
    for name in TARGETS:
        plain, repelled = (
            drawn(name, k, (runs, CHAINS), DRAWS, 3)
            for k in (xps.HMC(), xps.SRMC(xps.HMC()))
        )
        long = drawn(name, xps.HMC(), (100,), 4000, 9)
        middle = np.mean(long.draws, axis=(0, 1))
        for label, function in FUNCTIONS.items():
            f = partial(function, middle)
            truth, found = xps.expectation(long, f).value, xps.expectation(plain, f)
            varies = found.plain_standard_error > 0
            off = np.where(varies, found.value - truth, 0.0)
            base = np.sum(np.where(varies, (found.plain - truth) ** 2, 0.0))
            of_srmc = np.where(
                varies, np.mean(f(repelled.draws), axis=(0, 2)) - truth, 0.0
            )
            held = np.mean((np.abs(off) < 1.96 * found.standard_error)[varies])
            ratio = np.sum(off**2) / base
            shown = ("0", "") if ratio < 1e-12 else (f"{ratio:.2g}", f"{held:.0%}")
            print(
                f"| {name} | {label} | {shown[0]} | {shown[1]} | {np.sum(of_srmc**2) / base:.2g} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
