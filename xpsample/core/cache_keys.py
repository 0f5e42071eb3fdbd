"""Keys of caches: equal kernels have equal keys, so that one compiled program serves both."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

SCALARS = (bool, int, float, complex, str, bytes, np.generic, type(None))

LARGEST = 2**24
"""Bytes of a NumPy array up to which its numbers are a part of its key."""


@dataclass(frozen=True, eq=False)
class _Itself:
    """A value that is compared by identity. It is kept, so that no other object gets its address."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def is_frozen(value: Any) -> bool:
    """Whether a value is a frozen dataclass by its own class; a subclass that is none may hold more than fields."""
    own = vars(type(value)).get("__dataclass_params__")
    return own is not None and own.frozen


def by_value(value: Any, derived: bool = False, within: tuple[int, ...] = ()) -> Any:
    """A key that is equal for equal values of the same types, and that changes with what a function sees.

    Frozen dataclasses are compared by their fields, tuples and dicts by their items, numbers by type and value (a
    program may differ for 1 and 1.0). A function is compared by its code, its defaults, the variables of the functions
    around it, and the globals of its module that it names; functions of that module are looked into, those of others
    are not. A method has the attributes of its object, too. NumPy arrays are compared by identity and, up to `LARGEST`,
    by their numbers. All else is compared by identity: other arrays, lists, and objects that can change.

    Parameters
    ----------
    value : object
    derived : bool
        Whether dataclasses are compared by the fields, too, that they derive from the others.
    within : tuple of int
        The addresses of what is around `value`, which is not looked into again.

    Returns
    -------
    Hashable
    """
    if isinstance(value, SCALARS):
        return type(value), repr(value)  # exact for floats; -0.0 is not 0.0
    if isinstance(value, _Itself):
        return value
    if id(value) in within:
        return _Itself(value)
    inside = (*within, id(value))

    def key(part: Any) -> Any:
        return by_value(part, derived, inside)

    if isinstance(value, tuple):
        return type(value), *map(key, value)
    if isinstance(value, dict):
        return type(value), *map(key, value.items())
    if isinstance(value, np.ndarray):
        return _Itself(value), zlib.crc32(value.tobytes()) if value.nbytes <= LARGEST else None
    if isinstance(value, FunctionType):
        return _Itself(value.__code__), *map(key, _seen(value))
    if isinstance(value, MethodType):
        return key(value.__func__), _Itself(value.__self__), key(dict(getattr(value.__self__, "__dict__", {})))
    if isinstance(value, partial):
        return key((value.func, value.args, value.keywords))
    if is_frozen(value):
        names = (field.name for field in fields(value) if field.init or derived)
        return type(value), *(key(getattr(value, name)) for name in names)
    return _Itself(value)


def _seen(function: FunctionType) -> Iterator[Any]:
    """What a function sees beside its arguments."""
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a variable that has no value yet
            yield None
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and value.__globals__ is not function.__globals__:
            value = _Itself(value)
        yield value


def _names(code: CodeType) -> set[str]:
    """Names of a function's code and of the functions in it, its globals among them."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
