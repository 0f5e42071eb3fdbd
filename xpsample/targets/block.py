"""A part of a model's parameters given the others: the target of one block of a Gibbs sweep."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xpsample.core.arrays import Array
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.named import Named
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget, DerivedTarget
from xpsample.targets.point import Capability, Costs, Point, wanted
from xpsample.targets.prepared import PreparedTarget


def given_others(
    target: BoundTarget, names: tuple[str, ...], space: Space, origin: Point, requires: Capability
) -> "GivenOthers":
    """The distribution of some parameters given the others.

    If a score costs more the more coordinates it has, as by finite differences, `target` computes only the block's
    coordinates.
    """
    of_all = target.space
    assert isinstance(of_all, Named)
    if not isinstance(target, PreparedTarget) or target.part is None or Capability.SCORE not in target.requires:
        return GivenOthers(target, names, space, origin, requires)
    own = sorted((place.start, place.stop) for place in map(of_all.coordinates, names))
    call, cost = target.part(tuple(own) if wanted(requires).score else ())
    functions = target.functions._replace(log_density_and_score=call, score=lambda *args: call(*args)[1])
    costs = target.costs._replace(evaluate=cost, evaluate_lazily=cost, score=cost)
    return GivenOthers(replace(target, functions=functions, costs=costs), names, space, origin, requires, of_part=True)


@dataclass(frozen=True, eq=False)
class GivenOthers(DerivedTarget):
    """The distribution of some parameters given the others; its points carry the points of all parameters in `base`.

    The parameters `names` of `target` move, on `space`, which is bound to their positions; the others are where
    `origin` is. `of_part` says that the points of `target` have the score of one block, which may be another one, and
    nan outside.
    """

    target: BoundTarget
    names: tuple[str, ...]
    space: Space
    origin: Point
    requires: Capability
    of_part: bool = False

    @property
    def costs(self) -> Costs:
        """Costs of all parameters' target, and of the surrounding positions if differences are required."""
        inner = self.target.costs
        if self.of_part and wanted(self.requires).score:
            inner = inner._replace(refresh=inner.evaluate)
        moves = 0  # to positions whose density is evaluated around each point
        if wanted(self.requires).differences:
            assert isinstance(self.space, Discrete)
            dim = sum(self._all.part(name).dim for name in self.names)
            moves = self.space.variables(dim) * (self.space.choices - 1)
        around = inner.log_density.times(moves)
        at_point = ("evaluate", "evaluate_lazily", "refresh")
        return inner._replace(**{name: getattr(inner, name).plus(around) for name in at_point})

    @property
    def _all(self) -> Named:
        assert isinstance(self.target.space, Named)
        return self.target.space

    def from_base(self, base: Point) -> Point:
        """A point of the block, of one of all parameters."""
        wants, x = wanted(self.requires), self.of_all(base.x)
        score = self.of_all(base.score) if wants.score else None
        density = base.log_density if wants.log_density or wants.ratio else None
        return Point(x, density, score, base, self._differences(base) if wants.differences else None)

    def evaluate(self, x: Array) -> Point:
        return self.from_base(self.target.evaluate(self._with_others(x)))

    def evaluate_lazily(self, x: Array) -> Point:
        return self.evaluate(x)

    def refresh(self, point: Point) -> Point:
        if self.of_part and wanted(self.requires).score:
            return self.from_base(self.target.evaluate(point.base.x))
        return self.from_base(self.target.refresh(point.base))

    def log_density(self, x: Array) -> Array:
        return self.target.log_density(self._with_others(x))

    def score(self, x: Array) -> Array:
        return self.of_all(self.target.score(self._with_others(x)))

    def hvp(self, x: Array, v: Array) -> Array:
        zeros = self.xp.zeros_like(self.origin.x)
        return self.of_all(self.target.hvp(self._with_others(x), self._with_others(v, zeros)))

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        return self.target.acceptance_correction(proposal.base, current.base)

    def of_all(self, values: Array) -> Array:
        """The block's coordinates of values ``(*chains, dim)`` of all parameters."""
        return self._all.take(self.xp, values, self.names)

    def _with_others(self, x: Array, others: Array | None = None) -> Array:
        parts: Mapping[str, Array]
        begin, parts = 0, {}
        for name in self.names:
            end = begin + self._all.part(name).dim
            parts[name] = x[..., begin:end]
            begin = end
        return self._all.put(self.xp, self.origin.x if others is None else others, parts)

    def _differences(self, base: Point) -> Array:
        """Log densities of all positions that differ in one variable of the block, less that at the point."""
        assert isinstance(self.space, Discrete)

        def change(y: Array) -> Array:
            return self.target.log_density(self._with_others(y, base.x)) - base.log_density

        return self.space.around(self.xp, self.of_all(base.x), change)
