"""Hyperparameters: how they are declared, checked and broadcast against the chains."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import broadcasts, check_ends, check_number, given, plain_number
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import check_same_home, to_host
from xpsample.core.tree import dtype_name

PER_CHAIN = {"per_chain": True}
"""Metadata of a dataclass field that holds a number, or an array whose axes are the chain axes."""


ROWS_PER_CHAIN = {"per_chain": True, "rows": True}
"""Metadata of a field that holds an array with one more axis in front of the chain axes."""

VECTOR = {"coordinates": (1,)}  # Metadata of a field that holds an array (dim,), or a number for all coordinates

# Metadata of a field that holds an array (dim,) or (dim, dim), or a number for all coordinates.
MATRIX = {"coordinates": (1, 2)}

POSITIONS = {"positions": True}
"""Metadata of a field that holds a number, or an array which broadcasts against the positions (*chains, dim)."""

ROWS_OF_POSITIONS = {"positions": True, "rows": True}
"""Metadata of a field that holds an array with one more axis in front of the axes that broadcast against positions."""

PER_GROUP = {"groups": True}
"""Metadata of a field that holds an array of two axes, or one with the axes of chain groups in front."""

NUMBERS = {"numbers": True}
"""Metadata of a field that holds a tuple of numbers, however many, which a compiled program takes as arguments."""


OF_A_PART = {"part": True}
"""Metadata of a field with a kernel that sees some coordinates only, and is checked against those by its owner."""


class ToBeTuned(ABC):  # noqa: B024 (its property is abstract)
    """Stands in a field for the value that a warm-up will find: a rule of `xpsample.adaptation`."""

    if TYPE_CHECKING:  # rules have it as a class attribute, or `declared`
        patience: ClassVar[float]
    else:

        @property
        @abstractmethod
        def patience(self) -> float:
            """Factor by which its default warm-up is longer than usual."""


def rungs_of(name: str) -> dict[str, str]:
    """Metadata of a field with a kernel whose positions have one more chain axis in front.

    The owner's method `name` gives its length, for positions x.
    """
    return {"rungs": name}


def settings(owner: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The fields of a kernel, or of a value inside one, with derived values; nothing for other classes."""
    if is_dataclass(owner) and not isinstance(owner, type):
        kind: Any = type(owner)
        for field in (*kind._declared, *kind._derived) if hasattr(kind, "_derived") else fields(owner):
            yield field, getattr(owner, field.name)


def is_frozen(value: Any) -> bool:
    """Return whether a value is a frozen dataclass by its own class; other subclasses may hold more than fields."""
    own = vars(type(value)).get("__dataclass_params__")
    return own is not None and own.frozen


def check_range(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, optional: bool = False, **ends: bool
) -> Any:
    """A real number, or an array of such, in a range with the ends of `check_ends`; a number as Python's.

    With `optional`, None and a rule that tunes the value are accepted.
    """
    if optional and (value is None or isinstance(value, ToBeTuned)):
        return value
    number = plain_number(value)
    if number is not None:
        return check_number(name, number, low, high, **ends)
    check_reals(name, value, "a number or an array of the positions' library")
    if 0 in value.shape:
        raise HyperparameterError(f"{name} is empty; got {given(value)}")
    check_ends(name, value, to_host(value), low, high, **ends)
    return value


def check_reals(name: str, value: Any, wanted: str) -> Array:
    """An array of real numbers."""
    if not is_array(value) or isinstance(value, np.generic):
        listed = ": make an array of it" if isinstance(value, (list, tuple)) else ""
        raise HyperparameterError(f"{name} must be {wanted}; got {given(value)}{listed}")
    if isinstance(value, np.ma.MaskedArray):
        raise HyperparameterError(f"{name} is a masked array, whose mask would be lost: pass {wanted}")
    if not dtype_name(value).startswith(("float", "bfloat", "longdouble", "int", "uint")):
        raise HyperparameterError(f"{name} must hold real numbers; got {given(value)}")
    return value


