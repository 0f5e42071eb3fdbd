"""Values as keys: whether two kernels, made apart, are the same, so that a compiled program serves both."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

SCALARS = (bool, int, float, complex, str, bytes, np.generic, type(None))


@dataclass(frozen=True, eq=False)
class _Itself:
    """What has no value that can be compared, held so that nothing else takes its place in memory."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def by_value(value: Any) -> Any:
    """A key that is equal for equal values, made of the same types.

    Frozen dataclasses and tuples are compared part by part, dataclasses by what they were made with; numbers with their
    type, since a program may differ with 1 or 1.0. All else is compared by identity: arrays, whose values may be on
    another device, functions, and what can change.

    Parameters
    ----------
    value : object

    Returns
    -------
    Hashable
    """
    if isinstance(value, SCALARS):
        return type(value), repr(value)  # of floats exact, and -0.0 is not 0.0
    if isinstance(value, tuple):
        return type(value), *map(by_value, value)
    own = vars(type(value)).get("__dataclass_params__")  # not a base's: a class that is none may hold more than fields
    if own is not None and own.frozen:
        return type(value), *(by_value(getattr(value, field.name)) for field in fields(value) if field.init)
    return _Itself(value)
