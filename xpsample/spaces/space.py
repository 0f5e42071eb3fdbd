"""The spaces that positions live in: real ones; the finite ones are in `xpsample.spaces.discrete`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.errors import PositionError
from xpsample.core.tree import dtype_name


class Space(ABC):
    """Where the positions of a target live."""

    @abstractmethod
    def check(self, xp: Any, x: Array) -> None:
        """Raise PositionError unless `x` are positions of this space, shape ``(*chains, dim)``."""

    @abstractmethod
    def bind(self, backend: Backend, x: Array) -> "Space":
        """The same space with its arrays, if it has some, in the library, device and dtype of `x`."""


@dataclass(frozen=True)
class Real(Space):
    """R^dim: real floating positions."""

    def check(self, xp: Any, x: Array) -> None:
        if not xp.isdtype(x.dtype, "real floating"):
            raise PositionError(
                f"positions must be a real floating array; got dtype {dtype_name(x)} (convert the start positions)"
            )
        check_shape(x)

    def bind(self, backend: Backend, x: Array) -> Space:
        return self


def check_shape(x: Array) -> None:
    """Raise PositionError unless `x` has a last axis of at least one coordinate."""
    if x.ndim < 1 or x.shape[-1] < 1:
        raise PositionError(f"positions have shape (*chains, dim) with dim >= 1; got {tuple(x.shape)}")


def as_floating(xp: Any, x: Array) -> Array:
    """`x` itself, or integers in the library's default floating dtype."""
    if xp.isdtype(x.dtype, "real floating"):
        return x
    return xp.astype(x, xp.__array_namespace_info__().default_dtypes()["real floating"])
