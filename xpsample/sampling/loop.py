"""The loop of every run: blocks of steps, between which callbacks look, the stopping rule decides and sinks keep."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpsample.core import tree
from xpsample.core.backend import Buffers, Carry, StopFlag
from xpsample.core.checks import errors_of_functions
from xpsample.core.devices import Processes
from xpsample.core.errors import Interrupted, keep
from xpsample.core.registry import to_host
from xpsample.diagnostics.diagnosis import own_findings
from xpsample.diagnostics.findings import Finding
from xpsample.sampling.callbacks import MOST_STEPS, Callback, RunState, Sink
from xpsample.sampling.interrupts import interruptible
from xpsample.sampling.noise import NoiseSource, segments
from xpsample.sampling.program import FAILED, OF_TARGETS, Program, example_row, recorded_rows
from xpsample.sampling.progress import Bar
from xpsample.sampling.totals import Totals
from xpsample.trace.trace import Trace

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Checkpoint
    from xpsample.sampling.store import RowStore
    from xpsample.sampling.until import Until
else:
    Checkpoint = RowStore = Until = Any  # for typing.get_type_hints


SECONDS = 1.0  # Approximate upper limit of the duration of a block of several steps

SHORT = 0.1  # Seconds up to which nobody waits for a block to end, to measure it

# By how much a step is thought to be faster than in the block before, at most; and by how much a block is longer.
SLOWER, LONGER = 4.0, 16


class Pace:
    """Cuts segments of a run into blocks of about a second if steps are slow. A block may be a single step.

    The draws do not depend on where blocks end. The first block is one step, which tells how slow steps are, and none
    is longer than `longest`. The flag is set to the end of the block's time, for libraries that check it after every
    step.
    """

    def __init__(self, longest: int = MOST_STEPS, stop_flag: StopFlag | None = None) -> None:
        self._each, self._most, self._longest = 0.0, 1, longest
        self._first, self._began, self._stop_flag = 0, 0.0, stop_flag or StopFlag()

    def blocks(self, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Steps [lo, hi) of one block after the other; `measure` says how far each came."""
        for lo, stop in segments:
            while lo < stop:
                few = min(self._longest, self._most, int(SECONDS / max(self._each, 1e-9)))
                self._first, self._began = lo, time.perf_counter()
                self._stop_flag.at = self._began + SECONDS
                yield lo, min(stop, lo + max(1, few))
                lo = self._first

    def measure(self, end: int, synchronize: Callable[[], Any], agreed: Callable[[float], float] | None = None) -> None:
        """Measure the time of the last block, which may still be running; `end` is the step after it.

        If several processes make the run, which have waited already, `agreed` turns this one's time into the time that
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


def run(
    program: Program,
    state: RunState,
    source: NoiseSource,
    blocks: Iterator[tuple[int, int]],
    totals: Totals,
    callbacks: Sequence[Callback] = (),
    stopping: Callable[[RunState], bool] | None = None,
    sinks: Sequence[Sink] = (),
    stop_flag: StopFlag | None = None,
    processes: Processes | None = None,
) -> tuple[RunState, str | None]:
    """Run a program, block after block.

    Parameters
    ----------
    program : Program
    state : RunState
        State at the beginning of the run.
    source : NoiseSource
    blocks : iterator of (int, int)
        Steps [start, stop) that may be driven in one call. `Pace` cuts them into blocks of about a second.
    totals : Totals
        Sums over the run, to which each block is added.
    callbacks : sequence of Callback
    stopping : callable, optional
        Stopping rule: return whether the run has enough draws, or time is up.
    sinks : sequence of Sink
        In the order in which they keep.
    stop_flag : StopFlag, optional
        Flag that an eager library checks after every step.
    processes : Processes, optional
        The processes that run this program together, if there are several.

    Returns
    -------
    state : RunState
    reason : str or None
        First reason of a callback to end the run.
    """
    backend, stop_flag = program.backend, stop_flag or StopFlag()

    def agree(number: float) -> float:  # on the largest number of all processes, which must branch alike
        return number if processes is None else processes.largest(state.carry, number)

    pace = Pace(min([MOST_STEPS, *(sink.longest for sink in sinks)]), stop_flag)
    try:
        totals.begin()
        reasons = [reason for callback in callbacks if (reason := callback.on_start(state)) is not None]
        stop = bool(reasons) or (stopping is not None and stopping(state))
        with interruptible(stop_flag):
            for lo, hi in () if agree(stop) > 0 else pace.blocks(blocks):
                with errors_of_functions(FAILED.format(lo, hi), OF_TARGETS):
                    carry, buffers, sums, hi = backend.drive(
                        program, state.carry, state.buffers, source, lo, hi, stop_flag
                    )
                sums = sums if processes is None else tree.map(to_host, sums)  # all fetch at once, not by their clocks
                state = replace(state, step=hi, carry=carry, buffers=buffers, made=hi - lo, sums=sums)
                pace.measure(hi, partial(backend.synchronize, carry), None if processes is None else agree)
                totals.add(state.made, sums, hi)
                reasons = [reason for callback in callbacks if (reason := callback.on_block(state)) is not None]
                stop = bool(reasons) or (stopping is not None and stopping(state)) or stop_flag.signal is not None
                stop = agree(stop) > 0 or hi == state.steps
                for sink in sinks:
                    sink.keep(state, last=stop)
                if stop:
                    break
            backend.synchronize(state.carry)
    finally:
        for callback in reversed(callbacks):
            callback.on_end(state)
    return state, str(reasons[0]) if reasons else None


class _Latest:
    """Callback that notes the run after each block. As a context, it attaches the trace of the draws to an error."""

    def __init__(
        self, program: Program, run: RunState, totals: Totals, flag: StopFlag, make_trace: Callable[[RunState], Trace]
    ) -> None:
        self._program, self._run, self._totals, self._flag, self._make_trace = program, run, totals, flag, make_trace

    def on_start(self, run: RunState) -> None:
        """Note the run."""
        self._run = run

    on_block = on_start

    def on_end(self, run: RunState) -> None:
        """Do nothing."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None or isinstance(error, Interrupted):
            return
        run = self._run
        with suppress(Exception):  # the run failed already, and its disk or device may be the reason
            if self._flag.made is not None:
                carry, buffers, sums, step = self._flag.made
                self._totals.add(step - run.step, sums, step)
                run = replace(run, step=step, carry=carry, buffers=buffers)
            self._program.backend.synchronize((run.carry, run.buffers))
            if self._program.schedule.rows(run.step):
                keep(error, trace=self._make_trace(run))


