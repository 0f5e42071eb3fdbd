"""Metropolis and the heat bath on discrete spaces: one variable at a time, or all of a color at once."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.fields import checked
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.discrete.colors import as_colors, check_colors
from xpsample.kernels.discrete.common import OneVariable, choose_or_stay, space_of, uniform_per_variable
from xpsample.kernels.kernel import ChainState, Info, Kernel, MemorylessKernel, select, uniform_per_chain
from xpsample.kernels.traits import ADJUSTED, REVERSIBLE, Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class SingleFlip(OneVariable):
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
    traits = REVERSIBLE

    def logits(self, target: BoundTarget, point: Point) -> Array:
        xp, space = target.xp, space_of(target)
        return space.valid(xp, xp.zeros_like(space.changes(xp, target.as_floating(point.x), lambda v: v)))


class Gibbs(MemorylessKernel[Info]):
    """The heat bath (Geman & Geman 1984): one variable, chosen uniformly, drawn from its distribution given all others.

    That distribution is normalized over all values of the variable, which takes choices - 1 evaluations in one
    batched call, and one more where points have more than a density. Nothing is rejected; where the value drawn is the
    present one, the step has not moved. A value of log density nan or inf is never drawn, and counted as a divergence.

    See Also
    --------
    SingleFlip : Proposes and accepts.
    ChromaticGibbs : All variables in a step.

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
        current = state.point
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
        spent = around.spent
        return ChainState(around.whole(new)), Info(xp.ones_like(current.log_density), value > 0, diverged, spent)


class _Values(NamedTuple):
    """Log densities of all values that a variable may take, and a function that makes the point of the drawn value."""

    log_density: Array
    values: tree.Tree
    of: Callable[[Point], tree.Tree]
    whole: Callable[[tree.Tree], Point]
    spent: Evaluations


def _values(target: BoundTarget, x: Array) -> _Values:
    """Values at positions (others, *chains, dim): whole points, or only densities if scores would be discarded."""
    costs, others = target.costs, x.shape[0]
    if others == 1 or costs.log_density == costs.evaluate:
        points = target.evaluate(x)
        return _Values(
            points.log_density, points, lambda point: point, lambda point: point, costs.evaluate.times(others)
        )
    spent = costs.log_density.times(others).plus(costs.evaluate)
    return _Values(target.log_density(x), x, lambda point: point.x, target.evaluate, spent)


class ChromaticState(NamedTuple):
    """Positions of the chains, and the color of every variable, (*chains, variables): the same in all chains."""

    point: Point
    colors: Array


class ChromaticGibbs(Kernel[ChromaticState, Info]):
    """A sweep of the heat bath: all variables of a color are drawn at once, one color after the other.

    Exact if variables of one color are independent given all the others (Gonzalez, Low, Gretton & Guestrin 2011). A
    step takes the differences of all moves once for each color. Targets that provide them, such as lattices, compute
    them in O(variables); otherwise each needs a log density. Values of log density nan or inf are as in `Gibbs`.

    Parameters
    ----------
    colors : sequence of int, or array, shape (variables,)
        The color of each variable: `greedy_coloring` finds them. Zeros for variables that are all independent, as the
        indicators of a mixture model are; ``range(variables)`` is right for any target.

    Raises
    ------
    HyperparameterError
        At the start of a run, if a variable's distribution changes as others of its color move, from the start
        positions or from random ones near them.

    See Also
    --------
    Gibbs : One variable in a step, any target.
    kernels.greedy_coloring : Makes colors of the pairs that depend on each other.

    References
    ----------
    .. [1] Gonzalez, Low, Gretton & Guestrin (2011), "Parallel Gibbs sampling: from colored fields to thin junction
       trees", AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.kernels import greedy_coloring
    >>> from xpsample.zoo.ising import ising_lattice, lattice_pairs
    >>> colors = greedy_coloring(lattice_pairs((8, 8)), 64)
    >>> x0 = np.random.default_rng(0).choice([-1.0, 1.0], size=(8, 64))
    >>> trace = xps.sample(ising_lattice((8, 8), 0.2), xps.ChromaticGibbs(colors), x0, 1000, seed=1)
    >>> trace.draws.shape
    (1000, 8, 64)
    """

    colors: Any = checked(as_colors, repr=False)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES
    traits = ADJUSTED & ~Trait.ANY_DEPENDENCE

    def init(self, target: BoundTarget, x: Array) -> ChromaticState:
        check_colors(target, x, self.colors)
        # With the chain axes, code that reorders chains cannot mistake the axis of the variables for them. In
        # contiguous memory, as in a resumed run: torch sums results of a broadcast array in another order.
        colors = np.broadcast_to(np.asarray(self.colors, dtype=np.int32), (*x.shape[:-1], len(self.colors)))
        return ChromaticState(target.evaluate(x), target.backend.from_host(np.array(colors), x))

    def noise(self, x: Array) -> Specs:
        return {"value": uniform_per_variable(x)}

    def step(self, target: BoundTarget, state: ChromaticState, noise: dict[str, Array]) -> tuple[ChromaticState, Info]:
        xp, space = target.xp, space_of(target)
        uniform = noise["value"][..., : len(self.colors)]

        def draw(color: Any, carry: tuple[Point, Array, Array]) -> tuple[Point, Array, Array]:
            point, moved, diverged = carry
            of_color = state.colors == color
            logits = space.valid(xp, point.differences)
            broken = ~(logits < math.inf)  # nan, too
            value = choose_or_stay(xp, xp.where(broken, -math.inf, logits), uniform)
            value = xp.where(of_color, value, 0)
            diverged = diverged | xp.any(of_color & xp.any(broken, axis=-1), axis=-1)
            return target.evaluate(space.move(xp, point.x, value)), moved | xp.any(value > 0, axis=-1), diverged

        current, count = state.point, max(self.colors) + 1
        none = xp.zeros_like(current.log_density, dtype=xp.bool)
        point, moved, diverged = target.backend.repeat(count, draw, (current, none, none))
        spent = target.costs.evaluate.times(count)
        return state._replace(point=point), Info(xp.ones_like(current.log_density), moved, diverged, spent)
