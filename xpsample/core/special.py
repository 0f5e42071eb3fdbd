"""Functions of arrays that log densities and kernels need and the array API standard lacks.

A backend's namespace may define them, to make one pass over the array. Otherwise they are made of the standard's
functions.
"""

import math
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.registry import namespace

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def sigmoid(a: Array) -> Array:
    """1 / (1 + exp(-a)), elementwise, without overflow. Small values are exact to the rounding of 1 only."""
    xp = namespace(a)
    own = getattr(xp, "sigmoid", None)
    return 0.5 + 0.5 * xp.tanh(0.5 * a) if own is None else own(a)


def accurate_sigmoid(a: Array) -> Array:
    """Compute `sigmoid` with all digits of small values, at the cost of more passes over the array."""
    xp = namespace(a)
    small = xp.exp(-_size(xp, a))
    return xp.where(a < 0.0, small, 1.0) / (1.0 + small)


def _size(xp: Any, a: Array) -> Array:
    """|a|, with the derivative 1 at 0 and not 0: what is smooth there keeps its derivatives."""
    return xp.where(a < 0.0, -a, a)


def softplus(a: Array) -> Array:
    """log(1 + exp(a)), elementwise, accurate to the last digits for `a` of any size.

    If the logit is `a`, the log probability of success is ``-softplus(-a)``, and of failure ``-softplus(a)``.

    Parameters
    ----------
    a : array
        Array of a real floating dtype.

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
        Array of a real floating dtype.
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


def minimum_at(xp: Any, values: Array, index: Array, updates: Array) -> Array:
    """The least of each value and of the updates whose index names it, all (n,) of integers from 0 to n."""
    own = getattr(xp, "minimum_at", None)
    if own is not None:
        return own(values, index, updates)
    ufunc = getattr(xp.minimum, "at", None)  # of JAX
    return (
        minimum_by_sort(xp, values, index, updates) if ufunc is None else ufunc(values, index, updates, inplace=False)
    )


def minimum_by_sort(xp: Any, values: Array, index: Array, updates: Array) -> Array:
    """Do `minimum_at` by sorting, for labels from 0 to n, if a library has no scatter of minima."""
    n = values.shape[0]
    places = xp.cumulative_sum(xp.ones_like(index)) - 1
    ordered = xp.sort(index * (n + 1) + xp.astype(updates, index.dtype))
    at = xp.searchsorted(ordered, places * (n + 1))
    found = xp.take(ordered, xp.where(at < n, at, 0))
    least = xp.where(found // (n + 1) == places, found % (n + 1), n)
    return xp.minimum(values, xp.astype(least, values.dtype))


def log_gamma(a: Array) -> Array:
    """log Gamma(a) for a > 0, elementwise.

    Parameters
    ----------
    a : array
        Array of a real floating dtype. ``log_gamma(n + 1)`` is the log factorial of n.

    Returns
    -------
    array, of the shape of `a`
        With an absolute error below 1e-13 times the largest of 1 and ``log_gamma(a + 8)`` in float64.

    Notes
    -----
    Stirling's series at a, or at a + 8 if a < 8: Abramowitz and Stegun (1964), "Handbook of Mathematical Functions",
    6.1.41 and 6.1.15.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.core.special import log_gamma
    >>> bool(np.isclose(log_gamma(np.asarray(5.0)), np.log(24.0)))
    True
    """
    xp, z, log_product = _shifted(a)
    return (z - 0.5) * xp.log(z) - z + HALF_LOG_TWO_PI + _stirling_series(z) - log_product


def stirling_error(a: Array) -> Array:
    """``log_gamma(a)`` minus Stirling's formula ``(a - 1/2) log(a) - a + log(2 pi) / 2``, for a > 0.

    Written with it, a difference of log gammas of large numbers keeps its digits (Loader 2000, "Fast and accurate
    computation of binomial probabilities").
    """
    xp, z, log_product = _shifted(a)
    small = a < 8.0
    low = xp.where(small, a, 8.0)
    gap = (z - 0.5) * xp.log(z) - z - log_product - (low - 0.5) * xp.log(low) + low
    return _stirling_series(z) + xp.where(small, gap, 0.0)


def _shifted(a: Array) -> tuple[Any, Array, Array]:
    """The namespace, z = a + 8 if a < 8 and otherwise a, and log(Gamma(z) / Gamma(a))."""
    xp = namespace(a)
    small = a < 8.0
    low = xp.where(small, a, 1.0)  # the product of large numbers overflows
    product = low
    for k in range(1, 8):
        product = product * (low + k)
    return xp, xp.where(small, a + 8.0, a), xp.where(small, xp.log(product), 0.0)


def _stirling_series(z: Array) -> Array:
    """The sum of Stirling's series, to 2e-14 for z >= 8."""
    r = 1.0 / z
    s = r * r
    return r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360))))))


