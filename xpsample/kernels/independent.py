"""The independence sampler: Metropolis-Hastings with proposals that ignore the current position (Tierney 1994)."""

from dataclasses import dataclass, field

from xpsample.backend import Array
from xpsample.hyperparameters import MATRIX, VECTOR
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.linear import LinearMap, factor
from xpsample.noise import Specs
from xpsample.targets.target import BoundTarget, Capability


@dataclass(frozen=True, eq=False)
class IndependentMH(Kernel):
    """Independent Gaussian proposals N(mean, covariance), accepted by Metropolis-Hastings.

    Parameters
    ----------
    mean : array, shape (dim,), optional
        Zero when not given.
    covariance : array, shape (dim,) or (dim, dim), optional
        The identity when not given. Take it wider than the target: the sampler is poor where its tails are thinner.
    """

    mean: Array | None = field(default=None, metadata=VECTOR)
    covariance: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.DENSITY_RATIO

    def __post_init__(self) -> None:
        object.__setattr__(self, "_map", factor("covariance", self.covariance))

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        return ChainState(target.at(x))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        current = target.refresh(state.point)
        v = noise["proposal"]
        u = self._map.solve(current.x if self.mean is None else current.x - self.mean)
        y = self._map.apply(v)
        proposal = target.at(y if self.mean is None else self.mean + y)
        log_proposal_ratio = 0.5 * xp.sum(v * v - u * u, axis=-1)  # log q(x) - log q(y)
        log_ratio = target.log_ratio(proposal, current, log_proposal_ratio)
        spent = target.costs.refresh.plus(target.costs.at)
        point, info = metropolis(xp, log_ratio, noise["accept"], proposal, current, spent)
        return ChainState(point), info
