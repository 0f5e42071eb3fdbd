"""What kernels on discrete spaces share: estimated differences, and choices by inverse CDF with one uniform each."""

from typing import Any

from xpsample.backend import Array
from xpsample.targets.discrete import Discrete, pick
from xpsample.targets.target import BoundTarget, Point


def space_of(target: BoundTarget) -> Discrete:
    """The target's discrete space (a kernel that asks for it has required DISCRETE)."""
    assert isinstance(target.space, Discrete)
    return target.space


def estimated_differences(target: BoundTarget, point: Point) -> Array:
    """First-order estimate of `Point.differences` from the score, s_i (v - x_i)."""
    x, score = target.real(point.x), point.score[..., None]
    return space_of(target).changes(target.xp, x, lambda v: score * v)


def choose(xp: Any, logits: Array, uniform: Array) -> Array:
    """One of several outcomes: the inverse CDF at a uniform.

    Parameters
    ----------
    logits : array, shape (..., n)
        Log weights; -inf is never chosen.
    uniform : array, shape (...)

    Returns
    -------
    array of int32, shape (...)
    """
    top = xp.max(logits, axis=-1, keepdims=True)
    cdf = xp.cumulative_sum(xp.exp(logits - top), axis=-1)
    return xp.astype(xp.sum(cdf < uniform[..., None] * cdf[..., -1:], axis=-1), xp.int32)


def log_probability(xp: Any, logits: Array, choice: Array) -> Array:
    """Log probability, ``(...)``, of `choice` (...) under softmax of `logits` (..., n)."""
    top = xp.max(logits, axis=-1)
    total = xp.log(xp.sum(xp.exp(logits - top[..., None]), axis=-1)) + top
    return pick(xp, logits, choice) - total


def with_stay(xp: Any, logits: Array) -> Array:
    """Logits of the alternatives ``(..., choices - 1)``, led by those of staying, which are 0: ``(..., choices)``."""
    return xp.concat([xp.zeros_like(logits[..., :1]), logits], axis=-1)


def one_move(target: BoundTarget, x: Array, chosen: Array) -> tuple[Array, Array]:
    """A move of one variable, from its place in the flattened ``(variables, choices - 1)``.

    Parameters
    ----------
    x : array, shape (*chains, dim)
    chosen : array of int, shape (*chains)

    Returns
    -------
    choice : array of int32, shape (*chains, variables)
        For `Discrete.move`.
    back : array of int32, shape (*chains)
        The place of the move that undoes it.
    """
    xp, space = target.xp, space_of(target)
    others = space.choices - 1
    variable = space.numbers(space.variables(x.shape[-1]))
    alternative = chosen % others + 1
    choice = xp.where(variable == (chosen // others)[..., None], alternative[..., None], 0)
    back = xp.max(space.back(xp, choice), axis=-1)  # 0 for all other variables
    return choice, chosen - alternative + back
