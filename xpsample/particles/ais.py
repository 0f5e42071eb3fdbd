"""Annealed importance sampling (Neal 2001): normalizing constants, from draws that a kernel anneals."""

import math
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.adaptation import unset
from xpsample.core.arrays import Array
from xpsample.core.checks import check_number
from xpsample.core.declared import Numbers, declared
from xpsample.core.errors import HyperparameterError, TraceError
from xpsample.core.fields import checked, flag
from xpsample.core.hyperparameters import check_reals, rungs_of
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_annealing
from xpsample.kernels.compose import check_base, check_given
from xpsample.kernels.following import Piloted, following
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.schedules import at_step, row
from xpsample.kernels.traits import Trait
from xpsample.particles.errors import error_holds, ess_of, judge_weights
from xpsample.particles.ladders import check_ladder, ladder_array
from xpsample.particles.smc import TemperedSMC
from xpsample.particles.weights import NEEDED_ON_A_PATH, LogNormalizer, start_of_path
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.bridge import annealed, log_density_ratio
from xpsample.targets.point import Capability, Point

# Steps of a pilot at beta = 0, from its starts to the initial distribution; some multiple of them if the rules need
# more.
AT_FIRST = 100


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

    def findings(self) -> list[Finding]:
        """Check if the end of the ladder was reached, and if the weights support an estimate."""
        steps, ladder = int(self.n), to_host(self.betas)
        left = max(0, len(ladder) - 1 - steps)
        on_the_way = judge_annealing("beta", float(ladder[len(ladder) - 1 - left]), 1.0, left)
        return on_the_way or judge_weights(to_host(self.log_weight).astype(np.float64))


class AIS(Piloted):
    """Annealed importance sampling: exact draws of an initial distribution, carried to the target, with weights.

    Step n adds ``(beta_{n+1} - beta_n) (log f_1(x) - log f_0(x))`` to the log weight. Then the base kernel makes one
    step on ``f_0^(1 - beta) f_1^beta`` at beta_{n+1}. After ``len(betas) - 1`` steps the weighted draws are of the
    target, and the mean weight estimates the ratio of the normalizing constants (`log_normalizer`). Further steps leave
    the weights unchanged.

    For a `Bridge`, f_0 is the initial target's density, and the start positions must be independent draws from it. For
    any other target f_0 = 1; on a discrete space, start from uniform draws. A start where f_1 = 0 has weight 0.

    Parameters
    ----------
    base : Kernel
        It must leave its target invariant. Unadjusted and repellent ones are refused, for which the weights would be
        wrong, and `ParallelTempering`, whose hot rungs would lag behind. Its hyperparameters may have a value for each
        step, with one more axis than the chains have, in front. Unset hyperparameters are tuned by a pilot: a run of
        `TemperedSMC` over the same ladder, with 100 particles for each group of chains. Its starts and its noise are
        independent, so the weights are as unbiased as with any kernel that is fixed beforehand.
    betas : sequence of float
        From 0 to 1, never decreasing. A value given k times is used for k steps.
    approximate : bool
        Whether a base is taken that samples its target without leaving it invariant, for draws as in Appendix D.3.3 of
        the SRMC paper. The weights are then of unknown error.

    See Also
    --------
    TemperedSMC : Resamples between temperatures.
    log_normalizer : Reads the estimate.
    annealing_ladder : Temperatures.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
    >>> narrow = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> betas = np.linspace(0.0, 1.0, 20)
    >>> x0 = 3 * np.random.default_rng(0).normal(size=(1000, 1))  # exact draws of `wide`
    >>> kernel = xps.AIS(xps.HMC(0.5, 3), betas)
    >>> trace = xps.sample(xps.Bridge(wide, narrow), kernel, x0, 1, seed=1, burn_in=len(betas) - 2)
    >>> found = xps.log_normalizer(trace.state.log_weight)  # of the ratio of the two normalizing constants, 1 / 3
    >>> bool(abs(found.value - np.log(1 / 3)) < 4 * found.standard_error)
    True
    """

    base: Kernel = field(metadata=rungs_of("rows"))
    betas: Numbers = checked(check_ladder)
    approximate: bool = flag(default=False)

    def __check_init__(self) -> None:
        needs = dict(NEEDED_ON_A_PATH)
        if self.approximate:
            needs[Trait.SAMPLES] = needs.pop(Trait.INVARIANT)
        check_base("AIS", self.base, needs)
        if self.approximate:
            check_given("AIS with approximate=True", self.base)
        following("AIS", self.base)

    @declared
    def traits(self) -> Trait:  # of weighted particles, which no kernel around them would weigh
        return self.base.traits & (Trait.SEPARATE | Trait.STAYS_INSIDE)

    def rows(self, x: Array) -> int:
        """The number of values that a hyperparameter of the base kernel may have: one for each step of the ladder."""
        return len(self.betas) - 1

    def pilot(self, steps: int | None) -> tuple[Kernel, int]:
        ladder = len(self.betas) - 1
        patience = max(rule.patience for rule in unset(self.base).values())
        steps = ladder + round(patience * AT_FIRST) if steps is None else steps
        if steps <= ladder:
            raise HyperparameterError(
                f"warmup={steps} is too short for AIS: its pilot makes {ladder} steps along the ladder, and some before"
            )
        return TemperedSMC(self.base, (0.0,) * (steps - ladder) + tuple(self.betas), moves=1), steps

    def after_pilot(self, rows: dict[str, Array]) -> "AIS":
        found: dict[str, Any] = {name: a[a.shape[0] - len(self.betas) + 1 :, ...] for name, a in rows.items()}
        return replace(self, base=replace(self.base, **found))

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.LOG_DENSITY | Capability.ANY_START

    def init(self, target: BoundTarget, x: Array) -> AISState:
        betas = ladder_array(target, self.betas, x)
        count = counter(target, x)
        base = start_of_path(target, at_step(target.xp, self.base, count, x.ndim - 1), betas[0], x)
        return AISState(base, betas, target.xp.zeros_like(base.point.base.log_density), count)

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: AISState, noise: dict[str, Array]) -> tuple[AISState, Any]:
        now, later = (row(target.xp, state.betas, state.n + ahead) for ahead in (0, 1))
        increment = (later - now) * log_density_ratio(target, state.point)
        log_weight = state.log_weight + target.xp.where(later > now, increment, 0.0)
        kernel = at_step(target.xp, self.base, state.n, state.point.x.ndim - 1)
        base, info = kernel.advance(annealed(target, later), state.base, noise)
        return AISState(base, state.betas, log_weight, state.n + 1), info


