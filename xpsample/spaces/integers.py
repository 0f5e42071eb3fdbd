"""Integers in a range, or without an upper bound."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_number, check_numbers, given
from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name
from xpsample.spaces.discrete import Unmapped, check_shape_of_values, uniform_index
from xpsample.spaces.space import Real, Space


@dataclass(frozen=True)
class Integers(Unmapped):
    """Integers from `low` to `high`, such as counts, as floating numbers.

    For many values in an order. If there are few, or their order means nothing, use `Categorical`. Values lie within
    16,777,216 of 0 in float32 and 2**53 in float64, beyond which a dtype lacks some integers.

    Parameters
    ----------
    low : int or sequence of int
        The smallest value, or one for each variable.
    high : int or sequence of int, optional
        The largest value; none by default.
    shape : int or tuple of int, optional
        Shape of the variables of a `Model`'s parameter; by default the number of bounds.

    See Also
    --------
    Categorical : A few values, which `Gibbs` enumerates.
    RWM : A kernel on them, whose width is tuned.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.densities import poisson
    >>> target = xps.Target(lambda x: poisson(x, np.log([3.0, 3000.0])).sum(-1), space=xps.Integers())
    >>> trace = xps.sample(target, xps.RWM(), np.ones((20, 2)), 2000, seed=1)
    >>> bool(np.all(abs(trace.draws.mean(axis=(0, 1)) / [3, 3000] - 1) < 0.1))
    True
    """

    low: Any = 0
    high: Any = None
    shape: Any = None
    _low: Any = field(default=None, repr=False, compare=False)  # () or (dim,), where the positions live
    _high: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _integers("low", self.low))
        if self.high is not None:
            object.__setattr__(self, "high", _integers("high", self.high))
        several = [bound for bound in (self.low, self.high) if isinstance(bound, tuple)]
        shape = self.shape if self.shape is not None or not several else len(several[0])
        if shape is not None:
            object.__setattr__(self, "shape", check_shape_of_values("shape", shape))
        for bound in several:
            if len(bound) != math.prod(self.shape):
                raise HyperparameterError(f"Integers has {len(bound)} bounds for values of shape {self.shape}")
        if self.high is not None and np.any(self._sizes < 2):
            raise HyperparameterError(f"high must be above low; got low={given(self.low)}, high={given(self.high)}")

    def to_json(self) -> dict[str, Any]:
        return {"space": "Integers", "low": self.low, "high": self.high, "shape": self.shape}

    def check(self, xp: Any, x: Array) -> None:
        Real().check(xp, x)
        for bound in (self.low, self.high):
            if isinstance(bound, tuple) and len(bound) != x.shape[-1]:
                raise PositionError(f"{self!r} has {len(bound)} variables; got positions of shape {tuple(x.shape)}")
        host, (low, high) = to_host(x), self._bounds(xp, x)
        outside = (host != np.round(host)) | (host < low) | (host > high)
        if np.any(outside):
            most = 2 / float(xp.finfo(x.dtype).eps)
            shown = f"{self!r}, and within {most:,.0f} of 0 in {dtype_name(x)}"
            raise PositionError(f"positions must be on {shown}; got {host[outside][0]:g}")

    def bind(self, backend: Backend, x: Array) -> Space:
        low, high = (backend.from_host(bound.astype(dtype_name(x)), x) for bound in self._bounds(backend.xp, x))
        return replace(self, _low=low, _high=high)

    def walked(self, xp: Any, x: Array, move: Array, least: Array) -> tuple[Array, Array]:
        """x plus the rounded move, or the nearest bound if that is outside, and which chains are inside.

        Moves are at least as long as `least`: of much narrower ones, nearly all would be rounded to 0.
        """
        y = x + xp.round(xp.where(xp.abs(move) < xp.abs(least), least, move))
        nearest = xp.where(y < self._low, self._low, xp.where(y > self._high, self._high, y))
        return nearest, xp.all(nearest == y, axis=-1)

    def random(self, normals: np.ndarray) -> np.ndarray:
        """Uniform positions; of any scale up to some hundreds above `low` if there is no upper bound."""
        index = np.floor(np.exp(2 + 2 * normals)) if self.high is None else uniform_index(normals, self._sizes)
        return (np.asarray(self.low) + index).astype(normals.dtype)

    def transformed(self, xp: Any, x: Array, i: int) -> Array:
        y = x + (1, 2, 3, 5)[i]
        return xp.where(y > self._high, self._low, y)

    def _bounds(self, xp: Any, x: Array) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on the host, within the integers that the dtype of x has."""
        most = 2 / float(xp.finfo(x.dtype).eps)
        return np.maximum(self.low, -most), np.minimum(math.inf if self.high is None else self.high, most)

    @property
    def _sizes(self) -> np.ndarray:
        return np.asarray(self.high) - np.asarray(self.low) + 1


def _integers(name: str, value: Any) -> Any:
    """One integer, or a tuple with one for each variable."""
    several = isinstance(value, (list, tuple)) or (is_array(value) and value.ndim > 0)
    numbers = check_numbers(name, value) if several else (check_number(name, value),)
    if any(number != int(number) or abs(number) > 2**53 for number in numbers):
        raise HyperparameterError(f"{name} must hold integers up to 2**53 in size, as float64 does; got {given(value)}")
    whole = tuple(map(int, numbers))
    return whole if several else whole[0]
