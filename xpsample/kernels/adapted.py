"""A kernel during its warm-up: the same steps, with hyperparameters that adapt to the chains' history."""

from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property, singledispatch
from typing import Any, NamedTuple

import numpy as np

from xpsample.adaptation.rule import FollowingRule, Rule, StepRecord, unset
from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import PER_CHAIN, arguments, settings, with_arguments
from xpsample.core.registry import backend_of, to_host
from xpsample.core.specs import Specs
from xpsample.kernels.compose import kernels_inside
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.schedules import with_field
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point


class AdaptedState(NamedTuple):
    """The kernel's own state, the memories of the rules by hyperparameter, and steps made and to be made (0-d)."""

    base: Any
    memory: dict[str, tree.Tree]
    n: Array
    steps: Array

    @property
    def point(self) -> Point:
        """The kernel's own."""
        return self.base.point


class AdaptedKernel(Kernel[AdaptedState, Any]):
    """A kernel whose unset hyperparameters are tuned from step to step. `sample` creates and ends it.

    In a warm-up, which has `steps` steps, the target stays the same, and the values converge. A kernel that is
    `following` moves particles whose target changes: `follow` is called before each step, metrics are estimated from
    the sample passed to it, and the values never converge. The last chain axis is `pooled`, if there is one; the others
    are groups.
    """

    base: Kernel
    steps: float = field(metadata=PER_CHAIN)
    pooled: bool
    following: bool = False

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rule of each unset hyperparameter."""
        return unset(self.base)

    @declared
    def requires(self) -> Capability:
        return self.base.requires

    @declared
    def traits(self) -> Trait:
        return self.base.traits

    def init(self, target: BoundTarget, x: Array) -> AdaptedState:
        if not self.pooled and x.ndim > 1:
            raise HyperparameterError(
                f"{type(self.base).__name__} is tuned on each rung, for which a single chain needs an axis: pass "
                "x0[None, :]"
            )
        xp, start = target.xp, _floating(target, target.evaluate(x))
        memory = {name: rule.init(xp, start, self.pooled) for name, rule in self.rules.items()}
        steps = xp.sum(xp.zeros_like(start.x)) + self.steps
        return AdaptedState(self._with_values(xp, memory).init(target, x), memory, counter(target, x), steps)

    def follow(self, target: BoundTarget, state: AdaptedState, point: Point) -> AdaptedState:
        """The state before a step on another target, of which the positions of `point`, (*chains), are a sample."""
        xp, point = target.xp, _floating(target, target.refresh(point))
        memory = dict(state.memory)
        for name, rule in self.rules.items():
            assert isinstance(rule, FollowingRule)  # as `following` has checked
            memory[name] = rule.follow(xp, state.memory[name], point, self.pooled)
        return state._replace(memory=memory)

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: AdaptedState, noise: dict[str, Array]) -> tuple[AdaptedState, Any]:
        xp = target.xp
        kernel = self._with_values(xp, state.memory)
        base, info = kernel.advance(target, state.base, noise)
        n, dtype = state.n + 1, info.acceptance_probability.dtype
        seen = StepRecord(
            backend=target.backend,
            xp=xp,
            n=0.5 * state.steps if self.following else xp.astype(n, dtype),
            steps=state.steps,
            before=_floating(target, state.base.point),
            after=_floating(target, base.point),
            info=info,
            kernel=kernel,
            pooled=self.pooled,
            beyond=_beyond(target, info),
            following=self.following,
            searching=n < 0,
            switched=n < 0,
        )
        memory = dict(state.memory)
        for name, rule in self.rules.items():
            if not (self.following and rule.rank == 0):
                memory[name], seen = rule.update(state.memory[name], seen)
        return AdaptedState(base, memory, n, state.steps), info

    def path(self, xp: Any, memory: dict[str, tree.Tree]) -> dict[str, Array]:
        """The hyperparameters as they are, for a plot of the warm-up."""
        return {name: rule.path(xp, memory[name]) for name, rule in self.rules.items()}

    def final(self, xp: Any, memory: dict[str, tree.Tree]) -> dict[str, Any]:
        """The tuned hyperparameters, as a user could write them: plain ones where there is one group."""
        kernel: Any = self.base
        metadata = {f.name: f.metadata for f, _ in settings(kernel)}
        found: dict[str, Any] = {}
        for name, rule in self.rules.items():
            if rule.settled is not None:
                found[name] = rule.settled
                continue
            value = rule.final(xp, memory[name])
            if not is_array(value):  # a low-rank covariance, or a cycle
                found[name] = value.of_one_group()
                continue
            own = 0  # axes of the value of one group
            if "coordinates" in metadata[name]:
                own = 2 if len(value.shape) > 1 and value.shape[-2] != 1 else 1
            if any(n != 1 for n in value.shape[: len(value.shape) - own]):
                found[name] = value
            else:
                found[name] = (
                    xp.reshape(value, value.shape[len(value.shape) - own :]) if own else float(xp.reshape(value, ()))
                )
        return found

    def _with_values(self, xp: Any, memory: dict[str, tree.Tree]) -> Kernel:
        kernel = self.base
        for name, rule in self.rules.items():
            kernel = with_field(kernel, name, rule.value(xp, memory[name], kernel))
        return kernel


def taken(target: BoundTarget, index: np.ndarray, leaf: Any) -> Any:
    """The entries of an array (*groups, chains, ...) by their place among the chains; another leaf as it is."""
    if not is_array(leaf) or tuple(leaf.shape[: index.ndim]) != index.shape:
        return leaf
    places = index.reshape(*index.shape, *[1] * (leaf.ndim - index.ndim))
    places = target.backend.from_host(np.broadcast_to(places, leaf.shape).copy(), leaf)
    return target.xp.take_along_axis(leaf, places, axis=index.ndim - 1)


def _beyond(target: BoundTarget, info: Any) -> Any:
    """Return whether a step crossed a hard bound, as reported by its kernel or declared by the target."""
    if hasattr(info, "beyond"):
        return info.beyond
    return (info.acceptance_probability <= 0) & ~info.diverged & target.constrained


def _floating(target: BoundTarget, point: Point) -> Point:
    return point._replace(x=target.as_floating(point.x))


# ---- kernels within kernels ------------------------------------------------------------------------------------------


def with_tuning(kernel: Any, steps: int, pooled: bool) -> Any:
    """Return a kernel in which each part with unset hyperparameters is wrapped in an `AdaptedKernel`."""
    inner = {name: with_tuning(part, steps, pooled) for name, part in kernels_inside(kernel)}
    kernel = warming(replace(kernel, **inner)) if inner else kernel
    return AdaptedKernel(kernel, float(steps), pooled) if unset(kernel) else kernel


@singledispatch
def warming(kernel: Any) -> Any:
    """A kernel around another one, as it is in a warm-up: itself, unless another is registered for its type."""
    return kernel


def tunings(kernel: Any, state: tree.Tree) -> Iterator[tuple[AdaptedKernel, AdaptedState]]:
    """Every `AdaptedKernel` in a kernel, from the outermost inwards, with its part of the state."""
    return zip(_tunings(kernel), tuning_states(state), strict=True)


def tuned(kernel: Any, warmed: Any, state: Any) -> tuple[Any, Any]:
    """The kernel with the values that the warm-up found, and the state without the rules' memories.

    `warmed` is the kernel `with_tuning`, whose state it is. The values are made on the host, so that they are the same
    on every library whose memories are.
    """
    x = state.point.x
    values = iter([_final(tuning, own.memory, x) for tuning, own in tunings(warmed, state)])

    def plain(kernel: Any) -> Any:
        found = next(values) if unset(kernel) else {}
        found = {**found, **{name: plain(part) for name, part in kernels_inside(kernel)}}
        try:
            return replace(kernel, **found) if found else kernel
        except HyperparameterError as error:
            raise HyperparameterError(
                "the chains ran away in the warm-up, as if the density does not fall off. Check its sign, that it is a "
                f"log density, and its priors ({type(kernel).__name__}: {error})."
            ) from error

    return plain(kernel), _without_memory(state)


def _final(tuning: AdaptedKernel, memory: dict[str, tree.Tree], like: Array) -> dict[str, Any]:
    """`AdaptedKernel.final`, made on the host; arrays are of the library of `like`."""
    host, backend = tree.map(to_host, memory), backend_of(like)

    def moved(value: Any) -> Any:
        if is_array(value):
            return backend.from_host(to_host(value), like)
        inside = {path: moved(part) for path, part in arguments(value, is_array).items() if is_array(part)}
        return with_arguments(value, inside) if inside else value

    found = tuning.final(backend_of(np.zeros(())).xp, host)
    return {name: moved(value) for name, value in found.items()}


def _tunings(kernel: Any) -> Iterator[AdaptedKernel]:
    kernel = kernel if kernel.tuning_inside is None else kernel.tuning_inside
    if isinstance(kernel, AdaptedKernel):
        yield kernel
        kernel = kernel.base
    for _, part in kernels_inside(kernel):
        yield from _tunings(part)


def tuning_states(state: tree.Tree) -> Iterator[AdaptedState]:
    """Every part of a state that belongs to an `AdaptedKernel`, from the outermost inwards."""
    if isinstance(state, AdaptedState):
        yield state
        state = state.base
    if isinstance(state, (tuple, list)):
        for part in state:
            yield from tuning_states(part)


def _without_memory(state: tree.Tree) -> tree.Tree:
    if isinstance(state, AdaptedState):
        state = state.base
    return tree.rebuild(state, [*map(_without_memory, state)]) if isinstance(state, (tuple, list)) else state
