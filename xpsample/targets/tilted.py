"""The score-tilted surrogate of SRMC: log pi_theta(x) = log pi(x) - alpha theta . s(x) (Eq. 2)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from xpsample.backend import Array
from xpsample.gradients.choices import Evaluations, FiniteDifference
from xpsample.hyperparameters import per_coordinate
from xpsample.targets.target import BoundTarget, Capability, Costs, DerivedTarget, Point


class Tilt(ABC):
    """How the surrogate's score s - alpha H theta (Eq. 5) is computed.

    Attributes
    ----------
    requires : Capability
        What the tilted target must give.
    needs_score : bool
        Whether the surrogate's score needs the target's score at the same point.
    """

    requires: Capability
    needs_score: bool

    @abstractmethod
    def cost(self, costs: Costs) -> Evaluations:
        """What a surrogate score spends beside the target's own score at the point."""

    @abstractmethod
    def score(self, target: BoundTarget, x: Array, score: Array | None, theta: Array, alpha: Any) -> Array:
        """The surrogate's score at x; `score` is the target's there, where `needs_score`."""


@dataclass(frozen=True)
class Exact(Tilt):
    """By a Hessian-vector product."""

    requires = Capability.SCORE | Capability.HVP
    needs_score = True

    def cost(self, costs: Costs) -> Evaluations:
        return costs.hvp

    def score(self, target: BoundTarget, x: Array, score: Any, theta: Array, alpha: Any) -> Array:
        return score - alpha * target.hvp(x, theta)


@dataclass(frozen=True)
class Shift(Tilt):
    """By a shifted score, s(x - alpha theta): equal to `Exact` to first order in alpha theta."""

    requires = Capability.SCORE
    needs_score = False

    def cost(self, costs: Costs) -> Evaluations:
        return costs.score

    def score(self, target: BoundTarget, x: Array, score: Any, theta: Array, alpha: Any) -> Array:
        return target.score(x - alpha * theta)


@dataclass(frozen=True)
class Difference(Tilt):
    """By a difference quotient of scores (Eq. 6)."""

    by: FiniteDifference
    requires = Capability.SCORE
    needs_score = True

    def cost(self, costs: Costs) -> Evaluations:
        return costs.score.times(2 if self.by.scheme == "central" else 1)

    def score(self, target: BoundTarget, x: Array, score: Any, theta: Array, alpha: Any) -> Array:
        return score - alpha * self.by.along(target.score, x, theta, score)


@dataclass(frozen=True, eq=False)
class Tilted(DerivedTarget):
    """A bound target tilted by a history theta; its points carry the untilted point in `aux`.

    Re-tilting a point when theta has moved reuses the density and the score in `aux`; a kernel that needs no score
    under the tilt pays for no Hessian-vector product.

    Parameters
    ----------
    target : BoundTarget
        The untilted target; must require SCORE.
    theta : array, shape (*chains, dim)
        The history.
    alpha : float or array
        Repellence strength; an array broadcasts against the chain axes.
    tilt : Tilt
        How the surrogate's score is computed.
    requires : Capability
        What the kernel on top requires.
    """

    target: BoundTarget
    theta: Array
    alpha: Any
    tilt: Tilt
    requires: Capability

    @property
    def costs(self) -> Costs:  # type: ignore[override]
        inner, tilt = self.target.costs, self.tilt.cost(self.target.costs)
        score = inner.score.plus(tilt) if self.tilt.needs_score else tilt
        if Capability.SCORE not in self.requires:
            tilt = Evaluations()
        return Costs(inner.at.plus(tilt), inner.refresh.plus(tilt), score, score.times(2))

    def at(self, x: Array) -> Point:
        return self._tilt(self.target.at(x))

    def refresh(self, point: Point) -> Point:
        return self._tilt(self.target.refresh(point.aux))

    def _tilt(self, base: Point) -> Point:
        density, score = None, None
        if Capability.LOG_DENSITY in self.requires:
            density = base.log_density - self.alpha * self.xp.sum(self.theta * base.score, axis=-1)
        if Capability.SCORE in self.requires:
            score = self.tilt.score(self.target, base.x, base.score, self.theta, per_coordinate(self.alpha))
        return Point(base.x, density, score, base)

    def score(self, x: Array) -> Array:
        own = self.target.score(x) if self.tilt.needs_score else None
        return self.tilt.score(self.target, x, own, self.theta, per_coordinate(self.alpha))

    def hvp(self, x: Array, v: Array) -> Array:
        # The Hessian of alpha theta . s needs third derivatives: a difference quotient of the surrogate's own scores.
        return FiniteDifference().along(self.score, x, v)