def run_program(
    program: Program,
    carry: Carry,
    source: NoiseSource,
    metadata: dict[str, Any],
    *,
    checkpoint: "str | Path | Checkpoint | None" = None,
    identity: dict[str, Any] | None = None,
    store: "RowStore | None" = None,
    until: "Until | None" = None,
    progress: bool | None = False,
    callbacks: Sequence[Callback] = (),
    pause: int = 0,
    clock: float | None = None,
    unit: str = "draws",
) -> Trace:
    """Run a program from its checkpoint or, without one, from `carry`.

    Parameters
    ----------
    program, carry, source, metadata
        The metadata go into the trace.
    checkpoint, identity
        Checkpoint of the run, and the JSON values that identify the run.
    store : RowStore, optional
        Store that receives rows instead of memory.
    until, progress, callbacks
        As in `sample`.
    pause : int
        Step after which a block ends, in addition.
    clock : float, optional
        Start of the run's time by ``time.perf_counter``.
    unit : str
        What messages call the rows.

    Raises
    ------
    Interrupted
        On Ctrl-C or SIGTERM.
    """
    began, schedule, specs = time.perf_counter(), program.schedule, program.specs(carry)
    totals, stop_flag, processes = Totals(schedule.burn_in), StopFlag(), Processes.of(carry.state.point.x)
    row = cache(partial(example_row, program, carry, source, 0))

    def so_far(state: RunState, failed: bool = False) -> Trace:
        return trace_of(program, state.carry, recorded_rows(program, state, store), totals, metadata, failed=failed)

    with ExitStack() as held:
        saved: Any = None
        state = RunState(0, schedule.steps, carry, make_trace=so_far)
        if checkpoint is not None:
            from xpsample.sampling.checkpoint import SavedRun

            saved = held.enter_context(SavedRun.opened(checkpoint, program, carry, identity or {}, metadata, store))
            state = saved.load(state, totals)
            if state.step < schedule.steps:
                saved.check(row, state.carry)
            if store is None:
                state = replace(state, buffers=saved.buffers(row))
        if store is not None:
            held.enter_context(store.locked())
            counted = saved.counted if saved is not None and state.step else None
            x = carry.state.point.x
            program = store.begin(program, row(), x, metadata, totals, saved is not None, counted)
        first, stopping, cuts = state.step, None, [schedule.burn_in, pause]
        if until is not None:
            from xpsample.sampling.until import FIRST_LOOKS, Stopping, figures_of

            if until.needs_figures:
                cuts += [schedule.burn_in + rows * schedule.thinning for rows in FIRST_LOOKS]
            ends = (end for _, end in segments(specs, 0, schedule.steps, *cuts))
            stopping = Stopping(until, ends, schedule.rows, clock, partial(figures_of, program, store, metadata))
        if progress is not False:
            text = partial(totals.shown, axes=carry.state.point.x.ndim)
            callbacks = (*callbacks, Bar(progress, schedule.steps, text))
        latest = _Latest(program, state, totals, stop_flag, partial(so_far, failed=True))
        held.enter_context(latest)
        state, reason = run(
            program,
            state,
            source,
            segments(specs, first, schedule.steps, *cuts),
            totals,
            (latest, *callbacks),
            stopping,
            [*([] if store is None else [store]), *([] if saved is None else [saved])],
            stop_flag,
            processes,
        )
        seconds = time.perf_counter() - began if saved is None else saved.seconds()
        metadata = metadata | {"seconds": seconds} | ({"ended": reason} if reason else {})
        rows = schedule.rows(state.step)
        found = [] if stopping is None else stopping.findings(rows)
        draws = recorded_rows(program, state, store, state.carry.state.point.x)
        trace = trace_of(program, state.carry, draws, totals, metadata, found)
        by = stop_flag.signal if processes is None else processes.agreed_signal(state.carry, stop_flag.signal)
        if by is not None:
            raise Interrupted(_where(by, rows, schedule.draws, unit, store, saved), trace, by=by)
    return trace if first <= schedule.steps else replace(trace, state=None)  # the state is of a later step


