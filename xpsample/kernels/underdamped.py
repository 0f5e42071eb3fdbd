"""Unadjusted underdamped Langevin dynamics, BAOAB splitting (Leimkuhler & Matthews 2013)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.backend import Array
from xpsample.hyperparameters import MATRIX, PER_CHAIN, check_range, exp, per_coordinate, sqrt
from xpsample.kernels.kernel import Info, Kernel, freeze, none_frozen, normal_like
from xpsample.kernels.linear import LinearMap, factor
from xpsample.noise import Specs
from xpsample.special import add_scaled
from xpsample.targets.target import BoundTarget, Capability, Point


class UnderdampedState(NamedTuple):
    """Positions, whitened momenta A^T p (*chains, dim), and which chains are frozen, (*chains)."""

    point: Point
    momentum: Array
    frozen: Array


class _Move(NamedTuple):
    point: Point
    momentum: Array


@dataclass(frozen=True, eq=False)
class UnderdampedLangevin(Kernel):
    """dx = M^{-1} p dt, dp = s(x) dt - friction p dt + sqrt(2 friction M) dW, by BAOAB; one score a step.

    Needs a score only. Its positions are unbiased on Gaussians and biased by O(step_size^2) elsewhere. Chains start at
    rest.

    Parameters
    ----------
    step_size : float or array
        Time step, in units of x sqrt(M); stable below 2 / sqrt(lambda) for curvature lambda. Broadcasts against the
        chain axes.
    friction : float or array
        Friction coefficient, inverse time; broadcasts against the chain axes.
    mass : array, shape (dim,) or (dim, dim), optional
        M; the identity when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    friction: Any = field(default=1.0, metadata=PER_CHAIN)
    mass: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.SCORE

    def __post_init__(self) -> None:
        check_range("step_size", self.step_size, 0)
        check_range("friction", self.friction, 0)
        object.__setattr__(self, "_map", factor("mass", self.mass, inverse=True))

    def init(self, target: BoundTarget, x: Array) -> UnderdampedState:
        return UnderdampedState(target.at(x), target.xp.zeros_like(x), none_frozen(target.xp, x))

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x)}

    def step(
        self, target: BoundTarget, state: UnderdampedState, noise: dict[str, Array]
    ) -> tuple[UnderdampedState, Info]:
        xp = target.xp
        half = 0.5 * per_coordinate(self.step_size)
        decay = exp(xp, -2 * half * per_coordinate(self.friction))
        apply, transpose = self._map.apply, self._map.transpose
        current = target.refresh(state.point)

        u = add_scaled(xp, state.momentum, half, transpose(current.score))
        x = add_scaled(xp, current.x, half, apply(u))
        u = add_scaled(xp, sqrt(xp, 1 - decay * decay) * noise["momentum"], decay, u)
        new = target.at(add_scaled(xp, x, half, apply(u)))
        u = add_scaled(xp, u, half, transpose(new.score))

        spent = target.costs.refresh.plus(target.costs.at)
        kept, frozen, info = freeze(xp, _Move(new, u), _Move(current, state.momentum), state.frozen, spent)
        return UnderdampedState(kept.point, kept.momentum, frozen), info