def log_beta(a: Array, b: Array) -> Array:
    """log B(a, b) = log(Gamma(a) Gamma(b) / Gamma(a + b)) for positive a and b, without cancellation."""
    xp, total = namespace(a), a + b
    error = stirling_error(a) + stirling_error(b) - stirling_error(total)
    shares = -a * xp.log1p(b / a) - b * xp.log1p(a / b)
    return HALF_LOG_TWO_PI + error + shares + 0.5 * (xp.log(total) - xp.log(a) - xp.log(b))


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


def log1mexp(h: Array) -> Array:
    """log(1 - exp(-h)) for h >= 0, accurate for small and large h (Maechler 2012); -inf at 0."""
    xp = namespace(h)
    small = h < math.log(2.0)
    low, high = xp.where(small & (h != 0.0), h, 0.5), xp.where(small, 1.0, h)
    value = xp.where(small, xp.log(-xp.expm1(-low)), xp.log1p(-xp.exp(-high)))
    return xp.where(h == 0.0, -math.inf, value)


def log1p_square(a: Array) -> Array:
    """log(1 + a^2), without overflow."""
    xp = namespace(a)
    size = _size(xp, a)
    large = xp.where(size > 1.0, size, 1.0)
    part = xp.where(size > 1.0, 1.0 / large, a)
    return 2.0 * xp.log(large) + xp.log1p(part * part)


# Chebyshev coefficients of (1 + 2x) exp(x^2) erfc(x) on x >= 0 in t = (x - 3.75) / (x + 3.75), computed with 40 digits.
# The form is from Shepherd and Laframboise (1981), Mathematics of Computation 36, 249-253.
ERFCX = (
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.74038306619849e-07,
    -2.1886401049234397e-07,
    1.076499946567091e-08,
    4.521959811218287e-09,
    -7.754400208831351e-10,
    -6.318088340886684e-11,
    2.86879501093067e-11,
    1.9455868545777347e-13,
    -9.65469674843344e-13,
    3.25254814814874e-14,
    3.3478119482868056e-14,
    -1.864562880419313e-15,
    -1.2507950530688648e-15,
    7.418235256624044e-17,
    5.068148904796111e-17,
    -2.2370566594359995e-18,
)


def log_ndtr(z: Array) -> Array:
    """The log of the standard normal distribution function, elementwise, accurate in both tails.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.core.special import log_ndtr
    >>> bool(np.isclose(log_ndtr(np.asarray(-40.0)), -804.608442))
    True
    """
    xp = namespace(z)
    x = math.sqrt(0.5) * _size(xp, z)
    t = 1.0 - 7.5 / (x + 3.75)
    ahead, value = xp.zeros_like(t), xp.zeros_like(t)
    for c in reversed(ERFCX[1:]):  # Clenshaw's recurrence
        ahead, value = value, c + 2.0 * t * value - ahead
    half = 0.5 * (ERFCX[0] + t * value - ahead) / (1.0 + 2.0 * x)  # exp(x^2) times the smaller tail's probability
    low = z < 0.0
    log_tail = xp.log(xp.where(low, half, 1.0)) - x * x
    return xp.where(low, log_tail, xp.log1p(-xp.where(low, 0.0, half * xp.exp(-x * x))))


def log_bessel_i0e(k: Array) -> Array:
    """The log of exp(-k) I_0(k) for k >= 0: its power series, and from 20 on the asymptotic one (DLMF 10.40.1)."""
    xp = namespace(k)
    low = k < 20.0
    small, large = xp.where(low, k, 1.0), xp.where(low, 20.0, k)
    square, power, tail = 0.25 * small * small, xp.ones_like(k), xp.ones_like(k)
    for j in range(50, 0, -1):
        power = 1.0 + power * square / float(j * j)
    for j in range(20, 0, -1):
        tail = 1.0 + tail * (2.0 * j - 1.0) ** 2 / (8.0 * j * large)
    return xp.where(low, xp.log(power) - small, xp.log(tail) - 0.5 * xp.log(2.0 * math.pi * large))


def log_poisson_gamma(a: Array, log_ratio: Array) -> Array:
    """log(m^a exp(-m) / Gamma(a)) for a > 0 and m = a exp(log_ratio), without cancellation (Loader 2000)."""
    xp = namespace(a)
    deviance = a * (xp.expm1(log_ratio) - log_ratio)
    return 0.5 * xp.log(a) - HALF_LOG_TWO_PI - stirling_error(a) - deviance
