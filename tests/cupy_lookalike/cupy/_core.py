"""Arrays: a NumPy array in a box that the host opens on request only; and the elementwise functions.

Where CuPy differs from NumPy, the box does as CuPy 13.4 and 14 do: what it holds is on one device, operands of a kernel
are on the current device, nothing but scalars joins from the host, and every result is an array, if of no dimension.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cupy import lookalike
from cupy.cuda import runtime
from cupy.cuda.device import Device
from cupy.cuda.stream import get_current_stream, launch

_DTYPES = "?bhilqBHILQefdFD"
_SCALARS = {bool, int, float, complex, *(np.dtype(char).type for char in _DTYPES)}
_QUIET = {"all": "ignore"}
"""A GPU does not tell of infinities and NaN."""
table: dict[str, Any] = {}
"""CuPy's functions by name, which `cupy._functions` sets."""


def check_dtype(dtype: Any) -> None:
    """Raise for a dtype that no kernel knows."""
    if np.dtype(dtype).char not in _DTYPES:
        raise ValueError(f"Unsupported dtype {np.dtype(dtype)}")


def box(host: Any, device: int | None = None) -> "ndarray":
    """A result as an array, on the current device unless another is named."""
    host = np.asarray(host)
    check_dtype(host.dtype)
    if device is None:
        launch()
    array = ndarray.__new__(ndarray)
    array._host, array._device = host, runtime.getDevice() if device is None else device
    return array


def boxed(result: Any) -> Any:
    """`box` of what NumPy's elementwise functions return."""
    return tuple(map(boxed, result)) if isinstance(result, tuple) else box(result)


def operand(value: Any) -> Any:
    """What a kernel reads of an array on the current device, or of a scalar."""
    if isinstance(value, ndarray):
        current = runtime.getDevice()
        if value._device != current:
            raise ValueError(
                f"The device where the array resides ({value._device}) is different from the current device "
                f"({current}). Peer access is unavailable between these devices."
            )
        return value._host
    if type(value) not in _SCALARS:
        raise TypeError(f"Unsupported type {type(value)}")
    return value


class ufunc:
    """An elementwise function of arrays and scalars."""

    def __init__(self, name: str) -> None:
        self._numpy = getattr(np, name)
        self.__name__ = name
        self.nin, self.nout = self._numpy.nin, self._numpy.nout

    def __call__(self, *args: Any, out: Any = None, **options: Any) -> Any:
        if not self.nin <= len(args) <= self.nin + self.nout:
            raise TypeError(f"Wrong number of arguments for {self.__name__!r}: {len(args)}")
        args, out = args[: self.nin], args[self.nin] if len(args) > self.nin else out
        if out is not None:
            options["out"] = operand(out)
        with np.errstate(**_QUIET):
            result = self._numpy(*map(operand, args), **options)
        return boxed(result) if out is None else out

    def __repr__(self) -> str:
        return f"<ufunc 'cupy_{self.__name__}'>"


def _on_host(what: str) -> Callable[..., Any]:
    """A method whose value the host takes."""

    def method(self: "ndarray", *args: Any) -> Any:
        return getattr(self.get(), what)(*args)

    return method


