"""Base class of kernels, and helpers that they share: noise shapes, Metropolis acceptance, freezing."""

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.covariance import Covariance
from xpsample.core.errors import FunctionError, HyperparameterError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.special import minimum_with_zero
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.traits import MEMORYLESS, Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class Info(NamedTuple):
    """Statistics of one step.

    ``acceptance_probability`` (*chains) in the dtype of log density and score; ``moved`` and ``diverged`` (*chains)
    booleans; ``evaluations`` per chain, integers where they are the same at every step.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations

    @classmethod
    def of(cls, info: Any, steps: int = 1) -> "Info":
        """The four fields of any kernel's info, as one of so many steps, whose probabilities are averaged."""
        return cls(info.acceptance_probability / steps, info.moved, info.diverged, info.evaluations)

    def plus(self, later: "Info") -> "Info":
        """With what a further step did: probabilities and evaluations add up."""
        return Info(
            self.acceptance_probability + later.acceptance_probability,
            self.moved | later.moved,
            self.diverged | later.diverged,
            self.evaluations.plus(later.evaluations),
        )


if TYPE_CHECKING:  # whose checkers bring this package with them: a bare Kernel is a Kernel[Any, Any]
    import typing_extensions

    State = typing_extensions.TypeVar("State", default=Any)
    StepInfo = typing_extensions.TypeVar("StepInfo", default=Any)
else:
    State, StepInfo = TypeVar("State"), TypeVar("StepInfo")


class ChainState(NamedTuple):
    """The state of a kernel that remembers nothing but where it is."""

    point: Point


