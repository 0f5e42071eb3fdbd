"""Tail probabilities of densities, for censored and rounded data, and mixtures of densities."""

import math
from collections.abc import Callable
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.special import log1mexp, log_ndtr, logsumexp, softplus
from xpsample.densities.arguments import ArrayLike, arrays
from xpsample.densities.positive import exponential, log_normal, weibull
from xpsample.densities.real import logistic, normal


def log_cdf(density: Callable[..., Array], x: ArrayLike, *parameters: ArrayLike) -> Any:
    """Log probability of values up to `x`: of a left-censored observation.

    Parameters
    ----------
    density : callable
        One of `normal`, `log_normal`, `logistic`, `exponential` and `weibull`.
    x : array or number
    *parameters : array or number
        Those of the density, in its order.

    Returns
    -------
    array
        Elementwise, accurate in both tails; -inf below the support.

    Raises
    ------
    HyperparameterError
        If the density is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.log_cdf(densities.normal, -40.0, 0.0, 1.0), -804.608442))
    True
    """
    return _tails(density, x, *parameters)[0]


def log_survival(density: Callable[..., Array], x: ArrayLike, *parameters: ArrayLike) -> Any:
    """Log probability of values above `x`: of a right-censored observation.

    Parameters
    ----------
    density : callable
        One of `normal`, `log_normal`, `logistic`, `exponential` and `weibull`.
    x : array or number
    *parameters : array or number
        Those of the density, in its order.

    Returns
    -------
    array
        Elementwise, accurate in both tails; 0 below the support.

    Raises
    ------
    HyperparameterError
        If the density is none of these.

    Examples
    --------
    >>> from xpsample import densities
    >>> float(densities.log_survival(densities.exponential, 1000.0, 2.0))
    -2000.0
    """
    return _tails(density, x, *parameters)[1]


def log_interval(density: Callable[..., Array], low: ArrayLike, high: ArrayLike, *parameters: ArrayLike) -> Any:
    """Log probability of values from `low` to `high`: of a rounded or interval-censored observation.

    Subtract it from the log density of a truncated distribution.

    Parameters
    ----------
    density : callable
        One of `normal`, `log_normal`, `logistic`, `exponential` and `weibull`.
    low, high : array or number
        May be infinite.
    *parameters : array or number
        Those of the density, in its order.

    Returns
    -------
    array
        Elementwise. The difference is taken in the smaller tail, so that it keeps its digits.

    Raises
    ------
    HyperparameterError
        If the density is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> found = densities.log_interval(densities.exponential, 1000.0, 1001.0, 1.0)
    >>> bool(np.isclose(found, -1000 + np.log(1 - np.exp(-1))))
    True
    """
    xp, low, high, *given = arrays(low, high, *parameters)
    (cdf_low, survival_low), (cdf_high, survival_high) = _tails(density, low, *given), _tails(density, high, *given)
    upper = survival_low < cdf_high
    near, far = xp.where(upper, survival_low, cdf_high), xp.where(upper, survival_high, cdf_low)
    far_off = far == -math.inf
    some = (near > -math.inf) & ~far_off
    share = log1mexp(xp.where(some, near, 0.0) - xp.where(some, far, -1.0))
    return near + xp.where(far_off, 0.0, share)


def _tails(density: Callable[..., Array], x: ArrayLike, *parameters: ArrayLike) -> tuple[Array, Array]:
    """`log_cdf` and `log_survival`."""
    if density not in TAILS:
        names = ", ".join(known.__name__ for known in TAILS)
        raise HyperparameterError(
            f"no tail probabilities of {getattr(density, '__name__', density)!r}. Use one of {names}."
        )
    xp, x, *given = arrays(x, *parameters)
    endless = xp.abs(x) == math.inf
    cdf, survival = TAILS[density](xp, xp.where(endless, 1.0, x), *given)
    below, above = endless & (x < 0.0), endless & (x > 0.0)
    cdf = xp.where(below, -math.inf, xp.where(above, 0.0, cdf))
    return cdf, xp.where(above, -math.inf, xp.where(below, 0.0, survival))


def _normal(xp: Any, x: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
    z = (x - mean) / sd
    return log_ndtr(z), log_ndtr(-z)


def _log_normal(xp: Any, x: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
    inside = x > 0.0
    cdf, survival = _normal(xp, xp.log(xp.where(inside, x, 1.0)), mean, sd)
    return xp.where(inside, cdf, -math.inf), xp.where(inside, survival, 0.0)


def _logistic(xp: Any, x: Array, location: Array, scale: Array) -> tuple[Array, Array]:
    z = (x - location) / scale
    return -softplus(-z), -softplus(z)


def _exponential(xp: Any, x: Array, rate: Array) -> tuple[Array, Array]:
    hazard = rate * xp.where(x > 0.0, x, 0.0)
    return log1mexp(hazard), -hazard


def _weibull(xp: Any, x: Array, shape: Array, scale: Array) -> tuple[Array, Array]:
    inside = x > 0.0
    hazard = xp.exp(shape * (xp.log(xp.where(inside, x, 1.0)) - xp.log(scale)))
    return xp.where(inside, log1mexp(hazard), -math.inf), xp.where(inside, -hazard, 0.0)


TAILS: dict[Callable[..., Array], Callable[..., tuple[Array, Array]]] = {
    normal: _normal,
    log_normal: _log_normal,
    logistic: _logistic,
    exponential: _exponential,
    weibull: _weibull,
}


def zero_inflated(x: ArrayLike, density: Array, p: ArrayLike) -> Any:
    """Log probability of a count that is 0 with probability `p`, and otherwise drawn from a given distribution.

    ``log(p + (1 - p) exp(density))`` for x = 0, and otherwise ``log(1 - p) + density``

    Parameters
    ----------
    x : array or number
    density : array
        Log probability of `x` under that distribution.
    p : array or number
        Probability of an additional zero, between 0 and 1.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> found = densities.zero_inflated(0, densities.poisson(0, 0.0), 0.5)
    >>> bool(np.isclose(found, np.log(0.5 + 0.5 * np.exp(-1))))
    True
    """
    xp, x, density, p = arrays(x, density, p)
    counted = xp.log1p(-p) + density
    zero = (x == 0.0) & (density > -math.inf)
    inflated = (x == 0.0) & (p > 0.0)
    log_p = xp.log(xp.where(inflated, p, 1.0))
    both = xp.logaddexp(log_p, xp.where(zero, counted, 0.0))
    return xp.where(inflated, xp.where(zero, both, log_p), counted)


def mixture(weights: Array, density: Array) -> Any:
    """Log density of a mixture, over the last axis.

    ``log(sum(weights exp(density)))``

    Parameters
    ----------
    weights : array, shape (..., k)
        Probabilities of the components, such as values of the space `Simplex`.
    density : array, shape (..., k)
        Log density of each component.

    Returns
    -------
    array
        Shape to which the arguments broadcast, without the last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> y, means = np.asarray([-2.0, 2.5]), np.asarray([-2.0, 2.0])
    >>> densities.mixture(np.asarray([0.3, 0.7]), densities.normal(y[:, None], means, 1.0)).shape
    (2,)
    """
    xp, weights, density = arrays(weights, density)
    some = weights > 0.0
    return logsumexp(xp.where(some, xp.log(xp.where(some, weights, 1.0)) + density, -math.inf))
