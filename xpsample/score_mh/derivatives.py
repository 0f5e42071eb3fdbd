"""Derivatives inside a loss, by the autodiff of the library of its arrays; they nest."""

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.registry import backend_of
from xpsample.core.tree import dtype_name
from xpsample.gradients.choices import Auto


def value_and_gradient(f: Callable[..., Array], x: tree.Tree, *args: Any) -> tuple[Array, tree.Tree]:
    """``f(x, *args)``, and the gradient in the tree x of its sum.

    All arrays that f needs must be arguments, since they may be moved to another library.
    """
    leaf = tree.leaves(x)[0]
    backend = backend_of(leaf)
    return Auto.resolve(backend, dtype_name(leaf)).value_and_gradient(backend, f)(x, *args)


def transposed_jacobian_product(f: Callable[..., Array], x: Array, v: Array, *args: Any) -> Array:
    """``J' v`` with J the Jacobian in x of ``f(x, *args)``; f maps (*chains, dim) to the same, chain by chain."""

    def along(x: Array, v: Array, *args: Any) -> Array:
        return array_namespace(x).sum(f(x, *args) * v, axis=-1)

    return value_and_gradient(along, x, v, *args)[1]
