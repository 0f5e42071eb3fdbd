"""Random-walk Metropolis (Metropolis et al. 1953), on real numbers and on integers."""

from typing import Any, ClassVar

from xpsample.adaptation import DiagonalMetric, StepSize
from xpsample.core.arrays import Array
from xpsample.core.covariance import matrix
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, metropolis, normal_like, uniform_per_chain
from xpsample.kernels.traits import REVERSIBLE
from xpsample.spaces.integers import Integers
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class RWM(MemorylessKernel[Info]):
    """Random-walk Metropolis: propose x + step_size A xi with A A^T the covariance.

    On `Integers`, steps are rounded, and proposals outside are rejected.

    Parameters
    ----------
    step_size : float or array, optional
        Scale of the proposal, in units of x; broadcasts against the chain axes. Tuned to an acceptance of 0.234 when
        not given.
    covariance : float, or array of shape (dim,) or (dim, dim), optional
        Shape of the proposal. When not given a diagonal one is tuned, with the step size; it is the identity where a
        step size is given.

    See Also
    --------
    MALA : Uses a score.
    PCN : For a Gaussian prior.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.RWM(), x0, 4000, seed=1)
    >>> trace.draws.shape
    (4000, 4, 2)
    >>> bool(abs(trace.draws.mean()) < 0.2)
    True
    """

    optimal_acceptance: ClassVar[float] = 0.234
    step_size: Any = parameter(default=None, gt=0, tune=StepSize(optimal_acceptance))
    covariance: Array | None = matrix(default=None, tune=DiagonalMetric(scores=False), only_with="step_size")

    requires: ClassVar[Capability] = Capability.DENSITY_RATIO | Capability.ORDERED
    traits = REVERSIBLE

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space, current = target.xp, target.space, state.point
        move = per_coordinate(self.step_size) * self.matrix("covariance").root(noise["proposal"])
        x, inside = current.x + move, None
        if isinstance(space, Integers):
            x, inside = space.walked(xp, current.x, move, 0.25 * noise["proposal"])
        proposal = target.evaluate(x)
        log_ratio = target.log_ratio(proposal, current)
        if inside is not None:  # a proposal outside is rejected, which is no divergence
            log_ratio = xp.where(inside, log_ratio, -float(xp.finfo(log_ratio.dtype).max))
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
        return ChainState(point), info
