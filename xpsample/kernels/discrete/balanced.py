"""Locally balanced proposals: one variable changed at a time, by the true ratios to all neighbors."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass, instance
from xpsample.kernels.discrete.common import OneVariable, space_of
from xpsample.kernels.traits import REVERSIBLE
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class Balancing(ABC):
    """A balancing function g, with ``g(t) = t g(1 / t)``."""

    @abstractmethod
    def log(self, xp: Any, log_ratio: Array) -> Array:
        """``log g(exp(log_ratio))``, elementwise, without overflow."""


class Barker(Balancing, FrozenDataclass, eq=True):
    """g(t) = t / (1 + t)."""

    def log(self, xp: Any, log_ratio: Array) -> Array:
        return -xp.logaddexp(xp.zeros_like(log_ratio), -log_ratio)


class SquareRoot(Balancing, FrozenDataclass, eq=True):
    """g(t) = sqrt(t)."""

    def log(self, xp: Any, log_ratio: Array) -> Array:
        return 0.5 * log_ratio


class Max(Balancing, FrozenDataclass, eq=True):
    """g(t) = max(1, t). It proposes states of no probability, too, and rejects them."""

    def log(self, xp: Any, log_ratio: Array) -> Array:
        return xp.where(log_ratio < 0.0, 0.0, log_ratio)


class LocallyBalanced(OneVariable):
    """A locally balanced proposal (Zanella 2020; SRMC Eq. 24), with the exact Metropolis-Hastings correction.

    A move takes one variable to one other value, x to y, with probability proportional to ``g(pi(y) / pi(x))``. The
    ratios are the target's own, `Point.differences`: exact where `GWG` estimates them from the score.

    Parameters
    ----------
    balancing : Balancing
        g: `Barker`, `SquareRoot` or `Max`.

    See Also
    --------
    GWG : Estimates the ratios from a score.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(
    ...     lambda x: x @ b,
    ...     differences=lambda x: ((1 - 2 * x) * b)[..., None],  # of flipping each variable; one alternative each
    ...     space=xps.Binary(),
    ... )
    >>> trace = xps.sample(target, xps.LocallyBalanced(), np.zeros((8, 3)), 1000, seed=1)
    >>> trace.draws.shape
    (1000, 8, 3)
    """

    balancing: Balancing = instance(Balancing, "Barker()", default=Barker())

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES
    traits = REVERSIBLE

    def logits(self, target: BoundTarget, point: Point) -> Array:
        weights = self.balancing.log(target.xp, point.differences)
        return space_of(target).valid(target.xp, weights)  # Max assigns weight to moves that do not exist
