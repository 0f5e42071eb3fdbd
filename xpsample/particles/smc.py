"""Tempered sequential Monte Carlo: annealed importance sampling whose particles are resampled.

Sources: Del Moral, Doucet & Jasra, "Sequential Monte Carlo samplers" (2006); Zhou, Johansen & Aston, "Toward automatic
model comparison" (2016), for the conditional effective sample size; Lee & Whiteley, "Variance estimation in the
particle filter" (2018), for the standard error.
"""

import math
from dataclasses import field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_number, given
from xpsample.core.declared import Numbers, declared
from xpsample.core.errors import CapabilityError, HyperparameterError, TraceError
from xpsample.core.fields import checked, count, instance, number
from xpsample.core.hyperparameters import rungs_of
from xpsample.core.registry import to_host
from xpsample.core.special import logsumexp
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_annealing
from xpsample.kernels.adapted import AdaptedKernel
from xpsample.kernels.compose import check_base, of_move, of_moves
from xpsample.kernels.following import follow, following, of_chains, with_chains
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.schedules import at_step, row
from xpsample.kernels.traits import Trait
from xpsample.particles.errors import error_holds, error_of_lineages, judge_lost, judge_weights
from xpsample.particles.ladders import check_ladder, ladder_array
from xpsample.particles.remembered import Remembered, judge_moves
from xpsample.particles.resampling import Multinomial, Resampling, take_ancestors
from xpsample.particles.weights import NEEDED_ON_A_PATH, LogNormalizer, Weights, start_of_path
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.bridge import annealed, log_density_ratio
from xpsample.targets.point import Capability, Point

HALVINGS = 40  # Halvings of the interval that has the next temperature


class TemperedSMCState(NamedTuple):
    """Weighted particles (*runs, particles, dim) at the inverse temperatures ``beta`` (*runs, 1).

    ``base`` is the base kernel's state; ``betas`` (rungs,) is the given ladder, or None. ``eve`` (*runs, particles) is
    the number of the start particle that each particle descends from; ``resamplings`` (*runs) and ``n`` (0-d) are the
    numbers of resamplings and of steps; ``remembered`` tells whether moves were enough.
    """

    base: Any
    betas: Array | None
    beta: Array
    weights: Weights
    eve: Array
    resamplings: Array
    n: Array
    remembered: Remembered

    @property
    def point(self) -> Point:
        """The current point under the target that was given."""
        return self.base.point.base

    def findings(self) -> list[Finding]:
        """Check if all runs reached the target with a positive weight, and if log Z has a reliable error."""
        logs, runs = to_host(self.weights.logs), math.prod(self.beta.shape[:-1])
        lost = _lost(logs)
        if np.any(lost):
            return [judge_lost(int(np.sum(lost)), runs, logs.shape[-1])]
        left = None if self.betas is None else max(0, self.betas.shape[0] - 1 - int(self.n))
        on_the_way = judge_annealing("beta", float(np.min(to_host(self.beta))), 1.0, left)
        if on_the_way:
            return on_the_way
        resampled = np.any(to_host(self.resamplings))
        return judge_moves(self.remembered) if resampled else judge_weights(logs.astype(np.float64))


