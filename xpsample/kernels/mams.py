"""The Metropolis-adjusted microcanonical sampler (Robnik, Cohn-Gordon & Seljak 2025)."""

from __future__ import annotations  # since torch.compile of torch 2.6 reads no generic ones

from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import ChEES, DiagonalMetric, StepSize
from xpsample.core.arrays import Array, Mask
from xpsample.core.covariance import LowRankCovariance, matrix
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import ToBeTuned, per_coordinate
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.hmc import MAX_ENERGY_ERROR, beyond_a_bound, check_length, jitter, whole_steps
from xpsample.kernels.kernel import Kernel, metropolis, normal_like, select, uniform_per_chain
from xpsample.kernels.microcanonical import along, check_dim, kick, unit
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point


class MAMSState(NamedTuple):
    """Positions of the chains, and the number of steps made (0-d)."""

    point: Point
    n: Array


class MAMSInfo(NamedTuple):
    """`Info`, plus the end of each trajectory, whether it was accepted or not.

    ``energy_change`` and ``time`` of the trajectory are (*chains); ``end`` and ``velocity`` dx/dt there (*chains, dim).
    ``beyond`` flags the ends beyond a hard bound, as `beyond_a_bound`.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    energy_change: Array
    end: Array
    velocity: Array
    time: Array
    beyond: Mask


class MAMS(Kernel[MAMSState, MAMSInfo]):
    """MAMS: a fresh unit velocity, isokinetic leapfrog steps, Metropolis acceptance by the energy error.

    Parameters
    ----------
    step_size : float or array, optional
        Leapfrog step epsilon, in units of x sqrt(M); broadcasts against the chain axes. Tuned to an acceptance of 0.9
        when not given.
    length : float or array, optional
        Length of the longest trajectories T, in units of x sqrt(M); the trajectory of step n has length h_n T, with h_n
        evenly spread over (0, 1), in ceil(h_n T / epsilon) leapfrog steps. Broadcasts against the chain axes. Tuned
        when not given.
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
    MCLMC : Without an accept step.
    HMC : With momentum of any size.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MAMS(), x0, 1000, seed=1)
    >>> trace.kernel.length > trace.kernel.step_size
    True
    """

    step_size: Any = parameter(default=None, gt=0, tune=StepSize(0.9, harmonic=True))
    length: Any = parameter(default=None, gt=0, tune=ChEES(metric="mass", cost=0.5, of_a_sphere=True))
    mass: Array | LowRankCovariance | ToBeTuned | None = matrix(
        default=None, tune=DiagonalMetric(inverse=True), only_with="step_size"
    )

    requires: ClassVar[Capability] = Capability.DENSITY_RATIO | Capability.SCORE | Capability.REAL
    traits = ADJUSTED

    def __check_init__(self) -> None:
        check_length("MAMS", self.length, self.step_size)

    def init(self, target: BoundTarget, x: Array) -> MAMSState:
        check_dim("MAMS", x)
        return MAMSState(target.evaluate(x), counter(target, x))

    def noise(self, x: Array) -> Specs:
        return {"velocity": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: MAMSState, noise: dict[str, Array]) -> tuple[MAMSState, MAMSInfo]:
        xp = target.xp
        current = state.point
        zeros, whiten = xp.zeros_like(noise["accept"]), self.matrix("mass").whiten
        eps = per_coordinate(self.step_size)
        steps = xp.ceil(jitter(xp, state.n, current.x) * self.length / self.step_size)
        steps = whole_steps(xp, steps, state.n.dtype)

        def leap(i: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, u, energy = carry
            x = x + eps * along(self.matrix("mass"), u)
            u, gained = kick(xp, u, whiten(target.score(x)), eps)
            return x, u, energy + gained

        def leap_unless_done(i: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            return select(xp, i < steps - 1, leap(i, carry), carry)

        if steps.ndim:  # trajectories of different lengths
            steps = steps + xp.zeros_like(zeros, dtype=steps.dtype)
            most, leaps = xp.max(steps), leap_unless_done
        else:
            most, leaps = steps, leap
        u, energy = kick(xp, unit(xp, noise["velocity"]), whiten(current.score), 0.5 * eps)
        x, u, energy = target.backend.repeat(most - 1, leaps, (current.x, u, energy))
        proposal = target.evaluate(x + eps * along(self.matrix("mass"), u))
        u, gained = kick(xp, u, whiten(proposal.score), 0.5 * eps)

        log_ratio = target.log_ratio(proposal, current, -(energy + gained))
        costs = target.costs
        spent = costs.score.times(steps - 1).plus(costs.evaluate)
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current, spent, MAX_ENERGY_ERROR)
        end = proposal.x, along(self.matrix("mass"), u), zeros + self.step_size * xp.astype(steps, zeros.dtype)
        beyond = beyond_a_bound(proposal.log_density, energy + gained)
        return MAMSState(point, state.n + 1), MAMSInfo(*info, -log_ratio, *end, beyond)
