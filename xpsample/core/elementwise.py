"""Elementwise functions that the array API standard lacks.

A backend's namespace may define them, to make one pass over the array. Else they are made of the standard's functions.
"""

from typing import Any

from xpsample.core.arrays import Array


def sigmoid(xp: Any, a: Array) -> Array:
    """1 / (1 + exp(-a)), elementwise, without overflow. Small values are exact to the rounding of 1 only."""
    own = getattr(xp, "sigmoid", None)
    return 0.5 + 0.5 * xp.tanh(0.5 * a) if own is None else own(a)


def accurate_sigmoid(xp: Any, a: Array) -> Array:
    """As `sigmoid`, with all digits of small values, at the cost of more passes over the array."""
    return _sigmoid(xp, a, xp.exp(-xp.abs(a)))


def _sigmoid(xp: Any, a: Array, small: Array) -> Array:
    """The sigmoid of a from `small`, exp(-|a|)."""
    return xp.where(a < 0.0, small, 1.0) / (1.0 + small)


def softplus(xp: Any, a: Array) -> Array:
    """log(1 + exp(a)), elementwise, accurate to the last digits for a of any size."""
    own = getattr(xp, "softplus", None)
    if own is not None:
        return own(a)
    size = xp.abs(a)
    return 0.5 * (a + size) + xp.log1p(xp.exp(-size))


def softplus_and_sigmoid(xp: Any, a: Array) -> tuple[Array, Array]:
    """`softplus` and its derivative `sigmoid`, with one exponential where the namespace has neither."""
    if getattr(xp, "softplus", None) is not None and getattr(xp, "sigmoid", None) is not None:
        return softplus(xp, a), sigmoid(xp, a)
    size = xp.abs(a)
    small = xp.exp(-size)
    return 0.5 * (a + size) + xp.log1p(small), _sigmoid(xp, a, small)


def minimum_with_zero(xp: Any, a: Array) -> Array:
    """min(a, 0), elementwise; nan where a is nan."""
    own = getattr(xp, "minimum_with_zero", None)
    return xp.minimum(a, xp.zeros_like(a)) if own is None else own(a)
