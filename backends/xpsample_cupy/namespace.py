"""The namespace of array-api-compat, with a `clip` for which the host does not wait, and a scatter of minima."""

from typing import Any

import array_api_compat.cupy as compat
import cupy
from array_api_compat.cupy import *  # noqa: F403
from array_api_compat.cupy import __array_namespace_info__

from xpsample.core.special import minimum_by_sort

Array = Any
"""An array of this library."""

__all__ = ["__array_namespace_info__", "clip", "minimum_at"]


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """``cupy.clip``: array-api-compat's picks what is out of range by masks, so that a shape depends on values."""
    if min is None and max is None:
        return x.copy()
    return cupy.clip(x, min, max).astype(x.dtype, copy=False)


def minimum_at(values: Array, index: Array, updates: Array, /) -> Array:
    """The least of each value (n,) and of the updates whose index names it."""
    return minimum_by_sort(compat, values, index, updates)
