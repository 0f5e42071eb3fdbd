"""Particles with momenta that follow a moving pi_theta, weighted (Remark 2 of the SOSMC paper)."""

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import exp, per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import Info, normal_like, select
from xpsample.sosmc.moves import WeighedAfterwards
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class UnderdampedMoveState(NamedTuple):
    """Particles, their momenta (*runs, particles, dim), and 0 before the first move, otherwise 1 (*runs, particles)."""

    point: Point
    momentum: Array
    moving: Array


class UnderdampedMove(WeighedAfterwards[UnderdampedMoveState]):
    """Underdamped Langevin dynamics, weighted: a part of the momentum is drawn anew, then a leapfrog step is made.

    Drawing ``p = a p + sqrt(1 - a^2) xi`` leaves N(0, I) invariant. The leapfrog step kicks by the score under
    theta_{k-1} before the drift and by that under theta_k after it. It keeps volumes, and its time reversal is the
    backward kernel, so that ``log G = U_{k-1}(x) + |p|^2 / 2 - U_k(x') - |p'|^2 / 2``: exact for any step size.

    Parameters
    ----------
    step_size : float or array
        Time step h, in units of x; broadcasts against (*runs, particles).
    friction : float or array
        Inverse time, with ``a = exp(-h friction)``. If it is large, the move is ``LangevinMove(h**2 / 2)``; with 0 the
        dynamics is deterministic once the first momenta are drawn.

    Notes
    -----
    A particle that leaves the finite numbers stays where it was with weight 0, until resampling replaces it.
    """

    step_size: Any = parameter(gt=0)
    friction: Any = parameter(default=1.0, ge=0)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL

    def init(self, target: BoundTarget, x: Array) -> UnderdampedMoveState:
        rest = target.xp.zeros_like(x)
        return UnderdampedMoveState(target.evaluate(x), rest, rest[..., 0])

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x)}

    def step(
        self, before: BoundTarget, after: BoundTarget, state: UnderdampedMoveState, noise: dict[str, Array]
    ) -> tuple[UnderdampedMoveState, Array, Info]:
        xp, h, current = before.xp, per_coordinate(self.step_size), state.point
        kept = per_coordinate(state.moving) * exp(xp, -h * per_coordinate(self.friction))
        p = kept * state.momentum + sqrt(xp, 1.0 - kept * kept) * noise["momentum"]
        half = p + 0.5 * h * current.score
        point = after.evaluate(current.x + h * half)
        ended = half + 0.5 * h * point.score
        increments = point.log_density - current.log_density + 0.5 * xp.sum(p * p - ended * ended, axis=-1)
        finite = xp.all(xp.isfinite(point.x) & xp.isfinite(ended), axis=-1) & ~xp.isnan(increments)
        new = UnderdampedMoveState(point, ended, xp.ones_like(state.moving))
        info = Info(xp.astype(finite, current.x.dtype), finite, ~finite, after.costs.evaluate)
        return select(xp, finite, new, state), xp.where(finite, increments, -math.inf), info
