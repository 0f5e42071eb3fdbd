"""A target raised to a power: pi^beta, the rungs of tempering and annealing."""

import math
from dataclasses import dataclass, replace
from typing import Any

from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.errors import CapabilityError
from xpsample.core.hyperparameters import PER_CHAIN, check_array, check_range, per_coordinate
from xpsample.core.tree import Tree
from xpsample.gradients.choices import Evaluations
from xpsample.spaces.space import Space
from xpsample.targets.bonds import Bonds
from xpsample.targets.bound import BoundTarget, WrappedTarget
from xpsample.targets.point import Capability, Costs, Point
from xpsample.targets.target import AbstractTarget, HoldsData, check_target


@dataclass(frozen=True, eq=False, repr=False)
class Tempered(AbstractTarget):
    """The distribution with log density ``beta * log_density(x)``.

    Parameters
    ----------
    target : AbstractTarget
        What is tempered.
    beta : float or array
        Inverse temperature, at least 0; an array broadcasts against the chain axes.

    See Also
    --------
    ParallelTempering : Samples at several temperatures.
    Bridge : A path between two targets.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> wide = xps.Tempered(target, 0.25)  # variance 4
    >>> trace = xps.sample(wide, xps.HMC(), np.random.default_rng(0).normal(size=(8, 2)), 1000, seed=1)
    >>> bool(abs(trace.draws.var() - 4) < 0.4)
    True
    """

    target: AbstractTarget
    beta: Any

    def __post_init__(self) -> None:
        check_target("target", self.target)
        object.__setattr__(self, "beta", check_range("beta", self.beta, 0, closed=True))

    @property
    def space(self) -> Space:
        """The target's."""
        return self.target.space

    def with_data(self, data: Tree) -> "Tempered":
        """Return the same target with other data."""
        if not isinstance(self.target, HoldsData):
            raise CapabilityError(f"data= was passed, and {type(self.target).__name__} holds no data")
        return replace(self, target=self.target.with_data(data))

    def place_data(self, backend: Backend, x: Array) -> Tree:
        """Return the data in the library, on the device and in the dtype of x."""
        assert isinstance(self.target, HoldsData)  # `with_data` has checked
        return self.target.place_data(backend, x)

    def prepare(self, x: Array, requires: Capability) -> "TemperedTarget":
        if is_array(self.beta):
            check_array("beta", self.beta, x, PER_CHAIN)
        return TemperedTarget(self.target.prepare(x, requires), self.beta)


@dataclass(frozen=True, eq=False)
class TemperedTarget(WrappedTarget):
    """A bound target raised to the power `beta`; its points carry the untempered point in `base`."""

    target: BoundTarget
    beta: Any

    @property
    def requires(self) -> Capability:
        return self.target.requires

    @property
    def costs(self) -> Costs:
        return self.target.costs

    def from_base(self, base: Point) -> Point:
        density = None if base.log_density is None else self._power(self.beta, base.log_density)
        score = None if base.score is None else per_coordinate(self.beta) * base.score
        differences = None
        if base.differences is not None:
            differences = self._power(per_coordinate(per_coordinate(self.beta)), base.differences)
        return Point(base.x, density, score, base, differences)

    def _power(self, beta: Any, logs: Array) -> Array:
        """beta times them, where -inf stays -inf at beta = 0."""
        impossible = logs == -math.inf
        return self.xp.where(impossible, -math.inf, beta * self.xp.where(impossible, 0.0, logs))

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        assert not self.acceptance.whole
        base = self.target.acceptance_correction(proposal.base, current.base)
        return None if base is None else self.beta * base

    def log_density(self, x: Array) -> Array:
        return self._power(self.beta, self.target.log_density(x))

    def _differences_at(self, x: Array, i: Any) -> Array:
        return self._power(per_coordinate(self.beta), self.target.differences_at(x, i))

    def _bonds(self) -> Bonds:
        return self.target.bonds().times(per_coordinate(per_coordinate(self.beta)))

    def _sweep_cost(self, x: Array) -> Evaluations:
        return self.target.sweep_cost(x)

    def score(self, x: Array) -> Array:
        return per_coordinate(self.beta) * self.target.score(x)

    def hvp(self, x: Array, v: Array) -> Array:
        return per_coordinate(self.beta) * self.target.hvp(x, v)
