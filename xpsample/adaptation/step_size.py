"""Step sizes by dual averaging on the acceptance probability (Hoffman & Gelman 2014, Section 3.2; Nesterov 2009)."""

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation.rule import STEP_BITS, FollowingRule, StepRecord, per_group, rounded
from xpsample.core.arrays import Array
from xpsample.core.fields import flag, number

GAMMA, T0, KAPPA = 0.05, 10.0, 0.75  # Constants of dual averaging, from Section 3.2.1 of the paper

# Change of the log step size for an acceptance that is 1 off, for particles whose target does not rest.
# A constant gain never stops (Andrieu & Thoms 2008, "A tutorial on adaptive MCMC", Section 4.2.1). Dual averaging slows
# down, and if it restarts at each step it jumps by up to 1.8 times as much, beyond where trajectories of a fixed number
# of steps are stable.
GAIN = 0.5

LARGEST_CHANGE = 0.7  # Largest change of the logarithm of a step size from one step to the next

# Smallest log step size: near the smallest normal number of float32. A stuck chain may drive it to 0.
LOG_LEAST = -85.0

# Acceptance probabilities below this count as this in a harmonic mean; the second, for the first third of warm-up.
# At that stage a single stuck chain of many should make the steps of all chains small until it is free.
LEAST_ACCEPTANCE, LEAST_AT_FIRST, UNTIL = 0.02, 0.001, 1 / 3

LONGEST_SEARCH = 60  # Maximum number of steps of the search for a first step size, whatever its result


class Averaging(NamedTuple):
    """The memory of dual averaging, each ``(*groups, 1)``.

    ``log_step`` is the log step size of the next step; ``centre`` is the value it is shrunk to, ``gap`` the mean gap of
    the acceptance so far, ``made`` the number of steps since the last restart, ``average`` the weighted mean of
    ``log_step``. ``direction`` is the direction of the search for the first step size, 0 before its first step;
    ``searching`` flags whether the search continues.
    """

    log_step: Array
    centre: Array
    gap: Array
    made: Array
    average: Array
    direction: Array
    searching: Array


class StepSize(FollowingRule, eq=True):
    """Dual averaging to an acceptance probability, from a first step size that is found by doubling and halving.

    Parameters
    ----------
    acceptance : float
        Target mean acceptance probability.
    harmonic : bool, optional
        Whether the chains of a group are pooled by their harmonic mean, which a few chains with tiny acceptance
        probabilities pull down. An arithmetic mean hides divergent chains behind the others.
    first : float, optional
        Initial value of the search, 1 by default.
    most : float, optional
        Largest value, if there is one.

    See Also
    --------
    DiagonalMetric : Tunes a mass as well.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(xps.StepSize(0.8)), x0, 1000, seed=1)
    >>> bool(abs(trace.run_statistics.acceptance_probability.mean() - 0.8) < 0.15)
    True
    """

    acceptance: float = number(gt=0, lt=1)
    harmonic: bool | None = flag(default=None)
    first: float | None = number(default=None, gt=0)
    most: float | None = number(default=None, gt=0)

    rank = 1
    patience: ClassVar[float] = 1.0

    def init(self, xp: Any, point: Any, pooled: bool) -> Averaging:
        zero = per_group(xp, point.x, pooled)
        start = zero + math.log(1.0 if self.first is None else self.first)
        return Averaging(start, start, zero, zero, start, zero, zero == 0)

    def follow(self, xp: Any, memory: Averaging, point: Any, pooled: bool) -> Averaging:
        return memory

    def value(self, xp: Any, memory: Averaging, kernel: Any) -> Array:
        return rounded(xp, memory.log_step, STEP_BITS)

    def update(self, memory: Averaging, seen: StepRecord) -> tuple[Averaging, StepRecord]:
        xp = seen.xp
        accepted = self._pooled(seen, seen.info.acceptance_probability)

        # The search goes by factors of 2 until the acceptance crosses its target.
        way = 2.0 * xp.astype(accepted > self.acceptance, accepted.dtype) - 1.0
        crossed = (memory.direction != 0) & (way != memory.direction)
        over = crossed | (seen.n >= LONGEST_SEARCH) | (memory.log_step >= self._log_most)
        searching = memory.searching & ~over
        # A search upwards has gone one step too far when it ends.
        found = xp.where(crossed & (way < 0), memory.log_step - math.log(2), memory.log_step)
        sought = xp.where(searching, memory.log_step + math.log(2) * way, found)

        # A new metric is a new unit: averaging begins again, from where it is.
        began = memory.searching | seen.switched
        centre = xp.where(began, xp.where(memory.searching, sought, memory.log_step), memory.centre)
        count = xp.where(began, 0.0, memory.made) + 1.0
        gap, average = xp.where(began, 0.0, memory.gap), xp.where(began, centre, memory.average)
        weight = 1 / (count + T0)
        gap = (1 - weight) * gap + weight * (self.acceptance - accepted)
        aim = centre - xp.sqrt(count) / GAMMA * gap
        change = xp.clip(aim - memory.log_step, min=-LARGEST_CHANGE, max=LARGEST_CHANGE)
        if seen.following:
            change = GAIN * (accepted - self.acceptance)
        log_step = xp.where(memory.searching, sought, memory.log_step + change)
        log_step = xp.clip(log_step, min=LOG_LEAST, max=self._log_most)
        share = count**-KAPPA
        average = log_step if seen.following else share * log_step + (1 - share) * average

        direction = xp.where(memory.searching, way, memory.direction)
        new = Averaging(log_step, centre, gap, count, average, direction, searching)
        return new, seen._replace(searching=searching)

    def final(self, xp: Any, memory: Averaging) -> Array:
        return rounded(xp, memory.average, STEP_BITS)

    def path(self, xp: Any, memory: Averaging) -> Array:
        return xp.exp(memory.log_step)

    @property
    def _log_most(self) -> float:
        return math.inf if self.most is None else math.log(self.most)

    def _pooled(self, seen: StepRecord, accepted: Array) -> Array:
        if not self.harmonic:
            return seen.mean(accepted)
        xp = seen.xp
        least = xp.where(seen.n < UNTIL * seen.steps, LEAST_AT_FIRST + xp.zeros_like(seen.n), LEAST_ACCEPTANCE)
        inverse = 1 / xp.where(accepted > least, accepted, least)
        # A trajectory that ends beyond a hard bound is rejected however small its steps are, so it carries no
        # information about the step size, unless most steps cross the bound.
        inside = xp.astype((accepted > 0) | ~seen.beyond, accepted.dtype)
        share, total = seen.mean(inside), seen.mean(inside * inverse)
        mean = xp.where(share > 0, share / xp.where(total > 0, total, 1.0), self.acceptance)
        crossed = seen.mean((1.0 - inside) / _steps_of_their_own(seen))
        return xp.clip(2 * (1.0 - crossed), max=1.0) * mean


def _steps_of_their_own(seen: StepRecord) -> Any:
    """Steps of each trajectory of which at most one crosses a bound: 1 if only smaller steps make it shorter.

    If a length is set, or tuned together with the step size, smaller steps end beyond the bound as often.
    """
    time = getattr(seen.info, "time", None)
    return 1.0 if time is None or getattr(seen.kernel, "length", None) is None else time / seen.kernel.step_size
