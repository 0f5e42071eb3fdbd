"""Ladders of temperatures by the communication barrier: Syed, Bouchard-Côté, Deligiannidis & Doucet (2021),
"Non-reversible parallel tempering: a scalable highly parallel MCMC scheme"."""

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation.rule import Rule, StepRecord, rounded
from xpsample.core.arrays import Array
from xpsample.core.fields import count, number

ROUNDS = 7  # Rounds of a warm-up, at most

FROZEN = 0.7  # Share of the warm-up after which the ladder stays as it is, so that the base kernel settles on it

# Mean rejection probabilities below count as this, so that every two neighbors are some way apart.
LEAST_REJECTION = 1e-3

# Weight of the initial ladder in each later ladder. It keeps rungs apart where the rejection jumps.
STARTING_SHARE = 0.02

# The second to last rung of a start ladder that ends in 0; and values for each factor of e that rungs are rounded to.
HOTTEST, BETA_BITS = 0.01, 2**14


class Rounds(NamedTuple):
    """The memory of the rule.

    ``betas`` (rungs,) is the ladder in use, ``start`` (rungs,) the first one; ``rejected`` (rungs - 1,) is the sum over
    the steps of this round, ``seen`` of them (0-d), of the mean rejection probabilities of swaps between neighbors.
    """

    betas: Array
    start: Array
    rejected: Array
    seen: Array


class Ladder(Rule, eq=True):
    """Inverse temperatures between which all neighbors swap equally often.

    The rejection probabilities of swaps between neighbors add up to a nearly fixed number, the global communication
    barrier, whatever the rungs in between. The ladder begins geometric. At the end of a round, its rungs are set to
    equal parts of the barrier that was measured in this round (linear between rungs). Each round is twice as long as
    the one before; all chains of a run are pooled, of all groups, since a run has one ladder.

    Parameters
    ----------
    rungs : int, optional
        At least 2. By default as many as a normal target of this dimension needs, ``1 + 2 barrier``, with
        ``barrier = sqrt(dim / (2 pi)) log(1 / hottest)``: 5 in one dimension, 18 in 20.
    hottest : float
        The last inverse temperature. Chains there should cross from mode to mode: at 0.01 a mode is ten times as wide.
        0 where the target is a `Bridge`, and on finite spaces.

    See Also
    --------
    geometric_ladder : A ladder that is given.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.ParallelTempering(xps.MALA(), xps.Ladder(rungs=8, hottest=0.05))
    """

    rungs: int | None = count(default=None, ge=2)
    hottest: float = number(default=HOTTEST, ge=0, lt=1)

    rank = 0
    patience: ClassVar[float] = 1.0

    def count(self, dim: int) -> int:
        """The number of rungs on positions of `dim` coordinates."""
        if self.rungs is not None:
            return self.rungs
        return 1 + math.ceil(2 * math.sqrt(dim / (2 * math.pi)) * math.log(1 / (self.hottest or HOTTEST)))

    def init(self, xp: Any, point: Any, pooled: bool) -> Rounds:
        rungs = self.count(point.x.shape[-1])
        geometric = rungs if self.hottest else rungs - 1
        betas = [(self.hottest or HOTTEST) ** (k / max(1, geometric - 1)) for k in range(geometric)]
        zero = xp.zeros_like(xp.sum(point.x))
        start = xp.stack([zero + beta for beta in betas + [0.0] * (rungs - geometric)])
        return Rounds(start, start, xp.zeros_like(start[1:]), zero)

    def value(self, xp: Any, memory: Rounds, kernel: Any) -> Array:
        return memory.betas

    def update(self, memory: Rounds, seen: StepRecord) -> tuple[Rounds, StepRecord]:
        xp, accepted = seen.xp, seen.info.swap_probability
        accepted = xp.mean(xp.reshape(accepted, (accepted.shape[0], -1)), axis=-1)
        rejected = memory.rejected + 1.0 - xp.astype(accepted, memory.rejected.dtype)
        count = memory.seen + 1.0
        ends = seen.n < 0
        for k in range(ROUNDS):
            ends = ends | (seen.n == xp.floor(FROZEN * seen.steps / 2**k))
        inner = equal_parts(xp, memory.betas, xp.clip(rejected / count, min=LEAST_REJECTION))
        inner = (1.0 - STARTING_SHARE) * inner + STARTING_SHARE * memory.start[1:-1]
        betas = xp.concat([memory.start[:1], rounded(xp, xp.log(inner), BETA_BITS), memory.start[-1:]])
        new = Rounds(
            xp.where(ends, betas, memory.betas),
            memory.start,
            xp.where(ends, 0.0, rejected),
            xp.where(ends, 0.0, count),
        )
        return new, seen

    def final(self, xp: Any, memory: Rounds) -> Array:
        return memory.betas

    def path(self, xp: Any, memory: Rounds) -> Array:
        return memory.betas


def equal_parts(xp: Any, betas: Array, rejected: Array) -> Array:
    """The inner rungs of a ladder at equal parts of the cumulative barrier, linear between the rungs it is known at.

    Parameters
    ----------
    betas : array, shape (rungs,)
        Decreasing.
    rejected : array, shape (rungs - 1,)
        Positive mean rejection probabilities of neighbors.

    Returns
    -------
    array, shape (rungs - 2,)
    """
    barrier = xp.cumulative_sum(rejected, axis=0)
    parts = barrier[-1] * xp.cumulative_sum(xp.ones_like(rejected), axis=0) / rejected.shape[0]
    # How much of each gap between neighbors lies above each of the new rungs.
    shares = xp.clip((parts[:-1, None] - (barrier - rejected)) / rejected, min=0.0, max=1.0)
    return betas[0] - xp.sum(shares * (betas[:-1] - betas[1:]), axis=-1)
