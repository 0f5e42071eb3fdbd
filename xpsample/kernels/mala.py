"""The Metropolis-adjusted Langevin algorithm (Besag 1994; Roberts & Rosenthal 1998)."""

from typing import Any, ClassVar

from xpsample.adaptation import DiagonalMetric, StepSize
from xpsample.core.arrays import Array
from xpsample.core.covariance import matrix
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.traits import REVERSIBLE
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class MALA(MemorylessKernel[Info]):
    """MALA: the ULA move x + eta C s(x) + sqrt(2 eta) A xi, accepted by Metropolis-Hastings; A A^T = C.

    Parameters
    ----------
    step_size : float or array, optional
        eta, in units of x squared over C (the drift is eta s, as in SRMC; half of some codes' step size); broadcasts
        against the chain axes. Tuned to an acceptance of 0.574 when not given, the best in high dimension.
    preconditioner : float, or array of shape (dim,) or (dim, dim), optional
        C, best near the target's covariance. When not given a diagonal one is tuned, with the step size; it is the
        identity where a step size is given.

    See Also
    --------
    ULA : The same move without an accept step.
    HMC : Longer moves.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(), x0, 2000, seed=1)
    >>> bool(abs(trace.run_statistics.acceptance_probability.mean() - 0.574) < 0.1)
    True
    """

    optimal_acceptance: ClassVar[float] = 0.574
    step_size: Any = parameter(default=None, gt=0, tune=StepSize(optimal_acceptance))
    preconditioner: Array | None = matrix(default=None, tune=DiagonalMetric(), only_with="step_size")

    requires: ClassVar[Capability] = Capability.DENSITY_RATIO | Capability.SCORE | Capability.REAL
    traits = REVERSIBLE

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, C, eta = target.xp, self.matrix("preconditioner"), per_coordinate(self.step_size)
        current = state.point

        xi = noise["proposal"]
        proposal = target.evaluate(current.x + eta * C.product(current.score) + sqrt(xp, 2 * eta) * C.root(xi))

        # The way back takes the noise -back: x = x' + eta C s(x') - sqrt(2 eta) A back. From the two noises and not
        # from the two means, whose difference is lost to rounding far from the origin.
        back = xi + sqrt(xp, 0.5 * eta) * C.root_transpose(current.score + proposal.score)
        log_proposal_ratio = 0.5 * xp.sum(xi * xi - back * back, axis=-1)

        log_ratio = target.log_ratio(proposal, current, log_proposal_ratio)
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
        return ChainState(point), info
