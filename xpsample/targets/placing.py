"""Arrays that functions need, put where the positions are."""

from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import backend_of, check_same_home
from xpsample.core.tree import dtype_name


def placed(what: str, values: tree.Tree, backend: Backend, x: Array) -> tree.Tree:
    """A tree whose NumPy arrays are in the library of x, on its device and, floating ones, in its dtype.

    Messages call it `what`. BackendError for arrays of another library or device; HyperparameterError for what is no
    plain array of numbers.
    """
    floating = np.dtype(dtype_name(x)) if backend.xp.isdtype(x.dtype, "real floating") else None

    def place(path: str, leaf: Any) -> Any:
        leaf = np.asarray(leaf) if isinstance(leaf, np.bool_ | np.number) else leaf
        if isinstance(leaf, np.ndarray):
            backend_of(leaf)  # refuses what is no plain array
            if leaf.dtype.kind not in "biufc":
                raise HyperparameterError(
                    f"{what} {path!r} must be a plain array of numbers; got a {type(leaf).__name__} of {leaf.dtype}"
                )
            if leaf.dtype.kind == "f" and floating is not None:
                leaf = leaf.astype(floating, copy=False)
            return backend.from_host(leaf, x)
        if is_array(leaf):
            check_same_home(f"{what} {path!r}", leaf, x)
        elif callable(leaf):
            raise HyperparameterError(
                f"{what} {path!r} is a function, such as a module's activation: keep apart what is no array, as "
                "from_module.parameters and equinox.partition do"
            )
        return leaf

    return tree.fill(values, {path: place(path, leaf) for path, leaf in tree.items(values)})
