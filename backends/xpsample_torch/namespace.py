"""The namespace of array-api-compat, with what a step calls most made cheap."""

import builtins
from typing import Any

import torch
from array_api_compat import torch as compat
from array_api_compat.torch import *  # noqa: F403
from array_api_compat.torch import __array_namespace_info__

__all__ = [
    "__array_namespace_info__",
    "add_scaled",
    "negative_part",
    "sigmoid",
    "softplus",
    "softplus_and_sigmoid",
    "sum",
    "where",
]

Array = Any
sigmoid = torch.sigmoid


def add_scaled(a: Array, scale: Any, b: Array, /) -> Array:
    """a + scale * b."""
    if isinstance(scale, torch.Tensor):
        return torch.addcmul(a, scale, b)
    return torch.add(a, b, alpha=scale)


def negative_part(a: Array, /) -> Array:
    """min(a, 0)."""
    return a.clamp(max=0.0)


def softplus(a: Array, /) -> Array:
    """log(1 + exp(a)); torch's own softplus is off by 2e-9 where it turns linear."""
    return -torch.nn.functional.logsigmoid(-a)


def softplus_and_sigmoid(a: Array, /) -> tuple[Array, Array]:
    """`softplus` and `sigmoid`."""
    return softplus(a), sigmoid(a)


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
