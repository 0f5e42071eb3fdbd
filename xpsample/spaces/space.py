"""Base classes of spaces; a constrained space maps unconstrained coordinates onto its values."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import device

from xpsample.core.arrays import Array, Mask, Same, is_array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_count, given
from xpsample.core.errors import BackendError, HyperparameterError, PositionError
from xpsample.core.hyperparameters import settings
from xpsample.core.registry import backend_of, to_host
from xpsample.core.tree import dtype_name


class Space(ABC):
    """Base class of the spaces of a target's positions."""

    @abstractmethod
    def check(self, xp: Any, x: Array) -> None:
        """Raise PositionError unless `x` are positions of this space, shape ``(*chains, dim)``."""

    @abstractmethod
    def bind(self, backend: Backend, x: Array) -> "Space":
        """The same space with its arrays, if it has some, in the library, device and dtype of `x`."""


class Constrained(Space):
    """A continuous space of values of one shape, with a map from unconstrained coordinates onto it.

    Samplers move the coordinates z, one vector per chain, and a density is a function of the values. If p is the
    density of the values, the density of the coordinates is ``p(value) |det J|``: add the log Jacobian to the log
    density of the value.

    Attributes
    ----------
    shape : tuple of int
        Shape of a value of one chain.
    """

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def axes(self) -> tuple[int, ...]:
        """The shape of the coordinates of one chain, before they are one vector."""

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates of a value."""
        return math.prod(self.axes)

    def constrain(self, xp: Any, z: Same) -> tuple[Same, Same]:
        """Return values, and the log of the factor by which the map scales a unit volume of coordinates.

        Parameters
        ----------
        xp : namespace
            The array API namespace of `z`.
        z : array of float32 or float64, shape (*chains, dim)

        Returns
        -------
        value : array, shape (*chains, *shape)
        log_jacobian : array, shape (*chains)
        """
        _check_floating("coordinates", z)
        if z.ndim < 1 or z.shape[-1] != self.dim:
            raise PositionError(f"{self!r} has {self.dim} coordinates, (*chains, {self.dim}); got {tuple(z.shape)}")
        found = self.constrain_place(xp, z, slice(0, self.dim))
        value, log_jacobian = (_as(xp, array, z) for array in found)
        return value, log_jacobian

    def constrain_place(self, xp: Any, x: Array, place: slice) -> tuple[Array, Array]:
        """Unchecked `constrain` of the coordinates at a place of positions ``(*chains, all coordinates)``."""
        chains = x.shape[:-1]
        value, log_jacobian = self._constrain(xp, at_place(xp, x, place, self.axes))
        more = log_jacobian.ndim - len(chains)
        if more > 1:
            log_jacobian = xp.reshape(log_jacobian, (*chains, -1))
        return value, xp.sum(log_jacobian, axis=-1) if more else log_jacobian

    def unconstrain(self, xp: Any, value: Same) -> Same:
        """Coordinates of values, ``(*chains, *shape) -> (*chains, dim)``: infinite on the edge, nan outside."""
        chains = self._chains_of(xp, value)
        z = xp.reshape(self._unconstrain(xp, value), (*chains, self.dim))
        return _as(xp, z, value)

    def contains(self, xp: Any, value: Array) -> Mask:
        """Which values are in the space, edges excluded, ``(*chains, *shape) -> (*chains)`` of bool.

        Sums and lengths that must be 1 may be off by rounding.
        """
        chains = self._chains_of(xp, value)
        inside = self._inside(xp, value)
        if inside.ndim > len(chains):
            inside = xp.all(xp.reshape(inside, (*chains, -1)), axis=-1)
        return inside

    def to_json(self) -> dict[str, Any]:
        """The space as plain values of JSON; `space_from_json` reads them."""
        bounds = {name: np.asarray(bound).tolist() for name, bound in self._bounds().items()}
        return {"space": type(self).__name__, "shape": list(self.shape), **bounds}

    def check(self, xp: Any, x: Array) -> None:
        """Raise PositionError unless `x` are coordinates, ``(*chains, dim)``; in `Real()` any numbers are valid."""
        if not xp.isdtype(x.dtype, "real floating"):
            raise PositionError(
                f"positions must be a real floating array; got dtype {dtype_name(x)} (convert the start positions)"
            )
        check_shape(xp, x)
        if self.shape and x.shape[-1] != self.dim:
            raise PositionError(f"{self!r} has {self.dim} coordinates; the positions are {tuple(x.shape)}")
        if not np.all(np.isfinite(to_host(x))):
            raise PositionError("positions must be finite; some are nan or infinite")

    def bind(self, backend: Backend, x: Array) -> Space:
        """The space itself: `constrain` puts what it needs where the coordinates are."""
        return self

    def __repr__(self) -> str:
        lengths = self.shape[: len(self.axes)]  # as the user gave them: the two axes of a matrix are one number
        return f"{type(self).__name__}({', '.join(map(given, (*self._bounds().values(), *lengths)))})"

    @abstractmethod
    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        """The map and its log Jacobian for coordinates ``(*chains, *axes)``, without the sum over the last axes."""

    @abstractmethod
    def _unconstrain(self, xp: Any, value: Array) -> Array:
        """Coordinates ``(*chains, *axes)`` of values ``(*chains, *shape)``."""

    @abstractmethod
    def _inside(self, xp: Any, value: Array) -> Array:
        """Return which values, or which of their entries, are in the space."""

    def _bounds(self) -> dict[str, Any]:
        """Return the user's settings other than the shape."""
        return {f.name: value for f, value in settings(self) if f.init and f.name != "shape"}

    def _chains_of(self, xp: Any, value: Array) -> tuple[int, ...]:
        """The chain axes of values."""
        _check_floating("values", value)
        lead = value.ndim - len(self.shape)
        if lead < 0 or tuple(value.shape[lead:]) != self.shape:
            raise PositionError(
                f"values of {self!r} have shape (*chains, {', '.join(map(str, self.shape))}); got {tuple(value.shape)}"
            )
        return tuple(value.shape[:lead])


