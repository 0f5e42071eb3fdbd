"""Where a run is kept: its rows in memory or in a store, its state nowhere or in a checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xpsample.core import tree
from xpsample.core.errors import CheckpointError
from xpsample.engine.loop import Sink, View
from xpsample.engine.pace import MOST_STEPS
from xpsample.run.checkpoint import Store
from xpsample.run.program import Carry, Program, first_rows
from xpsample.run.recorders import part_of
from xpsample.run.store import RowStore
from xpsample.run.totals import Totals

Row = Callable[[], tuple]
"""Gives a row of each recorder, by a step that is thrown away."""


class Unsaved:
    """The checkpoint of a run that has none."""

    sinks: tuple[Sink, ...] = ()
    identity: ClassVar[dict[str, Any]] = {}
    counted: tuple[str, int] | None = None
    where: str | None = None

    def load(self, program: Program, carry: Carry, totals: Totals, row: Row) -> View:
        """Where the run begins."""
        return View(0, carry)

    def buffers(self, program: Program, row: Row) -> tuple[Any, ...] | None:
        """The rows that are saved."""
        return None

    def seconds(self, here: float) -> float:
        """What the steps took, of which those made now took `here`."""
        return here


@dataclass
class Saved:
    """The checkpoint of a run, which is saved after a block where it is time to."""

    store: Store
    longest: int = MOST_STEPS

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Itself."""
        return (self,)

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it this run."""
        return self.store.identity

    @property
    def counted(self) -> tuple[str, int] | None:
        """Which store of rows it counts, and how many."""
        return self.store.counted

    @property
    def where(self) -> str:
        """The folder."""
        return str(self.store.path)

    def load(self, program: Program, carry: Carry, totals: Totals, row: Row) -> View:
        """Where the run begins or goes on; with the sums until then in `totals`, by which it is saved from now on."""
        saved, self.totals, start = self.store.load(carry), totals, 0
        if saved is not None:
            start, carry = saved.step, saved.carry
            totals.begin_from(saved.totals)
        if start < program.steps:
            self.store.check(row())
        if start > program.steps:
            _check_cut(program, carry, start)
        return View(start, carry)

    def buffers(self, program: Program, row: Row) -> tuple[Any, ...] | None:
        """The rows that are saved, in buffers for all."""
        return _restore(program, row(), self.store.rows()) if self.store.folder is not None else None

    def keep(self, view: View, last: bool) -> None:
        """Save, if it is time to."""
        self.store.save(view.step, view.carry, self.totals, view.buffers, final=last)

    def seconds(self, here: float) -> float:
        """What all steps took, those before the run was resumed included."""
        return self.store.seconds


class InMemory:
    """The rows of a run, in memory."""

    sinks: tuple[Sink, ...] = ()
    where: str | None = None

    def begin(
        self, program: Program, view: View, saved: Any, row: Row, metadata: Any, totals: Totals
    ) -> tuple[Any, ...]:
        """The program, and where it begins, with the rows that are there."""
        return program, view._replace(buffers=saved.buffers(program, row))

    def so_far(self, program: Program, view: View) -> tuple[Any, ...] | None:
        """The rows of each recorder."""
        rows = program.rows(view.step)
        return first_rows(program.backend, view.buffers, rows) if rows < program.held else view.buffers

    def in_trace(self, program: Program, view: View) -> tuple[Any, ...] | None:
        """Those that a trace gets."""
        return self.so_far(program, view)


@dataclass
class OnDisk:
    """The rows of a run, in a store: full chunks after a block, and all that there are before the state is saved."""

    disk: RowStore
    longest: int = MOST_STEPS

    @property
    def where(self) -> str:
        """The store."""
        return self.disk.where

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Itself."""
        return (self,)

    def begin(
        self, program: Program, view: View, saved: Any, row: Row, metadata: Any, totals: Totals
    ) -> tuple[Any, ...]:
        """The program, whose buffers hold the rows of two chunks, and where it begins."""
        counted = saved.counted if view.step else None
        self.totals = totals
        self.program = self.disk.begin(program, row(), view.carry.state.point.x, saved.identity, metadata, counted)
        self.longest = self.disk.chunk * program.thinning  # buffers hold two chunks
        return self.program, view

    def keep(self, view: View, last: bool) -> None:
        """Write what is there."""
        self.disk.append(view.buffers, self.program.rows(view.step), self.totals.run_statistics(), whole=last)

    def so_far(self, program: Program, view: View) -> tuple[Any, ...]:
        """The rows of each recorder, as they are read from the store."""
        self.keep(view, last=True)
        return self.disk.trace_rows(self.disk.rows)

    def in_trace(self, program: Program, view: View) -> tuple[Any, ...]:
        """Those that a trace gets, whose parts are arrays of the run's library."""
        rows = min(program.rows(view.step), program.draws)
        return self.disk.trace_rows(rows, view.carry.state.point.x)


def _restore(program: Program, row: tuple[Any, ...], saved: dict[str, np.ndarray]) -> tuple[Any, ...] | None:
    """Buffers filled with the rows of a checkpoint, which are taken out of `saved` one by one."""
    if not saved:
        return None
    backend = program.target.backend
    return tuple(
        tree.fill(own, {path: backend.from_host(saved.pop(path), leaf) for path, leaf in tree.items(own, place)}, place)
        for own, place in zip(row, map(part_of, program.recorders), strict=True)
    )


def _check_cut(program: Program, carry: Carry, start: int) -> None:
    """Raise if results of more steps than those asked for cannot be taken back to the end of these."""
    running = [r.name for r, s in zip(program.recorders, carry.recorder_states, strict=True) if tree.leaves(s)]
    if running:
        raise CheckpointError(
            f"the checkpoint holds {program.rows(start)} draws, and {', '.join(running)} cannot be cut back to "
            f"{program.draws}: ask for at least as many, or use another path"
        )
