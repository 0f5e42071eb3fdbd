"""Arguments of log densities: arrays of one library and Python numbers, as arrays of one dtype."""

import math
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import BackendError
from xpsample.core.registry import backend_of

ArrayLike = Any
"""An array or a Python number."""


def arrays(*values: ArrayLike) -> tuple[Any, ...]:
    """Return the namespace of the arrays, and all values as floating arrays of their library and device.

    Numbers and integer arrays get the dtype of the floating arrays. If all values are numbers, they are NumPy's.
    """
    given = [value for value in values if is_array(value) and not isinstance(value, np.generic)]
    given = given or [np.asarray(value) for value in values]
    backends = {backend_of(array).name: backend_of(array) for array in given}
    if len(backends) > 1:
        raise BackendError(
            f"the arguments of a density are arrays of {' and '.join(backends)}. Pass data by Model(data=...), which "
            "puts them into the library of the positions."
        )
    (backend,) = backends.values()
    xp, like = backend.xp, given[0]
    floating = [array.dtype for array in given if xp.isdtype(array.dtype, "real floating")]
    dtype = xp.result_type(*floating) if floating else xp.asarray(1.0).dtype
    return xp, *(_floating(xp, value, dtype, like) for value in values)


def _floating(xp: Any, value: ArrayLike, dtype: Any, like: Array) -> Array:
    if isinstance(value, (int, float, np.generic)):
        return xp.full((), float(value), dtype=dtype, device=device_of(like))
    if not is_array(value):
        raise BackendError(f"a density needs arrays or numbers, got {type(value).__name__}. Pass an array.")
    return value if xp.isdtype(value.dtype, "real floating") else xp.astype(value, dtype)


def only(xp: Any, inside: Array, value: Array) -> Array:
    """`value` inside the support, and -inf outside."""
    return xp.where(inside, value, -math.inf)


def counts(xp: Any, x: Array, largest: Array | None = None) -> Array:
    """Return whether `x` is one of 0, 1, 2, ..., and at most `largest`."""
    whole = (x >= 0.0) & (x == xp.floor(x)) & (x < math.inf)
    return whole if largest is None else whole & (x <= largest)


def at_states(xp: Any, values: Array, x: Array) -> Array:
    """``values[..., x]`` of whole numbers x in floating point; 0 if there is no such entry."""
    states = xp.astype(xp.arange(values.shape[-1], device=device_of(values)), x.dtype)
    return xp.sum(xp.where(states == x[..., None], values, 0.0), axis=-1)