def check_vector(name: str, value: Any) -> Any:
    """A finite number, which stands for all coordinates, an array of such, or None."""
    return None if value is None else check_range(name, value)


def check_hyperparameters(owner: Any, x: Array, path: str = "", rungs: tuple[int, ...] = ()) -> None:
    """Raise unless every array that a kernel holds has the positions' library, device and dtype, and broadcasts.

    `owner` is a kernel or a value inside one, which sees the chain axes `rungs` before the axes of x, (*chains, dim).
    Messages write `path` before the names.
    """
    for f, value in settings(owner):
        name = f"{path}{f.name}"
        if "part" in f.metadata:
            continue
        if is_array(value) and plain_number(value) is None:
            check_array(name, value, x, f.metadata, rungs)
        else:
            more = (getattr(owner, f.metadata["rungs"])(x),) if "rungs" in f.metadata else ()
            check_hyperparameters(value, x, f"{name}.", (*more, *rungs))


def check_array(name: str, value: Array, x: Array, kind: Mapping[str, Any], rungs: tuple[int, ...] = ()) -> None:
    """Raise unless an array fits the positions x: library, device, dtype, and the shape that its `kind` asks for.

    The kind is `PER_CHAIN`, `VECTOR`, `MATRIX`, `POSITIONS`, or empty; `rungs` are chain axes before the axes of x.
    """
    check_same_home(name, value, x)
    if value.dtype != x.dtype and "float" in dtype_name(x):
        raise HyperparameterError(f"{name} is {dtype_name(value)}, the positions {dtype_name(x)}: convert it")
    shape, positions = tuple(value.shape), (*rungs, *x.shape)
    dim = positions[-1]
    if kind.get("rows"):
        shape = shape[1:]
    if kind.get("per_chain") and not broadcasts(shape, positions[:-1]):
        raise HyperparameterError(
            f"{name} of shape {shape} does not broadcast against the chain axes {positions[:-1]} of the positions "
            f"{positions}"
        )
    if "coordinates" in kind and _is_per_group(shape, positions):
        return
    if "coordinates" in kind and (len(shape) not in kind["coordinates"] or any(n != dim for n in shape)):
        wanted = " or ".join(str((dim,) * axes) for axes in kind["coordinates"])
        raise HyperparameterError(f"{name} of shape {shape} does not fit the positions {positions}: give {wanted}")
    if kind.get("positions") and not broadcasts(shape, positions):
        raise HyperparameterError(f"{name} of shape {shape} does not broadcast against the positions {positions}")


def _is_per_group(shape: tuple[int, ...], positions: tuple[int, ...]) -> bool:
    """Return whether an array holds a diagonal or a matrix for each group of chains, as a warm-up makes them.

    Their shapes are ``(*groups, 1, dim)`` and ``(*groups, dim, dim)``.
    """
    own = shape[-2:] in ((1, positions[-1]), (positions[-1],) * 2)
    return len(shape) > 2 and own and broadcasts((*shape[:-2], 1, 1), positions)


def of_chains(owner: Any, axes: int, chains: int, part: slice) -> Any:
    """A kernel as a part of the chains sees it: arrays that vary along the first chain axis are cut.

    There are so many chain `axes`; the first has the length `chains`.
    """
    changed = {}
    for f, value in settings(owner):
        if not f.init:
            continue
        if (inside := of_chains(value, axes, chains, part)) is not value:
            changed[f.name] = inside
        elif is_array(value) and plain_number(value) is None:
            axis = value.ndim - axes - (not f.metadata.get("per_chain"))  # counted from the last chain axis
            known = not {"per_chain", "positions", "coordinates", "groups"}.isdisjoint(f.metadata)
            of_all = not {"coordinates", "groups"}.isdisjoint(f.metadata) and value.ndim < 3
            first = bool(f.metadata.get("rows"))  # the axis of the rows is none of the chains
            if known and not of_all and axis >= first and value.shape[axis] == chains:
                changed[f.name] = value[(*(slice(None),) * axis, part, ...)]
    return replace(owner, **changed) if changed else owner


