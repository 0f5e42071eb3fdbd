"""Delayed acceptance: moves on a cheap target, corrected by an expensive one (Christen & Fox 2005)."""

from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.fields import count
from xpsample.core.specs import Specs
from xpsample.kernels.compose import check_base, nested, unnested, unset_inside
from xpsample.kernels.kernel import Info, Kernel, metropolis, uniform_per_chain, with_position
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.bridge import BridgedTarget, Ends
from xpsample.targets.point import Capability, Point


class DelayedState(NamedTuple):
    """Point of the expensive target, with the points of both targets in its ``base``, and state of the inner kernel.

    The inner kernel's position may be a rejected proposal: each step sets it.
    """

    point: Point
    base: Any


class DelayedAcceptance(Kernel[DelayedState, Info]):
    """Moves of a base kernel on a cheap target, accepted or rejected together by the expensive target.

    The target is ``Bridge(cheap, target)``. In each step the base makes `moves` moves from x to y on the cheap density
    pi*. Since these are reversible, y is accepted with probability ``min(1, pi(y) pi*(x) / (pi(x) pi*(y)))``, and the
    chain leaves pi invariant, however poor pi* is. A step evaluates pi once and never its score.

    Parameters
    ----------
    base : Kernel
        A reversible kernel with all hyperparameters set, such as ``trace.kernel`` of a run on the cheap
        target: `RWM`, `PCN`, `IndependentMH`, `EllipticalSlice`, `MALA` or `HMC(step_size, steps)`, and on discrete
        spaces `SingleFlip`, `LocallyBalanced`, `GWG`, `DMALA`, `TwoOpt` or `Swap`.
    moves : int
        Moves of the base per evaluation of the expensive density. More moves make proposals less dependent, but are
        accepted less often if the cheap target is a poor approximation.

    Raises
    ------
    CapabilityError
        If the base is not known to be reversible, or the target is not a `Bridge`.

    See Also
    --------
    Bridge : The pair of targets.

    Notes
    -----
    The acceptance probability of a run refers to the expensive density. With one move this is the method of Christen
    and Fox (2005), with more the surrogate transitions of Liu (2001). If pi* has lighter tails than pi, chains stick in
    the tails: prefer a cheap target that is too wide.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> cheap = xps.Target(lambda x: -0.4 * np.sum(x**2, axis=-1))
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) - 0.1 * np.sum(x**4, axis=-1))  # say, a slow solver
    >>> kernel = xps.DelayedAcceptance(xps.RWM(1.5), moves=5)
    >>> trace = xps.sample(xps.Bridge(cheap, target), kernel, np.zeros((10, 2)), 1000, seed=1)
    >>> int(trace.run_statistics.evaluations["log_density"])  # a step: 5 of the cheap density, 1 of the expensive one
    6
    """

    base: Kernel
    moves: int = count(default=1)

    def __check_init__(self) -> None:
        instead = "use RWM, MALA, or HMC with a number of steps; GWG on a discrete space"
        check_base("DelayedAcceptance", self.base, {Trait.REVERSIBLE: instead})
        if missing := unset_inside(self.base):
            raise HyperparameterError(
                f"DelayedAcceptance does not tune {', '.join(missing)}. Set them, such as by the base kernel "
                "trace.kernel of a run on the cheap target."
            )

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.LOG_DENSITY | Capability.DENSITY_RATIO | Capability.OF_INITIAL

    @declared
    def traits(self) -> Trait:
        return self.base.traits

    def init(self, target: BoundTarget, x: Array) -> DelayedState:
        if not isinstance(target, BridgedTarget):
            raise CapabilityError(
                "DelayedAcceptance moves on a cheap target and corrects by another one: pass Bridge(cheap, target)"
            )
        point = target.evaluate(x)
        return DelayedState(point, self.base.init(target.initial, x))

    def noise(self, x: Array) -> Specs:
        return {"accept": uniform_per_chain(x), **nested(self.base.noise(x), self.moves)}

    def step(self, target: BoundTarget, state: DelayedState, noise: dict[str, Array]) -> tuple[DelayedState, Info]:
        assert isinstance(target, BridgedTarget)
        cheap, expensive, current = target.initial, target.target, state.point.base

        def move(i: Any, carry: tuple[Any, Info]) -> tuple[Any, Info]:
            base, info = self.base.step(cheap, carry[0], unnested(noise, i + 1))
            return base, carry[1].plus(Info.of(info))

        base, info = self.base.step(cheap, with_position(state.base, current.initial), unnested(noise, 0))
        base, info = target.backend.repeat(self.moves - 1, move, (base, Info.of(info)))
        ends = Ends(base.point, expensive.evaluate(base.point.x))

        back = current.initial.log_density - ends.initial.log_density  # log pi*(x) - log pi*(y)
        log_ratio = expensive.log_ratio(ends.target, current.target, back)
        spent = info.evaluations.plus(expensive.costs.evaluate)
        proposal = target.joined(ends)
        point, accepted = metropolis(target, log_ratio, noise["accept"], proposal, state.point, spent)
        diverged = accepted.diverged | info.diverged
        return DelayedState(point, base), accepted._replace(moved=accepted.moved & info.moved, diverged=diverged)
