"""Models that people fit every day, each with a kernel that suits it: their runs have nothing to be told of."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import xpsample as xps

RNG = np.random.default_rng(11)
FINITE = xps.FiniteDifference()


@dataclass(frozen=True)
class Case:
    """A target, a kernel, start positions from a seed, and draws."""

    target: Any
    kernel: Any
    start: Callable[[int], Any]
    draws: int = 1000

    def run(self, seed: int, **settings: Any) -> Any:
        """A run, its warnings told."""
        return xps.sample(self.target, self.kernel, self.start(seed), self.draws, seed=seed, progress=False, **settings)


def normal(dim: int, scale: Any = 1.0, chains: int = 4) -> Callable[[int], np.ndarray]:
    return lambda seed: scale * np.random.default_rng(seed).normal(size=(chains, dim))


def of_model(model: Any, kernel: Any, draws: int = 1000, chains: int = 4) -> Case:
    return Case(model, kernel, lambda seed: model.start(like=np.zeros(0), chains=chains, seed=seed), draws)


def gaussian(precision: np.ndarray, kernel: Any, draws: int = 1000, chains: int = 4) -> Case:
    target = xps.Target(lambda x: -0.5 * np.sum(x * (x @ precision), axis=-1), score=lambda x: -(x @ precision))
    return Case(target, kernel, normal(len(precision), chains=chains), draws)


def correlated() -> Case:
    return gaussian(np.linalg.inv(np.array([[1.0, 0.9], [0.9, 1.0]])), xps.HMC())


def logistic() -> Case:
    x = RNG.normal(size=(100, 3))
    y = (RNG.random(100) < 1 / (1 + np.exp(-(x @ [1.0, -0.5, 0.2])))).astype(float)

    def log_density(b):
        z = b @ x.T
        return np.sum(y * z - np.logaddexp(0, z), axis=-1) - 0.5 * np.sum(b**2, axis=-1) / 4

    def score(b):
        return (y - 1 / (1 + np.exp(-(b @ x.T)))) @ x - b / 4

    return Case(xps.Target(log_density, score=score), xps.NUTS(), normal(3))


def eight_schools() -> Case:
    y, s = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def log_density(p):
        theta = p.mu[..., None] + p.tau[..., None] * p.z
        prior = -0.5 * (p.mu / 5) ** 2 - np.log1p((p.tau / 5) ** 2) - 0.5 * np.sum(p.z**2, axis=-1)
        return prior - 0.5 * np.sum(((y - theta) / s) ** 2, axis=-1)

    model = xps.Model(log_density, mu=xps.Real(), tau=xps.Positive(), z=xps.Real(8), gradient=FINITE)
    return of_model(model, xps.HMC())


def student() -> Case:
    target = xps.Target(lambda x: -3 * np.sum(np.log1p(x**2 / 5), axis=-1), score=lambda x: -6 * x / (5 + x**2))
    return Case(target, xps.MALA(), normal(3), 3000)


def poisson() -> Case:
    y = RNG.poisson(4.0, 20)
    model = xps.Model(lambda p: (np.sum(y) + 1) * np.log(p.rate) - 21 * p.rate, rate=xps.Positive())
    return of_model(model, xps.RWM(), 4000)


def beta_binomial() -> Case:
    """Two shares, since a velocity of fixed length needs two coordinates."""
    yes, no = np.array([7.0, 2.0]), np.array([13.0, 9.0])
    model = xps.Model(
        lambda p: np.sum(yes * np.log(p.share) + no * np.log1p(-p.share), axis=-1),
        share=xps.Interval(0, 1, 2),
        gradient=FINITE,
    )
    return of_model(model, xps.MAMS())


def simplex() -> Case:
    a = np.array([1.0, 2.0, 3.0, 4.0])
    model = xps.Model(lambda p: np.sum(a * np.log(p.w), axis=-1), w=xps.Simplex(4), gradient=FINITE)
    return of_model(model, xps.HMC())


def ordered() -> Case:
    m = np.array([-1.0, 0.0, 1.5])
    model = xps.Model(lambda p: -0.5 * np.sum((p.cut - m) ** 2, axis=-1), cut=xps.Ordered(3), gradient=FINITE)
    return of_model(model, xps.HMC())


def categorical() -> Case:
    w = np.array([[0.0, 0.5, 1.0], [0.3, 0.0, -0.5], [0.0, 0.0, 0.7]])

    def log_density(x):
        each = np.sum(np.where(x[..., None] == np.arange(3), w, 0.0), axis=(-1, -2))
        return each + 0.5 * (x[..., 0] == x[..., 1])

    return Case(
        xps.Target(log_density, space=xps.Categorical(tuple(range(3)))),
        xps.Gibbs(),
        lambda seed: np.random.default_rng(seed).integers(0, 3, size=(4, 3)).astype(float),
        4000,
    )


def hierarchy() -> Case:
    """Forty coordinates: a mean, a log scale, and 38 effects of which each has some data."""
    y = RNG.normal(1.0, 1.2, 38)

    def parts(x):
        mu, t, z = x[..., :1], np.exp(x[..., 1:2]), x[..., 2:]
        return mu, t, z, y - mu - t * z

    def log_density(x):
        _, _, z, left = parts(x)
        return -0.5 * (x[..., 0] ** 2 + x[..., 1] ** 2 + np.sum(z**2, axis=-1) + np.sum(left**2, axis=-1))

    def score(x):
        _, t, z, left = parts(x)
        of_mu = np.sum(left, axis=-1, keepdims=True) - x[..., :1]
        of_t = t * np.sum(left * z, axis=-1, keepdims=True) - x[..., 1:2]
        return np.concatenate([of_mu, of_t, t * left - z], axis=-1)

    return Case(xps.Target(log_density, score=score), xps.HMC(), normal(40), 2000)


def bridge() -> Case:
    """A Brownian bridge at 15 times."""
    n = 15
    return gaussian((n + 1) * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)), xps.NUTS())


def gaussian_process() -> Case:
    t = np.linspace(0, 1, 20)
    kernel = np.exp(-0.5 * (t[:, None] - t) ** 2 / 0.2**2) + 1e-6 * np.eye(20)
    root, y = np.linalg.cholesky(kernel), np.sin(6 * t)
    target = xps.Target(
        lambda z: -0.5 * np.sum(z**2, axis=-1) - 0.5 * np.sum((y - z @ root.T) ** 2, axis=-1) / 0.25,
        score=lambda z: -z + (y - z @ root.T) @ root / 0.25,
    )
    return Case(target, xps.HMC(), normal(20))


def half_normal() -> Case:
    return of_model(xps.Model(lambda p: -0.5 * p.sigma**2, sigma=xps.Positive(), gradient=FINITE), xps.NUTS(), 2000)


def von_mises() -> Case:
    """Around pi, where angles are cut."""
    return of_model(xps.Model(lambda p: -4 * np.cos(p.angle), angle=xps.Circular(), gradient=FINITE), xps.HMC(), 2000)


def negative_binomial() -> Case:
    y = RNG.negative_binomial(3, 0.4, 30)
    k = np.arange(max(y))
    above = np.sum(y[:, None] > k, axis=0)  # log gamma(y + r) - log gamma(r) is a sum of log(r + k) over k < y

    def log_density(p):
        rising = np.sum(above * np.log(p.r[..., None] + k), axis=-1)
        return rising + 30 * p.r * np.log(p.q) + np.sum(y) * np.log1p(-p.q) - 0.3 * p.r

    model = xps.Model(log_density, r=xps.Positive(), q=xps.Interval(0, 1), gradient=FINITE)
    return of_model(model, xps.NUTS(), 2000)


def autoregression() -> Case:
    y = [0.0]
    for e in RNG.normal(size=80):
        y.append(0.7 * y[-1] + e)
    before, after = np.array(y[:-1]), np.array(y[1:])

    def log_density(p):
        left = after - p.phi[..., None] * before
        return -0.5 * np.sum((left / p.sigma[..., None]) ** 2, axis=-1) - 80 * np.log(p.sigma) - p.sigma

    model = xps.Model(log_density, phi=xps.Interval(-1, 1), sigma=xps.Positive(), gradient=FINITE)
    return of_model(model, xps.HMC())


def mixture() -> Case:
    y = np.concatenate([RNG.normal(-2, 1, 40), RNG.normal(2, 1, 60)])

    def log_density(p):
        each = -0.5 * (y - p.mean[..., None]) ** 2
        low, high = np.log1p(-p.share)[..., None] + each[..., 0, :], np.log(p.share)[..., None] + each[..., 1, :]
        return np.sum(np.logaddexp(low, high), axis=-1) - 0.5 * np.sum((p.mean / 5) ** 2, axis=-1)

    model = xps.Model(log_density, mean=xps.Ordered(2), share=xps.Interval(0, 1), gradient=FINITE)
    return of_model(model, xps.HMC())


def scales() -> Case:
    """Sixty-four chains of a hundred draws, and scales from 0.001 to 1,000."""
    return gaussian(np.diag(np.logspace(-6, 6, 7)), xps.HMC(), 200, chains=64)


def regression() -> Case:
    """A line with an unknown error, from defaults of ensembles of 64 chains."""
    x = RNG.normal(size=(50, 3))
    y = x @ [1.0, 0.0, -2.0] + 0.5 * RNG.normal(size=50)

    def log_density(p):
        left = y - np.sum(p.slope[..., None, :] * x, axis=-1)
        return -0.5 * np.sum((left / p.error[..., None]) ** 2, axis=-1) - 50 * np.log(p.error) - p.error

    model = xps.Model(log_density, slope=xps.Real(3), error=xps.Positive(), gradient=FINITE)
    return of_model(model, xps.HMC(), 200, chains=64)


def spins() -> Case:
    """A ring of eight spins above its critical temperature."""
    target = xps.Target(
        lambda x: 0.3 * np.sum((2 * x - 1) * (2 * np.roll(x, 1, axis=-1) - 1), axis=-1), space=xps.Binary()
    )
    start = lambda seed: np.random.default_rng(seed).integers(0, 2, size=(4, 8)).astype(float)  # noqa: E731
    return Case(target, xps.Gibbs(), start, 8000)


QUICK = (correlated, student, poisson, simplex, categorical, half_normal, von_mises, bridge)
"""Those of the first tier."""

SLOW = (
    logistic,
    eight_schools,
    beta_binomial,
    ordered,
    hierarchy,
    gaussian_process,
    negative_binomial,
    autoregression,
    mixture,
    scales,
    regression,
    spins,
)


def main(seeds: int = 5) -> None:
    """Print of how many seeds each model has a finding."""
    for model in (*QUICK, *SLOW):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case = model()
            found = [[str(f) for f in case.run(seed).diagnose()][:1] for seed in range(seeds)]
        print(f"{model.__name__:20} {sum(map(bool, found))} of {seeds} {[f for f in found if f]}", flush=True)


if __name__ == "__main__":
    main()
