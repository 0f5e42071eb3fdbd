"""Geometric paths between two targets: pi_0^(1 - beta) pi_1^beta, the bridges of annealed importance sampling."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.core.hyperparameters import per_coordinate
from xpsample.gradients.choices import Evaluations
from xpsample.spaces.named import Named, is_real
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget, DerivedTarget, OnTarget, SameRatioTarget
from xpsample.targets.point import Capability, Costs, Point
from xpsample.targets.target import AbstractTarget, check_target
from xpsample.targets.tempered import TemperedTarget


def _same(first: Space, last: Space) -> bool:
    """Return whether coordinates mean the same on both spaces, as far as these say what they mean."""
    if isinstance(first, Named) and isinstance(last, Named):
        return (first.names, first.parts) == (last.names, last.parts)
    return first == last or (is_real(first) and is_real(last))


class Ends(NamedTuple):
    """The points of both targets at one position."""

    initial: Point
    target: Point


@dataclass(frozen=True, eq=False, repr=False)
class Bridge(AbstractTarget):
    """A target, together with the one that annealing begins with.

    Parameters
    ----------
    initial : AbstractTarget
        With a log density whose normalizer is known, and which can be drawn from.
    target : AbstractTarget
        What is sampled in the end; on the same space. Two models have the same parameters, in the same order and
        spaces: draws of the initial one are then given by name.

    Raises
    ------
    CapabilityError
        If the spaces differ.

    See Also
    --------
    Tempered : A power of one target.
    AIS : Moves along a bridge.
    TemperedSMC : Moves along a bridge.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> prior = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    >>> likelihood_times_prior = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) - 2 * np.sum((x - 1) ** 2, axis=-1))
    >>> bridge = xps.Bridge(prior, likelihood_times_prior)  # for AIS, TemperedSMC and ParallelTempering
    """

    initial: AbstractTarget
    target: AbstractTarget

    def __post_init__(self) -> None:
        check_target("initial", self.initial)
        check_target("target", self.target)
        first, last = self.initial.space, self.target.space
        if not _same(first, last):
            raise CapabilityError(f"a bridge needs both ends on the same space; initial has {first!r}, target {last!r}")

    @property
    def space(self) -> Space:
        """The target's."""
        return self.target.space

    def prepare(self, x: Array, requires: Capability) -> "BridgedTarget":
        requires |= Capability.LOG_DENSITY
        own = requires
        if Capability.OF_INITIAL in requires:
            own &= ~(Capability.SCORE | Capability.HVP | Capability.DIFFERENCES)
        return BridgedTarget(self.initial.prepare(x, requires & ~Capability.ANY_START), self.target.prepare(x, own))


@dataclass(frozen=True, eq=False)
class BridgedTarget(OnTarget):
    """A bound target whose points carry, in `base`, its own points and an initial target's (`Ends`)."""

    initial: BoundTarget
    target: BoundTarget

    @property
    def space(self) -> Space:
        """The target's."""
        return self.target.space

    @property
    def requires(self) -> Capability:
        return self.target.requires

    @property
    def constrained(self) -> bool:
        """Return whether either end is constrained."""
        return self.initial.constrained or self.target.constrained

    @property
    def data(self) -> tree.Tree:
        """Data of both ends."""
        return self.initial.data, self.target.data

    @property
    def costs(self) -> Costs:
        both, own = self.of_both, self.target.costs
        return both._replace(log_density=own.log_density, score=own.score, hvp=own.hvp)

    @cached_property
    def of_both(self) -> Costs:
        """Cost of calls of both ends: added up once, and not at every step."""
        pairs = zip(self.initial.costs, self.target.costs, strict=True)
        return Costs(*(a.plus(b) for a, b in pairs))

    def evaluate(self, x: Array) -> Point:
        return self.joined(Ends(self.initial.evaluate(x), self.target.evaluate(x)))

    def evaluate_lazily(self, x: Array) -> Point:
        return self.evaluate(x)

    def refresh(self, point: Point) -> Point:
        ends = point.base
        return self.joined(Ends(self.initial.refresh(ends.initial), self.target.refresh(ends.target)))

    def joined(self, ends: Ends) -> Point:
        """The target's point with the points of both ends in `base`."""
        return ends.target._replace(base=ends)

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        return None  # a bridge requires log densities of both ends

    def log_density(self, x: Array) -> Array:
        return self.target.log_density(x)

    def _differences_at(self, x: Array, i: Any) -> Array:
        return self.target.differences_at(x, i)

    def _sweep_cost(self, x: Array) -> Evaluations:
        return self.target.sweep_cost(x)

    def score(self, x: Array) -> Array:
        return self.target.score(x)

    def hvp(self, x: Array, v: Array) -> Array:
        return self.target.hvp(x, v)

    def score_plus_hvp(self, x: Array, v: Array) -> Array:
        return self.target.score_plus_hvp(x, v)

    def with_data(self, data: tree.Tree) -> "BridgedTarget":
        initial, target = data
        return replace(self, initial=self.initial.with_data(initial), target=self.target.with_data(target))


