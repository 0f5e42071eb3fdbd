"""The distribution of a position given a noisy copy of it, for HiSS (Eqs. 3 to 6)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import check_range, per_coordinate
from xpsample.core.special import logsumexp
from xpsample.core.specs import Normal, Uniform
from xpsample.core.tree import dtype_name
from xpsample.spaces.discrete import Discrete
from xpsample.targets.bonds import Bonds
from xpsample.targets.bound import BoundTarget, SameRatioTarget
from xpsample.targets.point import Capability, Costs, Point


class Smoothing(ABC):
    """Base class of symmetric densities f on the line: the noise of every coordinate, in units of its scale."""

    @abstractmethod
    def spec(self, shape: tuple[int, ...]) -> Normal | Uniform:
        """The random numbers that noise of a shape is made from."""

    @abstractmethod
    def draw(self, xp: Any, numbers: Array) -> Array:
        """The noise, of the shape of the numbers."""

    @abstractmethod
    def log_density(self, xp: Any, z: Array) -> Array:
        """log f(z), elementwise; only `smoothed_log_density` minds a constant."""

    @abstractmethod
    def score(self, xp: Any, z: Array) -> Array:
        """Its derivative."""

    @abstractmethod
    def curvature(self, xp: Any, z: Array) -> Array:
        """Its second derivative."""


class Logistic(Smoothing, FrozenDataclass, eq=True):
    """The logistic density, sech^2(z / 2) / 4, of variance pi^2 / 3."""

    def spec(self, shape: tuple[int, ...]) -> Normal | Uniform:
        return Uniform(shape)

    def draw(self, xp: Any, numbers: Array) -> Array:
        return xp.log(numbers) - xp.log1p(-numbers)

    def log_density(self, xp: Any, z: Array) -> Array:
        # -2 log cosh(z / 2) without the constant 2 log 2; cosh itself would overflow.
        size = xp.abs(z)
        return -size - 2.0 * xp.log1p(xp.exp(-size))

    def score(self, xp: Any, z: Array) -> Array:
        return -xp.tanh(0.5 * z)

    def curvature(self, xp: Any, z: Array) -> Array:
        t = xp.tanh(0.5 * z)
        return 0.5 * (t * t - 1.0)


class Gaussian(Smoothing, FrozenDataclass, eq=True):
    """The standard normal density."""

    def spec(self, shape: tuple[int, ...]) -> Normal | Uniform:
        return Normal(shape)

    def draw(self, xp: Any, numbers: Array) -> Array:
        return numbers

    def log_density(self, xp: Any, z: Array) -> Array:
        return -0.5 * (z * z + math.log(2.0 * math.pi))

    def score(self, xp: Any, z: Array) -> Array:
        return -z

    def curvature(self, xp: Any, z: Array) -> Array:
        return -xp.ones_like(z)


LOGISTIC = Logistic()


def smoothed_log_density(
    noisy: Array, states: Array, log_weights: Array, scale: float | Array, smoothing: Smoothing = LOGISTIC
) -> Array:
    """The log density of theta_a: the target with noise added, summed over all its states (Eqs. 2 and 3).

    It shows which modes a scale bridges, as the paper's Figures 3 and 9 do. The variance-preserving kernel of App. A.3,
    ``theta_a = alpha theta + sigma xi``, is ``states=alpha * states``, ``scale=sigma`` and `Gaussian`.

    Parameters
    ----------
    noisy : array, shape (..., dim)
        Noisy positions theta_a.
    states : array, shape (states, dim)
        All states, as returned by ``space.states(dim)``.
    log_weights : array, shape (states,)
        Their log densities, which need not be normalized.
    scale : float or array, shape (...)
        eta, in units of the states.
    smoothing : Smoothing
        The distribution of the noise.

    Returns
    -------
    array, shape (...)
        Normalized: its exponential integrates to 1.

    Raises
    ------
    HyperparameterError
        If shapes do not fit, or a scale is not positive.

    Examples
    --------
    A fair coin: between close states there is a hill, between distant ones a valley.

    >>> import numpy as np
    >>> from xpsample.hiss.smoothed import smoothed_log_density
    >>> for states in ([[0.0], [1.0]], [[-4.0], [5.0]]):
    ...     places = np.array([[0.5], states[0]])
    ...     print(np.exp(smoothed_log_density(places, np.array(states), np.zeros(2), 1.0)).round(3))
    [0.235 0.223]
    [0.011 0.125]
    """
    xp = array_namespace(noisy, states)
    scale = per_coordinate(check_range("scale", scale, 0))
    shapes = tuple(noisy.shape), tuple(states.shape), tuple(log_weights.shape)
    if shapes[1] != (*shapes[2], *shapes[0][-1:]) or states.ndim != 2:
        raise HyperparameterError(
            "smoothed_log_density takes noisy (..., dim), states (states, dim) and log_weights (states,); got "
            f"{shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    z = (noisy[..., None, :] - states) / per_coordinate(scale)
    noise = xp.sum(smoothing.log_density(xp, z) - xp.log(xp.zeros_like(z) + per_coordinate(scale)), axis=-1)
    return logsumexp(log_weights + noise) - logsumexp(log_weights)


@dataclass(frozen=True, eq=False)
class Conditional(SameRatioTarget):
    """The target given a noisy copy of the position: log pi(x) + sum_i log f((noisy_i - x_i) / scale) (Eq. 5).

    Points carry the target's own point in `base`.

    Parameters
    ----------
    target : BoundTarget
        On a discrete space.
    noisy : array, shape (*chains, dim)
        The noisy copy, theta_a.
    scale : float or array
        eta, in units of x; an array broadcasts against the chain axes.
    smoothing : Smoothing
        f.
    requires : Capability
        What the kernel on top requires.
    """

    target: BoundTarget
    noisy: Array
    scale: float | Array
    smoothing: Smoothing
    requires: Capability

    @property
    def costs(self) -> Costs:
        return self.target.costs

    def from_base(self, base: Point) -> Point:
        xp, z = self.xp, self._standard(base.x)
        density = score = differences = None
        if base.log_density is not None:
            density = base.log_density + self._of_noise(base.x)
        if base.score is not None:
            score = base.score - self.smoothing.score(xp, z) / per_coordinate(self.scale)
        if base.differences is not None:
            moves = self.moves(base.x)
            possible = xp.isfinite(base.differences)
            differences = xp.where(possible, base.differences + xp.where(possible, moves, 0.0), base.differences)
        return Point(base.x, density, score, base, differences)

    def moves(self, x: Array) -> Array:
        """Change of the noise's log density for all moves: ``(*chains, variables, choices - 1)``."""
        assert isinstance(self.space, Discrete)
        noisy, scale = self.noisy[..., None], per_coordinate(per_coordinate(self.scale))

        def log_density(v: Array) -> Array:
            return self.smoothing.log_density(self.xp, (noisy - v) / scale)

        return self.space.changes(self.xp, self.as_floating(x), log_density)

    def _bonds(self) -> Bonds:
        """The target's, in the field of the noise."""
        assert isinstance(self.space, Discrete)
        xp, bonds, noisy = self.xp, self.target.bonds(), self.noisy
        first = np.asarray(self.space.first(noisy.shape[-1]), dtype=dtype_name(noisy))
        moves = self.moves(self.backend.from_host(first, noisy) + xp.zeros_like(noisy))
        return bonds._replace(field=bonds.field + xp.concat([xp.zeros_like(moves[..., :1]), moves], axis=-1))

    def log_density(self, x: Array) -> Array:
        return self.target.log_density(x) + self._of_noise(x)

    def score(self, x: Array) -> Array:
        return self.target.score(x) - self.smoothing.score(self.xp, self._standard(x)) / per_coordinate(self.scale)

    def hvp(self, x: Array, v: Array) -> Array:
        scale = per_coordinate(self.scale)
        curvature = self.smoothing.curvature(self.xp, self._standard(x)) / (scale * scale)
        return self.target.hvp(x, v) + curvature * v

    def _of_noise(self, x: Array) -> Array:
        return self.xp.sum(self.smoothing.log_density(self.xp, self._standard(x)), axis=-1)

    def _standard(self, x: Array) -> Array:
        return (self.noisy - self.as_floating(x)) / per_coordinate(self.scale)
