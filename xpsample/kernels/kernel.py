"""What a kernel is, and the pieces that kernels share: noise shapes, Metropolis acceptance, freezing."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from xpsample import tree
from xpsample.backend import Array
from xpsample.errors import HyperparameterError
from xpsample.gradients.choices import Evaluations
from xpsample.noise import Normal, Specs, Uniform
from xpsample.special import finite_or_least, negative_part
from xpsample.targets.target import BoundTarget, Capability, Point

SQRT_HALF = math.sqrt(0.5)
"""Of standard normals z = SQRT_HALF * xi the density is exp(-z.z): a factor less in a step's log ratio."""


class Info(NamedTuple):
    """What one step did.

    ``acceptance_probability`` (*chains) in the dtype of log density and score; ``moved`` and ``diverged`` (*chains)
    booleans; ``evaluations`` per chain, integers where they are the same at every step.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations


class ChainState(NamedTuple):
    """The state of a kernel that remembers nothing but where it is."""

    point: Point


class Kernel(ABC):
    """A Markov transition. Final subclasses are frozen dataclasses (``eq=False``); every state has a ``point``.

    Attributes
    ----------
    requires : Capability
        What the target must give.
    one_target : bool
        Whether it leaves a target invariant only while the target is the same at all steps, because its state holds
        more positions than the one that it draws. False unless a kernel says otherwise.
    """

    requires: Capability
    one_target = False

    @abstractmethod
    def init(self, target: BoundTarget, x: Array) -> Any:
        """The state at the start positions x, shape ``(*chains, dim)``: a NamedTuple of arrays with a ``point``."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers that one step consumes, by name."""

    @abstractmethod
    def step(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        """One transition: (new state, info), a deterministic function of (state, noise)."""


def check_moving_target(owner: str, base: Kernel, instead: str) -> None:
    """Raise HyperparameterError if a kernel that changes its target from step to step is given one for `one_target`."""
    inner: Any = base
    while inner is not None:
        if inner.one_target:
            raise HyperparameterError(
                f"{owner} changes the target of its inner kernel from step to step; {type(inner).__name__} needs one "
                f"that stays the same, and would be biased. {instead}"
            )
        inner = getattr(inner, "base", None)


def relocate(state: Any, point: Point) -> Any:
    """A kernel's state moved to another position, with all else that it holds (histories, step counts) kept.

    A wrapper's state holds that of the kernel inside as ``base``, whose point carries the wrapper's own in ``aux``;
    what the inner point says beside that is out of date and is evaluated by the ``refresh`` that begins a step.

    Parameters
    ----------
    state : NamedTuple
        With a field ``point``, or a field ``base`` that is again such a state, or a method ``relocate`` of its own.
    point : Point
        Under the target that the kernel is given.
    """
    if "point" in state._fields:
        return state._replace(point=point)
    if hasattr(state, "relocate"):
        return state.relocate(point)
    inner = state.base.point._replace(x=point.x, aux=point)
    return state._replace(base=relocate(state.base, inner))


# ---- noise -----------------------------------------------------------------------------------------------------------


def normal_like(x: Array) -> Normal:
    """One standard normal for every coordinate of every chain."""
    return Normal(tuple(x.shape))


def uniform_per_chain(x: Array) -> Uniform:
    """One uniform for every chain."""
    return Uniform(tuple(x.shape[:-1]))


# ---- acceptance ------------------------------------------------------------------------------------------------------


def select(xp: Any, mask: Array, new: tree.Tree, old: tree.Tree) -> tree.Tree:
    """Leaves of `new` where `mask` (*chains) holds, else of `old`; leaves have shape (*chains, ...)."""
    return _select(xp.where, {mask.ndim: mask}, mask, new, old)


def _select(where: Any, masks: dict[int, Array], mask: Array, new: tree.Tree, old: tree.Tree) -> tree.Tree:
    # `tree.map`, written out for NamedTuples, of which every state is made.
    if hasattr(new, "_fields"):
        return type(new)(
            *[None if a is None else _select(where, masks, mask, a, b) for a, b in zip(new, old, strict=True)]
        )
    if new is None or isinstance(new, (dict, tuple, list)):
        return tree.map(lambda a, b: _select(where, masks, mask, a, b), new, old)
    ndim = new.ndim
    if ndim not in masks:
        masks[ndim] = mask[(..., *(None,) * (ndim - mask.ndim))]
    return where(masks[ndim], new, old)


def metropolis(
    xp: Any, log_ratio: Array, uniform: Array, proposal: Point, current: Point, evaluations: Evaluations
) -> tuple[Point, Info]:
    """Accept a proposal with probability ``min(1, exp(log_ratio))``.

    A proposal whose log density (or ratio) is not finite is rejected and counted as a divergence.

    Parameters
    ----------
    log_ratio, uniform : array, shape (*chains)
    proposal, current : Point
    """
    # The current density is finite, so this tells of the proposal's.
    log_ratio, diverged = finite_or_least(xp, log_ratio)
    accept = xp.log(uniform) < log_ratio
    probability = xp.exp(negative_part(xp, log_ratio))
    return select(xp, accept, proposal, current), Info(probability, accept, diverged, evaluations)


def freeze(
    xp: Any, new: tree.Tree, old: tree.Tree, frozen: Array, evaluations: Evaluations
) -> tuple[tree.Tree, Array, Info]:
    """Keep the old state, from now on, of the chains whose new positions or scores left the finite numbers.

    Parameters
    ----------
    new, old : NamedTuple with a ``point``
    frozen : array of bool, shape (*chains)
        The chains frozen before.

    Returns
    -------
    state, frozen, info
    """
    point = new.point
    finite = xp.all(xp.isfinite(point.x) & xp.isfinite(point.score), axis=-1)
    stay = frozen | ~finite
    moves = ~stay
    probability = xp.astype(moves, point.score.dtype)  # positions may be integers
    return select(xp, moves, new, old), stay, Info(probability, moves, stay, evaluations)


def none_frozen(xp: Any, x: Array) -> Array:
    """The start value of a frozen mask, shape (*chains)."""
    return ~xp.all(xp.isfinite(x), axis=-1)
