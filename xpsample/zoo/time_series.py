"""Posteriors of time series: a Brownian motion seen through noise, and the stochastic volatility of stock returns."""

import math
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.core.special import digamma, log_gamma, sigmoid, softplus
from xpsample.targets.target import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.moments import KnownMoments, long_run_moments


def brownian_motion(observed: np.ndarray | None = None) -> Target:
    """The posterior of two noise scales and of the path, ``BrownianMotionUnknownScalesMissingMiddleObservations``.

    ``scales ~ LogNormal(0, 2)``, ``l_1 ~ N(0, innovation^2)``, ``l_t ~ N(l_(t-1), innovation^2)`` and
    ``observed_t ~ N(l_t, observation^2)``. Positions (*chains, 2 + steps) are the innovation scale and the observation
    scale, each as ``log(exp(scale) - 1)``, then the path; see `brownian_parameters`.

    Parameters
    ----------
    observed : numpy.ndarray, shape (steps,), optional
        nan where nothing was observed. By default the data of TensorFlow Probability's Inference Gym.

    Returns
    -------
    Target
        With its score. Takes positions of any library.
    """
    if observed is None:
        observed = load_dataset("targets/brownian_motion")["observed"]
    observed = np.asarray(observed, dtype=np.float64)
    if observed.ndim != 1 or not len(observed):
        raise HyperparameterError(f"observed has shape (steps,); got {observed.shape}")
    seen = ~np.isnan(observed)
    steps, count, prior_sd = len(observed), int(np.sum(seen)), 2.0
    data = {"observed": np.where(seen, observed, 0.0), "seen": seen.astype(np.float64)}

    def parts(x: Array, data: Any) -> tuple[Any, Array, Array, Array, Array]:
        """Namespace, the two scales (*chains, 2), their logarithms, the path's steps, the residuals."""
        xp, path = namespace(x), x[..., 2:]
        scales = softplus(x[..., :2])
        steps = path - xp.concat([xp.zeros_like(path[..., :1]), path[..., :-1]], axis=-1)
        return xp, scales, xp.log(scales), steps, data["seen"] * (data["observed"] - path)

    def log_density(x: Array, data: Any) -> Array:
        xp, scales, logs, moves, residuals = parts(x, data)
        prior = xp.sum(-logs - 0.5 * (logs / prior_sd) ** 2 - softplus(-x[..., :2]), axis=-1)
        walk = -steps * logs[..., 0] - 0.5 * xp.sum(moves * moves, axis=-1) / scales[..., 0] ** 2
        return prior + walk - count * logs[..., 1] - 0.5 * xp.sum(residuals**2, axis=-1) / scales[..., 1] ** 2

    def score(x: Array, data: Any) -> Array:
        xp, scales, logs, moves, residuals = parts(x, data)
        squares = xp.stack([xp.sum(moves * moves, axis=-1), xp.sum(residuals**2, axis=-1)], axis=-1)
        counts = xp.stack([xp.full_like(x[..., 0], steps), xp.full_like(x[..., 0], count)], axis=-1)
        slope = (squares / scales**2 - counts - 1.0 - logs / prior_sd**2) / scales
        p = sigmoid(x[..., :2])  # the derivative of the scale
        pull = moves / scales[..., :1] ** 2
        back = xp.concat([pull[..., 1:], xp.zeros_like(pull[..., :1])], axis=-1) - pull
        return xp.concat([slope * p + 1.0 - p, back + residuals / scales[..., 1:] ** 2], axis=-1)

    return Target(log_density, score=score, data=data)


def brownian_parameters(x: Array) -> Array:
    """From positions (*chains, 2 + steps) to innovation scale, observation scale and path."""
    xp = namespace(x)
    return xp.concat([softplus(x[..., :2]), x[..., 2:]], axis=-1)


def brownian_moments() -> KnownMoments:
    """Moments of `brownian_parameters` for the default data, from a long run.

    The moments that the Inference Gym publishes for this posterior are not of these data: the mean of the
    observation scale is off by a third of its standard deviation.
    """
    return long_run_moments("brownian-motion")


SIGMA, NU = 0.02, 10.0  # Prior means of the stochastic volatility's step and of the degrees of freedom


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
    if returns is None:
        returns = load_dataset("targets/stochastic_volatility")["returns"]
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
        peak = log_gamma(0.5 * (nu + 1.0)) - log_gamma(0.5 * nu) - 0.5 * (log_b + math.log(NU * math.pi))
        density = log_a - a + log_b - b - steps * log_a - 0.5 * walk
        density = density + steps * peak - xp.sum(s, axis=-1) - 0.5 * (nu + 1.0) * tail

        share = ratio / (nu[..., None] + ratio)  # minus half the slope of a tail in s
        pull = moves / variance[..., None]
        back = xp.concat([pull[..., 1:], xp.zeros_like(pull[..., :1])], axis=-1) - pull
        in_s = back - 1.0 + (nu[..., None] + 1.0) * share
        in_a = 1.0 - a - steps + walk
        bend = 0.5 * nu * (digamma(0.5 * (nu + 1.0)) - digamma(0.5 * nu) - tail / steps) - 0.5
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
    """Moments of `volatility_parameters`: only mean and variance of the squares are published, so the mean is nan."""
    found = load_dataset("targets/stochastic_volatility")
    square = found["square_mean"]
    return KnownMoments(np.full_like(square, np.nan), square, found["square_variance"])
