"""Base class of warm-up rules, which tune unset hyperparameters while the chains warm up."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

from xpsample.core.arrays import Array, Mask
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import ToBeTuned, settings, show
from xpsample.core.tree import Tree

# Tuned values are rounded to e^(k / 1024), and metrics to e^(k / 64), with whole k.
# Libraries whose sums differ in their last bits therefore tune to the same values, and their chains stay together.
STEP_BITS, METRIC_BITS = 1024, 64


class StepRecord(NamedTuple):
    """Record of one step that the rules of a kernel receive.

    Attributes
    ----------
    backend : Backend
    xp : namespace
    n, steps : array, 0-d
        Number of this step, from 1, and total number of warm-up steps; floating.
    before, after : Point
        Points of the chains, under the kernel's own target.
    info : Info
        What the step did.
    kernel : Kernel
        Kernel with the values used in this step.
    pooled : bool
        Whether there is a chain axis to pool.
    beyond : array of bool, shape (*chains)
        Whether the step crossed a hard bound, which no step size would have avoided.
    following : bool
        Whether the target changes from step to step.
    searching, switched : array of bool
        Whether the search for a first step size continues, and whether the metric began a new window; they broadcast
        against ``(*groups, 1)``. False unless a rule sets it.
    """

    backend: Any
    xp: Any
    n: Array
    steps: Array
    before: Any
    after: Any
    info: Any
    kernel: Any
    pooled: bool
    beyond: Mask
    following: bool
    searching: Mask
    switched: Array

    def mean(self, values: Array) -> Array:
        """The mean over the chains of each group, ``(*chains)`` to ``(*groups, 1)``."""
        return self.xp.mean(values, axis=-1, keepdims=True) if self.pooled else values

    def mean_vector(self, values: Array) -> Array:
        """Vector version of `mean`, ``(*chains, dim)`` to ``(*groups, 1, dim)``."""
        return self.xp.mean(values, axis=-2, keepdims=True) if self.pooled else values


class Rule(FrozenDataclass, ToBeTuned):
    """Rule that tunes one hyperparameter: a frozen value, which a kernel's author names for a field with `tuned`.

    A user may set another rule in the field instead of a value; its unset fields (None) default to the author's.

    Its memory is a tree of arrays, a part of the chains' state. Values are pooled over the last chain axis; the other
    axes index groups that are tuned independently. Final subclasses are frozen dataclasses.
    """

    rank: ClassVar[int]
    """Rules of a kernel are updated in this order: metrics 0, step sizes 1, lengths 2."""

    settled: ClassVar[Any] = None
    """Final value, if known in advance. Particles, which do not warm up, use it from the start."""

    @abstractmethod
    def init(self, xp: Any, point: Any, pooled: bool) -> Tree:
        """Create the initial memory from `point`, the target's initial point with floating positions."""

    @abstractmethod
    def value(self, xp: Any, memory: Tree, kernel: Any) -> Any:
        """Return the value of the kernel's field for the next step; `kernel` has the values of lower-rank rules."""

    @abstractmethod
    def update(self, memory: Tree, seen: StepRecord) -> tuple[Tree, StepRecord]:
        """Return the memory after a step, and the record for the rules of higher rank."""

    @abstractmethod
    def final(self, xp: Any, memory: Tree) -> Any:
        """Return the value for the kernel's constructor after the warm-up, ``(*groups, 1)`` or ``(*groups, 1, dim)``.

        A metric may also be ``(*groups, dim, dim)``. A value that is not an array, such as a `LowRankCovariance`, has a
        method ``of_one_group``, which returns it without group axes if there is only one group.
        """

    @abstractmethod
    def path(self, xp: Any, memory: Tree) -> Array:
        """Return a row of ``trace.warmup``."""


class FollowingRule(Rule):
    """Rule whose memory follows a target that changes from step to step, as the targets of particles do."""

    @abstractmethod
    def follow(self, xp: Any, memory: Tree, point: Any, pooled: bool) -> Tree:
        """Adapt the memory to a new target, of which the chains' points are a sample."""


def unset(kernel: Any) -> dict[str, Rule]:
    """Return the kernel's own hyperparameters to be tuned with their rules, in the order of their ranks.

    Raises
    ------
    HyperparameterError
        If a rule is set for a field that it cannot tune.
    """
    found = {}
    for f, value in settings(kernel):
        own = f.metadata.get("tuned")
        if isinstance(value, Rule):
            found[f.name] = _in_place_of(own, value, f"{type(kernel).__name__}'s {f.name}")
        elif own is not None and value is None:
            unless, only_with = f.metadata["unless"], f.metadata["only_with"]
            if not (_is_given(kernel, unless) or _is_given(kernel, only_with)):
                found[f.name] = own
    return dict(sorted(found.items(), key=lambda item: item[1].rank))


def _is_given(kernel: Any, name: str | None) -> bool:
    value = None if name is None else getattr(kernel, name)
    return value is not None and not isinstance(value, Rule)


def _in_place_of(own: Rule | None, rule: Rule, where: str) -> Rule:
    """Return a user's rule with its unset fields filled from the kernel's own rule."""
    if own is None:
        raise HyperparameterError(f"{where} cannot be tuned in a warm-up. Set a value instead of {show(rule)}.")
    if own.rank != rule.rank:
        raise HyperparameterError(f"{where} must be tuned by a rule such as {show(own)}, got {show(rule)}")
    missing = [f.name for f, value in settings(rule) if value is None]
    return replace(cast(Any, rule), **{name: getattr(own, name) for name in missing if hasattr(own, name)})


def rounded(xp: Any, log_value: Array, bits: int) -> Array:
    """``exp(log_value)``, rounded to a grid of `bits` values for each factor of e, and to float32."""
    value = xp.exp(xp.round(log_value * bits) / bits)
    return xp.astype(xp.astype(value, xp.float32), log_value.dtype)


def per_group(xp: Any, x: Array, pooled: bool) -> Array:
    """Zeros ``(*groups, 1)`` for positions ``(*chains, dim)``; summed, not sliced, because chains may be sharded."""
    zeros = xp.zeros_like(x[..., 0])
    return xp.sum(zeros, axis=-1, keepdims=True) if pooled else zeros


def vector_per_group(xp: Any, x: Array, pooled: bool) -> Array:
    """Vector version of `per_group`, ``(*groups, 1, dim)``."""
    zeros = xp.zeros_like(x)
    return xp.sum(zeros, axis=-2, keepdims=True) if pooled else zeros
