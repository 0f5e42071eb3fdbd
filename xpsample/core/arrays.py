"""Array type, for annotations."""

from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
from array_api_compat import is_array_api_obj

Tree = Any
"""Containers of arrays, nested; see `xpsample.core.tree`."""


class Array(Protocol):
    """An array of any library that follows the Python array API standard, as far as this package uses it.

    The functions of arrays are in the namespace of their library, ``backend.xp``. Arithmetic takes arrays of one
    library, and Python numbers.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def dtype(self) -> Any:
        """The library's own dtype object."""

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def __neg__(self, /) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: Any, /) -> Any: ...
    def __ne__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __int__(self, /) -> int: ...


Same = TypeVar("Same", bound=Array)
"""An array of the kind that was given: what goes in as a library's own array comes out as one."""

Mask = Any
"""An array of booleans, the one kind that NumPy's own types let ``~`` invert."""


def is_array(value: object) -> TypeGuard[Array]:
    """Return whether a value is an array of a library that follows the standard."""
    return is_array_api_obj(value)


def in_order(array: np.ndarray) -> np.ndarray:
    """Return a NumPy array with native bytes in C order, as all libraries accept it; copied only if it is not.

    `torch.from_dlpack` aborts the process on negative strides, even of axes of length 1, which NumPy calls
    contiguous.
    """
    if array.dtype.isnative and array.flags.c_contiguous and min(array.strides, default=0) >= 0:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
