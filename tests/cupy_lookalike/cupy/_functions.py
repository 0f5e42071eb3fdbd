"""CuPy's functions: NumPy's of the same name, with the parameters that CuPy 13.4 and 14 both have, and no others.

Where CuPy has fewer parameters than NumPy, or waits for the device, so does this. Names that are missing here are
missing in CuPy 13.4, or nobody has needed them in the look-alike yet.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cupy import _core
from cupy._core import _QUIET, box, boxed, check_dtype, ndarray, operand, ufunc
from cupy.cuda import runtime

UFUNCS = """
abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor
ceil conj conjugate copysign cos cosh deg2rad divide divmod equal exp exp2 expm1 fabs floor floor_divide fmax fmin
fmod greater greater_equal heaviside hypot invert isfinite isinf isnan left_shift less less_equal log log10 log1p log2
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor matmul maximum minimum mod modf multiply negative
nextafter not_equal positive power rad2deg reciprocal remainder right_shift rint sign signbit sin sinh sqrt square
subtract tan tanh true_divide trunc
"""

FUNCTIONS = {
    "all": "a axis out keepdims",
    "allclose": "a b rtol atol equal_nan",
    "amax": "a axis out keepdims",
    "amin": "a axis out keepdims",
    "angle": "z deg",
    "any": "a axis out keepdims",
    "argmax": "a axis dtype out keepdims",
    "argmin": "a axis dtype out keepdims",
    "argpartition": "a kth axis",
    "argsort": "a axis kind",
    "around": "a decimals out",
    "array_equal": "a1 a2 equal_nan",
    "average": "a axis weights returned keepdims",
    "clip": "a a_min a_max out",
    "convolve": "a v mode",
    "corrcoef": "a y rowvar bias ddof",
    "count_nonzero": "a axis",
    "cov": "a y rowvar bias ddof fweights aweights",
    "cross": "a b axisa axisb axisc axis",
    "cumprod": "a axis dtype out",
    "cumsum": "a axis dtype out",
    "diag": "v k",
    "diff": "a n axis prepend append",
    "dot": "a b out",
    "inner": "a b",
    "interp": "x xp fp left right period",
    "isclose": "a b rtol atol equal_nan",
    "isin": "element test_elements assume_unique invert",
    "kron": "a b",
    "max": "a axis out keepdims",
    "mean": "a axis dtype out keepdims",
    "median": "a axis out overwrite_input keepdims",
    "min": "a axis out keepdims",
    "nan_to_num": "x copy nan posinf neginf",
    "nanmax": "a axis out keepdims",
    "nanmean": "a axis dtype out keepdims",
    "nanmin": "a axis out keepdims",
    "nanstd": "a axis dtype out ddof keepdims",
    "nansum": "a axis dtype out keepdims",
    "nanvar": "a axis dtype out ddof keepdims",
    "outer": "a b out",
    "pad": "array pad_width mode constant_values",
    "percentile": "a q axis out overwrite_input method keepdims",
    "prod": "a axis dtype out keepdims",
    "quantile": "a q axis out overwrite_input method keepdims",
    "roll": "a shift axis",
    "round": "a decimals out",
    "searchsorted": "a v side sorter",
    "sort": "a axis kind",
    "std": "a axis dtype out ddof keepdims",
    "sum": "a axis dtype out keepdims",
    "tensordot": "a b axes",
    "tile": "A reps",
    "trace": "a offset axis1 axis2 dtype out",
    "tril": "m k",
    "triu": "m k",
    "var": "a axis dtype out ddof keepdims",
    "vdot": "a b",
}
"""Functions of arrays on the current device, with their parameters."""

JOINS = {
    "concatenate": "tup axis out dtype casting",
    "stack": "tup axis out dtype casting",
    "hstack": "tup dtype casting",
    "vstack": "tup dtype casting",
    "dstack": "tup",
    "column_stack": "tup",
}
"""Functions of sequences of arrays."""

VIEWS = {
    "atleast_1d": "*arys",
    "atleast_2d": "*arys",
    "array_split": "ary indices_or_sections axis",
    "broadcast_arrays": "*args",
    "broadcast_to": "array shape",
    "diagonal": "a offset axis1 axis2",
    "expand_dims": "a axis",
    "flip": "a axis",
    "fliplr": "a",
    "flipud": "a",
    "imag": "val",
    "moveaxis": "a source destination",
    "ravel": "a order",
    "real": "val",
    "rollaxis": "a axis start",
    "rot90": "a k axes",
    "split": "ary indices_or_sections axis",
    "squeeze": "a axis",
    "swapaxes": "a axis1 axis2",
    "transpose": "a axes",
}
"""Functions that look at the same memory in another way where they can, and run no kernel then."""

WAITING = {
    "argwhere": "a",
    "bincount": "x weights minlength",
    "flatnonzero": "a",
    "nonzero": "a",
    "unique": "ar return_index return_inverse return_counts axis equal_nan",
}
"""Functions whose results' shapes depend on values: the host waits for them."""


