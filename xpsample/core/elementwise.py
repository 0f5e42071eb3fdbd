"""Elementwise functions that the array API standard lacks.

A backend's namespace may define them, to make one pass over the array. Else they are made of the standard's functions.
"""

import math
from typing import Any

from xpsample.core.arrays import Array


def sigmoid(xp: Any, a: Array) -> Array:
    """1 / (1 + exp(-a)), elementwise, without overflow. Small values are exact to the rounding of 1 only."""
    own = getattr(xp, "sigmoid", None)
    return 0.5 + 0.5 * xp.tanh(0.5 * a) if own is None else own(a)


def accurate_sigmoid(xp: Any, a: Array) -> Array:
    """As `sigmoid`, with all digits of small values, at the cost of more passes over the array."""
    return _sigmoid(xp, a, xp.exp(-_size(xp, a)))


def _size(xp: Any, a: Array) -> Array:
    """|a|, with the derivative 1 at 0 and not 0: what is smooth there keeps its derivatives."""
    return xp.where(a < 0.0, -a, a)


def _sigmoid(xp: Any, a: Array, small: Array) -> Array:
    """The sigmoid of a from `small`, exp(-|a|)."""
    return xp.where(a < 0.0, small, 1.0) / (1.0 + small)


def softplus(xp: Any, a: Array) -> Array:
    """log(1 + exp(a)), elementwise, accurate to the last digits for a of any size."""
    own = getattr(xp, "softplus", None)
    if own is not None:
        return own(a)
    size = _size(xp, a)
    return 0.5 * (a + size) + xp.log1p(xp.exp(-size))


def softplus_and_sigmoid(xp: Any, a: Array) -> tuple[Array, Array]:
    """`softplus` and its derivative `sigmoid`, with one exponential where the namespace has neither."""
    if getattr(xp, "softplus", None) is not None and getattr(xp, "sigmoid", None) is not None:
        return softplus(xp, a), sigmoid(xp, a)
    size = _size(xp, a)
    small = xp.exp(-size)
    return 0.5 * (a + size) + xp.log1p(small), _sigmoid(xp, a, small)


def minimum_with_zero(xp: Any, a: Array) -> Array:
    """min(a, 0), elementwise; nan where a is nan."""
    own = getattr(xp, "minimum_with_zero", None)
    return xp.minimum(a, xp.zeros_like(a)) if own is None else own(a)


SHIFT = 8
"""`log_gamma` moves its argument up by this much, where Stirling's series is exact to the last digits."""


def log_gamma(xp: Any, a: Array) -> Array:
    """log Gamma(a) for a > 0, elementwise: Stirling's series at a + 8 (Abramowitz and Stegun, 6.1.41, 6.1.15).

    The absolute error is below 1e-13 times the largest of 1 and the value at a + 8.
    """
    product = a
    for k in range(1, SHIFT):
        product = product * (a + k)
    z = a + SHIFT
    r = 1.0 / z
    s = r * r
    series = r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188)))))
    return (z - 0.5) * xp.log(z) - z + 0.5 * math.log(2 * math.pi) + series - xp.log(product)


def digamma(xp: Any, a: Array) -> Array:
    """The derivative of `log_gamma` (Abramowitz and Stegun, 6.3.18, 6.3.6)."""
    below = 1.0 / a
    for k in range(1, SHIFT):
        below = below + 1.0 / (a + k)
    z = a + SHIFT
    r = 1.0 / z
    s = r * r
    series = 0.5 * r + s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132)))))
    return xp.log(z) - series - below
