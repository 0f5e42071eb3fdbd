"""The namespace of array-api-compat, with what a step calls most made cheap."""

import builtins
from typing import Any

import torch
from array_api_compat import torch as compat
from array_api_compat.torch import *  # noqa: F403
from array_api_compat.torch import __array_namespace_info__

Array = Any
"""An array of this library."""


__all__ = [
    "__array_namespace_info__",
    "isfinite",
    "minimum_at",
    "minimum_with_zero",
    "sigmoid",
    "softplus",
    "sum",
    "where",
]

# Without functions of Python around them, which cost a fifth of a call on few chains.
sigmoid = torch.sigmoid


def isfinite(x: Array, /) -> Array:
    """Return whether numbers are finite, in two calls; ``torch.isfinite`` makes four."""
    return (x - x) == 0


def minimum_with_zero(a: Array, /) -> Array:
    """min(a, 0)."""
    return a.clamp(max=0.0)


def minimum_at(values: Array, index: Array, updates: Array, /) -> Array:
    """The least of each value (n,) and of the updates whose index names it."""
    return torch.scatter_reduce(values, 0, index, updates, "amin")


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
    if not isinstance(x2, torch.Tensor) or getattr(x1, "dtype", None) == x2.dtype:
        return torch.where(condition, x1, x2)
    return compat.where(condition, x1, x2)
