"""Hamiltonian Monte Carlo with the leapfrog integrator (Duane et al. 1987; Neal 2011)."""

from dataclasses import dataclass, field
from typing import Any

from xpsample.backend import Array
from xpsample.errors import HyperparameterError
from xpsample.gradients.choices import Evaluations
from xpsample.hyperparameters import MATRIX, PER_CHAIN, check_range, per_coordinate
from xpsample.kernels.kernel import SQRT_HALF, ChainState, Info, Kernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.linear import LinearMap, factor
from xpsample.noise import Specs
from xpsample.special import add_scaled, minus_square
from xpsample.targets.target import BoundTarget, Capability

MAX_ENERGY_ERROR = 1000.0
"""An energy error above this counts as a divergence, as in Stan."""


@dataclass(frozen=True, eq=False)
class HMC(Kernel):
    """HMC: fresh momentum N(0, M), `steps` leapfrog steps, Metropolis acceptance by the energy error.

    Parameters
    ----------
    step_size : float or array
        Leapfrog step, in units of x sqrt(M); broadcasts against the chain axes.
    steps : int
        Leapfrog steps L per transition; costs L scores and one log density.
    mass : array, shape (dim,) or (dim, dim), optional
        M, diagonal or dense, best near the inverse covariance of the target; the identity when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    steps: int
    mass: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.DENSITY_RATIO | Capability.SCORE

    def __post_init__(self) -> None:
        check_range("step_size", self.step_size, 0)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise HyperparameterError(f"steps must be a positive integer; got {self.steps!r}")
        object.__setattr__(self, "_map", factor("mass", self.mass, inverse=True))

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        return ChainState(target.at(x))

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        # Whitened momentum w = A^T p / sqrt(2) with A A^T = M^{-1}: its density is exp(-w.w), the velocity sqrt(2) A w.
        kick = SQRT_HALF * per_coordinate(self.step_size)
        apply, transpose = self._map.apply, self._map.transpose
        current = target.refresh(state.point)
        start = SQRT_HALF * noise["momentum"]

        def leap(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, w = carry
            x = add_scaled(xp, x, 2 * kick, apply(w))
            return x, add_scaled(xp, w, kick, transpose(target.score(x)))

        w = add_scaled(xp, start, 0.5 * kick, transpose(current.score))
        x, w = target.backend.repeat(self.steps - 1, leap, (current.x, w))
        proposal = target.at(add_scaled(xp, x, 2 * kick, apply(w)))
        w = add_scaled(xp, w, 0.5 * kick, transpose(proposal.score))

        log_ratio = target.log_ratio(proposal, current, xp.sum(minus_square(xp, start * start, w), axis=-1))
        point, info = metropolis(xp, log_ratio, noise["accept"], proposal, current, self._spent(target))
        return ChainState(point), info._replace(diverged=info.diverged | (log_ratio < -MAX_ENERGY_ERROR))

    def _spent(self, target: BoundTarget) -> Evaluations:
        return target.costs.refresh.plus(target.costs.score.times(self.steps - 1)).plus(target.costs.at)
