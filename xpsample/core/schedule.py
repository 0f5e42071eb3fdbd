"""Which steps a run makes, and which of them it records."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Schedule:
    """A burn-in, then rows, each after `thinning` steps.

    Parameters
    ----------
    draws : int
        Rows of the whole run.
    burn_in : int
        Steps at the start that are not recorded.
    thinning : int
        Steps of a row.
    room : int
        Rows to take memory for where that is more than `draws`, so that runs of other lengths share what is compiled.
    window : int
        Rows that buffers hold where rows go to a store, an even number: row i is in place ``i % window``. 0 where
        buffers hold all rows.
    """

    draws: int
    burn_in: int = 0
    thinning: int = 1
    room: int = 0
    window: int = 0

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.burn_in + self.draws * self.thinning

    @property
    def held(self) -> int:
        """Rows that buffers hold."""
        return self.window or max(self.draws, self.room)

    def is_recorded(self, t: Any) -> Any:
        """Whether the state after step t (from 0, past the burn-in) is kept."""
        return (t + 1 - self.burn_in) % self.thinning == 0

    def row(self, t: Any) -> Any:
        """The row that the state after step t belongs to."""
        return (t - self.burn_in) // self.thinning

    def rows(self, steps: int) -> int:
        """Rows recorded after a number of steps."""
        return max(0, steps - self.burn_in) // self.thinning
