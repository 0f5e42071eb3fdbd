"""CuPy's functions: NumPy's of the same names, of names that CuPy 13.4 and 14 both have and somebody has needed.

Parameters are NumPy's: array-api-strict refuses those that the standard does not have.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cupy import _core
from cupy._core import _QUIET, box, check_dtype, ndarray, operand, ufunc
from cupy.cuda import runtime

UFUNCS = """
abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor
ceil conj conjugate copysign cos cosh deg2rad divide divmod equal exp exp2 expm1 fabs floor floor_divide fmax fmin
fmod greater greater_equal heaviside hypot invert isfinite isinf isnan left_shift less less_equal log log10 log1p log2
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor matmul maximum minimum mod modf multiply negative
nextafter not_equal positive power rad2deg reciprocal remainder right_shift rint sign signbit sin sinh sqrt square
subtract tan tanh true_divide trunc
"""

FUNCTIONS = """
all allclose amax amin angle any argmax argmin argpartition argsort around array_equal array_split ascontiguousarray
atleast_1d atleast_2d average broadcast_arrays broadcast_to clip column_stack concatenate convolve corrcoef count_nonzero
cov cross cumprod cumsum diag diagonal diff dot dstack einsum expand_dims flip fliplr flipud hstack imag inner interp
isclose isin kron max mean median meshgrid min moveaxis nan_to_num nanmax nanmean nanmin nanstd nansum nanvar outer pad
percentile prod quantile ravel real reshape roll rollaxis rot90 round searchsorted sort split squeeze stack std sum
swapaxes tensordot tile trace transpose tril triu var vdot vstack
"""
"""Functions of arrays; one that looks at the same memory in another way runs no kernel."""

WAITING = "argwhere bincount flatnonzero nonzero unique"
"""Functions whose results' shapes depend on values: the host waits for them."""


def _arrays(value: Any) -> Iterator[ndarray]:
    """All arrays in an argument."""
    if isinstance(value, ndarray):
        yield value
    for part in value if type(value) in (tuple, list) else ():
        yield from _arrays(part)


def opened(value: Any) -> Any:
    """An argument for NumPy: arrays opened, wherever they are in it."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if type(value) in (tuple, list):
        return type(value)(opened(part) for part in value)
    return value._host if isinstance(value, ndarray) else value


def kernel(function: Callable[..., Any], name: str, waits: bool = False) -> Callable[..., Any]:
    """A function of arrays as CuPy calls it: its result is on the current device, or a view where its argument is."""

    def call(*args: Any, **options: Any) -> Any:
        arrays = [*_arrays([*args, *options.values()])]
        if not arrays:
            raise TypeError(f"Unsupported type {type(args[0] if args else None)}")

        def shown(part: Any) -> Any:
            if isinstance(part, (tuple, list)):
                parts = [shown(one) for one in part]
                return parts if type(part) is list else tuple(parts)
            if not isinstance(part, (np.ndarray, np.generic)):
                return part
            for array in arrays:
                if np.may_share_memory(part, array._host):
                    return box(part, array._device)
            for array in arrays:
                operand(array)
            return box(part)

        with np.errstate(**_QUIET):
            result = shown(function(*opened(args), **{key: opened(value) for key, value in options.items()}))
        if waits:
            int(box(0))
        return result

    call.__name__ = call.__qualname__ = name
    return call


# ---- functions with rules of their own -------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of one or of another; the condition alone is `nonzero`."""
    if x is None and y is None:
        return table["nonzero"](condition)
    return box(np.where(operand(condition.astype("?")), operand(x), operand(y)))


def take(a: ndarray, indices: Any, axis: int | None = None, out: Any = None) -> ndarray:
    """Elements by their numbers; those past the end wrap around."""
    indices = operand(indices) if isinstance(indices, ndarray) else np.asarray(indices)
    return box(np.take(operand(a), indices, axis=axis, mode="wrap"))


def take_along_axis(a: ndarray, indices: ndarray, axis: int | None) -> ndarray:
    """Elements by their numbers along an axis; those past the end wrap around."""
    length = a.size if axis is None else a.shape[axis]
    return box(np.take_along_axis(operand(a), operand(indices) % length, axis))


