"""Targets of arrays, such as images: functions of arrays ``(*chains, *shape)``, as functions of ``(*chains, dim)``."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import PositionError
from xpsample.gradients.choices import Functions
from xpsample.spaces.named import Named
from xpsample.spaces.space import Real, Space
from xpsample.targets.contract import check_array


def shape_of(space: Space | None) -> tuple[int, ...]:
    """Shape of a position that is no vector, for a `Real` of two axes or more; otherwise ()."""
    return space.shape if isinstance(space, Real) and len(space.shape) > 1 else ()


def coordinates(target: Any, x: Any) -> Any:
    """Positions ``(*chains, dim)``, of those ``(*chains, *shape)`` of a target of arrays; all else as it is.

    PositionError if the last axes are neither the shape nor the dimension.
    """
    space = getattr(target, "space", None)  # other objects are refused later
    shape = shape_of(space)
    if not shape or not is_array(x):
        return x
    if tuple(x.shape[-len(shape) :]) == shape:
        return array_namespace(x).reshape(x, (*x.shape[: -len(shape)], math.prod(shape)))
    if not x.ndim or x.shape[-1] != math.prod(shape):
        raise PositionError(
            f"positions on {space!r} have shape (*chains, {', '.join(map(str, shape))}); got {tuple(x.shape)}"
        )
    return x


def positions(target: Any, x0: Any) -> Array:
    """Positions (*chains, dim), of values by name if parameters have names, or of arrays such as images."""
    space = getattr(target, "space", None)  # other objects are refused later
    return space.position(x0) if isinstance(x0, Mapping) and isinstance(space, Named) else coordinates(target, x0)


def values(shape: tuple[int, ...], x: Array) -> Array:
    """Positions ``(*chains, *shape)`` of coordinates ``(*chains, dim)``; the same array where there is no shape."""
    return array_namespace(x).reshape(x, (*x.shape[:-1], *shape)) if shape else x


@dataclass(frozen=True)
class OfCoordinates:
    """A function of positions ``(*chains, *shape)``, the field `name` of `Functions`, as one of ``(*chains, dim)``."""

    function: Callable[..., Any]
    shape: tuple[int, ...]
    name: str

    def __call__(self, x: Array, *others: Any) -> Any:
        at = values(self.shape, x)
        if self.name in ("hvp", "score_plus_hvp"):
            others = values(self.shape, others[0]), *others[1:]
        found = self.function(at, *others)
        if self.name == "log_density":
            return found
        if self.name == "log_density_and_score":
            return found[0], self._flat(found[1], at, x)
        return self._flat(found, at, x)

    def _flat(self, found: Array, at: Array, x: Array) -> Array:
        if getattr(found, "shape", None) != at.shape:
            check_array("the hvp" if self.name == "hvp" else "the score", found, at, tuple(at.shape))
        return array_namespace(x).reshape(found, x.shape)


def flattened(functions: Functions, space: Space) -> Functions:
    """A target's functions as functions of coordinates."""
    shape = shape_of(space)
    if not shape:
        return functions
    given = functions._asdict().items()
    return Functions(**{name: None if f is None else OfCoordinates(f, shape, name) for name, f in given})
