"""A target given by functions, fitted to an array library: what kernels call where nothing is derived from it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.gradients.choices import Derivative, Evaluations, Functions
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.named import Named
from xpsample.spaces.space import Space
from xpsample.targets.acceptance import Acceptance, ByDensity
from xpsample.targets.bound import BoundTarget, DataAndAcceptance
from xpsample.targets.contract import check_form
from xpsample.targets.family import Family
from xpsample.targets.point import Capability, Costs, Point, wanted


@dataclass(frozen=True, eq=False)
class PreparedTarget(BoundTarget):
    """A target given by functions; made by `Target.prepare`.

    One with a `Family` changes its data, the parameters, from step to step: `refresh` evaluates again.
    """

    backend: Backend
    xp: Any
    requires: Capability
    costs: Costs
    functions: Functions
    space: Space
    differences: Callable[..., Array] | None = None
    acceptance: Acceptance = ByDensity()
    constrained: bool = False
    dtype: Any = None  # the functions', where the positions are integers
    data: tree.Tree = None
    family: Family | None = None
    part: Callable[..., Derivative] | None = field(default=None, repr=False)  # of `Target`
    _args: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own = self.data.own if isinstance(self.data, DataAndAcceptance) else self.data
        object.__setattr__(self, "_args", () if own is None else (own,))

    def as_floating(self, x: Array) -> Array:
        return x if self.dtype is None else self.xp.astype(x, self.dtype)

    def evaluate(self, x: Array) -> Point:
        wants_density, wants_score, wants_ratio, wants_differences = wanted(self.requires)
        args, at = self._args, self.as_floating(x)
        density: Any = None
        score = differences = None
        if wants_score and wants_density:
            density, score = self.functions.log_density_and_score(at, *args)
            check_form("the score", score, at, at.shape)
        elif wants_score:
            score = self.score(x)
        elif wants_density:
            density = self.functions.log_density(at, *args)
        if wants_density:
            check_form("the log density", density, at, at.shape[:-1])
        if wants_ratio and density is None:
            density = self.xp.zeros_like(at[..., 0])
        if wants_differences:
            own = self.differences
            differences = self._around(at, density, args) if own is None else own(at, *args)
        return Point(x, density, score, None, differences)

    def _around(self, x: Array, log_density: Array, args: tuple[Any, ...]) -> Array:
        xp, space = self.xp, self.space
        if isinstance(space, Named):
            if not space.mirrors:
                return xp.zeros_like(x[..., :0])[..., None]
            around = self.functions.log_density(space.mirrored(xp, x), *args) - log_density
            return xp.permute_dims(around, (*range(1, around.ndim), 0))[..., None]
        assert isinstance(space, Discrete)
        return space.around(xp, x, lambda y: self.functions.log_density(y, *args) - log_density)

    def evaluate_lazily(self, x: Array) -> Point:
        return self.evaluate(x)

    def refresh(self, point: Point) -> Point:
        return point if self.family is None else self.evaluate(point.x)

    def log_density(self, x: Array) -> Array:
        at = self.as_floating(x)
        return check_form("the log density", self.functions.log_density(at, *self._args), at, at.shape[:-1])

    def score(self, x: Array) -> Array:
        at = self.as_floating(x)
        return check_form("the score", self.functions.score(at, *self._args), at, at.shape)

    def hvp(self, x: Array, v: Array) -> Array:
        at = self.as_floating(x)
        if v.shape != at.shape:  # one vector for several axes of chains, such as the rungs of a ladder
            v = self.xp.broadcast_to(v, at.shape)
        return check_form("the hvp", self.functions.hvp(at, v, *self._args), at, at.shape)

    def score_plus_hvp(self, x: Array, v: Array) -> Array:
        if self.functions.score_plus_hvp is None:
            return self.score(x) + self.hvp(x, v)
        return self.functions.score_plus_hvp(self.as_floating(x), v, *self._args)

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        parameters = self.data.acceptance if isinstance(self.data, DataAndAcceptance) else None
        return self.acceptance.acceptance_correction(self, proposal, current, parameters)

    def with_data(self, data: tree.Tree) -> "PreparedTarget":
        return replace(self, data=data)

    def member(self, parameters: tree.Tree) -> "PreparedTarget":
        """The member of a family at parameters, as a target that stays the same: its `refresh` costs nothing."""
        costs = self.costs._replace(refresh=Evaluations())
        return replace(self, data=parameters, family=None, costs=costs)


def positions_around(space: Space, dim: int) -> int:
    """How many positions the differences are of."""
    if isinstance(space, Named):
        return space.mirrors
    assert isinstance(space, Discrete)
    return space.variables(dim) * (space.choices - 1)