def _where(by: str, rows: int, draws: int, unit: str, store: Any, saved: Any) -> str:
    """Message of a run that was interrupted, with the place of its draws."""
    place = next((kept.where for kept in (store, saved) if kept is not None), None)
    where = place or "this error's trace (sys.last_value.trace in a console)"
    more = ". The same call resumes it" if saved is not None else ""
    if place is None:
        more = ". Use checkpoint= to make runs that can be resumed"
    return f"{by} after {rows} of {draws} {unit}, which are in {where}{more}"


def trace_of(
    program: Program,
    carry: Carry,
    buffers: Buffers,
    totals: Totals,
    metadata: dict[str, Any],
    found: Sequence[Finding] = (),
    failed: bool = False,
) -> Trace:
    """Trace of the rows and the last carry of a program; if the run `failed`, without recorders that fail, too."""
    rows = buffers if buffers is not None else (None,) * len(program.recorders)
    recorders, results = [], {}
    for recorder, recorder_state, row in zip(program.recorders, carry.recorder_states, rows, strict=True):
        with suppress(*([Exception] if failed else [])):
            results[recorder.name] = recorder.result(program.target, recorder_state, row)
            recorders.append(recorder)
    own = [*own_findings(recorders, results, carry.state), *map(Finding.to_json, found)]
    known = metadata["diagnosis"]
    metadata = metadata | {"diagnosis": known | {"findings": [*known.get("findings", ()), *own]}}
    draws, statistics = results.pop("draws", None), results.pop("statistics", None) or {}
    return Trace(draws, statistics, results, totals.run_statistics(), carry.state, metadata, program.kernel)