class Kernel(FrozenDataclass, Generic[State, StepInfo]):
    """A Markov transition, generic in its state and in its statistics of a step (`Info`, or more fields after those).

    Final subclasses are frozen dataclasses (``eq=False``); every state has a ``point``.

    Attributes
    ----------
    requires : Capability
        Capabilities that the target must have.
    traits : Trait
        Properties on which a kernel around it may rely.
    optimal_acceptance : float or None
        The acceptance probability that is optimal in theory or practice; None if there is none.
    tuning_inside : Kernel or None
        An inner kernel that tunes its unset hyperparameters at every step, so that no warm-up has to; None if there is
        none.
    """

    if TYPE_CHECKING:  # kernels have each as a class attribute, or `declared`
        requires: ClassVar[Capability]
        traits: ClassVar[Trait]
        optimal_acceptance: ClassVar[float | None]
        tuning_inside: ClassVar["Kernel[Any, Any] | None"]
    else:
        traits = MEMORYLESS
        optimal_acceptance = None
        tuning_inside = None

        @property
        @abstractmethod
        def requires(self) -> Capability:
            """A class attribute of kernels that always need the same."""

    def matrix(self, name: str) -> Covariance:
        """Return the matrix of a field declared by `matrix`, in the form that steps use."""
        matrix: Covariance = self.derived(name)
        return matrix

    def advance(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        """One step on a target that may have changed since the last one: the point is evaluated again first.

        Wrappers call it in place of `step`. For a target that stays the same it is that step. What the point
        costs is counted.
        """
        if "point" not in state._fields:  # of a wrapper, which calls `advance` of the kernel inside
            return self.step(target, state, noise)
        current = target.refresh(state.point)
        if current is state.point:
            return self.step(target, state, noise)
        info: Any
        new, info = self.step(target, state._replace(point=current), noise)
        return new, info._replace(evaluations=target.costs.refresh.plus(info.evaluations))

    @abstractmethod
    def init(self, target: BoundTarget, x: Array) -> State:
        """The state at the start positions x, shape ``(*chains, dim)``: a NamedTuple of arrays with a ``point``."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers that one step consumes, by name."""

    @abstractmethod
    def step(self, target: BoundTarget, state: State, noise: dict[str, Array]) -> tuple[State, StepInfo]:
        """One transition: (new state, info), a deterministic function of (state, noise)."""


class MemorylessKernel(Kernel[ChainState, StepInfo]):
    """A kernel that remembers nothing but where it is."""

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        return ChainState(target.evaluate(x))


def with_position(state: Any, point: Point) -> Any:
    """A kernel's state moved to another position, with all else that it holds (histories, step counts) kept.

    A wrapper's state has the state of the kernel inside as ``base``. If that kernel moves on the wrapper's own target,
    both have the same point. Else its point has the wrapper's in ``base``, and its other values are out of date, which
    `Kernel.advance` evaluates.

    Parameters
    ----------
    state : NamedTuple
        With a field ``point``, or a field ``base`` that is again such a state, or a method ``with_position``.
    point : Point
        Under the target that the kernel is given.
    """
    if "point" in state._fields:
        return state._replace(point=point)
    if hasattr(state, "with_position"):
        return state.with_position(point)
    if "base" not in state._fields:
        raise HyperparameterError(
            f"{type(state).__name__} has no field point or base and no method with_position, so no kernel can wrap its "
            "kernel. Add one of them."
        )
    inner = state.base.point
    inner = point if inner is state.point else inner._replace(x=point.x, base=point)
    return state._replace(base=with_position(state.base, inner))


# ---- noise -----------------------------------------------------------------------------------------------------------


def normal_like(x: Array) -> Normal:
    """One standard normal for every coordinate of every chain."""
    return Normal(tuple(x.shape))


def uniform_like(x: Array) -> Uniform:
    """One uniform for every coordinate of every chain."""
    return Uniform(tuple(x.shape))


def uniform_per_chain(x: Array) -> Uniform:
    """One uniform for every chain."""
    return Uniform(tuple(x.shape[:-1]))


# ---- acceptance ------------------------------------------------------------------------------------------------------


def select(xp: Any, mask: Array, new: tree.Tree, old: tree.Tree) -> tree.Tree:
    """Leaves of `new` where `mask` (*chains) holds, otherwise of `old`; leaves have shape (*chains, ...)."""

    def choose(a: Array, b: Array) -> Array:
        return xp.where(mask[(..., *(None,) * (a.ndim - mask.ndim))], a, b)

    return tree.map(choose, new, old)


def select_point(xp: Any, mask: Array, new: Point, old: Point) -> Point:
    """`select` for the points of a target."""
    where, wide = xp.where, mask[..., None]
    return Point(
        where(wide, new.x, old.x),
        None if new.log_density is None else where(mask, new.log_density, old.log_density),
        None if new.score is None else where(wide, new.score, old.score),
        None if new.base is None else select(xp, mask, new.base, old.base),
        None if new.differences is None else where(wide[..., None], new.differences, old.differences),
    )


def metropolis(
    target: BoundTarget,
    log_ratio: Array,
    uniform: Array,
    proposal: Point,
    current: Point,
    evaluations: Evaluations | None = None,
    max_energy_error: float = math.inf,
    possible: Array | None = None,
) -> tuple[Point, Info]:
    """Accept a proposal with probability ``min(1, exp(log_ratio))``.

    A proposal whose log density (or ratio) is not finite is rejected. It counts as a divergence, unless the target is
    constrained and has log density -inf there, or at the current position.

    Parameters
    ----------
    target : BoundTarget
        Whose points these are.
    log_ratio, uniform : array, shape (*chains)
    proposal, current : Point
    evaluations : Evaluations, optional
        What the step spent; by default the evaluation of one proposal.
    max_energy_error : float
        A log ratio below its negative counts as a divergence, too.
    possible : array of bool, shape (*chains), optional
        False for a proposal from which no move leads back (log q(x | x') = -inf). It is rejected, and is not a
        divergence.
    """
    xp = target.xp
    shape = uniform.shape
    if log_ratio.shape != shape or (possible is not None and getattr(possible, "shape", None) != shape):
        name, value = ("log ratio", log_ratio) if log_ratio.shape != shape else ("possible=", possible)
        raise FunctionError(
            f"the {name} of a kernel must have the shape of the chains, {tuple(shape)}; got {given(value)}: reduce "
            "over the last axis, axis=-1"
        )
    finite = xp.isfinite(log_ratio)
    probability = xp.where(finite, xp.exp(minimum_with_zero(xp, log_ratio)), 0.0)
    if possible is not None:
        probability = xp.where(possible, probability, 0.0)
    accept = uniform < probability
    diverged = ~finite if max_energy_error == math.inf else ~(finite & (log_ratio >= -max_energy_error))
    if possible is not None:
        diverged = diverged & possible
    if target.constrained:
        diverged = diverged & (proposal.log_density != -math.inf) & (current.log_density != -math.inf)
    spent = target.costs.evaluate if evaluations is None else evaluations
    return select_point(xp, accept, proposal, current), Info(probability, accept, diverged, spent)


def freeze(xp: Any, new: Point, current: Point, frozen: Array, evaluations: Evaluations) -> tuple[Point, Array, Info]:
    """Keep the current point, from now on, of the chains whose new positions or scores left the finite numbers.

    Parameters
    ----------
    new, current : Point
        With scores.
    frozen : array of bool, shape (*chains)
        The chains frozen before.
    evaluations : Evaluations
        What the step spent.

    Returns
    -------
    point, frozen, info
        ``info.moved`` flags the chains that are at `new`.
    """
    finite = xp.all(xp.isfinite(new.x) & xp.isfinite(new.score), axis=-1)
    stay = frozen | ~finite
    moves = ~stay
    probability = xp.astype(moves, new.score.dtype)  # positions may be integers
    return select_point(xp, moves, new, current), stay, Info(probability, moves, stay, evaluations)


def none_frozen(xp: Any, x: Array) -> Array:
    """The start value of a frozen mask, shape (*chains)."""
    return ~xp.all(xp.isfinite(x), axis=-1)