def log_normalizer(log_weights: Array, initial_log_normalizer: float = 0.0) -> LogNormalizer:
    """The target's log normalizing constant from the log weights of independent chains.

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
        standard error of the mean weight (delta method). It is infinite where n weights do not tell it: where
        ``weight_ess``, ``(sum w)^2 / sum w^2``, is below n / 2 and the tail has an index above 0.7 (Vehtari et al.
        2024), or above 0.25 while the logarithms spread by a mean square above log(n) / 2 beyond their median. The mean
        weight is unbiased; its logarithm is too small by about half the squared standard error.

    Raises
    ------
    TraceError
        If there are fewer than two weights, none is positive, or one is nan or infinite.

    See Also
    --------
    AIS : The run.
    particle_log_normalizer : Of a run of particles.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> log_weights = np.log(np.random.default_rng(0).uniform(size=10_000))  # their mean is 0.5
    >>> found = xps.log_normalizer(log_weights)
    >>> bool(abs(found.value - np.log(0.5)) < 4 * found.standard_error)
    True
    """
    check_reals("log_weights", log_weights, "an array")
    initial_log_normalizer = check_number("initial_log_normalizer", initial_log_normalizer)
    logs = to_host(log_weights).astype(np.float64).ravel()
    if logs.size < 2 or not np.all(logs < math.inf) or np.max(logs) == -math.inf:
        raise TraceError(
            f"log weights must be below infinity, at least two, and one finite; got {logs}. If all are -inf, use an "
            "initial distribution that reaches the target's support."
        )
    top = np.max(logs)
    weights = np.exp(logs - top)
    mean = np.mean(weights)
    error = np.std(weights, ddof=1) / (mean * math.sqrt(logs.size)) if error_holds(logs) else math.inf
    return LogNormalizer(float(top + math.log(mean) + initial_log_normalizer), float(error), ess_of(logs))
