"""Bounded numbers and angles: maps that act elementwise.

The maps are the same as in Stan (Reference manual, "Constraint transforms") and in `biject_to` of torch.distributions
and NumPyro.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import broadcasts, given
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name
from xpsample.spaces.space import AsMany, Constrained, OfShape, minus_size, put, settle_shape


@dataclass(frozen=True, init=False, repr=False)
class Positive(OfShape, AsMany):
    """Positive numbers, ``value = exp(z)``, with log Jacobian ``sum(z)``.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain.

    See Also
    --------
    LowerBounded : Above another bound.
    Interval : Between two bounds.

    Notes
    -----
    If exp(z) leaves the numbers of the dtype (beyond 87 in float32, 708 in float64), the value is 0 or infinite. It is
    not clipped: a density would be flat there, and the log Jacobian would turn it into an infinite mass.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.Positive().constrain(np, np.asarray([[0.0], [1.0]]))
    >>> value.round(3), log_jacobian
    (array([1.   , 2.718]), array([0., 1.]))
    """

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        return xp.exp(z), z

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return xp.log(value)

    def _inside(self, xp: Any, value: Array) -> Array:
        return (value > 0.0) & xp.isfinite(value)


@dataclass(frozen=True, init=False, repr=False)
class LowerBounded(AsMany):
    """Numbers above a bound, ``value = low + exp(z)``, with log Jacobian ``sum(z)``.

    Parameters
    ----------
    low : float, or array that broadcasts to the shape
        Stored as a number, or as nested tuples of numbers.
    *shape : int
        Shape of a value of one chain; the shape of `low` by default.

    See Also
    --------
    Positive : Above 0.
    UpperBounded : Below a bound.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.LowerBounded(1.0).constrain(np, np.asarray([[0.0], [1.0]]))
    >>> value.round(3)
    array([2.   , 3.718])
    """

    low: Any
    shape: tuple[int, ...] = ()
    _host: Any = field(init=False, repr=False, compare=False)

    def __init__(self, low: Any, *shape: int) -> None:
        _settle_bounds(self, shape, low=low)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        (low,) = _put_bounds(xp, self._host, z)
        return low + xp.exp(z), z

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        (low,) = _put_bounds(xp, self._host, value)
        return xp.log(value - low)

    def _inside(self, xp: Any, value: Array) -> Array:
        (low,) = _put_bounds(xp, self._host, value)
        return (value > low) & xp.isfinite(value)


@dataclass(frozen=True, init=False, repr=False)
class UpperBounded(AsMany):
    """Numbers below a bound, ``value = high - exp(z)``, with log Jacobian ``sum(z)``.

    Parameters
    ----------
    high : float, or array that broadcasts to the shape
        Stored as a number, or as nested tuples of numbers.
    *shape : int
        Shape of a value of one chain; the shape of `high` by default.

    See Also
    --------
    LowerBounded : Above a bound.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.UpperBounded(1.0).constrain(np, np.asarray([[0.0], [1.0]]))
    >>> value.round(3)
    array([ 0.   , -1.718])
    """

    high: Any
    shape: tuple[int, ...] = ()
    _host: Any = field(init=False, repr=False, compare=False)

    def __init__(self, high: Any, *shape: int) -> None:
        _settle_bounds(self, shape, high=high)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        (high,) = _put_bounds(xp, self._host, z)
        return high - xp.exp(z), z

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        (high,) = _put_bounds(xp, self._host, value)
        return xp.log(high - value)

    def _inside(self, xp: Any, value: Array) -> Array:
        (high,) = _put_bounds(xp, self._host, value)
        return (value < high) & xp.isfinite(value)


@dataclass(frozen=True, init=False, repr=False)
class Interval(AsMany):
    """Numbers between two bounds, ``value = low + (high - low) sigmoid(z)``.

    The log Jacobian is the sum of ``log(high - low) + log sigmoid(z) + log sigmoid(-z)``.

    Parameters
    ----------
    low, high : float, or arrays that broadcast to the shape
        Stored as numbers, or as nested tuples of numbers.
    *shape : int
        Shape of a value of one chain; the shape of the bounds by default.

    See Also
    --------
    LowerBounded : One bound.
    Circular : An angle.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> xps.Interval(0.0, np.asarray([1.0, 10.0])).constrain(np, np.zeros((3, 2)))[0]
    array([[0.5, 5. ],
           [0.5, 5. ],
           [0.5, 5. ]])
    """

    low: Any
    high: Any
    shape: tuple[int, ...] = ()
    _host: Any = field(init=False, repr=False, compare=False)

    def __init__(self, low: Any, high: Any, *shape: int) -> None:
        _settle_bounds(self, shape, low=low, high=high)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        low, high, width, log_width = _put_bounds(xp, self._host, z)
        # From the nearer bound, so that no rounding leads across it.
        size = minus_size(xp, z)
        small = xp.exp(size)
        part = width * (small / (1.0 + small))
        return xp.where(z < 0.0, low + part, high - part), log_width + size - 2.0 * xp.log1p(small)

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        low, high, *_ = _put_bounds(xp, self._host, value)
        return xp.log(value - low) - xp.log(high - value)

    def _inside(self, xp: Any, value: Array) -> Array:
        low, high, *_ = _put_bounds(xp, self._host, value)
        return (value > low) & (value < high)


@dataclass(frozen=True, init=False, repr=False)
class Circular(OfShape):
    """Angles in (-pi, pi], each by two coordinates: ``value = atan2(z_2, z_1)``. The circle has no cut.

    The radius of (z_1, z_2) is free and its square has an exponential distribution, so the log Jacobian is the sum of
    ``-(z_1^2 + z_2^2) / 2``: the density of an angle is the same as without coordinates, constants included. At (0, 0)
    there is no angle: the value is 0 and its derivative is nan. `unconstrain` gives points of the unit circle.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain.

    See Also
    --------
    UnitVector : A direction.
    Interval : With ends.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> model = xps.Model(lambda p: 2 * np.cos(p.angle - 1), angle=xps.Circular(), gradient=xps.FiniteDifference())
    >>> trace = xps.sample(model, xps.RWM(), model.start(like=np.zeros(0), chains=4, seed=0), 4000, seed=1)
    >>> bool(abs(np.mean(np.sin(trace["angle"] - 1))) < 0.1)
    True
    """

    @property
    def axes(self) -> tuple[int, ...]:
        return (*self.shape, 2)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        return xp.atan2(z[..., 1], z[..., 0]), -0.5 * z * z

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return xp.stack([xp.cos(value), xp.sin(value)], axis=-1)

    def _inside(self, xp: Any, value: Array) -> Array:
        return xp.abs(value) <= math.pi


def _settle_bounds(space: Constrained, shape: tuple[int, ...], **bounds: Any) -> None:
    """Check the bounds and the shape that a user set, and store them together with their numbers on the host."""
    hosts = {name: _on_host(name, bound) for name, bound in bounds.items()}
    try:
        common = np.broadcast_shapes(*(host.shape for host in hosts.values()))
    except ValueError as error:
        raise HyperparameterError(f"the bounds do not fit each other: {error}") from error
    settle_shape(space, shape or common)
    for name, host in hosts.items():
        if not broadcasts(host.shape, space.shape):
            raise HyperparameterError(f"{name} of shape {host.shape} does not broadcast to the shape {space.shape}")
        object.__setattr__(space, name, _nested(host.tolist()))
    numbers = list(hosts.values())
    if len(numbers) == 2:
        low, high = numbers
        if not np.all(low < high):
            raise HyperparameterError(f"low must be below high; got {given(low.tolist())} and {given(high.tolist())}")
        with np.errstate(over="ignore"):
            width = high - low
        if not np.all(np.isfinite(width)):
            raise HyperparameterError(f"high - low must be finite; got a width of {given(width.tolist())}")
        numbers += [width, np.log(width)]
    object.__setattr__(space, "_host", tuple(np.asarray(number) for number in numbers))


def _on_host(name: str, bound: Any) -> np.ndarray:
    """A bound as float64 numbers of NumPy, copied."""
    if isinstance(bound, (tuple, list)):
        try:
            bound = np.asarray(bound)
        except ValueError:
            raise HyperparameterError(f"{name} must be a number or an array; got rows of several lengths") from None
    return np.array(to_host(check_range(name, bound)), dtype=np.float64)


def _nested(numbers: Any) -> Any:
    """Nested lists as nested tuples."""
    return tuple(map(_nested, numbers)) if isinstance(numbers, list) else numbers


def _put_bounds(xp: Any, hosts: tuple[np.ndarray, ...], like: Array) -> list[Any]:
    """Bounds (and, of an interval, the width and its logarithm) where `like` is, in its dtype; numbers as Python's.

    HyperparameterError if float32 cannot hold them, or cannot tell them apart.
    """
    if dtype_name(like) == "float32":
        with np.errstate(over="ignore"):
            single = [host.astype(np.float32) for host in hosts]
        if not all(np.all(np.isfinite(host)) for host in single) or (
            len(single) > 1 and np.any(single[0] >= single[1])
        ):
            raise HyperparameterError("the bounds must be finite and differ in float32. Use float64, or rescale.")
    return [put(xp, host, like) if host.ndim else float(host) for host in hosts]
