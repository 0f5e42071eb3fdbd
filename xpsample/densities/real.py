"""Log densities on the real line, on intervals, and on the circle."""

import math
from typing import Any

from xpsample.core.special import HALF_LOG_TWO_PI, log1p_square, log_bessel_i0e, log_beta, softplus
from xpsample.densities.arguments import ArrayLike, arrays, only


def normal(x: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> Any:
    """Log density of the normal distribution.

    ``-(x - mean)^2 / (2 sd^2) - log(sd) - log(2 pi) / 2``

    Parameters
    ----------
    x : array or number
    mean : array or number
    sd : array or number
        Standard deviation; positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.normal(0.0, 0.0, 1.0), -0.5 * np.log(2 * np.pi)))
    True
    """
    xp, x, mean, sd = arrays(x, mean, sd)
    z = (x - mean) / sd
    return -0.5 * z * z - xp.log(sd) - HALF_LOG_TWO_PI


def student_t(x: ArrayLike, df: ArrayLike, location: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of Student's t distribution.

    ``-(df + 1) / 2 log(1 + z^2 / df) - log(scale sqrt(df) B(df / 2, 1 / 2))``, ``z = (x - location) / scale``

    Parameters
    ----------
    x : array or number
    df : array or number
        Degrees of freedom; positive.
    location : array or number
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.student_t(0.0, 1.0, 0.0, 1.0), -np.log(np.pi)))
    True
    """
    xp, x, df, location, scale = arrays(x, df, location, scale)
    tail = log1p_square((x - location) / (scale * xp.sqrt(df)))
    constant = log_beta(0.5 * df, 0.5 * xp.ones_like(df)) + 0.5 * xp.log(df)
    return -0.5 * (df + 1.0) * tail - constant - xp.log(scale)


def cauchy(x: ArrayLike, location: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the Cauchy distribution.

    ``-log(pi scale (1 + z^2))``, ``z = (x - location) / scale``

    Parameters
    ----------
    x : array or number
    location : array or number
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.cauchy(1.0, 0.0, 1.0), -np.log(2 * np.pi)))
    True
    """
    xp, x, location, scale = arrays(x, location, scale)
    return -log1p_square((x - location) / scale) - xp.log(scale) - math.log(math.pi)


def laplace(x: ArrayLike, location: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the Laplace (double exponential) distribution.

    ``-|x - location| / scale - log(2 scale)``

    Parameters
    ----------
    x : array or number
    location : array or number
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.laplace(2.0, 0.0, 1.0), -2 - np.log(2)))
    True
    """
    xp, x, location, scale = arrays(x, location, scale)
    return -xp.abs(x - location) / scale - xp.log(2.0 * scale)


def logistic(x: ArrayLike, location: ArrayLike, scale: ArrayLike) -> Any:
    """Log density of the logistic distribution.

    ``-z - 2 log(1 + exp(-z)) - log(scale)``, ``z = (x - location) / scale``

    Parameters
    ----------
    x : array or number
    location : array or number
    scale : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.logistic(0.0, 0.0, 1.0), -2 * np.log(2)))
    True
    """
    xp, x, location, scale = arrays(x, location, scale)
    z = (x - location) / scale
    return -softplus(z) - softplus(-z) - xp.log(scale)


def uniform(x: ArrayLike, low: ArrayLike, high: ArrayLike) -> Any:
    """Log density of the uniform distribution.

    ``-log(high - low)``

    Parameters
    ----------
    x : array or number
    low, high : array or number

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x < low or x > high.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> float(densities.uniform(3.0, 0.0, 2.0))
    -inf
    """
    xp, x, low, high = arrays(x, low, high)
    return only(xp, (x >= low) & (x <= high), -xp.log(high - low))


def beta(x: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """Log density of the beta distribution.

    ``(a - 1) log(x) + (b - 1) log(1 - x) - log B(a, b)``

    Parameters
    ----------
    x : array or number
    a, b : array or number
        Positive.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x <= 0 or x >= 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.beta(0.5, 2.0, 2.0), np.log(1.5)))
    True
    """
    xp, x, a, b = arrays(x, a, b)
    inside = (x > 0.0) & (x < 1.0)
    safe = xp.where(inside, x, 0.5)
    return only(xp, inside, (a - 1.0) * xp.log(safe) + (b - 1.0) * xp.log1p(-safe) - log_beta(a, b))


def von_mises(x: ArrayLike, mean: ArrayLike, concentration: ArrayLike) -> Any:
    """Log density of the von Mises distribution on the circle.

    ``concentration cos(x - mean) - log(2 pi I_0(concentration))``

    Parameters
    ----------
    x : array or number
        Angle, in radians.
    mean : array or number
    concentration : array or number
        Not negative.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast. It has period 2 pi in x.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.von_mises(1.0, 0.0, 0.0), -np.log(2 * np.pi)))
    True
    """
    xp, x, mean, concentration = arrays(x, mean, concentration)
    half = xp.sin(0.5 * (x - mean))
    return -2.0 * concentration * half * half - log_bessel_i0e(concentration) - 2.0 * HALF_LOG_TWO_PI
