"""The spaces that positions live in."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from xpsample.backend import Array
from xpsample.errors import PositionError
from xpsample.tree import dtype_name


class Space(ABC):
    """Where the positions of a target live."""

    @abstractmethod
    def check(self, xp: Any, x: Array) -> None:
        """Raise PositionError unless `x` are positions of this space, shape ``(*chains, dim)``."""


@dataclass(frozen=True)
class Real(Space):
    """R^dim: real floating positions."""

    def check(self, xp: Any, x: Array) -> None:
        if not xp.isdtype(x.dtype, "real floating"):
            raise PositionError(
                f"positions must be a real floating array; got dtype {dtype_name(x)} (convert the start positions)"
            )
        if x.ndim < 1 or x.shape[-1] < 1:
            raise PositionError(f"positions have shape (*chains, dim) with dim >= 1; got {tuple(x.shape)}")
