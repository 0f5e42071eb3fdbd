"""The score-tilted surrogate of SRMC: log pi_theta(x) = log pi(x) - alpha theta . s(x) (Eq. 2)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import per_coordinate
from xpsample.gradients.choices import Evaluations, FiniteDifference
from xpsample.spaces.discrete import Discrete, pick
from xpsample.spaces.named import Named, States
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget, SameRatioTarget
from xpsample.targets.point import Capability, Costs, Point, wanted


class Tilt(ABC):
    """Which scores s the tilt is made of, and how the surrogate's own score, s - alpha H theta (Eq. 5), is computed.

    Attributes
    ----------
    needs : Capability
        What the target must give for s.
    requires : Capability
        What it must give for the surrogate's score.
    needs_score : bool
        Whether the surrogate's score needs the target's score at the same point.
    moves : bool
        Whether the surrogate's differences on a discrete space (`Point.differences`) are its own, or the target's.
    """

    needs: ClassVar[Capability]
    requires: ClassVar[Capability]
    needs_score: ClassVar[bool]
    moves: ClassVar[bool]

    @abstractmethod
    def feature(self, target: BoundTarget, point: Point) -> Array:
        """The score s that the tilt is made of, ``(*chains, dim)``, at a point of `target` that has what s needs."""

    @abstractmethod
    def cost(self, costs: Costs) -> Evaluations:
        """Cost of a surrogate score in addition to the target's own score at the point."""

    @abstractmethod
    def score(self, tilted: "Tilted", x: Array, own: Array | None) -> Array:
        """The surrogate's score at x; `own` is the target's score there, None if it is not known."""


class ScoreTilt(Tilt):
    """A tilt that is made of the target's own score."""

    needs = Capability.SCORE

    def feature(self, target: BoundTarget, point: Point) -> Array:
        return point.score


class Exact(ScoreTilt, FrozenDataclass, eq=True):
    """By a Hessian-vector product.

    See Also
    --------
    Untilted : Proposals without the tilt.
    Shift : One shifted score.
    FiniteDifference : Differences of scores.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.SRMC(xps.MALA(0.5), alpha=0.5, tilt=xps.Exact())
    """

    requires: ClassVar[Capability] = Capability.SCORE | Capability.HVP
    needs_score = True
    moves = True

    def cost(self, costs: Costs) -> Evaluations:
        return costs.hvp

    def score(self, tilted: "Tilted", x: Array, own: Array | None) -> Array:
        if own is None:
            return tilted.target.score_plus_hvp(x, tilted.shift)
        return own + tilted.target.hvp(x, tilted.shift)


class Shift(ScoreTilt, FrozenDataclass, eq=True):
    """By a shifted score, s(x - alpha theta): equal to `Exact` to first order in alpha theta.

    See Also
    --------
    Exact : The surrogate score itself.
    Untilted : Proposals without the tilt.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.SRMC(xps.MALA(0.5), alpha=0.5, tilt=xps.Shift())
    """

    requires: ClassVar[Capability] = Capability.SCORE
    needs_score = False
    moves = True

    def cost(self, costs: Costs) -> Evaluations:
        return costs.score

    def score(self, tilted: "Tilted", x: Array, own: Array | None) -> Array:
        return tilted.target.score(tilted.as_floating(x) + tilted.shift)


class Difference(ScoreTilt, FrozenDataclass, eq=True):
    """By a difference quotient of scores (Eq. 6)."""

    by: FiniteDifference
    requires: ClassVar[Capability] = Capability.SCORE
    needs_score = True
    moves = True

    def cost(self, costs: Costs) -> Evaluations:
        return costs.score.times(2 if self.by.scheme == "central" else 1)

    def score(self, tilted: "Tilted", x: Array, own: Array | None) -> Array:
        score = tilted.target.score
        own = score(x) if own is None else own
        product = self.by.along(score, tilted.as_floating(x), tilted.theta, own)
        return own - per_coordinate(tilted.alpha) * product


class ByAcceptance(Tilt):
    """A tilt that proposals do not see: only an accept step does."""

    requires: ClassVar[Capability] = Capability.SCORE
    needs_score = True
    moves = False

    def cost(self, costs: Costs) -> Evaluations:
        return Evaluations()

    def score(self, tilted: "Tilted", x: Array, own: Array | None) -> Array:
        return tilted.target.score(x) if own is None else own


class Untilted(ByAcceptance, ScoreTilt, FrozenDataclass, eq=True):
    """No tilt of the score: the base kernel proposes as on the target itself, and only the accept step sees the tilt.

    Costs nothing, and is right for every kernel that accepts or rejects. The practical choice on discrete spaces.

    See Also
    --------
    Exact : Proposals that see the tilt.
    Ratio : With the discrete score.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.SRMC(xps.MALA(0.5), alpha=0.5, tilt=xps.Untilted())
    """


