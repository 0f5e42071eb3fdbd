"""Unadjusted underdamped Langevin dynamics, BAOAB splitting (Leimkuhler & Matthews 2013)."""

from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import BoundedBias, DiagonalMetric
from xpsample.core.arrays import Array
from xpsample.core.covariance import LowRankCovariance, matrix
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import ToBeTuned, exp, per_coordinate, sqrt
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_heat
from xpsample.kernels.kernel import Info, Kernel, freeze, none_frozen, normal_like, select
from xpsample.kernels.traits import UNADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class UnderdampedState(NamedTuple):
    """Positions, momenta p (*chains, dim), which chains are frozen, and ``p M^{-1} p`` of the momenta, (*chains)."""

    point: Point
    momentum: Array
    frozen: Array
    heat: Array

    def findings(self) -> list[Finding]:
        """Check if the momenta are at the target's temperature."""
        return judge_heat(to_host(self.heat), self.momentum.shape[-1])


class UnderdampedLangevin(Kernel[UnderdampedState, Info]):
    """dx = M^{-1} p dt, dp = s(x) dt - friction p dt + sqrt(2 friction M) dW, by BAOAB; one score a step.

    Needs a score only. Its positions are unbiased on Gaussians and biased by O(step_size^2) on other targets. Chains
    start at rest.

    Parameters
    ----------
    step_size : float or array, optional
        Time step, in units of x sqrt(M); stable below 2 / sqrt(lambda) for curvature lambda. Broadcasts against the
        chain axes. Tuned to a bias of at most 5 % of the variance of every momentum on a Gaussian when not given;
        ``BoundedBias(0.01)`` asks for another. Inside `Minibatch` it has to be given.
    friction : float or array
        Friction coefficient, inverse time; broadcasts against the chain axes.
    mass : float, or array of shape (dim,) or (dim, dim), optional
        M. When not given a diagonal one is tuned, with the step size; it is the identity where a step size is given.

    See Also
    --------
    ULA : Without momentum.
    MCLMC : At constant speed.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.UnderdampedLangevin(), x0, 2000, seed=1)
    >>> xps.UnderdampedLangevin(0.1, friction=2.0)  # nothing to tune
    UnderdampedLangevin(step_size=0.1, friction=2.0, mass=None)
    """

    step_size: Any = parameter(default=None, gt=0, tune=BoundedBias(metric="mass", underdamped=True))
    friction: Any = parameter(default=1.0, gt=0)
    mass: Array | LowRankCovariance | ToBeTuned | None = matrix(
        default=None, tune=DiagonalMetric(inverse=True), only_with="step_size"
    )

    requires: ClassVar[Capability] = Capability.SCORE | Capability.REAL
    traits = UNADJUSTED

    def init(self, target: BoundTarget, x: Array) -> UnderdampedState:
        rest, frozen = target.xp.zeros_like(x), none_frozen(target.xp, x)
        return UnderdampedState(target.evaluate(x), rest, frozen, target.xp.sum(rest, axis=-1))

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x)}

    def step(
        self, target: BoundTarget, state: UnderdampedState, noise: dict[str, Array]
    ) -> tuple[UnderdampedState, Info]:
        xp, h, velocity = target.xp, per_coordinate(self.step_size), self.matrix("mass").solve
        decay = exp(xp, -h * per_coordinate(self.friction))
        current = state.point

        p = state.momentum + 0.5 * h * current.score  # B
        x = current.x + 0.5 * h * velocity(p)  # A
        p = decay * p + sqrt(xp, 1 - decay * decay) * self.matrix("mass").root(noise["momentum"])  # O
        new = target.evaluate(x + 0.5 * h * velocity(p))  # A
        p = p + 0.5 * h * new.score  # B

        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate)
        p = select(xp, info.moved, p, state.momentum)
        return UnderdampedState(point, p, frozen, xp.sum(p * velocity(p), axis=-1)), info
