"""Annealed importance sampling (Neal 2001): normalising constants, from draws that a kernel anneals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag, check_number, settle
from xpsample.core.errors import TraceError
from xpsample.core.hyperparameters import check_reals
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.kernels.compose import check_base
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.particles.ladders import check_ladder, ladder_array, rung
from xpsample.particles.weights import NEEDED_TO_WEIGH
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.bridge import annealed, log_density_ratio
from xpsample.targets.point import Capability, Point


class AISState(NamedTuple):
    """The base kernel's state, inverse temperatures (rungs,), ``log_weight`` (*chains), and steps made ``n`` (0-d)."""

    base: Any
    betas: Array
    log_weight: Array
    n: Array

    @property
    def point(self) -> Point:
        """The current point under the target that was given."""
        return self.base.point.base


@dataclass(frozen=True, eq=False)
class AIS(Kernel[AISState, Any]):
    """Annealed importance sampling: exact draws of an initial distribution, carried to the target, with weights.

    Step n adds ``(beta_{n+1} - beta_n) (log f_1(x) - log f_0(x))`` to the log weight. Then the base kernel makes one
    step on ``f_0^(1 - beta) f_1^beta`` at beta_{n+1}. After ``len(betas) - 1`` steps the weighted draws are of the
    target, and the mean weight estimates the ratio of the normalising constants (`log_normalizer`). Further steps leave
    the weights unchanged.

    For a `Bridge`, f_0 is the initial target's density, and the start positions must be independent draws from it. For
    any other target f_0 = 1; on a discrete space, start from uniform draws. A start where f_1 = 0 has weight 0.

    Parameters
    ----------
    base : Kernel
        It must leave its target invariant. Unadjusted and repellent ones are refused, for which the weights would be
        wrong, and `ParallelTempering`, whose hot rungs would lag behind.
    betas : sequence of float
        From 0 to 1, never decreasing. A value given k times is used for k steps.
    approximate : bool
        Whether a base is taken that samples its target without leaving it invariant, for draws as in Appendix D.3.3 of
        the SRMC paper. The weights are then of unknown error.
    """

    base: Kernel
    betas: Sequence[float]
    approximate: bool = False

    traits = Trait.NONE  # weighted particles, which no kernel around them would weigh

    def __post_init__(self) -> None:
        settle(self, "approximate", check_flag)
        needs = dict(NEEDED_TO_WEIGH)
        if self.approximate:
            needs[Trait.SAMPLES] = needs.pop(Trait.INVARIANT)
        check_base("AIS", self.base, needs)
        settle(self, "betas", check_ladder)

    @property
    def requires(self) -> Capability:
        return self.base.requires | Capability.LOG_DENSITY | Capability.ANY_START

    def init(self, target: BoundTarget, x: Array) -> AISState:
        betas = ladder_array(target, self.betas, x)
        base = self.base.init(annealed(target, betas[0]), x)
        return AISState(base, betas, target.xp.zeros_like(base.point.base.log_density), counter(target, x))

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: AISState, noise: dict[str, Array]) -> tuple[AISState, Any]:
        now, later = (rung(target.xp, state.betas, state.n + ahead) for ahead in (0, 1))
        increment = (later - now) * log_density_ratio(target, state.point)
        log_weight = state.log_weight + target.xp.where(later > now, increment, 0.0)
        base, info = self.base.step(annealed(target, later), state.base, noise)
        return AISState(base, state.betas, log_weight, state.n + 1), info


class LogNormalizer(NamedTuple):
    """log Z, its standard error, and the effective sample size of the weights: numbers, or arrays (*runs)."""

    value: float | np.ndarray
    standard_error: float | np.ndarray
    weight_ess: float | np.ndarray


def log_normalizer(log_weights: Array, initial_log_normalizer: float = 0.0) -> LogNormalizer:
    """The target's log normalising constant from the log weights of independent chains.

    Parameters
    ----------
    log_weights : array, shape (*chains)
        At least two; -inf for a weight of 0.
    initial_log_normalizer : float
        log of the integral (or sum) of f_0: the log of the number of states where f_0 = 1 on a discrete space.

    Returns
    -------
    LogNormalizer
        ``value`` is the log of the mean weight plus `initial_log_normalizer`. ``standard_error`` is the relative
        standard error of the mean weight (delta method); trust it if ``weight_ess``, ``(sum w)^2 / sum w^2``, is large.
        The mean weight is unbiased; its logarithm is too small by about half the squared standard error.

    Raises
    ------
    TraceError
        If there are fewer than two weights, none is positive, or one is nan or infinite.
    """
    check_reals("log_weights", log_weights, "an array")
    initial_log_normalizer = check_number("initial_log_normalizer", initial_log_normalizer)
    logs = to_host(log_weights).astype(np.float64).ravel()
    if logs.size < 2 or not np.all(logs < math.inf) or np.max(logs) == -math.inf:
        raise TraceError(f"log weights must be two or more, below infinity, one of them finite; got {logs}")
    top = np.max(logs)
    weights = np.exp(logs - top)
    mean = np.mean(weights)
    error = np.std(weights, ddof=1) / (mean * math.sqrt(logs.size))
    ess = np.sum(weights) ** 2 / np.sum(weights**2)
    return LogNormalizer(float(top + math.log(mean) + initial_log_normalizer), float(error), float(ess))
