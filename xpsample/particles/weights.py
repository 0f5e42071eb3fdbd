"""Weights of particles, kept as logarithms: normalized, with their effective sample size and the log normalizer."""

import math
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.bridge import annealed

NEEDED_TO_WEIGH = {
    Trait.INVARIANT: "its weights would be wrong. Use a kernel that accepts or rejects (MALA, HMC, DMALA, ...)",
    Trait.MOVABLE: "the target moves from step to step. Use the kernel inside it",
    Trait.EXACT: "weights are ratios of densities. Use the kernel on the whole data",
    Trait.SEPARATE: "each particle has its own weight. Use a kernel whose chains are independent, such as RWM",
    Trait.ANY_DEPENDENCE: "use Gibbs()",
}
"""Required traits of kernels whose weighted particles are weighted by the target's densities alone."""

NEEDED_ON_A_PATH: dict[Trait, str] = {
    trait: why for trait, why in NEEDED_TO_WEIGH.items() if trait is not Trait.ANY_DEPENDENCE
}
"""And on the path between two densities, at both of whose ends `start_of_path` looks at the kernel."""


def start_of_path(target: BoundTarget, kernel: Kernel, beta: Array, x: Array) -> Any:
    """The kernel's state at the first beta, 0, of a path between two densities.

    Variables that are independent of each other in both, given the others, are independent all along the path.
    Therefore a kernel that tests for dependence at its start tests the other end, too.
    """
    if Trait.ANY_DEPENDENCE not in kernel.traits:
        kernel.init(annealed(target, 1.0), x)
    return kernel.init(annealed(target, beta), x)


def effective_sample_size(xp: Any, log_weights: Array) -> Array:
    """``(sum w)^2 / sum w^2`` (Eq. 12 of SOSMC), (*runs), from log weights (*runs, particles)."""
    return _total_and_ess(xp, log_weights)[1]


def _total_and_ess(xp: Any, logs: Array) -> tuple[Array, Array]:
    top = xp.max(logs, axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    shares = xp.exp(logs - top)
    total = xp.sum(shares, axis=-1, keepdims=True)
    ess = total[..., 0] ** 2 / xp.sum(shares * shares, axis=-1)
    most = float(logs.shape[-1])
    return top + xp.log(total), xp.where(ess > most, most, ess)  # above by rounding only


class Weights(NamedTuple):
    """Log weights of particles (*runs, particles) whose exponentials sum to 1 over the last axis.

    ``ess`` (*runs) is their effective sample size. ``log_normalizer`` (*runs) is the log of the product of all mean
    incremental weights: an estimate of log Z_now - log Z_start.
    """

    logs: Array
    ess: Array
    log_normalizer: Array

    @classmethod
    def equal(cls, xp: Any, like: Array) -> "Weights":
        """Equal weights, for particles of the shape and dtype of `like`, (*runs, particles)."""
        logs = xp.full_like(like, -math.log(like.shape[-1]))
        ess = effective_sample_size(xp, logs)
        return cls(logs, ess, xp.zeros_like(ess))

    def times(self, xp: Any, log_increments: Array) -> "Weights":
        """Multiplied by incremental weights (Eq. 10). nan counts as a weight of 0, and a weight of 0 stays 0."""
        lost = (self.logs == -math.inf) | xp.isnan(log_increments)
        logs = xp.where(lost, -math.inf, self.logs + xp.where(lost, 0.0, log_increments))
        total, ess = _total_and_ess(xp, logs)
        return Weights(logs - total, ess, self.log_normalizer + total[..., 0])

    def reset(self, xp: Any, where: Array) -> "Weights":
        """Equal weights in the runs of the mask `where`, (*runs), which were resampled; ``ess`` stays that before."""
        equal = xp.full_like(self.logs, -math.log(self.logs.shape[-1]))
        return self._replace(logs=xp.where(where[..., None], equal, self.logs))


class LogNormalizer(NamedTuple):
    """log Z, its standard error, and the effective sample size of the weights: numbers, or arrays (*runs)."""

    value: Any
    standard_error: Any
    weight_ess: Any
