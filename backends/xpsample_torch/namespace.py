"""The namespace of array-api-compat, with what a step calls most made cheap."""

import builtins
import math
from typing import Any

import torch
from array_api_compat import torch as compat
from array_api_compat.torch import *  # noqa: F403
from array_api_compat.torch import __array_namespace_info__

__all__ = [
    "__array_namespace_info__",
    "add_multiple",
    "add_product",
    "finite_or_least",
    "minus_square",
    "negative_part",
    "sigmoid",
    "softplus",
    "sum",
    "where",
]

Array = Any
# Without functions of Python around them, which cost a fifth of a call on few chains.
add_multiple, add_product, sigmoid = torch.add, torch.addcmul, torch.sigmoid


def minus_square(a: Array, b: Array, /) -> Array:
    """a - b * b."""
    return torch.addcmul(a, b, b, value=-1)


def finite_or_least(a: Array, /) -> tuple[Array, Array]:
    """a where it is finite and -inf elsewhere, and whether it is not; ``torch.isfinite`` is four calls."""
    least = -math.inf
    a = torch.nan_to_num(a, nan=least, posinf=least, neginf=least)
    return a, torch.isneginf(a)


def negative_part(a: Array, /) -> Array:
    """min(a, 0)."""
    return a.clamp(max=0.0)


def softplus(a: Array, /) -> Array:
    """log(1 + exp(a)); from 40 on a itself, which it is in float64 from 37 on. torch's own 20 would be off by 2e-9."""
    return torch.nn.functional.softplus(a, threshold=40.0)


def sum(x: Array, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """A sum over one axis at the price of torch's method; others by array-api-compat."""
    if isinstance(axis, builtins.int) and dtype is None and not keepdims:
        return x.sum(axis)
    return compat.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """torch.where, which needs array-api-compat's promotion rules for arrays of two dtypes only."""
    if getattr(x1, "dtype", None) == getattr(x2, "dtype", 0):
        return torch.where(condition, x1, x2)
    return compat.where(condition, x1, x2)
