"""Log densities of positive numbers."""

import math
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.special import log_poisson_gamma
from xpsample.densities.arguments import ArrayLike, arrays, only
from xpsample.densities.real import cauchy, normal


def half_normal(x: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the half-normal distribution: of the absolute value of a normal number with mean 0.

    ``-x^2 / (2 scale^2) - log(scale) + log(2 / pi) / 2``

    Parameters
    ----------
    x : array or number
    scale : array or number
        Standard deviation of the normal distribution; positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x < 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.half_normal(0.0, 1.0), 0.5 * np.log(2 / np.pi)))
    True
    """
    xp, x, scale = arrays(x, scale)
    return only(xp, x >= 0.0, normal(x, 0.0, scale) + math.log(2.0))


def half_cauchy(x: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the half-Cauchy distribution.

    ``log(2 / pi) - log(scale (1 + (x / scale)^2))``

    Parameters
    ----------
    x : array or number
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x < 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.half_cauchy(1.0, 1.0), -np.log(np.pi)))
    True
    """
    xp, x, scale = arrays(x, scale)
    return only(xp, x >= 0.0, cauchy(x, 0.0, scale) + math.log(2.0))


def log_normal(x: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> Any:
    """Log density of the log-normal distribution.

    ``-(log(x) - mean)^2 / (2 sd^2) - log(x sd) - log(2 pi) / 2``

    Parameters
    ----------
    x : array or number
    mean : array or number
        Mean of log(x).
    sd : array or number
        Standard deviation of log(x); positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x <= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.log_normal(1.0, 0.0, 1.0), -0.5 * np.log(2 * np.pi)))
    True
    """
    xp, x, mean, sd = arrays(x, mean, sd)
    inside, log_x = _logarithm(xp, x)
    return only(xp, inside, normal(log_x, mean, sd) - log_x)


def exponential(x: ArrayLike, rate: ArrayLike) -> Any:
    """Log density of the exponential distribution.

    ``log(rate) - rate x``

    Parameters
    ----------
    x : array or number
    rate : array or number
        Inverse of the mean; positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x < 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> float(densities.exponential(2.0, 1.0))
    -2.0
    """
    xp, x, rate = arrays(x, rate)
    return only(xp, x >= 0.0, xp.log(rate) - rate * x)


def gamma(x: ArrayLike, shape: ArrayLike, rate: ArrayLike) -> Any:
    """Log density of the gamma distribution.

    ``shape log(rate) + (shape - 1) log(x) - rate x - log Gamma(shape)``

    Parameters
    ----------
    x : array or number
    shape : array or number
        Positive.
    rate : array or number
        Inverse of the scale; positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x <= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.gamma(2.0, 1.0, 1.0), -2.0))
    True
    """
    xp, x, shape, rate = arrays(x, shape, rate)
    inside, log_x = _logarithm(xp, x)
    return only(xp, inside, log_poisson_gamma(shape, log_x + xp.log(rate) - xp.log(shape)) - log_x)


def inverse_gamma(x: ArrayLike, shape: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the inverse gamma distribution: of 1 / y for y gamma with rate `scale`.

    ``shape log(scale) - (shape + 1) log(x) - scale / x - log Gamma(shape)``

    Parameters
    ----------
    x : array or number
    shape : array or number
        Positive.
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x <= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.inverse_gamma(1.0, 1.0, 1.0), -1.0))
    True
    """
    xp, x, shape, scale = arrays(x, shape, scale)
    inside, log_x = _logarithm(xp, x)
    return only(xp, inside, log_poisson_gamma(shape, xp.log(scale) - log_x - xp.log(shape)) - log_x)


def weibull(x: ArrayLike, shape: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the Weibull distribution.

    ``log(shape / x) + shape log(x / scale) - (x / scale)^shape``

    Parameters
    ----------
    x : array or number
    shape : array or number
        Positive.
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x <= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> float(densities.weibull(2.0, 1.0, 1.0))
    -2.0
    """
    xp, x, shape, scale = arrays(x, shape, scale)
    inside, log_x = _logarithm(xp, x)
    log_hazard = shape * (log_x - xp.log(scale))  # cumulative
    return only(xp, inside, xp.log(shape) - log_x + log_hazard - xp.exp(log_hazard))


def _logarithm(xp: Any, x: Array) -> tuple[Array, Array]:
    """Return whether x > 0, and log(x), or 0 for other x."""
    inside = x > 0.0
    return inside, xp.log(xp.where(inside, x, 1.0))
