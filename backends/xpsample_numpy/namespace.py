"""The namespace of array-api-compat, with what a step calls most made cheap."""

from collections.abc import Callable
from typing import Any

import array_api_compat.numpy
import numpy as np
from array_api_compat.numpy import *  # noqa: F403
from array_api_compat.numpy import __array_namespace_info__

Array = Any
"""An array of this library."""


__all__ = [
    "__array_namespace_info__",
    "all",
    "clip",
    "mean",
    "minimum_at",
    "minimum_with_zero",
    "sigmoid",
    "softplus",
    "sum",
]

_compat: Any = array_api_compat.numpy  # whose types lack clip and mean
_add: Callable[..., Array] = np.add.reduce
_and: Callable[..., Array] = np.logical_and.reduce


def all(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """``numpy.all`` without its wrapper."""
    return _and(x, axis, None, None, keepdims)


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """``numpy.clip`` of floating numbers to Python numbers without its wrappers; others by array-api-compat."""
    if not (isinstance(min, float | None) and isinstance(max, float | None) and x.dtype.kind == "f"):
        return _compat.clip(x, min, max)
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def mean(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """``numpy.mean`` over one axis without its wrapper; others by array-api-compat."""
    if not isinstance(axis, int):
        return _compat.mean(x, axis=axis, keepdims=keepdims)
    return _add(x, axis, None, None, keepdims) / x.shape[axis]


def sum(x: Array, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """``numpy.sum`` without its wrapper, which costs as much as a short sum."""
    return _add(x, axis, dtype, None, keepdims)


def sigmoid(a: Array, /) -> Array:
    """1 / (1 + exp(-a)), with one array of memory."""
    out = np.multiply(a, 0.5)
    if not isinstance(out, np.ndarray):  # operations on 0-d arrays give scalars
        return 0.5 + 0.5 * np.tanh(out)
    np.tanh(out, out=out)
    out *= 0.5
    out += 0.5
    return out


def minimum_with_zero(a: Array, /) -> Array:
    """min(a, 0)."""
    return np.minimum(a, 0.0)


def minimum_at(values: Array, index: Array, updates: Array, /) -> Array:
    """The least of each value (n,) and of the updates whose index names it."""
    out = values.copy()
    np.minimum.at(out, index, updates)
    return out


def softplus(a: Array, /) -> Array:
    """log(1 + exp(a)), with two arrays of memory."""
    out = np.abs(a)
    if not isinstance(out, np.ndarray):
        return np.maximum(a, 0.0) + np.log1p(np.exp(-out))
    np.negative(out, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)
    out += np.maximum(a, 0.0)
    return out
