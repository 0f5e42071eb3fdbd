"""Hamiltonian Monte Carlo with the leapfrog integrator (Duane et al. 1987; Neal 2011)."""

from __future__ import annotations  # since torch.compile of torch 2.6 reads no generic ones

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import ChEES, DiagonalMetric, StepSize
from xpsample.core.arrays import Array, Mask
from xpsample.core.covariance import LowRankCovariance, matrix
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import count, parameter
from xpsample.core.hyperparameters import ToBeTuned, per_coordinate
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Kernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.traits import ADJUSTED, REVERSIBLE, Trait
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point

MAX_ENERGY_ERROR = 1000.0  # An energy error above this counts as a divergence, as in Stan

MOST_STEPS = 2**20  # Leapfrog steps of a trajectory whose length is given, at most


class HMCState(NamedTuple):
    """Positions of the chains, and the number of steps made (0-d) if lengths are jittered, otherwise None."""

    point: Point
    n: Any = None


class HMCInfo(NamedTuple):
    """`Info`, plus the end of each trajectory, whether it was accepted or not, and its energy.

    ``end`` and ``velocity`` there are ``(*chains, dim)``; ``time`` of the trajectory, the kinetic energy ``lost`` along
    the trajectory, and the ``energy`` at its start, potential and kinetic, are ``(*chains)``. The energy is None if
    only ratios of densities are known.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    end: Array
    velocity: Array
    time: Array
    energy: Array | None
    lost: Array
    end_log_density: Array

    @property
    def beyond(self) -> Mask:
        """Which ends are beyond a hard bound, as `beyond_a_bound`."""
        return beyond_a_bound(self.end_log_density, self.lost)


class HMC(Kernel[HMCState, HMCInfo]):
    """HMC: fresh momentum N(0, M), leapfrog steps, Metropolis acceptance by the energy error.

    Parameters
    ----------
    step_size : float or array, optional
        Leapfrog step epsilon, in units of x sqrt(M); broadcasts against the chain axes. Tuned to an acceptance of 0.65
        when not given.
    steps : int, optional
        Leapfrog steps L per transition; costs L scores and one log density.
    mass : float, or array of shape (dim,) or (dim, dim), optional
        M, a multiple of the identity, diagonal or dense, best near the inverse covariance of the target. If unset, a
        diagonal mass is tuned with the step size; if only the step size is set, M is the identity.
    length : float or array, optional
        Length of the longest trajectories T, in place of ``steps``: the trajectory of step n has length h_n T, with h_n
        evenly spread over (0, 1), in ceil(h_n T / epsilon) leapfrog steps. Therefore no trajectory length is in
        resonance with the target. Tuned if neither is set.

    See Also
    --------
    NUTS : Finds the length of each trajectory.
    MALA : One leapfrog step.
    MAMS : At constant speed.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(), x0, 1000, seed=1)
    >>> trace.kernel.mass.shape  # tuned, as the step size and the length are
    (2,)
    >>> given = xps.HMC(step_size=0.3, steps=5)  # nothing to tune
    """

    optimal_acceptance: ClassVar[float] = 0.65
    step_size: Any = parameter(default=None, gt=0, tune=StepSize(optimal_acceptance, harmonic=True))
    steps: int | None = count(default=None)
    mass: Array | LowRankCovariance | ToBeTuned | None = matrix(
        default=None, tune=DiagonalMetric(inverse=True), only_with="step_size"
    )
    length: Any = parameter(default=None, gt=0, tune=ChEES(metric="mass"), unless="steps")

    requires: ClassVar[Capability] = Capability.DENSITY_RATIO | Capability.SCORE | Capability.REAL

    @declared
    def traits(self) -> Trait:
        return ADJUSTED if self.steps is None else REVERSIBLE  # the length of a trajectory depends on the step's number

    def __check_init__(self) -> None:
        if self.steps is not None and self.length is not None:
            raise HyperparameterError("HMC takes steps or length, the length of a trajectory, and not both")
        check_length("HMC", self.length, self.step_size)

    def init(self, target: BoundTarget, x: Array) -> HMCState:
        return HMCState(target.evaluate(x), counter(target, x) if self.steps is None else None)

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: HMCState, noise: dict[str, Array]) -> tuple[HMCState, HMCInfo]:
        xp, eps, velocity = target.xp, per_coordinate(self.step_size), self.matrix("mass").solve
        half = 0.5 * eps  # once: torch takes long for a product with a Python number
        current = state.point
        n, steps = self._steps(xp, state.n, current.x)
        counts = per_coordinate(steps)

        def leap(i: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, p = carry
            x = x + eps * velocity(p)
            return x, p + eps * target.score(x)

        def leap_unless_done(i: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            (old_x, old_p), (x, p), going = carry, leap(i, carry), i < counts - 1
            return xp.where(going, x, old_x), xp.where(going, p, old_p)

        start = self.matrix("mass").root(noise["momentum"])
        p = start + half * current.score
        one_count = getattr(steps, "ndim", 0) == 0
        most = steps if one_count else xp.max(steps)
        x, p = target.backend.repeat(most - 1, leap if one_count else leap_unless_done, (current.x, p))
        proposal = target.evaluate(x + eps * velocity(p))
        p = p + half * proposal.score

        end_velocity = velocity(p)
        kinetic_energy = 0.5 * xp.sum(start * velocity(start), axis=-1)
        lost = kinetic_energy - 0.5 * xp.sum(p * end_velocity, axis=-1)
        log_ratio = target.log_ratio(proposal, current, lost)
        energy = None if current.log_density is None else kinetic_energy - current.log_density
        costs = target.costs
        spent = costs.score.times(steps - 1).plus(costs.evaluate)
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current, spent, MAX_ENERGY_ERROR)
        time = xp.zeros_like(log_ratio) + self.step_size * (self.steps or xp.astype(steps, log_ratio.dtype))
        ends = (proposal.x, end_velocity, time)
        return HMCState(point, n), HMCInfo(*info, *ends, energy, lost, proposal.log_density)

    def _steps(self, xp: Any, n: Any, like: Array) -> tuple[Any, Any]:
        """Steps of the kernel made then, and leapfrog steps of this one: a number, or integers for each group."""
        if self.steps is not None:
            return n, self.steps
        steps = xp.ceil(jitter(xp, n, like) * self.length / self.step_size)
        return n + 1, whole_steps(xp, steps, n.dtype)


def beyond_a_bound(log_density: Array, kinetic_energy_change: Array) -> Any:
    """Return whether ends of trajectories are beyond a hard bound, declared or not, however small the steps are.

    The log density is -inf there. It is also -inf if steps are too large and numbers overflow, or if a chain starts far
    from the target; but then the kinetic energy has changed by more than the largest energy error allowed. If only
    ratios of densities are known, no end is beyond a bound.
    """
    moderate = (kinetic_energy_change > -MAX_ENERGY_ERROR) & (kinetic_energy_change < MAX_ENERGY_ERROR)
    return (log_density == -math.inf) & moderate


def whole_steps(xp: Any, steps: Array, dtype: Any) -> Array:
    """Leapfrog steps as integers, at least one; one, too, where numbers overflowed while they were tuned."""
    steps = xp.where(steps >= 1, steps, 1.0)
    return xp.astype(xp.clip(steps, max=float(MOST_STEPS)), dtype)


def jitter(xp: Any, n: Array, like: Array) -> Array:
    """A number in (0, 1) for each n, evenly spread: the multiples of the golden ratio, modulo 1.

    In whole numbers, so that it is the same in all dtypes; the period is 2^15 steps. Evenly spread numbers leave no
    long gaps, unlike independent numbers (Hoffman, Radul & Sountsov 2021 use a Halton sequence for the same purpose).
    """
    place = (n % 2**15) * 20251 % 2**15  # 2^15 over the golden ratio, odd
    return (xp.astype(place, like.dtype) + 0.5) / 2**15


def check_length(name: str, length: Any, step_size: Any) -> None:
    """Raise HyperparameterError for trajectories that no run would ever end."""
    if isinstance(length, float | int) and isinstance(step_size, float | int) and length > MOST_STEPS * step_size:
        raise HyperparameterError(
            f"a length of {length:g} is {length / step_size:.3g} step sizes, and a trajectory of {name} has at most "
            f"{MOST_STEPS}. Use a larger step size or a smaller length."
        )