class Ratio(ByAcceptance, FrozenDataclass, eq=True):
    """Untilted proposals, with the discrete score s_i(x) = pi(x with x_i mirrored) / pi(x) - 1 (Eq. 17) in the tilt.

    Its mean under pi is zero, which the gradient's need not be on a discrete space. Needs the differences of all moves:
    `Target(differences=...)`, or evaluations at all positions one move away. The mirror of a variable's k-th value is
    the k-th last. If pi is 0 there, s_i is 0. Log-ratios are cut off at half the logarithm of the largest floating
    number.

    The real parameters of a `Model` also have their own score, and its discrete ones need a density for each
    variable. Along real parameters the ratio r of a discrete one may have no bound, and a density tilted by it no
    integral. Therefore s_i is then (r - 1) 4 r / (1 + r)^2, which is between -1/2 and 4: a factor that is the same at x
    and at its mirror leaves the mean 0.

    See Also
    --------
    Untilted : With the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.SRMC(xps.MALA(0.5), alpha=0.5, tilt=xps.Ratio())
    """

    needs: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DIFFERENCES

    def feature(self, target: BoundTarget, point: Point) -> Array:
        xp, space = target.xp, target.space
        if isinstance(space, Named):
            return self._of_parameters(xp, space, point)
        assert isinstance(space, Discrete)
        choice = space.mirror(xp, point.x)
        _check_coordinates(space, choice.shape[-1], point.x.shape[-1])
        change = pick(xp, point.differences, xp.where(choice > 0, choice - 1, 0))
        return xp.where(choice > 0, _discrete_score(xp, change), 0.0)

    def _of_parameters(self, xp: Any, space: Named, point: Point) -> Array:
        parts, begin = {}, 0
        for name, part in zip(space.names, space.parts, strict=True):
            if isinstance(part, States):
                end = begin + (part.space.variables(part.dim) if isinstance(part.space, Discrete) else 0)
                _check_coordinates(part.space, end - begin, part.dim)
                half = xp.tanh(0.5 * point.differences[..., begin:end, 0])  # (r - 1) / (r + 1)
                parts[name] = 2.0 * half * (1.0 + half)
                begin = end
        score = xp.zeros_like(point.x) if point.score is None else point.score
        return space.put(xp, score, parts) if parts else score


def _discrete_score(xp: Any, change: Array) -> Array:
    """pi(y) / pi(x) - 1 of log ratios, and 0 where pi(y) is 0, for from there the way back is never made."""
    limit = 0.5 * math.log(float(xp.finfo(change.dtype).max))
    return xp.where(change > -math.inf, xp.expm1(xp.where(change < limit, change, limit)), 0.0)


def _check_coordinates(space: Space, variables: int, dim: int) -> None:
    """Raise unless each coordinate is a variable."""
    if variables != dim:
        raise CapabilityError(
            "Ratio has one discrete score for each variable, but SRMC needs one for each coordinate of "
            f"{type(space).__name__}. Use no SRMC; tilt=Untilted() runs and stays biased."
        )


@dataclass(frozen=True, eq=False)
class Tilted(SameRatioTarget):
    """A bound target tilted by a history theta; its points carry the untilted point in `base`.

    Re-tilting a point when theta has moved reuses the density and the score in `base`; a kernel that needs no score
    under the tilt pays for no Hessian-vector product.

    Parameters
    ----------
    target : BoundTarget
        The untilted target; must require what the tilt `needs`.
    theta : array, shape (*chains, dim)
        The history.
    alpha : float or array
        Repellence strength; an array broadcasts against the chain axes.
    tilt : Tilt
        How the surrogate's score is computed.
    requires : Capability
        What the kernel on top requires.
    origin : Point, optional
        A point of `target` that the tilt of the density is measured from, where it is 0 and not computed. It changes
        every log density by the same constant.
    """

    target: BoundTarget
    theta: Array
    alpha: Any
    tilt: Tilt
    requires: Capability
    origin: Point | None = None
    shift: Array = field(init=False)
    """-alpha theta: the surrogate is log pi + shift . s, and its score s + H shift."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", -per_coordinate(self.alpha) * self.theta)

    @property
    def costs(self) -> Costs:
        inner, wants = self.target.costs, wanted(self.requires)
        product = self.tilt.cost(inner)
        score = inner.score.plus(product) if self.tilt.needs_score else product
        spent = product if wants.score else Evaluations()
        if wants.differences and self.tilt.moves:
            assert isinstance(self.space, Discrete)
            moves = self.space.variables(self.theta.shape[-1]) * (self.space.choices - 1)
            spent = spent.plus(inner.score.times(moves))
        lazily = inner.evaluate_lazily
        return Costs(inner.evaluate.plus(spent), lazily, inner.refresh.plus(spent), lazily, score, score.times(2))

    def from_base(self, base: Point) -> Point:
        density = score = differences = None
        wants = wanted(self.requires)
        if wants.log_density or wants.ratio:
            density = base.log_density if base is self.origin else base.log_density + self._tilt(base)
        if wants.score:
            score = self.tilt.score(self, base.x, base.score)
        if wants.differences:
            differences = base.differences + self._tilts(base) if self.tilt.moves else base.differences
        return Point(base.x, density, score, base, differences)

    def _tilt(self, base: Point) -> Array:
        """shift . s(x), minus its value at the origin, ``(*chains)``."""
        feature = self.tilt.feature(self.target, base)
        if self.origin is not None:
            feature = feature - self.tilt.feature(self.target, self.origin)
        return self.xp.sum(self.shift * feature, axis=-1)

    def _tilts(self, base: Point) -> Array:
        """shift . (s(y) - s(x)) for all y one move away (Eq. 25), ``(*chains, variables, choices - 1)``."""
        xp, space = self.xp, self.space
        assert isinstance(space, Discrete)
        return space.around(xp, base.x, lambda y: xp.sum(self.shift * (self.target.score(y) - base.score), axis=-1))

    def log_density(self, x: Array) -> Array:
        base = self.target.evaluate(x)  # the tilt is made of scores, too
        return base.log_density + self._tilt(base)

    def score(self, x: Array) -> Array:
        return self.tilt.score(self, x, None)

    def hvp(self, x: Array, v: Array) -> Array:
        # The Hessian of alpha theta . s needs third derivatives: a difference quotient of the surrogate's own scores.
        return FiniteDifference().along(self.score, self.as_floating(x), v)
