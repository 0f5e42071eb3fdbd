"""What a warm-up rule is: how a hyperparameter that the user leaves out is tuned while the chains warm up."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

from xpsample.core.arrays import Array, Mask
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import ToBeTuned, settings, show
from xpsample.core.tree import Tree

STEP_BITS, METRIC_BITS = 1024, 64
"""Tuned values are rounded to e^(k / 1024), and metrics to e^(k / 64), with whole k.

So libraries whose sums differ in their last bits tune to the same values, and their chains stay together.
"""


class StepRecord(NamedTuple):
    """What the rules of a kernel see of one step.

    Attributes
    ----------
    backend : Backend
    xp : namespace
    n, steps : array, 0-d
        The number of this step, from 1, and of all steps of the warm-up; floating.
    before, after : Point
        Of the chains, under the kernel's own target.
    info : Info
        What the step did.
    kernel : Kernel
        With the values that the step was made with.
    pooled : bool
        Whether there is a chain axis to pool.
    beyond : array of bool, shape (*chains)
        Whether the step came to a place beyond a hard bound, which no step size would have avoided.
    following : bool
        Whether the target changes from step to step.
    searching, switched : array of bool
        Whether a first step size is still sought, and whether the metric began a new window; they broadcast against
        ``(*groups, 1)``. False where no rule says so.
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
        """As `mean`, ``(*chains, dim)`` to ``(*groups, 1, dim)``."""
        return self.xp.mean(values, axis=-2, keepdims=True) if self.pooled else values


class Rule(FrozenDataclass, ToBeTuned):
    """How one hyperparameter is tuned: a frozen value, which a kernel's author names for a field with `tuned`.

    A user may put another one into the field, in place of a value; what it leaves out (None) is as in the author's.

    Its memory is a tree of arrays, a part of the chains' state. Values are pooled over the last chain axis; every other
    one is a group that tunes for itself. Final subclasses are frozen dataclasses.
    """

    rank: ClassVar[int]
    """Rules of a kernel are updated in this order: metrics 0, step sizes 1, lengths 2."""

    settled: ClassVar[Any] = None
    """What it always ends with, if that is known before. Particles, which do not warm up, have it from the start."""

    @abstractmethod
    def init(self, xp: Any, point: Any, pooled: bool) -> Tree:
        """The memory at the start: `point` is the target's there, its positions floating numbers."""

    @abstractmethod
    def value(self, xp: Any, memory: Tree, kernel: Any) -> Any:
        """What stands in the kernel's field for the next step; the kernel has those of rules of lower rank."""

    @abstractmethod
    def update(self, memory: Tree, seen: StepRecord) -> tuple[Tree, StepRecord]:
        """The memory after a step, and what the rules of higher rank see."""

    @abstractmethod
    def final(self, xp: Any, memory: Tree) -> Any:
        """What the kernel's constructor takes when the warm-up ends: ``(*groups, 1)``, or ``(*groups, 1, dim)``.

        A metric may be ``(*groups, dim, dim)``, too. What is no array, such as a `LowRankCovariance`, has a method
        ``of_one_group``, which gives it without axes of groups where there is one group.
        """

    @abstractmethod
    def path(self, xp: Any, memory: Tree) -> Array:
        """A row of ``trace.warmup``."""


class FollowingRule(Rule):
    """A rule whose memory follows a target that changes from step to step, as those of particles do."""

    @abstractmethod
    def follow(self, xp: Any, memory: Tree, point: Any, pooled: bool) -> Tree:
        """The memory where the target is another one, of which the points of the chains are a sample."""


def unset(kernel: Any) -> dict[str, Rule]:
    """The hyperparameters of a kernel itself that are to be tuned, and how, in the order of their ranks.

    Raises
    ------
    HyperparameterError
        If a rule stands in a field that it cannot tune.
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
    """A user's rule, with what it leaves out taken from the kernel's own."""
    if own is None:
        raise HyperparameterError(f"{where} cannot be tuned in a warm-up: give a value in place of {show(rule)}")
    if own.rank != rule.rank:
        raise HyperparameterError(
            f"{where} is tuned by a rule such as {show(own)}, which {show(rule)} cannot stand for"
        )
    missing = [f.name for f, value in settings(rule) if value is None]
    return replace(cast(Any, rule), **{name: getattr(own, name) for name in missing if hasattr(own, name)})


def rounded(xp: Any, log_value: Array, bits: int) -> Array:
    """``exp(log_value)``, rounded to a grid of `bits` values for each factor of e, and to float32."""
    value = xp.exp(xp.round(log_value * bits) / bits)
    return xp.astype(xp.astype(value, xp.float32), log_value.dtype)


def per_group(xp: Any, x: Array, pooled: bool) -> Array:
    """Zeros ``(*groups, 1)`` for positions ``(*chains, dim)``; summed and not cut out, since chains may be sharded."""
    zeros = xp.zeros_like(x[..., 0])
    return xp.sum(zeros, axis=-1, keepdims=True) if pooled else zeros


def vector_per_group(xp: Any, x: Array, pooled: bool) -> Array:
    """As `per_group`, ``(*groups, 1, dim)``."""
    zeros = xp.zeros_like(x)
    return xp.sum(zeros, axis=-2, keepdims=True) if pooled else zeros