def arguments(owner: Any, is_argument: Callable[[object], bool], path: str = "") -> dict[str, Any]:
    """Arguments of a compiled program of a kernel: numbers per chain, and arrays; so one program serves all.

    They are known by their paths, which begin with `path`; those in fields that are derived from others are included.
    `is_argument` tells an array of the program's library.
    """
    found: dict[str, Any] = {}
    if is_frozen(owner):
        for f, value in settings(owner):
            name = f"{path}{f.name}"
            if is_argument(value) or (f.metadata.get("per_chain") and isinstance(value, float)):
                found[name] = value
            elif f.metadata.get("numbers") and isinstance(value, tuple):
                found |= {f"{name}.{i}": number for i, number in enumerate(value)}
            else:
                found |= arguments(value, is_argument, f"{name}.")
    return found


def with_arguments(owner: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """A kernel with other `arguments`, by path. They are not checked: a compiler's tracers have no values yet."""
    if not any(name.startswith(path) for name in values) or not is_frozen(owner):
        return owner
    changed = object.__new__(type(owner))  # the fields alone: cached values are of the old ones
    for f, value in settings(owner):
        name = f"{path}{f.name}"
        if name in values:
            value = values[name]
        elif f.metadata.get("numbers") and f"{name}.0" in values:
            value = tuple(values[f"{name}.{i}"] for i in range(len(value)))
        else:
            value = with_arguments(value, values, f"{name}.")
        object.__setattr__(changed, f.name, value)
    return changed


def form(owner: Any, is_argument: Callable[[object], bool]) -> Hashable:
    """Return the part of a kernel that a compiled program contains, without its `arguments`, as a key."""
    if not is_frozen(owner):
        try:
            hash(owner)
        except TypeError:
            return Identity(owner)
        return type(owner), owner
    parts: list[Any] = [type(owner)]
    for f, value in settings(owner):
        if is_argument(value) or (f.metadata.get("per_chain") and isinstance(value, float)):
            parts.append("argument")
        elif f.metadata.get("numbers") and isinstance(value, tuple):
            parts.append(len(value))
        else:
            parts.append(form(value, is_argument))
    return tuple(parts)


class Identity:
    """Key of a value without a hash, compared by identity. It keeps the value alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def exp(xp: Any, value: Any) -> Any:
    """Exponential of a Python number or an array."""
    return math.exp(value) if isinstance(value, (int, float)) else xp.exp(value)


def sqrt(xp: Any, value: Any) -> Any:
    """Square root of a Python number or an array."""
    return math.sqrt(value) if isinstance(value, (int, float)) else xp.sqrt(value)


def per_coordinate(value: Any) -> Any:
    """A hyperparameter of the chain axes, made to broadcast against positions ``(*chains, dim)``."""
    return value[..., None] if getattr(value, "ndim", 0) else value


def show(value: Any) -> str:
    """A kernel or a target as text: settings by name, arrays by dtype and shape, without those at their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (f"{f.name}={show(v)}" for f, v in settings(value) if f.init and f.repr and v is not f.default)
        return f"{type(value).__name__}({', '.join(shown)})"
    if is_array(value):
        return f"<{dtype_name(value)} {tuple(value.shape)}>"
    if type(value) is dict:
        return f"{{{', '.join(f'{key!r}: {show(part)}' for key, part in value.items())}}}"
    if hasattr(value, "_fields"):
        parts = (f"{name}={show(part)}" for name, part in zip(value._fields, value, strict=True))
        return f"{type(value).__name__}({', '.join(parts)})"
    if type(value) in (tuple, list) and any(is_array(part) for part in value):
        return f"({', '.join(map(show, value))})"
    return repr(value)