class TemperedSMC(Kernel[TemperedSMCState, Any]):
    """Exact draws of an initial distribution, carried to the target as weighted particles that are resampled.

    A step chooses the next inverse temperature and multiplies the weights by ``(f_1 / f_0)^(beta' - beta)``. Runs whose
    effective sample size is at most ``threshold`` times the number of particles are resampled. Then the base kernel
    makes `moves` steps on ``f_0^(1 - beta') f_1^beta'``. With ``threshold=0``, a ladder and one move this is `AIS`; f_0
    is defined as there. Positions are (*runs, particles, dim); runs are independent.

    Unset hyperparameters of the base kernel are tuned at every step, for each run: its metric is estimated from the
    particles, resampled to be a sample at beta', and its step size follows their acceptance so far.

    Parameters
    ----------
    base : Kernel
        As for `AIS`. With a ladder, its hyperparameters may have a value for each step, such as the values found by a
        pilot.
    betas : sequence of float, optional
        From 0 to 1, never decreasing. Steps after the last do not change the temperature.
    ess : float, optional
        Instead of `betas`: each run takes, by bisection, the largest step in beta at which the conditional effective
        sample size is at least this share of the particles, in (0, 1). ``state.beta`` tells when a run has reached 1.
    threshold : float
        In [0, 1]; 0 never resamples, 1 always does.
    resampling : Resampling
    moves : int
        Steps of the base kernel at each temperature, at least 1. With too few the trace has the finding `moves`.

    See Also
    --------
    AIS : Without resampling.
    particle_log_normalizer : Reads the estimate.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
    >>> narrow = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = 3 * np.random.default_rng(0).normal(size=(1000, 1))  # exact draws of `wide`
    >>> trace = xps.sample(xps.Bridge(wide, narrow), xps.TemperedSMC(xps.RWM(), ess=0.8), x0, 1, seed=1, burn_in=14)
    >>> found = xps.particle_log_normalizer(trace.state)  # of the ratio of the two normalizing constants, 1 / 3
    >>> bool(abs(found.value - np.log(1 / 3)) < 0.2)
    True
    """

    base: Kernel = field(metadata=rungs_of("rows"))
    betas: Numbers | None = checked(check_ladder, default=None)
    ess: float | None = number(default=None, gt=0, lt=1)
    threshold: float = number(default=0.5, ge=0, le=1)
    resampling: Resampling = instance(Resampling, "Multinomial()", default=Multinomial())
    moves: int = count(default=10)

    def __check_init__(self) -> None:
        check_base("TemperedSMC", self.base, NEEDED_ON_A_PATH)
        following("TemperedSMC", self.base)
        if (self.betas is None) == (self.ess is None):
            both = "both are set" if self.ess is not None else "neither is set"
            raise HyperparameterError(
                f"TemperedSMC needs betas or ess, and {both}. With ess=0.8 the run chooses the temperatures."
            )

    def rows(self, x: Array) -> int:
        """The number of values that a hyperparameter of the base kernel may have: one for each step of the ladder."""
        return 1 if self.betas is None else len(self.betas) - 1

    @cached_property
    def _tuning(self) -> Kernel[Any, Any] | None:
        base = following("TemperedSMC", self.base)
        return base if isinstance(base, AdaptedKernel) else None

    @declared
    def tuning_inside(self) -> Kernel[Any, Any] | None:
        """The base kernel with its rules, if it has unset hyperparameters."""
        return self._tuning

    @declared
    def traits(self) -> Trait:  # of weighted particles, which no kernel around them would weigh
        return self.base.traits & Trait.STAYS_INSIDE

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.LOG_DENSITY | Capability.ANY_START

    def init(self, target: BoundTarget, x: Array) -> TemperedSMCState:
        if x.ndim < 2:
            raise HyperparameterError(f"TemperedSMC moves particles, (*runs, particles, dim); got {tuple(x.shape)}")
        xp = target.xp
        beta = xp.zeros_like(xp.sum(target.as_floating(x)[..., 0], axis=-1, keepdims=True))
        count = counter(target, x)
        base = start_of_path(target, self._base(xp, count, x), beta, x)
        weights = Weights.equal(xp, xp.zeros_like(target.as_floating(x)[..., 0]))
        betas = None if self.betas is None else ladder_array(target, self.betas, x)
        particles = target.backend.from_host(np.arange(x.shape[-2], dtype=np.int32), x)
        resamplings = xp.astype(xp.zeros_like(weights.ess), count.dtype)
        eve, remembered = particles + resamplings[..., None], Remembered.nothing(xp.zeros_like(weights.ess))
        return TemperedSMCState(base, betas, beta, weights, eve, resamplings, count, remembered)

    def noise(self, x: Array) -> Specs:
        own = {"resample": self.resampling.noise(tuple(x.shape[:-2]), x.shape[-2])} if self.threshold else {}
        return {**own, **of_moves(self.base.noise(x), self.moves)}

    def step(
        self, target: BoundTarget, state: TemperedSMCState, noise: dict[str, Array]
    ) -> tuple[TemperedSMCState, Any]:
        xp, base, eve, resamplings = target.xp, state.base, state.eve, state.resamplings
        ratio = log_density_ratio(target, state.point)
        if state.betas is not None:
            beta = state.beta - state.beta + row(xp, state.betas, state.n + 1)
        else:
            beta = self._next(target, state, ratio)
        by = beta - state.beta
        weights = state.weights.times(xp, xp.where(by > 0.0, by * ratio, 0.0))
        remembered = state.remembered.weighed(xp, state.weights, weights, by, beta, ratio)
        member, kernel = annealed(target, beta), self._base(xp, state.n, state.point.x)
        chains = of_chains(base)
        sample = chains.point
        if self.threshold:
            where = weights.ess <= self.threshold * ratio.shape[-1]
            index = self.resampling.ancestors(xp, xp.exp(weights.logs), noise["resample"])
            if isinstance(kernel, AdaptedKernel):  # a sample at the new temperature, to tune on
                sample = take_ancestors(xp, xp.ones_like(where), index, sample)
            chains, eve = take_ancestors(xp, where, index, (chains, eve))
            weights, resamplings = weights.reset(xp, where), resamplings + xp.astype(where, resamplings.dtype)
        base = follow(kernel, member, with_chains(base, chains), sample)
        start = log_density_ratio(target, base.point.base)
        base, info = self._moved(kernel, member, base, noise)
        end = log_density_ratio(target, base.point.base)
        remembered = remembered.moved(xp, weights, by, beta, start, end)
        return TemperedSMCState(base, state.betas, beta, weights, eve, resamplings, state.n + 1, remembered), info

    def _moved(self, kernel: Kernel, member: BoundTarget, base: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        """The particles after all moves at one temperature."""
        base, info = kernel.advance(member, base, of_move(noise, self.moves, 0))
        if self.moves == 1:
            return base, info

        def one(i: Any, carry: tuple[Any, Info]) -> tuple[Any, Info]:
            base, info = kernel.advance(member, carry[0], of_move(noise, self.moves, i + 1))
            return base, carry[1].plus(Info.of(info, self.moves))

        return member.backend.repeat(self.moves - 1, one, (base, Info.of(info, self.moves)))

    def _base(self, xp: Any, n: Array, x: Array) -> Kernel:
        """The kernel of step n."""
        base = at_step(xp, self.base, n, x.ndim - 1)
        return base if self._tuning is None else following("TemperedSMC", base)

    def _next(self, target: BoundTarget, state: TemperedSMCState, ratio: Array) -> Array:
        """The next inverse temperatures, (*runs, 1)."""
        xp, logs = target.xp, state.weights.logs
        assert self.ess is not None
        lowest = math.log(self.ess)

        def enough(by: Array) -> Array:
            gain = logs + by * ratio
            return (2.0 * logsumexp(gain) - logsumexp(gain + by * ratio))[..., None] >= lowest

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            fine = enough(middle)
            return xp.where(fine, middle, ends[0]), xp.where(fine, ends[1], middle)

        rest = 1.0 - state.beta
        _, by = target.backend.repeat(HALVINGS, halve, (xp.zeros_like(rest), rest))
        return xp.where(enough(rest), xp.ones_like(rest), state.beta + by)


def particle_log_normalizer(state: TemperedSMCState, initial_log_normalizer: float = 0.0) -> LogNormalizer:
    """The target's log normalizing constant from the particles of each run, after the last temperature.

    Parameters
    ----------
    state : TemperedSMCState
        State of a run that has reached beta = 1; otherwise `HyperparameterError` is raised.
    initial_log_normalizer : float
        log of the integral (or sum) of f_0.

    Returns
    -------
    LogNormalizer
        Arrays (*runs). The exponential of ``value`` is unbiased if the ladder and the moves were set; choices that
        depend on the particles (``ess=``, self-tuned moves) bias it by order one divided by their number.
        ``standard_error`` is the relative standard error of that exponential, from the particles' lineages with
        multinomial resampling; with other schemes it is too small. It is infinite where the particles descend from
        fewer than 10 in effect, and no less than ``sqrt(1 / 8)`` of the root of the share of pairs that are of one
        family: below that it is noise. Without resampling it equals the one of `log_normalizer`. A run whose particles
        all have weight 0 has the value -inf. To combine independent runs, with an error, use
        ``log_normalizer(result.value)``. With too few `moves` all runs can be too low alike: a finding reports it.

    See Also
    --------
    TemperedSMC : The run.
    log_normalizer : Of a run of AIS.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
    >>> narrow = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = 3 * np.random.default_rng(0).normal(size=(1000, 1))  # exact draws of `wide`
    >>> trace = xps.sample(xps.Bridge(wide, narrow), xps.TemperedSMC(xps.RWM(), ess=0.8), x0, 1, seed=1, burn_in=14)
    >>> found = xps.particle_log_normalizer(trace.state)  # of the ratio of the two normalizing constants, 1 / 3
    >>> bool(abs(found.value - np.log(1 / 3)) < 0.2)
    True
    """
    if not isinstance(state, TemperedSMCState):
        raise CapabilityError(f"state must be the state of a TemperedSMC run, trace.state; got {given(state)}")
    initial_log_normalizer = check_number("initial_log_normalizer", initial_log_normalizer)
    beta, logs = to_host(state.beta)[..., 0], to_host(state.weights.logs).astype(np.float64)
    lost = _lost(logs)
    if np.all(lost):
        raise TraceError(str(judge_lost(beta.size, beta.size, logs.shape[-1])))
    beta = np.where(lost, 1.0, beta)
    if np.any(beta < 1):
        raise HyperparameterError(
            f"particle_log_normalizer needs particles that have reached beta = 1; {np.sum(beta < 1)} of {beta.size} "
            f"runs are at {np.min(beta):.3g} or above: make more steps"
        )
    resamplings, eve, weights = to_host(state.resamplings), to_host(state.eve), np.exp(logs)
    value = to_host(state.weights.log_normalizer).astype(np.float64) + initial_log_normalizer
    error = np.full(value.shape, math.inf)
    for run in np.ndindex(beta.shape):
        if lost[run]:
            continue
        families = np.bincount(eve[run], weights=weights[run], minlength=logs.shape[-1])  # by their start particle
        if resamplings[run]:
            error[run] = error_of_lineages(families, int(resamplings[run]))
        elif error_holds(logs[run]):
            error[run] = math.sqrt(max(0.0, (np.sum(families**2) * logs.shape[-1] - 1) / (logs.shape[-1] - 1)))
    ess = to_host(state.weights.ess).astype(np.float64)
    return LogNormalizer(np.where(lost, -math.inf, value), error, np.where(lost, 0.0, ess))


def _lost(logs: np.ndarray) -> np.ndarray:
    """Which runs have no particle of a positive weight, (*runs)."""
    return ~np.any(logs > -math.inf, axis=-1)
