"""What traces hold: numbers of NumPy arrays that functions read, as JAX copies them, and dtypes.

With 64-bit types off, JAX copies a wide array into a narrow one, and keeps the copy by the array's identity as long as
a trace holds it: a change in place is not seen (jax 0.10).
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xpsample.core.same import arrays_read


def is_old(jaxpr: Any, f: Callable[..., Any]) -> bool:
    """Whether a trace of `f` may hold numbers that an array which `f` reads had, and has no more."""
    if jax.config.read("jax_enable_x64") or not any(map(_is_copy, _constants(jaxpr))):
        return False
    return any(map(_has_old_copy, arrays_read(f)))


def _has_old_copy(array: np.ndarray) -> bool:
    dtype = jax.dtypes.canonicalize_dtype(array.dtype) if array.dtype.kind in "iufc" else array.dtype
    if dtype == array.dtype:
        return False
    with np.errstate(all="ignore"), jax.ensure_compile_time_eval():
        return not np.array_equal(np.asarray(jnp.asarray(array)), array.astype(dtype), equal_nan=dtype.kind in "fc")


def _is_copy(constant: Any) -> bool:
    """Whether a constant may stand for an array that can be changed."""
    return hasattr(constant, "dtype") and not isinstance(constant, jax.Array)


def _constants(jaxpr: Any) -> Iterator[Any]:
    """The constants of a trace and of those within."""
    yield from getattr(jaxpr, "consts", ())
    for equation in getattr(jaxpr, "eqns", ()):
        yield from (atom.val for atom in equation.invars if hasattr(atom, "val"))
        for leaf in jax.tree.leaves(list(equation.params.values())):
            if hasattr(leaf, "eqns"):
                yield from _constants(leaf)


def dtypes(jaxpr: Any) -> Iterator[Any]:
    """The floating dtypes of what a trace and those within compute."""
    for equation in jaxpr.eqns:
        results = (getattr(atom.aval, "dtype", None) for atom in equation.outvars)
        yield from (dtype for dtype in results if dtype is not None and jnp.issubdtype(dtype, jnp.floating))
        for leaf in jax.tree.leaves(list(equation.params.values())):
            if hasattr(leaf, "eqns"):
                yield from dtypes(getattr(leaf, "jaxpr", leaf))
