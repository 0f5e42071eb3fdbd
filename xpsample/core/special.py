"""Functions of arrays that log densities and kernels need and the array API standard lacks.

A backend's namespace may define them, to make one pass over the array. Otherwise they are made of the standard's
functions.
"""

import math
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.registry import namespace


def sigmoid(a: Array) -> Array:
    """1 / (1 + exp(-a)), elementwise, without overflow. Small values are exact to the rounding of 1 only."""
    xp = namespace(a)
    own = getattr(xp, "sigmoid", None)
    return 0.5 + 0.5 * xp.tanh(0.5 * a) if own is None else own(a)


def accurate_sigmoid(a: Array) -> Array:
    """As `sigmoid`, with all digits of small values, at the cost of more passes over the array."""
    xp = namespace(a)
    small = xp.exp(-_size(xp, a))
    return xp.where(a < 0.0, small, 1.0) / (1.0 + small)


def _size(xp: Any, a: Array) -> Array:
    """|a|, with the derivative 1 at 0 and not 0: what is smooth there keeps its derivatives."""
    return xp.where(a < 0.0, -a, a)


def softplus(a: Array) -> Array:
    """log(1 + exp(a)), elementwise, accurate to the last digits for `a` of any size.

    The log probability of success is ``-softplus(-a)`` where the logit is `a`, and that of failure ``-softplus(a)``.

    Parameters
    ----------
    a : array
        Of a real floating dtype.

    Returns
    -------
    array, of the shape of `a`

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.core.special import softplus
    >>> bool(softplus(np.asarray(1000.0)) == 1000.0)
    True
    """
    xp = namespace(a)
    own = getattr(xp, "softplus", None)
    if own is not None:
        return own(a)
    size = _size(xp, a)
    return 0.5 * (a + size) + xp.log1p(xp.exp(-size))


def softplus_and_sigmoid(a: Array) -> tuple[Array, Array]:
    """`softplus` and its derivative `sigmoid`, with one exponential where the namespace has neither."""
    xp = namespace(a)
    if getattr(xp, "softplus", None) is not None and getattr(xp, "sigmoid", None) is not None:
        return softplus(a), sigmoid(a)
    size = _size(xp, a)
    small = xp.exp(-size)
    return 0.5 * (a + size) + xp.log1p(small), xp.where(a < 0.0, small, 1.0) / (1.0 + small)


def logsumexp(a: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """log(sum(exp(a))) over `axis`, without overflow: how log probabilities are summed.

    Parameters
    ----------
    a : array
        Of a real floating dtype.
    axis : int or tuple of int
        By default the last one: all others may be chains.

    Returns
    -------
    array, of the shape of `a` without `axis`
        -inf where all entries are -inf.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.core.special import logsumexp
    >>> bool(np.isclose(logsumexp(np.log(np.asarray([0.25, 0.5]))), np.log(0.75)))
    True
    """
    xp = namespace(a)
    largest = xp.max(a, axis=axis, keepdims=True)
    largest = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
    total = xp.log(xp.sum(xp.exp(a - largest), axis=axis, keepdims=True)) + largest
    return xp.squeeze(total, axis=axis)


def minimum_with_zero(xp: Any, a: Array) -> Array:
    """min(a, 0), elementwise; nan where a is nan."""
    own = getattr(xp, "minimum_with_zero", None)
    return xp.minimum(a, xp.zeros_like(a)) if own is None else own(a)


def log_gamma(a: Array) -> Array:
    """log Gamma(a) for a > 0, elementwise.

    Parameters
    ----------
    a : array
        Of a real floating dtype. ``log_gamma(n + 1)`` is the log factorial of n.

    Returns
    -------
    array, of the shape of `a`
        With an absolute error below 1e-13 times the largest of 1 and ``log_gamma(a + 8)`` in float64.

    Notes
    -----
    Stirling's series at a + 8: Abramowitz and Stegun (1964), "Handbook of Mathematical Functions", 6.1.41 and 6.1.15.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.core.special import log_gamma
    >>> bool(np.isclose(log_gamma(np.asarray(5.0)), np.log(24.0)))
    True
    """
    product, shift = a, 8  # where the series is exact to the last digits
    for k in range(1, shift):
        product = product * (a + k)
    z = a + shift
    r = 1.0 / z
    s = r * r
    series = r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188)))))
    xp = namespace(a)
    return (z - 0.5) * xp.log(z) - z + 0.5 * math.log(2 * math.pi) + series - xp.log(product)


def digamma(a: Array) -> Array:
    """The derivative of `log_gamma` (Abramowitz and Stegun, 6.3.18, 6.3.6)."""
    below, shift = 1.0 / a, 8
    for k in range(1, shift):
        below = below + 1.0 / (a + k)
    z = a + shift
    r = 1.0 / z
    s = r * r
    series = 0.5 * r + s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132)))))
    return namespace(a).log(z) - series - below
