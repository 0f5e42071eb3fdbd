"""Unadjusted microcanonical dynamics: the step size by the variance of the energy, and a length for the velocity
(Robnik, De Luca, Silverstein & Seljak 2023, Section 4)."""

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation.length import step_size_of
from xpsample.adaptation.metric import FROZEN
from xpsample.adaptation.rule import STEP_BITS, Rule, StepRecord, per_group, rounded, vector_per_group
from xpsample.core.arrays import Array

ORDER = 6  # The variance of the energy goes with this power of the step size

LARGEST_CHANGE = 0.3  # Largest change of the logarithm of a step size from one step to the next

# Steps that a chain alone averages over, about; where chains are pooled, as many fewer, down to `SHORTEST`.
MEMORY = 50.0

SHORTEST = 5.0

SHARE = 0.4  # Share of the way from one independent draw to the next: the authors' value

# A step is one integrator step, of which a trajectory of other kernels has several: chains need more to converge.
PATIENCE = 5.0

BATCHES = 8  # Means that a variance is taken of, at least: their number times the dimension says how well it is known


class EnergyErrors(NamedTuple):
    """The memory of the rule, each ``(*groups, 1)``: ``log_step``, ``average`` of it over the last half of the warm-up,
    and the running mean ``error`` of the squared change of the energy per coordinate, over the sixth power of the step.
    """

    log_step: Array
    average: Array
    error: Array


class EnergyVariance(Rule, eq=True):
    """The step size at which the squared change of the energy in a step, over the dimension, has a given mean.

    Exact dynamics keep the energy, so this measures the bias that the step size makes; what bias it is depends on the
    target. 0.0005 is the value that is usually taken, by BlackJAX among others.

    Parameters
    ----------
    per_coordinate : float
    """

    per_coordinate: float = 5e-4

    rank = 1
    patience: ClassVar[float] = PATIENCE

    def init(self, xp: Any, point: Any, pooled: bool) -> EnergyErrors:
        zero = per_group(xp, point.x, pooled)
        start = zero + math.log(0.1 * math.sqrt(point.x.shape[-1]))
        return EnergyErrors(start, start, zero)

    def value(self, xp: Any, memory: EnergyErrors, kernel: Any) -> Array:
        return rounded(xp, memory.log_step, STEP_BITS)

    def update(self, memory: EnergyErrors, seen: StepRecord) -> tuple[EnergyErrors, StepRecord]:
        xp, x = seen.xp, seen.after.x
        change = seen.info.energy_change
        fine = xp.isfinite(change) & ~seen.info.diverged
        squared = xp.where(fine, change, 0.0) ** 2 / x.shape[-1]
        scaled = seen.mean(squared) / xp.exp(ORDER * memory.log_step)

        chains = float(x.shape[-2]) if seen.pooled else 1.0
        weight = 1 / max(SHORTEST, MEMORY / chains)
        error = xp.where(memory.error > 0, memory.error + weight * (scaled - memory.error), scaled)
        known = error > 0
        aim = (math.log(self.per_coordinate) - xp.log(xp.where(known, error, 1.0))) / ORDER
        aim = xp.where(known, aim, memory.log_step + LARGEST_CHANGE)
        # If one of ten chains leaves the finite numbers, the step is too large whatever the other chains report.
        lost = seen.mean(xp.astype(~fine, scaled.dtype)) > 0.1
        aim = xp.where(lost, memory.log_step - LARGEST_CHANGE, aim)
        log_step = memory.log_step + xp.clip(aim - memory.log_step, min=-LARGEST_CHANGE, max=LARGEST_CHANGE)
        half = seen.n - 0.5 * seen.steps
        share = xp.where(half >= 1, 1 / xp.clip(half, min=1.0), 1.0)
        return EnergyErrors(log_step, memory.average + share * (log_step - memory.average), error), seen

    def final(self, xp: Any, memory: EnergyErrors) -> Array:
        return rounded(xp, memory.average, STEP_BITS)

    def path(self, xp: Any, memory: EnergyErrors) -> Array:
        return xp.exp(memory.log_step)


class BatchSums(NamedTuple):
    """The memory of the rule, of positions in units of the metric less ``centre``, since the metric settled.

    ``total`` is the sum of the batch so far, ``(*chains, dim)``, and ``whole`` flags whether no step of it diverged,
    ``(*chains)``. For positions, and for means of batches, the memory has their number, ``(*groups, 1)``, and their
    sums and sums of squares, ``(*groups, 1, dim)``. ``batch`` is the number of steps per batch, 0-d; ``step_size`` the
    mean so far, ``(*groups, 1)``.
    """

    centre: Array
    total: Array
    whole: Array
    positions: tuple[Array, Array, Array]
    means: tuple[Array, Array, Array]
    batch: Array
    step_size: Array