def checked(name: str, parameters: str, args: tuple, options: dict[str, Any]) -> None:
    """Raise for arguments that CuPy's function does not take."""
    names = parameters.split()
    if not parameters.startswith("*") and len(args) > len(names):
        raise TypeError(f"{name}() takes {len(names)} positional arguments but {len(args)} were given")
    for option in options:
        if option not in names:
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")


def _host(value: Any, take: Callable[[ndarray], Any] = operand) -> Any:
    """An argument for NumPy: arrays opened, wherever they are in it."""
    if isinstance(value, ndarray):
        return take(value)
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    return type(value)(_host(part, take) for part in value) if type(value) in (tuple, list) else value


def kernel(function: Callable[..., Any], name: str, parameters: str, waits: bool = False) -> Callable[..., Any]:
    """A function of arrays, the first argument among them, as CuPy calls it."""

    def call(*args: Any, **options: Any) -> Any:
        checked(name, parameters, args, options)
        first = args[0] if args else next(iter(options.values()))
        if not isinstance(first, ndarray):
            raise TypeError(f"Unsupported type {type(first)}")
        out = options.get("out")
        with np.errstate(**_QUIET):
            result = boxed(function(*_host(args), **{k: _host(v) for k, v in options.items() if v is not None}))
        if waits:
            int(box(0))
        return result if out is None else out

    call.__name__ = call.__qualname__ = name
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _join(name: str, parameters: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def call(*args: Any, **options: Any) -> ndarray:
        checked(name, parameters, args, options)
        arrays, *rest = args
        if not all(isinstance(array, ndarray) for array in arrays):
            raise TypeError("Only cupy arrays can be concatenated")
        return box(function(_host(tuple(arrays)), *rest, **options))

    call.__name__ = name
    return call


def _view(name: str, parameters: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def call(*args: Any, **options: Any) -> Any:
        checked(name, parameters, args, options)
        arrays = [array for array in args if isinstance(array, ndarray)]
        result = function(*_host(args, lambda array: array._host), **options)

        def shown(part: Any) -> Any:
            if isinstance(part, (tuple, list)):
                return list(map(shown, part))
            for array in arrays:
                if np.may_share_memory(part, array._host):
                    return box(part, array._device)
            for array in arrays:
                operand(array)
            return box(part)

        return shown(result)

    call.__name__ = name
    return call


def found(name: str, module: str = "") -> Any:
    """The function of a name in CuPy, or None."""
    return table.get(name) if not module else getattr(sys.modules[f"cupy.{module}"], name, None)


# ---- functions with rules of their own -------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of one or of another; the condition alone is `nonzero`."""
    if x is None and y is None:
        return table["nonzero"](condition)
    if x is None or y is None:
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    return box(np.where(operand(condition.astype("?")), operand(x), operand(y)))


def reshape(a: ndarray, newshape: Any, order: str = "C") -> ndarray:
    result = a._host.reshape(newshape, order=order)
    if not np.may_share_memory(result, a._host):
        operand(a)
    return box(result, a._device)


def take(a: ndarray, indices: Any, axis: int | None = None, out: Any = None) -> ndarray:
    """Elements by their numbers; those past the end wrap around."""
    return box(np.take(operand(a), _indices(indices), axis=axis, mode="wrap"))


def take_along_axis(a: ndarray, indices: ndarray, axis: int | None) -> ndarray:
    """Elements by their numbers along an axis; those past the end wrap around."""
    length = a.size if axis is None else a.shape[axis]
    return box(np.take_along_axis(operand(a), operand(indices) % length, axis))


def _indices(indices: Any) -> Any:
    return operand(indices) if isinstance(indices, ndarray) else np.asarray(indices)


def repeat(a: ndarray, repeats: Any, axis: int | None = None) -> ndarray:
    if not isinstance(repeats, (int, list, tuple)):
        raise ValueError('"repeats" should be int or sequence')
    return box(np.repeat(operand(a), repeats, axis))


def einsum(*operands: Any, **options: Any) -> ndarray:
    checked("einsum", "* dtype optimize", operands, options)
    return box(np.einsum(operands[0], *map(operand, operands[1:])))


def meshgrid(*xi: ndarray, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> list[ndarray]:
    return [box(part) for part in np.meshgrid(*map(operand, xi), indexing=indexing, sparse=sparse, copy=copy)]


def copy(a: ndarray, order: str = "K") -> ndarray:
    return a.copy(order)


# ---- new arrays, on the current device -------------------------------------------------------------------------------


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    """Values of the host, or of any device, on the current device."""
    if isinstance(obj, (list, tuple)) and any(isinstance(part, ndarray) for part in obj):
        obj = table["stack"](obj)
    if isinstance(obj, ndarray):
        here = obj if obj._device == runtime.getDevice() else obj.copy()
        return here.astype(obj.dtype if dtype is None else dtype, copy=bool(copy))
    host = np.array(obj, dtype=dtype, order=order, ndmin=ndmin)
    if host.dtype.char not in _core._DTYPES:
        raise ValueError(f"Unsupported dtype {host.dtype}")
    return box(host)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> ndarray:
    return array(a, dtype, copy=False, order=order or "K")


def ascontiguousarray(a: ndarray, dtype: Any = None) -> ndarray:
    return box(np.ascontiguousarray(operand(a), dtype=dtype))


def _scalar(value: Any) -> Any:
    """A number for the host, which waits for one of a device."""
    return value.item() if isinstance(value, ndarray) else value


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    start, stop = (0, start) if stop is None else (start, stop)
    return box(np.arange(_scalar(start), _scalar(stop), _scalar(step), dtype=dtype))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    return boxed(np.linspace(_host(start), _host(stop), num, endpoint, retstep, dtype, axis))


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C") -> ndarray:
    return box(np.eye(N, M, k, dtype or float, order))


def identity(n: int, dtype: Any = float) -> ndarray:
    return eye(n, dtype=dtype)


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
    def call(a: ndarray, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
        return make(a.shape if shape is None else shape, dtype=a.dtype if dtype is None else dtype)

    return call


def full_like(
    a: ndarray, fill_value: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    return full(a.shape if shape is None else shape, fill_value, a.dtype if dtype is None else dtype)


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


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return np.result_type(*(a._host if isinstance(a, ndarray) else a for a in arrays_and_dtypes))


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, ndarray) else from_, to, casting)


def ndim(a: Any) -> int:
    return a.ndim if isinstance(a, ndarray) else np.ndim(a)


def shape(a: Any) -> tuple[int, ...]:
    return a.shape if isinstance(a, ndarray) else np.shape(a)


def may_share_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    return np.may_share_memory(a._host, b._host)


_OWN = (
    arange,
    array,
    asarray,
    ascontiguousarray,
    asnumpy,
    can_cast,
    copy,
    einsum,
    empty,
    eye,
    from_dlpack,
    full,
    full_like,
    get_array_module,
    identity,
    linspace,
    may_share_memory,
    meshgrid,
    ndim,
    ones,
    repeat,
    reshape,
    result_type,
    shape,
    take,
    take_along_axis,
    where,
    zeros,
)
table: dict[str, Any] = {
    **{name: ufunc(name) for name in UFUNCS.split()},
    **{name: kernel(getattr(np, name), name, parameters) for name, parameters in FUNCTIONS.items()},
    **{name: kernel(getattr(np, name), name, parameters, waits=True) for name, parameters in WAITING.items()},
    **{name: _join(name, parameters) for name, parameters in JOINS.items()},
    **{name: _view(name, parameters) for name, parameters in VIEWS.items()},
    **{function.__name__: function for function in _OWN},
    "asanyarray": asarray,
    "empty_like": _like(empty),
    "ones_like": _like(ones),
    "shares_memory": may_share_memory,
    "zeros_like": _like(zeros),
}
"""All of them by name: not names of this module, where `all` and `sum` are Python's."""
