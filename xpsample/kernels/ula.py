"""The unadjusted Langevin algorithm (Parisi 1981; Roberts & Tweedie 1996)."""

from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import BoundedBias, DiagonalMetric
from xpsample.core.arrays import Array
from xpsample.core.covariance import matrix
from xpsample.core.fields import checked
from xpsample.core.hyperparameters import PER_CHAIN, per_coordinate, sqrt
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_langevin
from xpsample.kernels.kernel import Info, Kernel, freeze, none_frozen, normal_like
from xpsample.kernels.step_sizes import StepSizes, check_step_size
from xpsample.kernels.traits import UNADJUSTED
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point


class ULAState(NamedTuple):
    """Positions of the chains, and which of them have left the finite numbers and are frozen, (*chains).

    ``n`` is the number of steps made, 0-d, if the step size has a schedule, otherwise None. ``heat`` (*chains) is
    ``eta s C s / 2`` of the last step; None for kernels on discrete spaces.
    """

    point: Point
    frozen: Array
    n: Any = None
    heat: Any = None

    def findings(self) -> list[Finding]:
        """Check if the steps are short enough for the scores, noisy scores included."""
        if self.heat is None:
            return []
        moving = ~to_host(self.frozen)
        return judge_langevin(to_host(self.heat)[moving], self.point.x.shape[-1])


class ULA(Kernel[ULAState, Info]):
    """Unadjusted Langevin: x + eta C s(x) + sqrt(2 eta) A xi with A A^T = C the preconditioner.

    Needs a score only. Biased by O(eta): on N(0, v) it samples the variance v / (1 - eta / (2 v)).

    Parameters
    ----------
    step_size : float, array or StepSizes, optional
        eta, in units of x squared over C; an array broadcasts against the chain axes, a schedule such as
        `PolynomialDecay` sets a value for every step. If unset, tuned to a bias of at most 5 % of every variance of a
        Gaussian; ``BoundedBias(0.01)`` sets another bound.
    preconditioner : float, or array of shape (dim,) or (dim, dim), optional
        C. When not given a diagonal one is tuned, with the step size; it is the identity where a step size is given.

    See Also
    --------
    MALA : Accepts or rejects the same move.
    UnderdampedLangevin : With momentum.
    PolynomialDecay : Step sizes that fall.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.ULA(), x0, 5000, seed=1)
    >>> xps.ULA(0.1)  # nothing to tune
    ULA(step_size=0.1, preconditioner=None)
    """

    step_size: Any = checked(check_step_size, default=None, tune=BoundedBias(metric="preconditioner"), kind=PER_CHAIN)
    preconditioner: Array | None = matrix(default=None, tune=DiagonalMetric(), only_with="step_size")

    requires: ClassVar[Capability] = Capability.SCORE | Capability.REAL
    traits = UNADJUSTED

    def init(self, target: BoundTarget, x: Array) -> ULAState:
        n = counter(target, x) if isinstance(self.step_size, StepSizes) else None
        point = target.evaluate(x)
        return ULAState(point, none_frozen(target.xp, x), n, target.xp.zeros_like(point.score[..., 0]))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(self, target: BoundTarget, state: ULAState, noise: dict[str, Array]) -> tuple[ULAState, Info]:
        xp = target.xp
        current = state.point
        eta, n = self.step_size, state.n
        if isinstance(eta, StepSizes):
            n = n + 1
            eta = eta.at(xp.astype(n, current.x.dtype))
        eta = per_coordinate(eta)
        drift, diffusion = (
            self.matrix("preconditioner").product(current.score),
            self.matrix("preconditioner").root(noise["proposal"]),
        )
        new = target.evaluate_lazily(current.x + eta * drift + sqrt(xp, 2 * eta) * diffusion)
        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate_lazily)
        heat = 0.5 * xp.sum(eta * current.score * drift, axis=-1)
        return ULAState(point, frozen, n, heat), info