@dataclass(frozen=True, eq=False)
class AnnealedTarget(SameRatioTarget):
    """The member pi_0^(1 - beta) pi_1^beta of a bridge; its points carry the bridge's own in `base`."""

    target: BridgedTarget
    beta: Any

    @property
    def requires(self) -> Capability:
        return self.target.requires

    @property
    def costs(self) -> Costs:
        return self.target.of_both

    def from_base(self, base: Point) -> Point:
        first, last = base.base
        density = self._between(self.beta, first.log_density, last.log_density)
        score = None if last.score is None else self._along(first.score, last.score)
        differences = None
        if last.differences is not None:
            beta = per_coordinate(per_coordinate(self.beta))
            differences = self._between(beta, first.differences, last.differences)
        return Point(base.x, density, score, base, differences)

    def log_density(self, x: Array) -> Array:
        return self._between(self.beta, self.target.initial.log_density(x), self.target.target.log_density(x))

    def _differences_at(self, x: Array, i: Any) -> Array:
        first, last = (end.differences_at(x, i) for end in (self.target.initial, self.target.target))
        return self._between(per_coordinate(self.beta), first, last)

    def _sweep_cost(self, x: Array) -> Evaluations:
        return self.target.initial.sweep_cost(x).plus(self.target.target.sweep_cost(x))

    def score(self, x: Array) -> Array:
        return self._along(self.target.initial.score(x), self.target.target.score(x))

    def hvp(self, x: Array, v: Array) -> Array:
        return self._along(self.target.initial.hvp(x, v), self.target.target.hvp(x, v))

    def _along(self, first: Array, last: Array) -> Array:
        return (1.0 - per_coordinate(self.beta)) * first + per_coordinate(self.beta) * last

    def _between(self, beta: Any, first: Array, last: Array) -> Array:
        """(1 - beta) first + beta last of logarithms, where -inf stays -inf at beta = 0 and at 1."""
        where, impossible = self.xp.where, (first == -math.inf) | (last == -math.inf)
        first, last = where(impossible, 0.0, first), where(impossible, 0.0, last)
        return where(impossible, -math.inf, (1.0 - beta) * first + beta * last)


def annealed(target: BoundTarget, beta: Any) -> DerivedTarget:
    """The member of a bridge at beta, which broadcasts against the chain axes.

    For any other target it is its power, the bridge from the constant density 1.
    """
    return AnnealedTarget(target, beta) if isinstance(target, BridgedTarget) else TemperedTarget(target, beta)


def log_density_ratio(target: BoundTarget, point: Point) -> Array:
    """log f_1 - log f_0, (*chains), at a point of the target of which `annealed` makes members."""
    if isinstance(target, BridgedTarget):
        return point.log_density - point.base.initial.log_density
    return point.log_density