class AsMany(Constrained):
    """A constrained space with as many coordinates as a value has entries, in the same shape."""

    @property
    def axes(self) -> tuple[int, ...]:
        return self.shape


@dataclass(frozen=True, init=False, repr=False)
class OfShape(Constrained):
    """A space that is set by its shape alone.

    Vectors have at least `least` entries, and None means numbers; `square` matrices are set by a single length.
    """

    shape: tuple[int, ...]

    least: ClassVar[int | None] = None
    square: ClassVar[bool] = False

    def __init__(self, *shape: int) -> None:
        settle_shape(self, shape, self.least)
        if self.square:
            object.__setattr__(self, "shape", (*self.shape, self.shape[-1]))


@dataclass(frozen=True, init=False, repr=False)
class Real(OfShape, AsMany):
    """Real numbers, which are their own coordinates.

    ``Real()`` is a number, ``Real(8)`` a vector, ``Real(3, 4)`` a matrix. As the space of a `Target`, ``Real()`` is
    R^dim for any dim.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain.

    See Also
    --------
    Positive : Numbers above 0.
    Interval : Between two bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.Real(2).constrain(np, np.asarray([[0.5, 1.0]]))
    >>> value
    array([[0.5, 1. ]])
    """

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        return z, xp.zeros_like(z)

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return value

    def _inside(self, xp: Any, value: Array) -> Array:
        return xp.isfinite(value)


def settle_shape(space: Constrained, shape: tuple[int, ...], least: int | None = None) -> None:
    """Check the shape that a user gave, and keep it; the last number, if one is needed, is at `least` so large."""
    name = type(space).__name__
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        raise HyperparameterError(f"write {name}({', '.join(map(str, shape[0]))}), without inner brackets")
    if least is not None and not shape:
        raise HyperparameterError(f"{name} needs a length, as in {name}(3)")
    last = len(shape) - 1
    leasts = [least if least and i == last else 1 for i in range(len(shape))]
    lengths = tuple(check_count(f"a length of {name}", n, low) for n, low in zip(shape, leasts, strict=True))
    object.__setattr__(space, "shape", lengths)


def at_place(xp: Any, x: Array, place: slice, shape: tuple[int, ...]) -> Array:
    """The coordinates at a place of positions, ``(*chains, dim)``, in a shape: ``(*chains, *shape)``."""
    if not shape:
        return x[..., place.start]
    z = x[..., place]
    return z if len(shape) == 1 else xp.reshape(z, (*x.shape[:-1], *shape))


def put(xp: Any, host: np.ndarray, like: Array) -> Array:
    """A constant of a space where `like` is; floating ones in its dtype. For traced arrays, too."""
    dtype = like.dtype if host.dtype.kind == "f" else xp.int32
    return xp.asarray(host, dtype=dtype, device=device(like))


def minus_size(xp: Any, z: Array) -> Array:
    """-|z|, with the derivative from the right at 0.

    Functions that are smooth at 0 and are written differently on its two sides therefore keep all their derivatives
    there; the derivative of ``abs`` is 0.
    """
    return xp.where(z < 0.0, z, -z)


def tolerance(xp: Any, value: Array) -> float:
    """Bound on the rounding error of a sum over the last axis that should be 1."""
    return 16.0 * value.shape[-1] * float(xp.finfo(value.dtype).eps)


def _as(xp: Any, array: Any, like: Same) -> Same:
    """In another array's dtype, which NumPy 1 widens where an array is a single number."""
    return array if array.dtype == like.dtype else xp.astype(array, like.dtype)


def _check_floating(what: str, a: Array) -> None:
    if not is_array(a):
        raise PositionError(f"{what} must be an array; got {given(a)}")
    if dtype_name(a) not in ("float32", "float64"):
        raise PositionError(f"{what} must be float32 or float64; got dtype {dtype_name(a)} (convert them)")


def check_positions(x: Any) -> Backend:
    """The backend of start positions; raise BackendError unless they are an array."""
    if not is_array(x):
        advice = ""
        if isinstance(x, (list, tuple)):
            advice = "; make an array of it, such as numpy.asarray(x0)"
        elif isinstance(x, dict):
            advice = (
                "; put its values side by side into one array (*chains, dim), or name the parameters with a Model, "
                "such as Model(log_density, mu=Real())"
            )
        elif hasattr(x, "to_numpy"):
            advice = "; pass its numbers, x0.to_numpy()"
        elif isinstance(x, int | float):
            advice = "; start each chain at a point, such as numpy.zeros((chains, dim))"
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
