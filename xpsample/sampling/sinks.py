"""Where the rows of a run go: into memory, or into a store."""

from typing import TYPE_CHECKING, Any

from xpsample.core.backend import Buffers
from xpsample.sampling.blocks import MOST_STEPS
from xpsample.sampling.loop import Sink, View
from xpsample.sampling.opening import Unsaved
from xpsample.sampling.program import Program, first_rows
from xpsample.sampling.totals import Totals

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Row, Store
    from xpsample.sampling.store import RowStore


class InMemory:
    """The rows of a run, in memory."""

    sinks: tuple[Sink, ...] = ()
    where: str | None = None

    def begin(
        self,
        program: Program,
        view: View,
        saved: "Store | Unsaved",
        row: "Row",
        metadata: dict[str, Any],
        totals: Totals,
    ) -> tuple[Program, View]:
        """The program, and where it begins, with the rows that are there."""
        return program, view._replace(buffers=saved.buffers(row))

    def so_far(self, program: Program, view: View) -> Buffers:
        """The rows of each recorder."""
        rows, held = program.schedule.rows(view.step), program.schedule.held
        return first_rows(program.backend, view.buffers, rows) if rows < held else view.buffers

    def in_trace(self, program: Program, view: View) -> Buffers:
        """Those that a trace gets."""
        return self.so_far(program, view)


class OnDisk:
    """The rows of a run, in a store: full chunks after a block, and all that there are before the state is saved."""

    def __init__(self, disk: "RowStore") -> None:
        self.disk, self.longest = disk, MOST_STEPS

    @property
    def where(self) -> str:
        """The store."""
        return self.disk.where

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Itself."""
        return (self,)

    def begin(
        self,
        program: Program,
        view: View,
        saved: "Store | Unsaved",
        row: "Row",
        metadata: dict[str, Any],
        totals: Totals,
    ) -> tuple[Program, View]:
        """The program, whose buffers hold the rows of two chunks, and where it begins."""
        counted = saved.counted if view.step else None
        self.totals = totals
        x, checkpointed = view.carry.state.point.x, saved.where is not None
        statistics = totals.run_statistics()
        self.program = self.disk.begin(program, row(), x, metadata, statistics, checkpointed, counted)
        self.longest = self.disk.chunk * program.schedule.thinning  # buffers hold two chunks
        return self.program, view

    def keep(self, view: View, last: bool) -> None:
        """Write what is there."""
        self.disk.append(view.buffers, self.program.schedule.rows(view.step), self.totals.run_statistics(), whole=last)

    def so_far(self, program: Program, view: View) -> tuple[Any, ...]:
        """The rows of each recorder, as they are read from the store."""
        self.keep(view, last=True)
        return self.disk.trace_rows(self.disk.rows)

    def in_trace(self, program: Program, view: View) -> tuple[Any, ...]:
        """Those that a trace gets, whose parts are arrays of the run's library."""
        rows = min(program.schedule.rows(view.step), program.schedule.draws)
        return self.disk.trace_rows(rows, view.carry.state.point.x)
