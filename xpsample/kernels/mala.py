"""The Metropolis-adjusted Langevin algorithm (Besag 1994; Roberts & Rosenthal 1998)."""

from dataclasses import dataclass, field
from typing import Any

from xpsample.backend import Array
from xpsample.hyperparameters import MATRIX, PER_CHAIN, check_range, per_coordinate, sqrt
from xpsample.kernels.kernel import SQRT_HALF, ChainState, Info, Kernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.linear import LinearMap, factor
from xpsample.noise import Specs
from xpsample.special import add_scaled, minus_square
from xpsample.targets.target import BoundTarget, Capability


@dataclass(frozen=True, eq=False)
class MALA(Kernel):
    """MALA: the ULA move x + eta C s(x) + sqrt(2 eta) A xi, accepted by Metropolis-Hastings; A A^T = C.

    Parameters
    ----------
    step_size : float or array
        eta, in units of x squared over C (the drift is eta s, as in SRMC; half of some codes' step size); broadcasts
        against the chain axes. Acceptance near 0.57 is best in high dimension.
    preconditioner : array, shape (dim,) or (dim, dim), optional
        C, best near the target's covariance; the identity when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    preconditioner: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.DENSITY_RATIO | Capability.SCORE

    def __post_init__(self) -> None:
        check_range("step_size", self.step_size, 0)
        object.__setattr__(self, "_map", factor("preconditioner", self.preconditioner))

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        return ChainState(target.at(x))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        current = target.refresh(state.point)
        apply, transpose = self._map.apply, self._map.transpose
        # Whitened, with z = xi / sqrt(2), whose density is exp(-z.z), and root = sqrt(eta) / 2: the move is
        # 4 root (z + root A^T s), and the way back takes the noise -back.
        z, root = noise["proposal"] * SQRT_HALF, 0.5 * sqrt(xp, per_coordinate(self.step_size))
        there = add_scaled(xp, z, root, transpose(current.score))
        proposal = target.at(add_scaled(xp, current.x, 4 * root, apply(there)))
        back = add_scaled(xp, there, root, transpose(proposal.score))
        log_ratio = target.log_ratio(proposal, current, xp.sum(minus_square(xp, z * z, back), axis=-1))
        costs = target.costs
        spent = costs.refresh.plus(costs.at)
        point, info = metropolis(xp, log_ratio, noise["accept"], proposal, current, spent)
        return ChainState(point), info
