"""Vectors with a constraint: ordered ones, probabilities, directions, and vectors with sum 0.

The last axis is the vector, axes before it are a batch.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.spaces.space import AsMany, OfShape, minus_size, put, tolerance


@dataclass(frozen=True, init=False, repr=False)
class Ordered(OfShape, AsMany):
    """Increasing vectors, ``value_1 = z_1`` and ``value_k = value_{k-1} + exp(z_k)``.

    The log Jacobian is ``z_2 + ... + z_n`` (Stan, "Ordered vector"; NumPyro's ``OrderedTransform``).

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain: ``Ordered(n)`` is one vector, ``Ordered(m, n)`` are m of them.

    See Also
    --------
    PositiveOrdered : Above 0.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.Ordered(3).constrain(np, np.asarray([[0.0, 0.0, 1.0]]))
    >>> value.round(3)
    array([[0.   , 1.   , 3.718]])
    """

    least = 1

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        rest = z[..., 1:]
        steps = xp.concat([z[..., :1], xp.exp(rest)], axis=-1)
        return xp.cumulative_sum(steps, axis=-1), xp.concat([xp.zeros_like(z[..., :1]), rest], axis=-1)

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return xp.concat([value[..., :1], xp.log(value[..., 1:] - value[..., :-1])], axis=-1)

    def _inside(self, xp: Any, value: Array) -> Array:
        return xp.all(xp.isfinite(value), axis=-1) & xp.all(value[..., 1:] > value[..., :-1], axis=-1)


@dataclass(frozen=True, init=False, repr=False)
class PositiveOrdered(OfShape, AsMany):
    """Increasing vectors of positive numbers, ``value_k = exp(z_1) + ... + exp(z_k)``.

    The log Jacobian is ``z_1 + ... + z_n`` (Stan, "Positive ordered"). NumPyro's map is another one, the exponential of
    an ordered vector.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain: ``PositiveOrdered(n)`` is one vector, ``PositiveOrdered(m, n)`` are m of them.

    See Also
    --------
    Ordered : Any numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.PositiveOrdered(3).constrain(np, np.asarray([[0.0, 0.0, 1.0]]))
    >>> value.round(3)
    array([[1.   , 2.   , 4.718]])
    """

    least = 1

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        return xp.cumulative_sum(xp.exp(z), axis=-1), z

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return xp.log(xp.concat([value[..., :1], value[..., 1:] - value[..., :-1]], axis=-1))

    def _inside(self, xp: Any, value: Array) -> Array:
        steps = xp.concat([value[..., :1], value[..., 1:] - value[..., :-1]], axis=-1)
        return xp.all(xp.isfinite(value), axis=-1) & xp.all(steps > 0.0, axis=-1)


@dataclass(frozen=True, init=False, repr=False)
class Simplex(OfShape):
    """Vectors of n positive numbers with sum 1, by breaking a stick: n - 1 coordinates.

    The k-th break takes the share ``v_k = sigmoid(z_k - log(n - k))`` of the remainder: ``value_k = v_k left_k`` and
    ``left_{k+1} = (1 - v_k) left_k``; the last entry is the final remainder. Therefore z = 0 is the center of the
    simplex. The log Jacobian is the sum of ``log v_k + log(1 - v_k) + log left_k``, for densities in the first n - 1
    entries, as Dirichlet densities are written.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain: ``Simplex(3)`` is one vector of 3 entries, ``Simplex(5, 3)`` are five of them.

    See Also
    --------
    UnitVector : Squares that sum to 1.

    Notes
    -----
    The map is the one in Stan before 2.36, torch.distributions, TensorFlow Probability and NumPyro, so coordinates can
    be compared across libraries. Newer versions of Stan use isometric log ratios, which treat all entries alike; the
    distributions of the values are the same.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> xps.Simplex(4).constrain(np, np.zeros(3))[0]
    array([0.25, 0.25, 0.25, 0.25])
    """

    least = 2

    @property
    def axes(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] - 1)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        a = z - self._centre(xp, z)
        size, zero = minus_size(xp, a), xp.zeros_like(a)
        tail = xp.log1p(xp.exp(size))
        log_part, log_rest = xp.where(a < 0.0, a, zero) - tail, xp.where(a < 0.0, zero, -a) - tail
        log_left = xp.cumulative_sum(log_rest, axis=-1)
        log_before = xp.concat([xp.zeros_like(z[..., :1]), log_left[..., :-1]], axis=-1)
        log_value = log_before + log_part
        value = xp.exp(xp.concat([log_value, log_left[..., -1:]], axis=-1))
        return value, log_value + log_rest

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        left = xp.flip(xp.cumulative_sum(xp.flip(value[..., 1:], axis=-1), axis=-1), axis=-1)
        return xp.log(value[..., :-1]) - xp.log(left) + self._centre(xp, value)

    def _inside(self, xp: Any, value: Array) -> Array:
        total = xp.sum(value, axis=-1)
        return xp.all(value > 0.0, axis=-1) & (xp.abs(total - 1.0) <= tolerance(xp, value))

    def _centre(self, xp: Any, like: Array) -> Array:
        """log(n - k) for k = 1 .. n - 1."""
        return put(xp, np.log(np.arange(self.shape[-1] - 1, 0, -1.0)), like)


@dataclass(frozen=True, init=False, repr=False)
class UnitVector(OfShape, AsMany):
    """Vectors of n numbers of length 1, ``value = z / |z|``.

    The length of z is free and gets the distribution of a standard normal vector's: the log Jacobian is ``-|z|^2 / 2``
    less the constant ``log(2^(n/2 - 1) Gamma(n/2))``, for densities with respect to the surface of the sphere. At z = 0
    there is no direction: the value is nan. `unconstrain` gives the vector itself.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain: ``UnitVector(3)`` is one vector of 3 entries, ``UnitVector(5, 3)`` are five of
        them.

    See Also
    --------
    Circular : An angle.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.UnitVector(3).constrain(np, np.asarray([[3.0, 0.0, 4.0]]))
    >>> value
    array([[0.6, 0. , 0.8]])
    """

    least = 2

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        half = 0.5 * self.shape[-1]
        square = xp.sum(z * z, axis=-1)
        return z / xp.sqrt(square)[..., None], -0.5 * square - ((half - 1.0) * math.log(2.0) + math.lgamma(half))

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return value

    def _inside(self, xp: Any, value: Array) -> Array:
        return xp.abs(xp.sum(value * value, axis=-1) - 1.0) <= tolerance(xp, value)


@dataclass(frozen=True, init=False, repr=False)
class ZeroSum(OfShape):
    """Vectors of n numbers with sum 0, for effects of groups or regions next to an intercept: n - 1 coordinates.

    With the sum s of the coordinates, ``value_k = z_k - s / (n + sqrt(n))`` for k < n and ``value_n = -s / sqrt(n)``.
    The map is orthogonal, so the log Jacobian is 0, for densities with respect to the volume of the hyperplane.

    Parameters
    ----------
    *shape : int
        Shape of a value of one chain: ``ZeroSum(3)`` is one vector of 3 entries, ``ZeroSum(5, 3)`` are five vectors.

    See Also
    --------
    Simplex : Positive numbers with sum 1.

    Notes
    -----
    Normal effects with standard deviation sd have the log density ``-sum(value^2) / (2 sd^2) - (n - 1) log(sd)``: there
    are n - 1 free numbers, and each entry has the variance ``sd^2 (1 - 1 / n)``.

    The map is the Householder reflection of PyMC's and NumPyro's ``ZeroSumTransform``. Stan's ``sum_to_zero_vector``
    uses another orthogonal map; the distributions of the values are the same.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.ZeroSum(4).constrain(np, np.asarray([[1.0, 0.0, 2.0]]))
    >>> value
    array([[ 0.5, -0.5,  1.5, -1.5]])
    """

    least = 2

    @property
    def axes(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] - 1)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        root = math.sqrt(self.shape[-1])
        total = xp.sum(z, axis=-1, keepdims=True)
        return xp.concat([z - total / (root * (root + 1.0)), -total / root], axis=-1), xp.zeros_like(z)

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return value[..., :-1] - value[..., -1:] / (math.sqrt(self.shape[-1]) + 1.0)

    def _inside(self, xp: Any, value: Array) -> Array:
        finite = xp.isfinite(value)
        value = xp.where(finite, value, xp.zeros_like(value))
        size = xp.max(xp.abs(value), axis=-1)
        return xp.all(finite, axis=-1) & (xp.abs(xp.sum(value, axis=-1)) <= tolerance(xp, value) * size)
