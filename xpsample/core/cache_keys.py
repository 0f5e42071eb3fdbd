"""Keys of caches: equal kernels have equal keys, so that one compiled program serves both."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

SCALARS = (bool, int, float, complex, str, bytes, np.generic, type(None))


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


def by_value(value: Any, derived: bool = False) -> Any:
    """A key that is equal for equal values of the same types.

    Frozen dataclasses are compared by their fields, tuples by their items, numbers by type and value (a program may
    differ for 1 and 1.0). All else is compared by identity: arrays, functions and mutable objects.

    Parameters
    ----------
    value : object
    derived : bool
        Whether dataclasses are compared by the fields, too, that they derive from the others.

    Returns
    -------
    Hashable
    """
    if isinstance(value, SCALARS):
        return type(value), repr(value)  # exact for floats; -0.0 is not 0.0
    if isinstance(value, tuple):
        return type(value), *(by_value(item, derived) for item in value)
    if is_frozen(value):
        names = (field.name for field in fields(value) if field.init or derived)
        return type(value), *(by_value(getattr(value, name), derived) for name in names)
    return _Itself(value)
