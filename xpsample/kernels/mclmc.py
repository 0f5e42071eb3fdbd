"""Microcanonical Langevin Monte Carlo, unadjusted (Robnik et al. 2023; Robnik & Seljak 2023)."""

from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import DecoherenceLength, DiagonalMetric, EnergyVariance
from xpsample.core.arrays import Array
from xpsample.core.covariance import LowRankCovariance, matrix
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import ToBeTuned, exp, per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Kernel, freeze, none_frozen, normal_like, select
from xpsample.kernels.microcanonical import along, check_dim, kick, unit
from xpsample.kernels.traits import MEMORYLESS
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

# The share of the outer kicks that makes the error of the integrator least (McLachlan 1995; Omelyan et al. 2003).
MINIMAL_NORM = 0.1931833275037836


class MCLMCState(NamedTuple):
    """Positions, unit velocities u (*chains, dim), 0 at the start, and which chains are frozen, (*chains)."""

    point: Point
    velocity: Array
    frozen: Array


class MCLMCInfo(NamedTuple):
    """`Info`, plus the change of the energy that exact dynamics would conserve, (*chains).

    Frozen chains have 0. Its variance over d measures the bias due to the step size (Robnik et al. 2023).
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    energy_change: Array


class MCLMC(Kernel[MCLMCState, MCLMCInfo]):
    """Isokinetic dynamics whose velocity is partially refreshed, by the minimal norm integrator; 2 scores a step.

    Biased: the step size sets how much. Chains start in directions drawn at random.

    Parameters
    ----------
    step_size : float or array, optional
        Time step, in units of x sqrt(M); broadcasts against the chain axes. When not given it is tuned to a mean
        squared change of the energy of 0.0005 per coordinate, and biased accordingly.
    length : float or array, optional
        Over which the velocity forgets its direction, L, in units of x sqrt(M); broadcasts against the chain axes.
        When not given, 0.4 of the way from one independent draw to the next, and at least the radius of the target.
    mass : float, or array of shape (dim,) or (dim, dim), optional
        M, a multiple of the identity, diagonal or dense, best near the inverse covariance of the target. When not given
        a diagonal one is tuned, with the step size; it is the identity where a step size is given. The velocity has
        length 1 in the coordinates in which M is the identity.

    Raises
    ------
    HyperparameterError
        At the start of a run, if positions have one coordinate.

    See Also
    --------
    MAMS : With an accept step.
    UnderdampedLangevin : With momentum of any size.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MCLMC(), x0, 1000, seed=1)
    >>> trace.kernel.length > trace.kernel.step_size
    True
    """

    step_size: Any = parameter(default=None, gt=0, tune=EnergyVariance())
    length: Any = parameter(default=None, gt=0, tune=DecoherenceLength(metric="mass"))
    mass: Array | LowRankCovariance | ToBeTuned | None = matrix(
        default=None, tune=DiagonalMetric(inverse=True), only_with="step_size"
    )

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL
    traits = MEMORYLESS

    def init(self, target: BoundTarget, x: Array) -> MCLMCState:
        check_dim("MCLMC", x)
        return MCLMCState(target.evaluate(x), target.xp.zeros_like(x), none_frozen(target.xp, x))

    def noise(self, x: Array) -> Specs:
        return {"velocity": normal_like(x)}

    def step(self, target: BoundTarget, state: MCLMCState, noise: dict[str, Array]) -> tuple[MCLMCState, MCLMCInfo]:
        xp, whiten = target.xp, self.matrix("mass").whiten
        eps, length = per_coordinate(self.step_size), per_coordinate(self.length)
        current = state.point
        x = current.x

        kept = exp(xp, -eps / length)
        u = unit(xp, kept * state.velocity + sqrt(xp, (1 - kept * kept) / x.shape[-1]) * noise["velocity"])
        u, first = kick(xp, u, whiten(current.score), MINIMAL_NORM * eps)
        x = x + 0.5 * eps * along(self.matrix("mass"), u)
        u, second = kick(xp, u, whiten(target.score(x)), (1 - 2 * MINIMAL_NORM) * eps)
        new = target.evaluate(x + 0.5 * eps * along(self.matrix("mass"), u))
        u, third = kick(xp, u, whiten(new.score), MINIMAL_NORM * eps)

        change = first + second + third - (new.log_density - current.log_density)
        spent = target.costs.score.plus(target.costs.evaluate)
        point, frozen, info = freeze(xp, new, current, state.frozen, spent)
        u = select(xp, info.moved, u, state.velocity)
        return MCLMCState(point, u, frozen), MCLMCInfo(*info, xp.where(frozen, 0.0, change))
