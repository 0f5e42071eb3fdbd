"""Functions that the standard lacks: those of the array's own namespace where it has them, else made of the standard's.

A backend's namespace may define them, each one pass over the array.
"""

import math
from typing import Any

from xpsample.backend import Array


def sigmoid(xp: Any, a: Array) -> Array:
    """1 / (1 + exp(-a)), elementwise; overflows nowhere."""
    own = getattr(xp, "sigmoid", None)
    return 0.5 + 0.5 * xp.tanh(0.5 * a) if own is None else own(a)


def add_scaled(xp: Any, a: Array, scale: Array | float, b: Array) -> Array:
    """a + scale * b, for arrays of one dtype; where a library has it in one pass, it may round once only."""
    if isinstance(scale, (int, float)):
        own = getattr(xp, "add_multiple", None)
        return a + scale * b if own is None else own(a, b, alpha=scale)
    own = getattr(xp, "add_product", None)
    return a + scale * b if own is None else own(a, scale, b)


def minus_square(xp: Any, a: Array, b: Array) -> Array:
    """a - b * b, elementwise, for arrays of one shape and dtype; rounds as `add_scaled` does."""
    own = getattr(xp, "minus_square", None)
    return a - b * b if own is None else own(a, b)


def finite_or_least(xp: Any, a: Array) -> tuple[Array, Array]:
    """a where it is finite and -inf elsewhere, and whether it is not finite."""
    own = getattr(xp, "finite_or_least", None)
    if own is not None:
        return own(a)
    finite = xp.isfinite(a)
    return xp.where(finite, a, -math.inf), ~finite


def softplus(xp: Any, a: Array) -> Array:
    """log(1 + exp(a)), elementwise, accurate to the last digits for a of any size."""
    own = getattr(xp, "softplus", None)
    if own is not None:
        return own(a)
    size = xp.abs(a)
    return 0.5 * (a + size) + xp.log1p(xp.exp(-size))


def softplus_and_sigmoid(xp: Any, a: Array) -> tuple[Array, Array]:
    """`softplus` and its derivative `sigmoid`: of a namespace that has them, else made with one exponential."""
    if getattr(xp, "softplus", None) is not None and getattr(xp, "sigmoid", None) is not None:
        return softplus(xp, a), sigmoid(xp, a)
    size = xp.abs(a)
    small = xp.exp(-size)
    return 0.5 * (a + size) + xp.log1p(small), xp.where(a < 0.0, small, 1.0) / (1.0 + small)


def negative_part(xp: Any, a: Array) -> Array:
    """min(a, 0), elementwise; nan where a is nan."""
    own = getattr(xp, "negative_part", None)
    return 0.5 * (a - xp.abs(a)) if own is None else own(a)
