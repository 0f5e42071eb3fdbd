"""Lengths of trajectories by the ChEES criterion (Hoffman, Radul & Sountsov 2021, "An adaptive-MCMC scheme for setting
trajectory lengths in Hamiltonian Monte Carlo")."""

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation.rule import STEP_BITS, FollowingRule, StepRecord, per_group, rounded
from xpsample.core.arrays import Array

# Shares of the warm-up: when lengths begin to move, when more slowly, and from where they are averaged.
# They begin late, because any length looks too short while chains are in their transient phase.
FROM, SLOWER, AVERAGED = 1 / 3, 0.8, 0.8

# Usual change of the logarithm of the length: 8 over the warm-up's steps before it is slower, at most; and then.
FAST, SLOW = 8.0, 0.05

DECAY = 0.9  # Decay of Adam's second moment, and of the mean criterion by which the gradient is divided

# First length of trajectories, in units of the metric, in which the longest scale of a target is at least 1; and its
# maximum in step sizes. They start short, because the criterion has further maxima at longer trajectories.
FIRST_LENGTH, FIRST_STEPS = 1.0, 20.0

LOSS = 2.0  # Loss of slope of the log criterion per share of trajectories that end beyond a hard bound

LONGEST = 1000  # Maximum number of steps of a trajectory

MEMORY = 500.0  # Draws that the mean position is taken over, about: over fewer of slow chains it would follow them


class Lengths(NamedTuple):
    """The memory of the rule, each ``(*groups, 1)``, but ``mean``, of the positions, ``(*groups, 1, dim)``.

    ``log_length``, in use; ``average`` of it over the last fifth; ``criterion`` and ``square``, running means of the
    criterion and of the square of its normalized gradient; ``begun``, whether a first step size is found.
    """

    log_length: Array
    average: Array
    criterion: Array
    square: Array
    mean: Array
    begun: Array


class ChEES(FollowingRule, eq=True):
    """Ascend the change of the squared distance from the mean, over a root of the length.

    With positions x at the start and x' at the end of a trajectory, velocity v' there and m the mean, in units of the
    metric, that is ``E[a ||x' - m|^2 - |x - m|^2|] / length^cost`` with a the acceptance probability. The paper takes
    the mean square and does not divide: that asks for longer trajectories than their cost is worth, and where tails are
    heavy a few chains decide.

    The kernel's info has the fields ``end``, ``velocity`` (*chains, dim) and ``time`` (of the trajectory).

    Parameters
    ----------
    metric : str
        The kernel's field that has the metric.
    cost : float
        The power of the length that the change is divided by. 0.5 weighs gradients in full, which chains of `MAMS` need
        on narrow targets; half of that costs `HMC` no gradients, and its draws are worth more.
    of_a_sphere : bool
        Whether velocities have length 1 in units of the metric, and not sqrt(dim) on average, so that all takes as many
        times as long.
    """

    metric: str
    cost: float = 0.25
    of_a_sphere: bool = False

    rank = 2
    patience: ClassVar[float] = 1.0

    def init(self, xp: Any, point: Any, pooled: bool) -> Lengths:
        zero = per_group(xp, point.x, pooled)
        mean = xp.mean(point.x, axis=-2, keepdims=True) if pooled else point.x
        return Lengths(zero, zero, zero, zero, mean, zero != 0)

    def follow(self, xp: Any, memory: Lengths, point: Any, pooled: bool) -> Lengths:
        return memory._replace(mean=self.init(xp, point, pooled).mean)

    def value(self, xp: Any, memory: Lengths, kernel: Any) -> Array:
        # While the first step size is sought, trajectories of one step.
        length = rounded(xp, memory.log_length, STEP_BITS)
        most = LONGEST * step_size_of(kernel, length)
        return xp.where(memory.begun, xp.where(length < most, length, most), 0.0 * length)

    def update(self, memory: Lengths, seen: StepRecord) -> tuple[Lengths, StepRecord]:
        xp, info = seen.xp, seen.info
        since = xp.where(seen.n > FROM * seen.steps, seen.n - xp.floor(FROM * seen.steps), seen.n + 1)
        weight = xp.clip(1 / since, min=1 / (1 + MEMORY / _chains(seen)))
        mean = memory.mean + weight * (seen.mean_vector(seen.after.x) - memory.mean)

        # In units of the metric, in which all coordinates count alike.
        metric = getattr(seen.kernel, f"_{self.metric}")
        start, end, velocity = map(metric.root_transpose, (seen.before.x - mean, info.end - mean, info.velocity))
        change = xp.sum(end * end - start * start, axis=-1)
        growth = info.time * xp.sum(end * velocity, axis=-1)
        usable = xp.isfinite(change) & xp.isfinite(growth) & (info.acceptance_probability > 0)
        accepted = xp.where(usable, info.acceptance_probability, 0.0)
        change, growth = xp.where(usable, change, 0.0), xp.where(usable, growth, 0.0)
        now = seen.mean(accepted * xp.abs(change))
        slope = seen.mean(accepted * xp.sign(change) * 2 * growth) - self.cost * now  # by the logarithm of the length
        finite = xp.isfinite(now) & xp.isfinite(slope)  # sums of squares overflow where nothing holds chains back
        now, slope = xp.where(finite, now, 0.0), xp.where(finite, slope, 0.0)

        first = memory.criterion == 0
        criterion = xp.where(first, now, DECAY * memory.criterion + (1 - DECAY) * now)
        slope = xp.where(criterion > 0, slope / xp.where(criterion > 0, criterion, 1.0), 0.0)
        # Trajectories beyond a hard bound count as no change, and longer ones are there more often.
        slope = slope - LOSS * seen.mean(xp.astype(seen.beyond, slope.dtype))
        square = xp.where(first, slope**2, DECAY * memory.square + (1 - DECAY) * slope**2)
        rate = SLOW + xp.where(seen.n < SLOWER * seen.steps, FAST / seen.steps, 0.0)
        change = rate * slope / (xp.sqrt(square) + 1e-8)

        log_step = xp.log(step_size_of(seen.kernel, memory.log_length))
        slower = math.sqrt(seen.after.x.shape[-1]) if self.of_a_sphere else 1.0
        start = xp.clip(log_step + math.log(FIRST_STEPS), max=math.log(FIRST_LENGTH * slower))
        moves = ~seen.searching & (seen.n > FROM * seen.steps)
        log_length = xp.where(moves, memory.log_length + change, start)
        log_length = xp.clip(log_length - log_step, min=0.0, max=math.log(LONGEST)) + log_step
        averaged = seen.n - AVERAGED * seen.steps
        share = xp.where(averaged >= 1, 1 / xp.clip(averaged, min=1.0), 1.0)
        average = memory.average + share * (log_length - memory.average)
        criterion, square = xp.where(moves, criterion, 0.0), xp.where(moves, square, 0.0)
        return Lengths(log_length, average, criterion, square, mean, memory.begun | ~seen.searching), seen

    def final(self, xp: Any, memory: Lengths) -> Array:
        return rounded(xp, memory.average, STEP_BITS)

    def path(self, xp: Any, memory: Lengths) -> Array:
        return xp.exp(memory.log_length)


def step_size_of(kernel: Any, like: Array) -> Array:
    """The step size of each group, ``(*groups, 1)``; one that is given for each chain counts by its mean."""
    step_size = 0.0 * like + kernel.step_size
    return step_size if step_size.shape == like.shape else step_size.mean(-1, keepdims=True)


def _chains(seen: StepRecord) -> int:
    """Chains of a group."""
    return seen.after.x.shape[-2] if seen.pooled else 1
