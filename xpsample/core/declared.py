"""Annotations of attributes whose type differs between setting and reading."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

Value = TypeVar("Value")

if TYPE_CHECKING:

    def declared(of: Callable[[Any], Value], /) -> Value:
        """A property, which type checkers treat as the plain attribute that other subclasses set in its place."""
else:
    declared = property


class Numbers(Protocol):
    """Numbers in a row: a list, a tuple, or an array of one axis."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, at: Any, /) -> Any: ...
