"""The spaces that positions live in: real ones; the finite ones are in `xpsample.spaces.discrete`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.errors import BackendError, PositionError
from xpsample.core.registry import backend_of
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
        check_shape(xp, x)
        if not bool(xp.all(xp.isfinite(x))):
            raise PositionError("positions must be finite; some are nan or infinite")

    def bind(self, backend: Backend, x: Array) -> Space:
        return self


def check_positions(x: Any) -> Backend:
    """The backend of start positions; raise BackendError unless they are an array."""
    if not is_array(x):
        advice = ""
        if isinstance(x, (list, tuple)):
            advice = "; make an array of it, such as numpy.asarray(x0)"
        elif isinstance(x, dict):
            advice = "; put its values side by side into one array (*chains, dim)"
        got = f"{type(x).__name__}{advice}"
        raise BackendError(f"positions must be an array of a registered library; got {got}")
    return backend_of(x)


def check_shape(xp: Any, x: Array) -> None:
    """Raise PositionError unless `x` has shape ``(*chains, dim)``, without an empty axis, and numbers that work."""
    if x.ndim < 1 or x.shape[-1] < 1:
        raise PositionError(f"positions have shape (*chains, dim) with dim >= 1; got {tuple(x.shape)}")
    if 0 in x.shape:
        raise PositionError(f"positions have at least one chain; got shape {tuple(x.shape)}")
    if xp.isdtype(x.dtype, "real floating") and dtype_name(x) not in ("float32", "float64"):
        raise PositionError(f"positions must be float32 or float64; got dtype {dtype_name(x)} (convert them)")


def as_floating(xp: Any, x: Array) -> Array:
    """`x` itself, or integers in the library's default floating dtype."""
    if xp.isdtype(x.dtype, "real floating"):
        return x
    return xp.astype(x, xp.__array_namespace_info__().default_dtypes()["real floating"])
