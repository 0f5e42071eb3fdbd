"""Six posteriors of everyday shapes in JAX, most with made-up data: densities of flat, unconstrained positions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asv_benchmarks.peers.tuned_cases import DTYPE
from xpsample.zoo.logistic import german_credit_rows

GENERATOR = np.random.default_rng(2026)
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
COUNTIES = GENERATOR.integers(85, size=919)
FLOORS = GENERATOR.integers(2, size=919)
RADON = 1.3 - 0.7 * FLOORS + 0.3 * GENERATOR.normal(size=85)[COUNTIES] + 0.7 * GENERATOR.normal(size=919)
PLACES = np.linspace(0, 1, 50)
CURVE = np.sin(8 * PLACES) + 0.3 * GENERATOR.normal(size=50)
DAYS = 500


def _returns() -> np.ndarray:
    h = np.zeros(DAYS)
    for i in range(1, DAYS):
        h[i] = 0.95 * h[i - 1] + 0.25 * GENERATOR.normal()
    return np.exp((h - 1) / 2) * GENERATOR.normal(size=DAYS)


RETURNS = _returns()


def _normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> Any:
    return -0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd)


def toy(x: Any) -> Any:
    """A Gaussian of standard deviations from 0.1 to 10."""
    return jnp.sum(_normal(x, 0.0, jnp.geomspace(0.1, 10.0, 10)), axis=-1)


def eight_schools(x: Any) -> Any:
    """Non-centred: mu, log tau, and eight z."""
    mu, tau, z = x[..., 0], jnp.exp(x[..., 1]), x[..., 2:]
    prior = _normal(mu, 0.0, 5.0) - jnp.log1p((tau / 5) ** 2) + x[..., 1] + jnp.sum(_normal(z), axis=-1)
    return prior + jnp.sum(_normal(EFFECTS, mu[..., None] + tau[..., None] * z, ERRORS), axis=-1)


@cache
def _credit() -> np.ndarray:
    rows, bad = german_credit_rows()
    return (rows * (1.0 - 2.0 * bad[:, None])).T.astype(DTYPE)


def german_credit(x: Any) -> Any:
    """With a sparse prior: logarithms of the scale of all and of each of 25 weights, and the weights."""
    logs, w = x[..., :26], x[..., 26:]
    scales = jnp.exp(logs)
    losses = jax.nn.softplus((scales[..., :1] * scales[..., 1:] * w) @ _credit())
    return jnp.sum(0.5 * (logs - scales), axis=-1) - 0.5 * jnp.sum(w * w, axis=-1) - jnp.sum(losses, axis=-1)


def varying_intercepts(x: Any) -> Any:
    """Of 85 counties, non-centred: mean, slope, logarithms of both standard deviations, and 85 z."""
    mean, slope, log_tau, log_sigma, z = (*(x[..., i] for i in range(4)), x[..., 4:])
    tau, sigma = jnp.exp(log_tau), jnp.exp(log_sigma)
    prior = _normal(mean, 0.0, 5.0) + _normal(slope, 0.0, 5.0) + jnp.sum(_normal(z), axis=-1)
    prior += log_tau - 0.5 * tau**2 + log_sigma - 0.5 * sigma**2
    level = mean[..., None] + (tau[..., None] * z)[..., COUNTIES] + slope[..., None] * FLOORS
    return prior + jnp.sum(_normal(RADON, level, sigma[..., None]), axis=-1)


def gaussian_process(x: Any) -> Any:
    """Logarithms of length, size and noise, and 50 z, of which the Cholesky factor makes a curve."""
    length, size, noise = (jnp.exp(x[..., i]) for i in range(3))
    apart = (PLACES[:, None] - PLACES) ** 2
    covariance = jnp.exp(-0.5 * apart / length[..., None, None] ** 2) + 1e-4 * jnp.eye(50)
    curve = size[..., None] * (jnp.linalg.cholesky(covariance) @ x[..., 3:, None])[..., 0]
    prior = _normal(x[..., 0], -1.5, 0.5) + _normal(x[..., 1]) + _normal(x[..., 2], -1.0)
    return prior + jnp.sum(_normal(x[..., 3:]) + _normal(CURVE, curve, noise[..., None]), axis=-1)


def stochastic_volatility(x: Any) -> Any:
    """Mean, logit of (1 + phi) / 2 and log sigma, and the 500 log variances themselves."""
    mu, phi, sigma, h = x[..., :1], 2 * jax.nn.sigmoid(x[..., 1:2]) - 1, jnp.exp(x[..., 2:3]), x[..., 3:]
    shape = 20 * jax.nn.log_sigmoid(x[..., 1]) + 1.5 * jax.nn.log_sigmoid(-x[..., 1])
    prior = _normal(x[..., 0], 0.0, 5.0) + shape + _normal(x[..., 2], -1.0)
    first = _normal(h[..., :1], mu, sigma / jnp.sqrt(1 - phi**2))
    later = _normal(h[..., 1:], mu + phi * (h[..., :-1] - mu), sigma)
    prior += jnp.sum(first, axis=-1) + jnp.sum(later, axis=-1)
    return prior + jnp.sum(_normal(RETURNS, 0.0, jnp.exp(h / 2)), axis=-1)


MODELS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "toy": (10, toy),
    "eight schools": (10, eight_schools),
    "German credit": (51, german_credit),
    "varying intercepts": (89, varying_intercepts),
    "Gaussian process": (53, gaussian_process),
    "stochastic volatility": (503, stochastic_volatility),
}


@dataclass(frozen=True)
class ColdCase:
    """What samplers are given, as a `tuned_cases.Case`; `draws` are those of a block."""

    model: str
    chains: int

    @property
    def draws(self) -> int:
        """Between two looks at the ESS."""
        return max(10, 1000 // self.chains)

    @property
    def density(self) -> Callable[[Any], Any]:
        """The log density, of one position or of many."""
        return MODELS[self.model][1]

    def start(self, seed: int) -> np.ndarray:
        """(chains, dim), N(0, 1), the same for all."""
        return np.random.default_rng(seed).normal(size=(self.chains, MODELS[self.model][0])).astype(DTYPE)
