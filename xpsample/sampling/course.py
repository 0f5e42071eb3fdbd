"""A run of a program, ready for the engine: what it is given, and the trace of what it made."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from xpsample.core.backend import Buffers
from xpsample.core.ending import Ending
from xpsample.core.errors import Interrupted
from xpsample.metrics.findings import Finding
from xpsample.sampling.callbacks import Watched
from xpsample.sampling.interrupts import Signals
from xpsample.sampling.limits import example_row
from xpsample.sampling.loop import View, Watcher
from xpsample.sampling.noise import NoiseSource, segments
from xpsample.sampling.opening import Unsaved
from xpsample.sampling.processes import Processes
from xpsample.sampling.program import Carry, Program
from xpsample.sampling.progress import Bar
from xpsample.sampling.sinks import InMemory, OnDisk
from xpsample.sampling.totals import Totals, shown
from xpsample.sampling.until import Stopping, Unlimited, Until, figures
from xpsample.trace.diagnosis import own_findings
from xpsample.trace.recorders import BatchMeans, Draws, Moments
from xpsample.trace.trace import Trace

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Store
    from xpsample.sampling.store import RowStore


class Course:
    """A run from where its checkpoint is, or from the start, where `carry` is.

    The metadata are those of the trace, the watchers the user's, and `unit` is what messages call the rows, which go to
    `disk`, if given, instead of memory. The `clock` tells when the run's time began, by ``time.perf_counter``; now,
    when not given.
    """

    def __init__(
        self,
        program: Program,
        carry: Carry,
        source: NoiseSource,
        metadata: dict[str, Any],
        saved: "Store | Unsaved",
        disk: "RowStore | None" = None,
        progress: bool | None = False,
        until: Until | None = None,
        clock: float | None = None,
        watchers: Sequence[Watcher] = (),
        unit: str = "draws",
    ) -> None:
        self.metadata, self.unit, self.saved, self._began = metadata, unit, saved, time.perf_counter()
        self.rows = InMemory() if disk is None else OnDisk(disk)
        self.totals, self.ending = Totals(program.schedule.burn_in), Ending()
        self.processes, self.signals = Processes.of(carry.state.point.x), Signals(self.ending)
        row = cache(partial(example_row, program, carry, source, 0))
        view = saved.load(carry, self.totals)
        schedule = program.schedule
        if view.step < schedule.steps:
            saved.check(row)
        self.program, self.first = self.rows.begin(program, view, saved, row, metadata, self.totals)
        self.stopping: Stopping | Unlimited = Unlimited()
        if until is not None:
            ends = (end for _, end in self._segments(0))
            self.stopping = Stopping(until, ends, schedule.rows, clock, self._figures)
        axes = carry.state.point.x.ndim
        bar = Bar(progress, schedule.steps, text=lambda view: shown(view.sums, view.made, self.totals, axes))
        self.watched = Watched(watchers, schedule.steps, self._so_far)
        self.watchers = (self.totals, self.stopping, self.watched, bar, self.signals)
        self.source = source

    @property
    def given(self) -> dict[str, Any]:
        """What `sampling.loop.run` is given."""
        return {
            "stepper": self.program,
            "view": self.first,
            "source": self.source,
            "segments": self._segments(self.first.step),
            "sinks": (*self.rows.sinks, *self.saved.sinks),
            "watchers": self.watchers,
            "processes": self.processes,
            "ending": self.ending,
        }

    def trace(self, view: View) -> Trace:
        """What the run made until the engine gave `view`; raises Interrupted where it was."""
        program = self.program
        rows = program.schedule.rows(view.step)
        known = self.metadata | {"seconds": self.saved.seconds(time.perf_counter() - self._began)}
        known |= {"ended": self.watched.reasons[0]} if self.watched.reasons else {}
        buffers = self.rows.in_trace(program, view)
        trace = trace_of(program, view.carry, buffers, self.totals, known, self.stopping.findings(rows))
        by = self.signals.agreed(self.processes.agreement(view.carry))
        if by is not None:
            where = self.rows.where or "this error's trace (sys.last_value.trace in a console)"
            more = "; a run with a checkpoint could go on" if self.rows.where is None else ""
            if self.saved.where is not None:
                where, more = self.rows.where or self.saved.where, ", from where the same call goes on"
            raise Interrupted(
                f"{by} after {rows} of {program.schedule.draws} {self.unit}, which are in {where}{more}", trace, by=by
            )
        later = self.first.step > program.schedule.steps  # the state there is of a later step
        return replace(trace, state=None) if later else trace

    def _so_far(self, view: View) -> Trace:
        """The trace of what was made until now."""
        buffers = self.rows.so_far(self.program, view)
        return trace_of(self.program, view.carry, buffers, self.totals, self.metadata)

    def _segments(self, start: int) -> Iterator[tuple[int, int]]:
        """Steps that are driven at once, on one side of the burn-in."""
        specs, schedule = self.program.specs(self.first.carry), self.program.schedule
        yield from segments(specs, start, schedule.burn_in)
        yield from segments(specs, max(start, schedule.burn_in), schedule.steps)

    def _figures(self, view: View) -> tuple[float, float]:
        """The least ESS and the largest R-hat."""
        program, draws = self.program, None
        at = next((i for i, recorder in enumerate(program.recorders) if isinstance(recorder, Draws)), None)
        if at is not None and (rows := self.rows.so_far(program, view)) is not None:
            draws = rows[at]
        pairs = zip(program.recorders, view.carry.recorder_states, strict=True)
        told = (program.result(r, s, None) for r, s in pairs if isinstance(r, Moments | BatchMeans))
        return figures(draws, told, self.metadata["diagnosis"])


def trace_of(
    program: Program,
    carry: Carry,
    buffers: Buffers,
    totals: Totals,
    metadata: dict[str, Any],
    found: Sequence[Finding] = (),
) -> Trace:
    """The trace of a program's rows and last carry."""
    rows = buffers if buffers is not None else tuple(None for _ in program.recorders)
    results = {
        r.name: program.result(r, recorder_state, row)
        for r, recorder_state, row in zip(program.recorders, carry.recorder_states, rows, strict=True)
    }
    own = [*own_findings(program.recorders, results, carry.state), *(finding.to_json() for finding in found)]
    known = metadata["diagnosis"]
    metadata = metadata | {"diagnosis": known | {"findings": [*known.get("findings", ()), *own]}}
    draws, statistics = results.pop("draws", None), results.pop("statistics", None) or {}
    return Trace(draws, statistics, results, totals.run_statistics(), carry.state, metadata, program.kernel)
