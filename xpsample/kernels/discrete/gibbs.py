"""Samplers of discrete spaces that need a log density only, one variable at a time: Metropolis, and the heat bath."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.discrete.common import choose_or_stay, informed_step, space_of
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, select, uniform_per_chain
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


@dataclass(frozen=True, eq=False)
class SingleFlip(MemorylessKernel[Info]):
    """Metropolis et al. (1953) with uniform proposals: one variable to one other value, all such moves alike.

    Needs a log density only: the control that an informed sampler has to beat.

    See Also
    --------
    Gibbs : Draws from the distribution of a variable.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.SingleFlip(), x0, 2000, seed=1)
    >>> bool(np.all(abs(trace.draws.mean(axis=(0, 1)) - 1 / (1 + np.exp(-b))) < 0.05))
    True
    """

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE
    traits = ADJUSTED

    def noise(self, x: Array) -> Specs:
        return {"proposal": uniform_per_chain(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space = target.xp, space_of(target)

        def logits(point: Point) -> Array:
            x = target.as_floating(point.x)
            return space.valid(xp, xp.zeros_like(space.changes(xp, x, lambda v: v)))

        point, info = informed_step(target, state.point, noise, logits)
        return ChainState(point), info


@dataclass(frozen=True, eq=False)
class Gibbs(MemorylessKernel[Info]):
    """The heat bath (Geman & Geman 1984): one variable, chosen uniformly, drawn from its distribution given all others.

    That distribution is normalised over all values of the variable, which takes choices - 1 evaluations in one
    batched call, and one more where points have more than a density. Nothing is rejected; where the value drawn is the
    present one, the step has not moved. A value of log density nan or inf is never drawn, and counted as a divergence.

    See Also
    --------
    SingleFlip : Proposes and accepts.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.Gibbs(), x0, 2000, seed=1)
    >>> bool(np.all(abs(trace.draws.mean(axis=(0, 1)) - 1 / (1 + np.exp(-b))) < 0.05))
    True
    """

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE
    traits = ADJUSTED

    def noise(self, x: Array) -> Specs:
        return {"variable": uniform_per_chain(x), "value": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space = target.xp, space_of(target)
        current = target.refresh(state.point)
        n, others = space.variables(current.x.shape[-1]), space.choices - 1
        alike = xp.zeros_like(space.changes(xp, target.as_floating(current.x), lambda v: v))
        variable = xp.astype(xp.floor(noise["variable"] * n), xp.int32)
        chosen = space.numbers(n) == variable[..., None]
        # The axis of the alternatives leads, so that whatever broadcasts against the chains still does.
        alternatives = xp.reshape(space.numbers(space.choices)[1:], (others, *(1,) * current.x.ndim))
        around = _values(target, space.move(xp, current.x, xp.where(chosen, alternatives, 0)))
        logits = xp.permute_dims(around.log_density - current.log_density, (*range(1, current.x.ndim), 0))
        there = xp.any(chosen[..., None] & xp.isfinite(space.valid(xp, alike)), axis=-2)
        broken = ~(logits < math.inf)  # nan, too; -inf is a value of no probability
        value = choose_or_stay(xp, xp.where(there & ~broken, logits, -math.inf), noise["value"])
        new = around.of(current)
        for j in range(others):
            new = select(xp, value == j + 1, tree.map(lambda a, j=j: a[j, ...], around.values), new)
        diverged = xp.any(there & broken, axis=-1)
        spent = target.costs.refresh.plus(around.spent)
        return ChainState(around.whole(new)), Info(xp.ones_like(current.log_density), value > 0, diverged, spent)


class _Values(NamedTuple):
    """What is known of all values that a variable may take, and how to make a point of the one that is drawn."""

    log_density: Array
    values: tree.Tree
    of: Callable[[Point], tree.Tree]
    whole: Callable[[tree.Tree], Point]
    spent: Evaluations


def _values(target: BoundTarget, x: Array) -> _Values:
    """Of positions (others, *chains, dim): whole points, or densities alone where scores would be thrown away."""
    costs, others = target.costs, x.shape[0]
    if others == 1 or costs.log_density == costs.evaluate:
        points = target.evaluate(x)
        return _Values(
            points.log_density, points, lambda point: point, lambda point: point, costs.evaluate.times(others)
        )
    spent = costs.log_density.times(others).plus(costs.evaluate)
    return _Values(target.log_density(x), x, lambda point: point.x, target.evaluate, spent)
