"""Models that people fit every day, each with a kernel that suits it: nothing is said of their runs.

A finding here is a false alarm. Rates over more seeds: ``python -m tests.field.test_healthy_models_have_no_findings``.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import FINITE, normal, of_precision, quiet
from xpsample.core.errors import DiagnosisWarning

RNG = np.random.default_rng(11)


@dataclass(frozen=True)
class Case:
    """A target, a kernel, draws, and start positions from a seed, which a model has its own of."""

    target: Any
    kernel: Any
    draws: int = 1000
    chains: int = 4
    dim: int | None = None
    start: Callable[[int], np.ndarray] | None = None

    def x0(self, seed: int) -> Any:
        if self.start is not None:
            return self.start(seed)
        if self.dim is not None:
            return normal(self.dim, chains=self.chains, seed=seed)
        return self.target.start(like=np.zeros(0), chains=self.chains, seed=seed)


def gaussian(precision: np.ndarray, kernel: Any, draws: int = 1000, chains: int = 4) -> Case:
    return Case(of_precision(precision), kernel, draws, chains, len(precision))


def correlated() -> Case:
    return gaussian(np.linalg.inv(np.array([[1.0, 0.9], [0.9, 1.0]])), xps.HMC())


def bridge() -> Case:
    """A Brownian bridge at 15 times."""
    n = 15
    return gaussian((n + 1) * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)), xps.NUTS())


def scales() -> Case:
    """Sixty-four chains of a hundred draws, and scales from 0.001 to 1,000."""
    return gaussian(np.diag(np.logspace(-6, 6, 7)), xps.HMC(), 200, chains=64)


def student() -> Case:
    target = xps.Target(lambda x: -3 * np.sum(np.log1p(x**2 / 5), axis=-1), score=lambda x: -6 * x / (5 + x**2))
    return Case(target, xps.MALA(), 3000, dim=3)


def logistic() -> Case:
    x = RNG.normal(size=(100, 3))
    y = (RNG.random(100) < 1 / (1 + np.exp(-(x @ [1.0, -0.5, 0.2])))).astype(float)

    def log_density(b):
        z = b @ x.T
        return np.sum(y * z - np.logaddexp(0, z), axis=-1) - 0.5 * np.sum(b**2, axis=-1) / 4

    return Case(xps.Target(log_density, gradient=FINITE), xps.NUTS(), dim=3)


def eight_schools() -> Case:
    y, s = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def log_density(p):
        theta = p.mu[..., None] + p.tau[..., None] * p.z
        prior = -0.5 * (p.mu / 5) ** 2 - np.log1p((p.tau / 5) ** 2) - 0.5 * np.sum(p.z**2, axis=-1)
        return prior - 0.5 * np.sum(((y - theta) / s) ** 2, axis=-1)

    model = xps.Model(log_density, mu=xps.Real(), tau=xps.Positive(), z=xps.Real(8), gradient=FINITE)
    return Case(model, xps.HMC())


def hierarchy() -> Case:
    """Forty coordinates: a mean, a log scale, and 38 effects of which each has some data."""
    y = RNG.normal(1.0, 1.2, 38)

    def log_density(x):
        left = y - x[..., :1] - np.exp(x[..., 1:2]) * x[..., 2:]
        return -0.5 * (np.sum(x**2, axis=-1) + np.sum(left**2, axis=-1))

    return Case(xps.Target(log_density, gradient=FINITE), xps.HMC(), 2000, dim=40)


def gaussian_process() -> Case:
    t = np.linspace(0, 1, 20)
    root = np.linalg.cholesky(np.exp(-0.5 * (t[:, None] - t) ** 2 / 0.2**2) + 1e-6 * np.eye(20))
    target = xps.Target(
        lambda z: -0.5 * np.sum(z**2, axis=-1) - 2 * np.sum((np.sin(6 * t) - z @ root.T) ** 2, axis=-1),
        score=lambda z: -z + 4 * (np.sin(6 * t) - z @ root.T) @ root,
    )
    return Case(target, xps.HMC(), dim=20)


def poisson() -> Case:
    y = RNG.poisson(4.0, 20)
    model = xps.Model(lambda p: (np.sum(y) + 1) * np.log(p.rate) - 21 * p.rate, rate=xps.Positive())
    return Case(model, xps.RWM(), 4000)


def half_normal() -> Case:
    return Case(xps.Model(lambda p: -0.5 * p.sigma**2, sigma=xps.Positive(), gradient=FINITE), xps.NUTS(), 2000)


def beta_binomial() -> Case:
    """Two shares, since a velocity of fixed length needs two coordinates."""
    yes, no = np.array([7.0, 2.0]), np.array([13.0, 9.0])

    def log_density(p):
        return np.sum(yes * np.log(p.share) + no * np.log1p(-p.share), axis=-1)

    return Case(xps.Model(log_density, share=xps.Interval(0, 1, 2), gradient=FINITE), xps.MAMS())


def simplex() -> Case:
    a = np.array([1.0, 2.0, 3.0, 4.0])
    return Case(xps.Model(lambda p: np.sum(a * np.log(p.w), axis=-1), w=xps.Simplex(4), gradient=FINITE), xps.HMC())


def ordered() -> Case:
    m = np.array([-1.0, 0.0, 1.5])
    model = xps.Model(lambda p: -0.5 * np.sum((p.cut - m) ** 2, axis=-1), cut=xps.Ordered(3), gradient=FINITE)
    return Case(model, xps.HMC())


def von_mises() -> Case:
    """Around pi, where angles are cut."""
    return Case(xps.Model(lambda p: -4 * np.cos(p.angle), angle=xps.Circular(), gradient=FINITE), xps.HMC(), 2000)


def negative_binomial() -> Case:
    y = RNG.negative_binomial(3, 0.4, 30)
    k = np.arange(max(y))
    above = np.sum(y[:, None] > k, axis=0)  # log gamma(y + r) - log gamma(r) is a sum of log(r + k) over k < y

    def log_density(p):
        rising = np.sum(above * np.log(p.r[..., None] + k), axis=-1)
        return rising + 30 * p.r * np.log(p.q) + np.sum(y) * np.log1p(-p.q) - 0.3 * p.r

    return Case(xps.Model(log_density, r=xps.Positive(), q=xps.Interval(0, 1), gradient=FINITE), xps.NUTS(), 2000)


def autoregression() -> Case:
    y = [0.0]
    for e in RNG.normal(size=80):
        y.append(0.7 * y[-1] + e)
    before, after = np.array(y[:-1]), np.array(y[1:])

    def log_density(p):
        left = after - p.phi[..., None] * before
        return -0.5 * np.sum((left / p.sigma[..., None]) ** 2, axis=-1) - 80 * np.log(p.sigma) - p.sigma

    return Case(xps.Model(log_density, phi=xps.Interval(-1, 1), sigma=xps.Positive(), gradient=FINITE), xps.HMC())


def mixture() -> Case:
    y = np.concatenate([RNG.normal(-2, 1, 40), RNG.normal(2, 1, 60)])

    def log_density(p):
        each = -0.5 * (y - p.mean[..., None]) ** 2
        low, high = np.log1p(-p.share)[..., None] + each[..., 0, :], np.log(p.share)[..., None] + each[..., 1, :]
        return np.sum(np.logaddexp(low, high), axis=-1) - 0.5 * np.sum((p.mean / 5) ** 2, axis=-1)

    return Case(xps.Model(log_density, mean=xps.Ordered(2), share=xps.Interval(0, 1), gradient=FINITE), xps.HMC())


def regression() -> Case:
    """A line with an unknown error, from defaults of ensembles of 64 chains."""
    x = RNG.normal(size=(50, 3))
    y = x @ [1.0, 0.0, -2.0] + 0.5 * RNG.normal(size=50)

    def log_density(p):
        left = y - np.sum(p.slope[..., None, :] * x, axis=-1)
        return -0.5 * np.sum((left / p.error[..., None]) ** 2, axis=-1) - 50 * np.log(p.error) - p.error

    model = xps.Model(log_density, slope=xps.Real(3), error=xps.Positive(), gradient=FINITE)
    return Case(model, xps.HMC(), 200, chains=64)


def integers(states: int, dim: int) -> Callable[[int], np.ndarray]:
    return lambda seed: np.random.default_rng(seed).integers(0, states, size=(4, dim)).astype(float)


def categorical() -> Case:
    w = np.array([[0.0, 0.5, 1.0], [0.3, 0.0, -0.5], [0.0, 0.0, 0.7]])

    def log_density(x):
        each = np.sum(np.where(x[..., None] == np.arange(3), w, 0.0), axis=(-1, -2))
        return each + 0.5 * (x[..., 0] == x[..., 1])

    target = xps.Target(log_density, space=xps.Categorical(tuple(range(3))))
    return Case(target, xps.Gibbs(), 4000, start=integers(3, 3))


def spins() -> Case:
    """A ring of eight spins above its critical temperature."""

    def log_density(x):
        return 0.3 * np.sum((2 * x - 1) * (2 * np.roll(x, 1, axis=-1) - 1), axis=-1)

    return Case(xps.Target(log_density, space=xps.Binary()), xps.Gibbs(), 8000, start=integers(2, 8))


QUICK = (correlated, student, poisson, simplex, categorical, half_normal, von_mises, bridge)
"""Those of the first tier."""

SLOW = (logistic, eight_schools, beta_binomial, ordered, hierarchy, gaussian_process, negative_binomial)
SLOW += (autoregression, mixture, scales, regression, spins)


def check(case, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DiagnosisWarning)
        settings = {"seed": seed, "progress": False}
        assert xps.sample(case.target, case.kernel, case.x0(seed), case.draws, **settings).diagnose() == ()


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("model", QUICK, ids=lambda model: model.__name__)
def test_healthy_models(model):
    check(model(), 1)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("model", [*QUICK, *SLOW], ids=lambda model: model.__name__)
def test_healthy_models_of_more_kinds_and_seeds(model, seed):
    check(model(), seed)


def main(seeds: int = 5) -> None:
    """Print of how many seeds each model has a finding."""
    for model in (*QUICK, *SLOW):
        case = model()
        runs = [quiet(case.target, case.kernel, case.x0(seed), case.draws, seed=seed) for seed in range(seeds)]
        found = [str(finding) for run in runs for finding in run.diagnose()[:1]]
        print(f"{model.__name__:20} {len(found)} of {seeds} {found}", flush=True)


if __name__ == "__main__":
    main()
