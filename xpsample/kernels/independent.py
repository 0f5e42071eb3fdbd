"""The independence sampler: Metropolis-Hastings with proposals that ignore the current position (Tierney 1994)."""

from typing import Any, ClassVar

from xpsample.adaptation import ProposalCovariance, ProposalMean
from xpsample.core.arrays import Array
from xpsample.core.covariance import matrix
from xpsample.core.fields import vector
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.traits import REVERSIBLE
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class IndependentMH(MemorylessKernel[Info]):
    """Independent Gaussian proposals N(mean, covariance), accepted by Metropolis-Hastings.

    Parameters
    ----------
    mean : float, or array of shape (dim,), optional
        Tuned if neither mean nor covariance is set; zero if only the covariance is set.
    covariance : float, or array of shape (dim,) or (dim, dim), optional
        Should be wider than the target's covariance: the sampler is poor if its tails are thinner. If neither is set,
        it is tuned to the diagonal of the chains' covariance times 1 + 1 / sqrt(dim);
        ``ProposalCovariance(dense=True)`` uses the full covariance. The identity if only the mean is set.

    See Also
    --------
    RWM : Proposes near the current position.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.IndependentMH(), x0, 1000, seed=1)
    >>> trace.kernel.covariance.shape  # found in the warm-up, as the mean is
    (2,)
    """

    mean: Any = vector(default=None, tune=ProposalMean(), only_with="covariance")
    covariance: Any = matrix(default=None, tune=ProposalCovariance(), only_with="mean")

    requires: ClassVar[Capability] = Capability.DENSITY_RATIO | Capability.REAL
    traits = REVERSIBLE

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        current = state.point
        v = noise["proposal"]
        u = self.matrix("covariance").whiten(current.x if self.mean is None else current.x - self.mean)
        y = self.matrix("covariance").root(v)
        proposal = target.evaluate(y if self.mean is None else self.mean + y)
        log_proposal_ratio = 0.5 * xp.sum(v * v - u * u, axis=-1)  # log q(x) - log q(y)
        log_ratio = target.log_ratio(proposal, current, log_proposal_ratio)
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
        return ChainState(point), info
