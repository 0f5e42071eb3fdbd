"""Limit on the doublings of NUTS while chains are in their transient phase."""

from typing import Any, ClassVar

from xpsample.adaptation.length import FROM
from xpsample.adaptation.rule import Rule, StepRecord, per_group
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.core.fields import count

DEEPEST = 30  # Doublings at most: leaves are counted in 32 bits


class Doublings(Rule, eq=True):
    """Few in the first third of the warm-up, and then many.

    In the transient phase chains may need tiny steps and do not turn back: each trajectory would be as long as allowed.
    Short trajectories converge as well, since each begins with a new momentum. Lengths of `HMC` begin to move as late.

    Parameters
    ----------
    first, most : int
        Maximum number of doublings, in the first third and from then on.
    """

    first: int = count(default=5)
    most: int = count(default=10, le=DEEPEST)

    def __check_init__(self) -> None:
        check_count("first", self.first, 1, self.most)

    rank = 2
    patience: ClassVar[float] = 0.0

    @property
    def settled(self) -> int:
        """The final maximum, known in advance."""
        return self.most

    def init(self, xp: Any, point: Any, pooled: bool) -> Array:
        return xp.astype(per_group(xp, point.x, pooled), xp.int32) + self.first

    def value(self, xp: Any, memory: Array, kernel: Any) -> Array:
        return memory

    def update(self, memory: Array, seen: StepRecord) -> tuple[Array, StepRecord]:
        return seen.xp.where(seen.n > FROM * seen.steps, self.most, memory), seen

    def final(self, xp: Any, memory: Array) -> Array:
        return memory

    def path(self, xp: Any, memory: Array) -> Array:
        return memory
