"""Dtypes of what traces compute."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp


def dtypes(jaxpr: Any) -> Iterator[Any]:
    """The floating dtypes of what a trace and those within compute."""
    for equation in jaxpr.eqns:
        results = (getattr(atom.aval, "dtype", None) for atom in equation.outvars)
        yield from (dtype for dtype in results if dtype is not None and jnp.issubdtype(dtype, jnp.floating))
        for leaf in jax.tree.leaves(list(equation.params.values())):
            if hasattr(leaf, "eqns"):
                yield from dtypes(getattr(leaf, "jaxpr", leaf))
