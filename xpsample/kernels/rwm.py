"""Random-walk Metropolis (Metropolis et al. 1953)."""

from dataclasses import dataclass, field
from typing import Any

from xpsample.backend import Array
from xpsample.hyperparameters import MATRIX, PER_CHAIN, check_range, per_coordinate
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.linear import LinearMap, factor
from xpsample.noise import Specs
from xpsample.targets.target import BoundTarget, Capability


@dataclass(frozen=True, eq=False)
class RWM(Kernel):
    """Random-walk Metropolis: propose x + step_size A xi with A A^T the covariance.

    Parameters
    ----------
    step_size : float or array
        Scale of the proposal, in units of x; broadcasts against the chain axes.
    covariance : array, shape (dim,) or (dim, dim), optional
        Shape of the proposal; the identity when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    covariance: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.DENSITY_RATIO

    def __post_init__(self) -> None:
        check_range("step_size", self.step_size, 0)
        object.__setattr__(self, "_map", factor("covariance", self.covariance))

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        return ChainState(target.at(x))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        current = target.refresh(state.point)
        proposal = target.at(current.x + per_coordinate(self.step_size) * self._map.apply(noise["proposal"]))
        log_ratio = target.log_ratio(proposal, current)
        spent = target.costs.refresh.plus(target.costs.at)
        point, info = metropolis(target.xp, log_ratio, noise["accept"], proposal, current, spent)
        return ChainState(point), info
