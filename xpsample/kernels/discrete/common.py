"""Helpers of kernels on discrete spaces: choices by inverse CDF, and moves of a single variable or of two places."""

from abc import abstractmethod
from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.specs import Specs, Uniform
from xpsample.kernels.kernel import ChainState, Info, Kernel, MemorylessKernel, metropolis, uniform_per_chain
from xpsample.kernels.traits import REVERSIBLE
from xpsample.spaces.discrete import Discrete, Permutations, as_index, pick
from xpsample.spaces.named import Named
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


def space_of(target: BoundTarget) -> Discrete:
    """The target's discrete space (a kernel that asks for it has required DISCRETE)."""
    assert isinstance(target.space, Discrete)
    return target.space


def uniform_per_variable(x: Array) -> Uniform:
    """One uniform for every variable of every chain; where a variable has several coordinates, the first are used."""
    return Uniform(tuple(x.shape))


def estimated_differences(target: BoundTarget, point: Point, scale: Any = 1.0) -> Array:
    """First-order estimate of `Point.differences` from the score, s_i (v - x_i), times `scale` (of the chain axes)."""
    x, score = target.as_floating(point.x), per_coordinate(scale) * point.score
    return space_of(target).changes(target.xp, x, lambda v: score[..., None] * v)


def choose(xp: Any, logits: Array, uniform: Array) -> Array:
    """One of several outcomes, (...) of int32, from log weights (..., n): the inverse CDF at a uniform, (...).

    A log weight of -inf is never chosen.
    """
    top = xp.max(logits, axis=-1, keepdims=True)
    cdf = xp.cumulative_sum(xp.exp(logits - top), axis=-1)
    below = (cdf < uniform[..., None] * cdf[..., -1:]) | (cdf == 0.0)  # a uniform may be 0
    return xp.sum(xp.astype(below, xp.int32), axis=-1, dtype=xp.int32)


def log_probability(xp: Any, logits: Array, choice: Array) -> Array:
    """Log probability, ``(...)``, of `choice` (...) under softmax of `logits` (..., n)."""
    top = xp.max(logits, axis=-1)
    total = xp.log(xp.sum(xp.exp(logits - top[..., None]), axis=-1)) + top
    return pick(xp, logits, choice) - total


def choose_or_stay(xp: Any, moves: Array, uniform: Array) -> Array:
    """`choose` among staying, with log weight 0, and the moves, (..., choices - 1): 0 to stay, j for move j."""
    top = _clipped_top(xp, moves)
    stay, weights = xp.exp(-top), xp.exp(moves - top[..., None])
    if moves.shape[-1] == 1:  # the usual space of two values: no sum over an axis of length 1
        return xp.astype(stay < uniform * (stay + weights[..., 0]), xp.int32)
    cdf = stay[..., None] + xp.cumulative_sum(weights, axis=-1)
    level = uniform * cdf[..., -1]
    beyond = xp.astype(cdf[..., :-1] < level[..., None], xp.int32)
    return xp.astype(stay < level, xp.int32) + xp.sum(beyond, axis=-1, dtype=xp.int32)


def log_probability_or_stay(xp: Any, moves: Array, choice: Array) -> Array:
    """Log probability, ``(...)``, of a `choice` (...) of `choose_or_stay` among `moves` (..., choices - 1)."""
    top = _clipped_top(xp, moves)
    weights = xp.exp(moves - top[..., None])
    single = moves.shape[-1] == 1
    total = xp.exp(-top) + (weights[..., 0] if single else xp.sum(weights, axis=-1))
    moved = choice > 0
    chosen = moves[..., 0] if single else pick(xp, moves, xp.where(moved, choice - 1, 0))
    return xp.where(moved, chosen, 0.0) - (xp.log(total) + top)


def _clipped_top(xp: Any, moves: Array) -> Array:
    """The largest log weight of the moves and of staying, 0."""
    top = moves[..., 0] if moves.shape[-1] == 1 else xp.max(moves, axis=-1)
    return xp.where(top > 0.0, top, 0.0)


def one_move(target: BoundTarget, x: Array, chosen: Array) -> tuple[Array, Array]:
    """A move of one variable, from its place in the flattened ``(variables, choices - 1)``, `chosen`, (*chains).

    Gives the choice for `Discrete.move`, (*chains, variables), and the place of the move that undoes it, (*chains).
    """
    xp, space = target.xp, space_of(target)
    others = space.choices - 1
    variable = space.numbers(space.variables(x.shape[-1]))
    alternative = chosen % others + 1
    choice = xp.where(variable == (chosen // others)[..., None], alternative[..., None], 0)
    back = xp.max(space.back(xp, choice), axis=-1)  # 0 for all other variables
    return choice, chosen - alternative + back


class OneVariable(MemorylessKernel[Info]):
    """One move of one variable, chosen by weights and accepted by Metropolis-Hastings."""

    @abstractmethod
    def logits(self, target: BoundTarget, point: Point) -> Array:
        """Log weights of all moves from a point, ``(*chains, variables, choices - 1)``; -inf is never chosen."""

    def noise(self, x: Array) -> Specs:
        return {"proposal": uniform_per_chain(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp

        def flat(at: Point) -> Array:
            moves = self.logits(target, at)
            return xp.reshape(moves, (*moves.shape[:-2], -1))

        current = state.point
        weights = flat(current)
        chosen = choose(xp, weights, noise["proposal"])
        choice, back = one_move(target, current.x, chosen)
        proposal = target.evaluate(space_of(target).move(xp, current.x, choice))
        log_proposal_ratio = log_probability(xp, flat(proposal), back) - log_probability(xp, weights, chosen)
        log_ratio = proposal.log_density - current.log_density + log_proposal_ratio
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
        return ChainState(point), info


class TwoPlaces(Kernel[ChainState, Info]):
    """Rearrange a permutation by two places drawn uniformly, in a way that undoes itself, and accept by Metropolis."""

    requires: ClassVar[Capability] = Capability.LOG_DENSITY
    traits = REVERSIBLE

    @abstractmethod
    def sources(self, xp: Any, place: Array, low: Array, high: Array) -> Array:
        """Return the place that each item comes from, ``(*chains, n)``, for places low < high, ``(*chains, 1)``."""

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        if not isinstance(target.space, Permutations):
            shown = "that of a Model" if isinstance(target.space, Named) else f"{target.space!r}"
            raise CapabilityError(
                f"{type(self).__name__} moves permutations, but the space is {shown}. Pass Target(..., "
                "space=Permutations()), or use Blocks for the parameters of a Model."
            )
        return ChainState(target.evaluate(x))

    def noise(self, x: Array) -> Specs:
        return {"first": uniform_per_chain(x), "second": uniform_per_chain(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space = target.xp, target.space
        assert isinstance(space, Permutations)
        current = state.point
        n = current.x.shape[-1]
        # Two different places: the second is 1 .. n - 1 places after the first, cyclically.
        first = xp.astype(xp.floor(noise["first"] * n), xp.int32)
        second = (first + 1 + xp.astype(xp.floor(noise["second"] * (n - 1)), xp.int32)) % n
        low, high = xp.minimum(first, second)[..., None], xp.maximum(first, second)[..., None]
        sources = as_index(xp, self.sources(xp, space.places, low, high))
        proposal = target.evaluate(xp.take_along_axis(current.x, sources, axis=-1))
        log_ratio = proposal.log_density - current.log_density
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
        return ChainState(point), info
