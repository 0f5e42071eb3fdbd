"""Bound targets: what kernels call. A `Target` fitted to an array library, or a target made from a bound target."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.hyperparameters import check_reals
from xpsample.gradients.choices import Evaluations
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.space import Space
from xpsample.targets.acceptance import Acceptance
from xpsample.targets.bonds import Bonds
from xpsample.targets.point import Capability, Costs, Point, wanted


class BoundTarget(ABC):
    """A target fitted to an array library: what a kernel's ``init`` and ``step`` are given.

    Attributes
    ----------
    backend : Backend
    xp : namespace
        The array API namespace of the positions, resolved once.
    space : Space
        Space of the positions.
    requires : Capability
        What `evaluate` evaluates.
    costs : Costs
        What each call costs.
    data : tree of arrays
        The arrays that the target holds, for drivers that pass them to a compiled program.
    constrained : bool
        Whether a log density of -inf is meant.
    acceptance : Acceptance
        What stands for ratios of its densities.
    """

    if TYPE_CHECKING:  # subclasses have each as a dataclass field or as a property

        @property
        def backend(self) -> Backend: ...
        @property
        def xp(self) -> Any: ...
        @property
        def space(self) -> Space: ...
        @property
        def requires(self) -> Capability: ...
        @property
        def costs(self) -> Costs: ...
        @property
        def data(self) -> tree.Tree: ...
        @property
        def constrained(self) -> bool: ...
        @property
        def acceptance(self) -> Acceptance: ...

    @abstractmethod
    def as_floating(self, x: Array) -> Array:
        """Positions as floating numbers: `x` itself unless it holds integers."""

    @abstractmethod
    def evaluate(self, x: Array) -> Point:
        """Evaluate what the kernel requires at ``x``, shape ``(*chains, dim)``."""

    @abstractmethod
    def evaluate_lazily(self, x: Array) -> Point:
        """As `evaluate`, for a kernel that refreshes the point first: parts that may change are not evaluated.

        The underlying point in ``base`` is complete.
        """

    @abstractmethod
    def refresh(self, point: Point) -> Point:
        """Evaluate a point again under this target, which may have changed since, and reuse what is still valid."""

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """The log density alone, shape ``(*chains)``, whatever `evaluate` evaluates: for many positions of which one
        is taken."""

    def differences_at(self, x: Array, i: Any) -> Array:
        """The differences of variable i, ``(*chains, choices - 1)``, on a discrete space; see `Point.differences`.

        i is an integer or a 0-d array of one. `sweep_cost` is the cost of all variables.
        """
        return self._differences_at(x, i)

    def sweep_cost(self, x: Array) -> Evaluations:
        """Cost of `differences_at` for every variable once."""
        return self._sweep_cost(x)

    def bonds(self) -> Bonds:
        """The bonds of a ferromagnet. CapabilityError if the target does not state any."""
        return self._bonds()

    def _differences_at(self, x: Array, i: Any) -> Array:
        """By the log density at every value of the variable; targets that know more have them for less."""
        xp, space = self.xp, self.space
        assert isinstance(space, Discrete)
        # The axis of the values leads, so that whatever broadcasts against the chains still does.
        values = xp.reshape(space.numbers(space.choices), (space.choices, *(1,) * x.ndim))
        chosen = space.numbers(space.variables(x.shape[-1])) == i
        around = self.log_density(space.move(xp, x, xp.where(chosen, values, 0)))
        moves = xp.permute_dims(around[1:, ...] - around[:1, ...], (*range(1, around.ndim), 0))
        return space.of_variable(i).valid(xp, moves[..., None, :])[..., 0, :]

    def _sweep_cost(self, x: Array) -> Evaluations:
        assert isinstance(self.space, Discrete)
        return self.costs.log_density.times(self.space.variables(x.shape[-1]) * self.space.choices)

    def _bonds(self) -> Bonds:
        raise CapabilityError(
            f"SwendsenWang needs the bonds of its target, which a {type(self).__name__} does not have. Use Sweep()."
        )

    @abstractmethod
    def score(self, x: Array) -> Array:
        """Gradient of the log density, shape ``(*chains, dim)``."""

    @abstractmethod
    def hvp(self, x: Array, v: Array) -> Array:
        """Hessian of the log density times v, shape ``(*chains, dim)``."""

    @abstractmethod
    def score_plus_hvp(self, x: Array, v: Array) -> Array:
        """The sum of both, ``(*chains, dim)``: the score at x + v to first order in v. They may share work."""

    @abstractmethod
    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        """Term that `log_ratio` adds to the difference of the log densities, ``(*chains)``; None for 0."""

    @abstractmethod
    def with_data(self, data: tree.Tree) -> "BoundTarget":
        """The same target with other data of the same structure."""

    def log_ratio(self, proposal: Point, current: Point, log_proposal_ratio: Array | float = 0.0) -> Array:
        """The logarithm of the Metropolis-Hastings ratio, ``(*chains)``, of two of this target's points.

        ``log pi(x') - log pi(x)``, by the target's `Acceptance`, plus the kernel's ``log q(x | x') - log q(x' | x)``.
        An acceptance that is the `whole` ratio has both.
        """
        correction = self.acceptance_correction(proposal, current)
        if correction is not None and self.acceptance.whole:
            return correction
        known = proposal.log_density - current.log_density
        return (known if correction is None else known + correction) + log_proposal_ratio


class DataAndAcceptance(NamedTuple):
    """The data of a target whose `Acceptance` holds arrays, too."""

    own: tree.Tree
    acceptance: tree.Tree


Bound = TypeVar("Bound", bound=BoundTarget)


class Rows(NamedTuple):
    """Rows of the data of a `posterior`, a tree of arrays (*sets, rows, ...), and the weight of their log likelihood.

    The weight has as many axes, each of length 1, as there are axes of sets.
    """

    rows: tree.Tree
    weight: Any

    def replaced(self, rows: tree.Tree) -> "Rows":
        """Return other rows with the same axes of sets; CapabilityError for rows that are read by number."""
        if isinstance(self.rows, RowNumbers):
            raise CapabilityError(
                "data= cannot replace rows in files or datasets: make another target by posterior(...)"
            )
        return rows if isinstance(rows, Rows) else rows_of(rows, self.weight.ndim)

    @property
    def sets(self) -> tuple[int, ...]:
        """The axes of sets."""
        return tuple(tree.leaves(self.rows)[0].shape[: self.weight.ndim])

    @property
    def number(self) -> int:
        """N, the number of rows of a set."""
        return tree.leaves(self.rows)[0].shape[self.weight.ndim]

    def some(self, most: int = 256) -> "Rows":
        """Evenly spaced rows, at most so many, with a weight of N / n."""
        at = (*(slice(None) for _ in range(self.weight.ndim)), slice(None, None, -(-self.number // most)), ...)
        few = self._replace(rows=tree.map(lambda leaf: leaf[at], self.rows))
        return few._replace(weight=self.weight * (self.number / few.number))


class RowNumbers(NamedTuple):
    """Numbers of rows that the functions of a target read when they are called, in place of the rows."""

    numbers: Array


def rows_of(rows: tree.Tree, sets: int) -> Rows:
    """Return rows with a weight of 1; HyperparameterError unless they are arrays (*sets, rows, ...)."""
    check_rows(rows)
    shapes = {path: tuple(leaf.shape) for path, leaf in tree.items(rows)}
    fronts = {shape[: sets + 1] for shape in shapes.values()}
    if len(fronts) != 1 or any(len(front) <= sets or 0 in front for front in fronts):
        where = "the rows on its first axis" if sets == 0 else f"the same {sets} axes of sets, then the rows"
        raise HyperparameterError(f"every leaf of rows has {where}; got the shapes {shapes}")
    return Rows(rows, np.ones((1,) * sets))


def check_rows(rows: tree.Tree) -> None:
    """Raise HyperparameterError unless all leaves are arrays of real numbers."""
    for path, leaf in tree.items(rows):
        native = leaf.view(leaf.dtype.newbyteorder("=")) if type(leaf) is np.ndarray else leaf
        check_reals(f"rows {path!r}" if path else "rows", native, "an array")


def on_some_rows(target: Bound) -> Bound:
    """Return the target on some of its rows, if its kernel evaluates batches only: a check needs no more."""
    few = Capability.SOME_ROWS in target.requires and isinstance(target.data, Rows)
    return cast("Bound", target.with_data(target.data.some())) if few else target


class OnTarget(BoundTarget):
    """A bound target made from another one, `target`, whose library and acceptance it shares, and perhaps from more."""

    if TYPE_CHECKING:

        @property
        def target(self) -> BoundTarget: ...

    @property
    def backend(self) -> Backend:
        """The underlying target's."""
        return self.target.backend

    @property
    def xp(self) -> Any:
        """The underlying target's."""
        return self.target.xp

    @property
    def acceptance(self) -> Acceptance:
        """The underlying target's."""
        return self.target.acceptance

    def as_floating(self, x: Array) -> Array:
        return self.target.as_floating(x)


class DerivedTarget(OnTarget):
    """A bound target made from another one, `target`, whose library and data it shares. Subclasses are dataclasses.

    They say where their positions live, in ``space``.
    """

    @property
    def data(self) -> tree.Tree:
        """The underlying target's."""
        return self.target.data

    @property
    def constrained(self) -> bool:
        """The underlying target's."""
        return self.target.constrained

    def score_plus_hvp(self, x: Array, v: Array) -> Array:
        return self.score(x) + self.hvp(x, v)

    def with_data(self, data: tree.Tree) -> BoundTarget:
        return replace(self, target=self.target.with_data(data))  # type: ignore[type-var]


class WrappedTarget(DerivedTarget):
    """A derived target whose points are made from the other target's, which they carry in ``base``.

    It writes seven members: ``requires``, ``costs``, ``from_base``, ``log_density``, ``score``, ``hvp`` and
    ``acceptance_correction``.
    """

    @property
    def space(self) -> Space:
        """The underlying target's."""
        return self.target.space

    @abstractmethod
    def from_base(self, base: Point) -> Point:
        """Make a point of this target from a point of the underlying one."""

    def evaluate(self, x: Array) -> Point:
        return self.from_base(self.target.evaluate(x))

    def evaluate_lazily(self, x: Array) -> Point:
        # `refresh` will replace these values; they give the point its structure.
        base, wants = self.target.evaluate(x), wanted(self.requires)
        density = base.log_density if wants.log_density or wants.ratio else None
        score = base.score if wants.score else None
        differences = base.differences if wants.differences else None
        return Point(base.x, density, score, base, differences)

    def refresh(self, point: Point) -> Point:
        return self.from_base(self.target.refresh(point.base))


class SameRatioTarget(WrappedTarget):
    """A wrapped target that adds to the log density what its points know: the rest of a ratio is the other one's."""

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        assert not self.acceptance.whole  # a whole ratio would omit what is added; `check_target_fits` refuses it
        return self.target.acceptance_correction(proposal.base, current.base)


def counter(target: BoundTarget, x: Array) -> Array:
    """A zero to count steps with, 0-d, where x lives (whole on every device of a sharded x).

    The dtype is int64, or the widest integers that the library has enabled.
    """
    return target.backend.from_host(np.zeros((), dtype=np.int64), x)