class DecoherenceLength(Rule, eq=True):
    """The length over which a velocity forgets its direction: 0.4 of the way from one independent draw to the next.

    That is 0.4 times the step size times the steps per effective draw, on average over the coordinates. It is at least
    the radius of the target, the root of the sum of the variances, which is the authors' first choice. The steps per
    effective draw are ``b var(means) / var(x)`` with means over b steps, in the last 30 % of the warm-up: one for each
    of many chains, and several for few, at least 8 in all. They are at most b, so that chains that have not mixed in
    this time get a shorter length than the rule's. Until then the length is sqrt(dim).

    Parameters
    ----------
    metric : str
        The kernel's field that has the metric.
    """

    metric: str

    rank = 2
    patience: ClassVar[float] = PATIENCE

    def init(self, xp: Any, point: Any, pooled: bool) -> BatchSums:
        x = xp.zeros_like(point.x)
        zero, count = vector_per_group(xp, x, pooled), per_group(xp, x, pooled)
        sums = (count, zero, zero)
        return BatchSums(zero, x, x[..., 0] != 0, sums, sums, xp.sum(count), count)

    def value(self, xp: Any, memory: BatchSums, kernel: Any) -> Array:
        return 0.0 * memory.step_size + math.sqrt(memory.total.shape[-1])

    def update(self, memory: BatchSums, seen: StepRecord) -> tuple[BatchSums, StepRecord]:
        xp = seen.xp
        chains = seen.after.x.shape[-2] if seen.pooled else 1
        frozen = xp.floor(FROZEN * seen.steps)
        n, batches = seen.n - frozen, -(-BATCHES // chains)
        batch = xp.clip(xp.floor((seen.steps - frozen) / batches), min=1.0)
        begins, ends = xp.remainder(n - 1, batch) == 0, xp.remainder(n, batch) == 0

        # In units of the metric, in which all coordinates count alike.
        x = getattr(seen.kernel, f"_{self.metric}").root_transpose(seen.after.x)
        centre = xp.where(n > 1, memory.centre, seen.mean_vector(x))
        x, fine = x - centre, ~seen.info.diverged
        total, whole = xp.where(begins, x, memory.total + x), fine & (begins | memory.whole)
        positions = _added(seen, memory.positions, x, fine & (n > 0))
        means = _added(seen, memory.means, total / batch, whole & ends & (n > 0) & (n <= batch * batches))
        step_size = step_size_of(seen.kernel, memory.step_size)
        step_size = xp.where(n > 1, memory.step_size + (step_size - memory.step_size) / xp.clip(n, min=1.0), step_size)
        return BatchSums(centre, total, whole, positions, means, batch, step_size), seen

    def final(self, xp: Any, memory: BatchSums) -> Array:
        dim = memory.total.shape[-1]
        (variance, known), (of_means, some) = _variance(xp, *memory.positions), _variance(xp, *memory.means)
        moves = variance > 0
        share = xp.sum(xp.where(moves, of_means / xp.where(moves, variance, 1.0), 0.0), axis=-1) / dim
        share = xp.reshape(share, known.shape)
        travelled = SHARE * memory.step_size * memory.batch * xp.where(some, xp.clip(share, max=1.0), 0.0)
        radius = xp.sqrt(xp.reshape(xp.sum(variance, axis=-1), known.shape))
        length = xp.where(travelled > radius, travelled, radius)
        return rounded(xp, xp.log(xp.where(known & (length > 0), length, math.sqrt(dim))), STEP_BITS)

    def path(self, xp: Any, memory: BatchSums) -> Array:
        return self.final(xp, memory)


def _added(
    seen: StepRecord, sums: tuple[Array, Array, Array], values: Array, counts: Array
) -> tuple[Array, Array, Array]:
    """Number, sum and sum of squares with the values ``(*chains, dim)`` added of the chains that count."""
    xp = seen.xp
    values, chains = xp.where(counts[..., None], values, 0.0), float(values.shape[-2]) if seen.pooled else 1.0
    number = chains * seen.mean(xp.astype(counts, values.dtype))
    first, second = chains * seen.mean_vector(values), chains * seen.mean_vector(values * values)
    return sums[0] + number, sums[1] + first, sums[2] + second


def _variance(xp: Any, count: Array, total: Array, squares: Array) -> tuple[Array, Array]:
    """Compute the variance of each coordinate, and whether there are at least two values, ``(*groups, 1)``."""
    known = count > 1.5
    counts = xp.where(known, count, 2.0)
    counts = counts[..., None] if total.ndim > 1 else counts
    return xp.clip((squares - total * total / counts) / (counts - 1), min=0.0), known
