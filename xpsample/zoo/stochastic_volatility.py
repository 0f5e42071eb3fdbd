"""Stochastic volatility of stock returns: 2,429 parameters, a random walk of log volatilities and two scales."""

import math

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.elementwise import digamma, log_gamma
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.targets.target import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.moments import KnownMoments

NAME = "targets/stochastic_volatility"
SIGMA, NU = 0.02, 10.0
"""Prior means."""


def stochastic_volatility(returns: np.ndarray | None = None) -> Target:
    """The posterior of log volatilities, their step and the tail of the returns.

    ``sigma ~ Exponential(mean 0.02)``, ``nu ~ Exponential(mean 10)``, ``s_1 ~ N(0, sigma^2)``,
    ``s_t ~ N(s_(t-1), sigma^2)`` and ``return_t = exp(s_t) times Student's t with nu degrees of freedom``. Positions
    (*chains, steps + 2) are s, then ``log(sigma / 0.02)`` and ``log(nu / 10)``; see `volatility_parameters`.

    Parameters
    ----------
    returns : numpy.ndarray, shape (steps,), optional
        By default 2,427 of the S&P 500.

    Returns
    -------
    Target
        With its score. Takes positions of any library.
    """
    returns = load_dataset(NAME)["returns"] if returns is None else returns
    returns = np.asarray(returns, dtype=np.float64)
    if returns.ndim != 1 or not len(returns):
        raise HyperparameterError(f"returns have shape (steps,); got {returns.shape}")
    steps = len(returns)

    def both(x: Array, squares: Array) -> tuple[Array, Array]:
        xp, s, log_a, log_b = namespace(x), x[..., :steps], x[..., steps], x[..., steps + 1]
        a, b, ratio = xp.exp(log_a), xp.exp(log_b), squares * xp.exp(-2.0 * s)
        moves = s - xp.concat([xp.zeros_like(s[..., :1]), s[..., :-1]], axis=-1)
        variance, nu = (SIGMA * a) ** 2, NU * b
        walk = xp.sum(moves * moves, axis=-1) / variance
        tails = xp.log1p(ratio / nu[..., None])
        tail = xp.sum(tails, axis=-1)
        peak = log_gamma(xp, 0.5 * (nu + 1.0)) - log_gamma(xp, 0.5 * nu) - 0.5 * (log_b + math.log(NU * math.pi))
        density = log_a - a + log_b - b - steps * log_a - 0.5 * walk
        density = density + steps * peak - xp.sum(s, axis=-1) - 0.5 * (nu + 1.0) * tail

        share = ratio / (nu[..., None] + ratio)  # minus half the slope of a tail in s
        pull = moves / variance[..., None]
        back = xp.concat([pull[..., 1:], xp.zeros_like(pull[..., :1])], axis=-1) - pull
        in_s = back - 1.0 + (nu[..., None] + 1.0) * share
        in_a = 1.0 - a - steps + walk
        bend = 0.5 * nu * (digamma(xp, 0.5 * (nu + 1.0)) - digamma(xp, 0.5 * nu) - tail / steps) - 0.5
        in_b = 1.0 - b + steps * bend + 0.5 * (nu + 1.0) * xp.sum(share, axis=-1)
        return density, xp.concat([in_s, in_a[..., None], in_b[..., None]], axis=-1)

    return Target(
        lambda x, data: both(x, data)[0],
        score=lambda x, data: both(x, data)[1],
        log_density_and_score=both,
        data=returns**2,
    )


def volatility_parameters(x: Array) -> Array:
    """From positions (*chains, steps + 2) to the log volatilities s, sigma and nu."""
    xp = namespace(x)
    scales = [SIGMA * xp.exp(x[..., -2:-1]), NU * xp.exp(x[..., -1:])]
    return xp.concat([x[..., :-2], *scales], axis=-1)


def volatility_moments() -> KnownMoments:
    """Of `volatility_parameters`: published are mean and variance of the squares alone, so that the mean is nan."""
    found = load_dataset(NAME)
    square = found["square_mean"]
    return KnownMoments(np.full_like(square, np.nan), square, found["square_variance"])
