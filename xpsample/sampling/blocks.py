"""How a run is cut into blocks of steps, between which it is saved and stopped."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xpsample.core.ending import Ending

SECONDS = 1.0
"""How long a block of several steps takes at most, about."""

MOST_STEPS = 2**31
"""Of a block where nothing else is said."""

SHORT = 0.1
"""Seconds up to which nobody waits for a block to end, to measure it."""

SLOWER, LONGER = 4.0, 16
"""By how much a step is thought to be faster than in the block before, at most; and by how much a block is longer."""


class Pace:
    """Cuts segments of a run into blocks that take a second, where steps are slow. A block may be a single step.

    The draws do not depend on where blocks end. The first block is one step, which tells how slow steps are, and none
    is longer than `longest`. The ending is told when a block has taken its time, for libraries that ask after every
    step.
    """

    def __init__(self, longest: int = MOST_STEPS, ending: Ending | None = None) -> None:
        self._each, self._most, self._longest = 0.0, 1, longest
        self._first, self._began, self._ending = 0, 0.0, ending or Ending()

    def blocks(self, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Steps [lo, hi) of one block after the other; `measure` says how far each came."""
        for lo, stop in segments:
            while lo < stop:
                few = min(self._longest, self._most, int(SECONDS / max(self._each, 1e-9)))
                self._first, self._began = lo, time.perf_counter()
                self._ending.at = self._began + SECONDS
                yield lo, min(stop, lo + max(1, few))
                lo = self._first

    def measure(self, end: int, synchronize: Callable[[], Any], agreed: Callable[[float], float] | None = None) -> None:
        """Take the time of the block that was made last, which may still be under way; `end` is the step after it.

        Where several processes make the run, which have waited already, `agreed` gives of the time of this one that
        which all take, so that they cut the same blocks.
        """
        steps, self._first = end - self._first, end
        if not steps:
            return
        expected, taken = steps * self._each, time.perf_counter() - self._began
        if agreed is not None:
            taken = agreed(taken)
        elif self._most >= MOST_STEPS and max(expected, taken) < SHORT:
            return
        else:
            synchronize()
            taken = time.perf_counter() - self._began
        self._each = max(taken / steps, self._each / SLOWER)
        self._most = min(MOST_STEPS, LONGER * steps) if self._each * LONGER * steps > SHORT else MOST_STEPS