def repeat(a: ndarray, repeats: Any, axis: int | None = None) -> ndarray:
    if not isinstance(repeats, (int, list, tuple)):
        raise ValueError('"repeats" should be int or sequence')
    return box(np.repeat(operand(a), repeats, axis))


def copy(a: ndarray, order: str = "K") -> ndarray:
    return a.copy(order)


# ---- new arrays, on the current device -------------------------------------------------------------------------------


def array(
    obj: Any, dtype: Any = None, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0
) -> ndarray:
    """Values of the host, or of any device, on the current device."""
    if isinstance(obj, (list, tuple)) and any(isinstance(part, ndarray) for part in obj):
        obj = table["stack"](obj)
    if isinstance(obj, ndarray):
        here = obj if obj._device == runtime.getDevice() else obj.copy()
        return here.astype(obj.dtype if dtype is None else dtype, copy=bool(copy))
    return box(np.array(obj, dtype=dtype, order=order, ndmin=ndmin))


def asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> ndarray:
    return array(a, dtype, copy=False, order=order or "K")


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    """Numbers for the host, which waits for those of a device."""
    numbers = (0, start, step) if stop is None else (start, stop, step)
    return box(np.arange(*(n.item() if isinstance(n, ndarray) else n for n in numbers), dtype=dtype))


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, *, dtype: Any = None, axis: int = 0) -> Any:
    return box(np.linspace(opened(start), opened(stop), num, endpoint, dtype=dtype, axis=axis))


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C") -> ndarray:
    return box(np.eye(N, M, k, dtype or float, order))


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """An array of whatever the memory holds: NaN here, so that it shows."""
    dtype = np.dtype(dtype)
    return full(shape, np.nan if dtype.kind in "fc" else np.ones((), dtype).item() * 99, dtype, order)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return full(shape, 0, dtype or float, order)


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return full(shape, 1, dtype or float, order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    value = operand(fill_value)
    dtype = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    check_dtype(dtype)
    with np.errstate(**_QUIET):
        return box(np.full(shape, value, dtype=dtype, order=order))


def _like(make: Callable[..., ndarray]) -> Callable[..., ndarray]:
    def call(a: ndarray, *value: Any, dtype: Any = None, shape: Any = None, **options: Any) -> ndarray:
        return make(a.shape if shape is None else shape, *value, dtype=a.dtype if dtype is None else dtype)

    return call


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    if array.__dlpack_device__()[0] != 2:
        raise TypeError("CPU arrays cannot be directly imported to CuPy. Use `cupy.array(numpy.from_dlpack(input))`")
    raise BufferError("no memory of a device here")


# ---- of the host -----------------------------------------------------------------------------------------------------


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    """An array on the host, which waits for it."""
    return a.get(stream=stream, order=order, out=out) if isinstance(a, ndarray) else np.asarray(a, order=order)


def get_array_module(*args: Any) -> Any:
    """CuPy where an argument is its array, else NumPy."""
    return sys.modules["cupy"] if any(isinstance(a, ndarray) for a in args) else np


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, ndarray) else from_, to, casting)


def _of_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of what is known without the values."""
    return lambda *args: function(*opened(args))


_OWN = (arange, array, asarray, asnumpy, can_cast, copy, empty, eye, from_dlpack, full, get_array_module, linspace)
_OWN += (ones, repeat, take, take_along_axis, where, zeros)
table: dict[str, Any] = {
    **{name: ufunc(name) for name in UFUNCS.split()},
    **{name: kernel(getattr(np, name), name) for name in FUNCTIONS.split()},
    **{name: kernel(getattr(np, name), name, waits=True) for name in WAITING.split()},
    **{name: _of_host(getattr(np, name)) for name in ("may_share_memory", "ndim", "result_type", "shape")},
    **{function.__name__: function for function in _OWN},
    **{f"{make.__name__}_like": _like(make) for make in (empty, full, ones, zeros)},
    "asanyarray": asarray,
    "identity": eye,
    "shares_memory": _of_host(np.may_share_memory),
}
"""All of them by name: not names of this module, where `all` and `sum` are Python's."""
_core.table.update(table)