class ndarray:
    """An array on a device."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    _host: np.ndarray
    _device: int

    def __new__(cls, *args: Any, **options: Any) -> "ndarray":
        return super().__new__(cls)

    def __init__(self, shape: Any = (), dtype: Any = float) -> None:
        check_dtype(dtype)
        self._host, self._device = np.empty(shape, dtype=dtype), runtime.getDevice()

    # ---- what is known without the values ----------------------------------------------------------------------------

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    device = property(lambda self: Device(self._device))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator["ndarray"]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    # ---- to the host -------------------------------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        """A copy on the host, which waits for it."""
        lookalike.note_wait("ndarray.get")
        get_current_stream(self._device)._pending.discard(self._device)
        if out is not None:
            out[...] = self._host
            return out
        return np.array(self._host, order=order)

    def item(self) -> Any:
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    tolist, tobytes = _on_host("tolist"), _on_host("tobytes")
    __int__, __float__, __complex__ = _on_host("__int__"), _on_host("__float__"), _on_host("__complex__")
    __repr__, __str__, __format__ = _on_host("__repr__"), _on_host("__str__"), _on_host("__format__")

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(self.get())

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device  # kDLCUDA

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("unsupported device requested.")  # there is no memory of a device to point at

    def __reduce__(self) -> Any:
        return table["array"], (self.get(),)

    # ---- NumPy's functions of it are CuPy's --------------------------------------------------------------------------

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        ours = table.get(function.__name__)
        known = all(type(x) in _SCALARS or isinstance(x, (ndarray, np.ndarray)) for x in inputs)
        if method != "__call__" or ours is None or not known:
            return NotImplemented
        if "out" in options:
            (options["out"],) = options["out"]
        if function.__name__ in _COMPARISONS.values():
            inputs = tuple(x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs)
        return ours(*inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        module = function.__module__.partition(".")[2]
        ours = (
            getattr(sys.modules[f"cupy.{module}"], function.__name__, None) if module else table.get(function.__name__)
        )
        if ours is None or not all(issubclass(t, (ndarray, np.ndarray)) for t in types):
            return NotImplemented
        return ours(*args, **options)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> "ndarray":
        key, arrays = _key(key, self.shape)
        if not arrays:
            return box(self._host[key], self._device)
        operand(self)
        for array in arrays:
            if array.dtype.kind == "b":
                int(box(np.count_nonzero(array)))  # the shape of the result depends on values
        return box(self._host[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        key, arrays = _key(key, self.shape)
        host = operand(self)
        if isinstance(value, np.ndarray):
            if not arrays and value.shape != ():
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        else:
            value = operand(value)
        if arrays:
            written = np.arange(self.size).reshape(self.shape)[key]
            if np.unique(written).size < written.size:
                raise lookalike.Undefined("an element is assigned twice: which value stays is undefined in CuPy")
        with np.errstate(**_QUIET):
            host[key] = value
        launch()

    # ---- copies ------------------------------------------------------------------------------------------------------

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> "ndarray":
        check_dtype(dtype)
        if not copy and self.dtype == dtype:
            return self
        with np.errstate(**_QUIET):
            return box(operand(self).astype(dtype, order=order))

    def copy(self, order: str = "C") -> "ndarray":
        """A copy on the current device, wherever the array is."""
        return box(self._host.copy(order=order))

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> "ndarray":
        return box(self._host.copy(), self._device)

    def reshape(self, *shape: Any, order: str = "C") -> "ndarray":
        return table["reshape"](self, shape[0] if len(shape) == 1 else shape, order)

    def transpose(self, *axes: Any) -> "ndarray":
        return table["transpose"](self, axes[0] if len(axes) == 1 else axes or None)

    def flatten(self, order: str = "C") -> "ndarray":
        return box(operand(self).flatten(order))

    # ---- comparisons with nothing ------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        known = table
        return known["zeros"](self.shape, bool) if other is None else known["equal"](self, other)

    def __ne__(self, other: object) -> Any:
        return table["ones"](self.shape, bool) if other is None else table["not_equal"](self, other)


def _key(key: Any, shape: tuple[int, ...]) -> tuple[tuple, list[np.ndarray]]:
    """An index for the host, of which a view is an array again; and the arrays in it, whose integers wrap around."""
    key = key if isinstance(key, tuple) else (key,)
    parts = [_index_array(part) if _is_array_like(part) else part for part in key]
    axes = [0 if p is None or p is Ellipsis else p.ndim if _is_mask(p) else 1 for p in parts]
    hidden, axis, arrays = len(shape) - sum(axes), 0, []
    for i, (part, count) in enumerate(zip(parts, axes, strict=True)):
        if isinstance(part, np.ndarray):
            if part.dtype.kind != "b" and axis < len(shape):
                part = parts[i] = part % max(shape[axis], 1)
            arrays.append(part)
        axis += hidden if part is Ellipsis else count
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    return tuple(parts), arrays


def _is_array_like(part: Any) -> bool:
    return isinstance(part, (ndarray, np.ndarray, list, tuple, bool, np.bool_))


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "b"


def _index_array(part: Any) -> np.ndarray:
    array = operand(part) if isinstance(part, ndarray) else np.asarray(part)
    if array.size == 0 and isinstance(part, (list, tuple)):
        array = array.astype(np.int32)
    if array.dtype.kind not in "biu":
        raise IndexError(f"arrays used as indices must be of integer or boolean type. (actual: {array.dtype.type})")
    return array


_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "divmod": "divmod",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
_METHODS = """
all any argmax argmin argsort clip conj cumprod cumsum diagonal dot max mean min nonzero prod ravel repeat round
searchsorted squeeze std sum swapaxes take trace var
"""
_PROPERTIES = {"real": "real", "imag": "imag", "T": "transpose"}


def _forward(name: str) -> Any:
    return lambda self, *args, **options: table[name](self, *args, **options)


def _backward(name: str) -> Any:
    return lambda self, other: table[name](other, self)


def _in_place(name: str) -> Any:
    return lambda self, other: table[name](self, other, self)


for _short, _name in _OPERATORS.items():
    setattr(ndarray, f"__{_short}__", _forward(_name))
    setattr(ndarray, f"__r{_short}__", _backward(_name))
    if _short not in ("divmod", "matmul"):
        setattr(ndarray, f"__i{_short}__", _in_place(_name))
for _short, _name in ({k: v for k, v in _COMPARISONS.items() if k not in ("eq", "ne")} | _UNARY).items():
    setattr(ndarray, f"__{_short}__", _forward(_name))
for _name in _METHODS.split():
    setattr(ndarray, _name, _forward(_name))
for _short, _name in _PROPERTIES.items():
    setattr(ndarray, _short, property(_forward(_name)))
