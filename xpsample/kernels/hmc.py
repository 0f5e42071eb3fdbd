"""Hamiltonian Monte Carlo with the leapfrog integrator (Duane et al. 1987; Neal 2011)."""

from dataclasses import dataclass, field
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, settle
from xpsample.core.hyperparameters import MATRIX, PER_CHAIN, check_range, per_coordinate
from xpsample.core.specs import Specs
from xpsample.kernels.covariance import Covariance, as_covariance
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability

MAX_ENERGY_ERROR = 1000.0
"""An energy error above this counts as a divergence, as in Stan."""


@dataclass(frozen=True, eq=False)
class HMC(Kernel[ChainState, Info]):
    """HMC: fresh momentum N(0, M), `steps` leapfrog steps, Metropolis acceptance by the energy error.

    Parameters
    ----------
    step_size : float or array
        Leapfrog step, in units of x sqrt(M); broadcasts against the chain axes.
    steps : int
        Leapfrog steps L per transition; costs L scores and one log density.
    mass : float, or array of shape (dim,) or (dim, dim), optional
        M, a multiple of the identity, diagonal or dense, best near the inverse covariance of the target; the identity
        when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    steps: int
    mass: Array | None = field(default=None, metadata=MATRIX)
    _mass: Covariance = field(init=False, repr=False)

    requires = Capability.DENSITY_RATIO | Capability.SCORE | Capability.REAL
    traits = ADJUSTED

    def __post_init__(self) -> None:
        settle(self, "step_size", check_range, 0)
        settle(self, "steps", check_count)
        object.__setattr__(self, "_mass", as_covariance("mass", self.mass))

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        return ChainState(target.evaluate(x))

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, eps, velocity = target.xp, per_coordinate(self.step_size), self._mass.solve
        current = target.refresh(state.point)

        def leap(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, p = carry
            x = x + eps * velocity(p)
            return x, p + eps * target.score(x)

        start = self._mass.root(noise["momentum"])
        p = start + 0.5 * eps * current.score
        x, p = target.backend.repeat(self.steps - 1, leap, (current.x, p))
        proposal = target.evaluate(x + eps * velocity(p))
        p = p + 0.5 * eps * proposal.score

        kinetic_energy_lost = 0.5 * xp.sum(start * velocity(start) - p * velocity(p), axis=-1)
        log_ratio = target.log_ratio(proposal, current, kinetic_energy_lost)
        costs = target.costs
        spent = costs.refresh.plus(costs.score.times(self.steps - 1)).plus(costs.evaluate)
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current, spent, MAX_ENERGY_ERROR)
        return ChainState(point), info
