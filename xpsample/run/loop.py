"""The run of a program: block after block of steps, saved, watched and stopped between them."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.errors import CheckpointError, Interrupted, XpsampleError
from xpsample.core.registry import to_host
from xpsample.metrics.findings import Finding
from xpsample.run.checkpoint import Store
from xpsample.run.diagnosis import own_findings, worst
from xpsample.run.limits import example_row
from xpsample.run.noise import NoiseSource, segments
from xpsample.run.pace import ENDING, MOST_STEPS, Pace, interruptible
from xpsample.run.processes import Processes
from xpsample.run.program import Carry, Program, first_rows
from xpsample.run.recorders import (
    BatchMeans,
    Draws,
    Moments,
    part_of,
)
from xpsample.run.running import running
from xpsample.run.store import RowStore
from xpsample.run.summary import RunStatistics
from xpsample.run.totals import Totals, shown
from xpsample.run.trace import Trace
from xpsample.run.until import Stopping, Until


def run_program(
    program: Program,
    carry: Carry,
    source: NoiseSource,
    store: Store | None,
    progress: bool | None,
    metadata: dict[str, Any],
    pace: Pace,
    until: Until | None = None,
    unit: str = "draws",
    disk: RowStore | None = None,
) -> Trace:
    """Run a program from where its checkpoint is, or from the start.

    Parameters
    ----------
    program : Program
    carry : Carry
        At the start.
    source : NoiseSource
    store : Store, optional
        The checkpoint.
    progress : bool, optional
    metadata : dict
        Of the trace.
    pace : Pace
    until : Until, optional
    unit : str
        What messages call the rows.
    disk : RowStore, optional
        Where the rows go instead of memory.

    Returns
    -------
    Trace

    Raises
    ------
    Interrupted
    """
    backend = program.target.backend
    processes = Processes.of(carry.state.point.x)
    began = time.perf_counter()

    buffers, totals, start, saved = None, Totals(), 0, None
    if store is not None:
        saved = store.load(carry)
        if saved is not None:
            start, carry, totals = saved
    if store is not None or disk is not None:
        row = example_row(program, carry, source, start)
    if store is not None:
        if start < program.steps:
            store.check(row)
        if saved is not None and disk is None:
            buffers = _restore(program, row, store.rows())
        if start > program.steps:
            _check_cut(program, carry, start)
    if disk is not None:
        counted = None if store is None or saved is None else store.counted
        program = disk.begin(
            program, row, carry.state.point.x, {} if store is None else store.identity, metadata, counted
        )

    def figures(step: int) -> tuple[float, float]:
        """The least ESS and the largest R-hat after `step` steps."""
        at = next((i for i, recorder in enumerate(program.recorders) if isinstance(recorder, Draws)), None)
        if at is None:
            told = running(
                r.result(program.target, s, None)
                for r, s in zip(program.recorders, carry.recorder_states, strict=True)
                if isinstance(r, Moments | BatchMeans)
            )
            assert told is not None
            return told.worst()
        categorical = metadata["diagnosis"]["categorical"]
        if disk is not None:
            disk.append(buffers, program.rows(step), totals.run_statistics(), whole=True)
            return worst(disk.trace_rows(disk.rows)[at].columns(), categorical)
        assert buffers is not None
        return worst(buffers[at][: program.rows(step), ...], categorical)

    burning, done = replace(program, recorders=()), start
    stopping = None
    if until is not None:
        stopping = Stopping(until, (end for _, end in _segments(program, carry, 0)), program.rows)
    stop = stopping is not None and stopping.holds(start, lambda: figures(start), partial(processes.largest, carry))
    longest = MOST_STEPS if disk is None else disk.chunk * program.thinning
    with progress_bar(progress, program.steps, start) as bar, interruptible() as interrupted:
        for lo, hi in pace.blocks(_segments(program, carry, program.steps if stop else start), longest):
            if lo < program.burn_in:
                (state, _), _, sums = burning.drive(Carry(carry.state, ()), None, source, lo, hi)
                carry = Carry(state, carry.recorder_states)
            else:
                carry, buffers, sums = program.drive(carry, buffers, source, lo, hi)
            agreed = partial(processes.largest, carry)
            if processes.several:  # fetched by all of them at once, and not when the clock of one says so
                sums = tree.map(to_host, sums)
            if hi > program.burn_in:
                totals.add(hi - lo, sums)
            done = hi
            pace.measure(hi - lo, partial(backend.synchronize, carry), agreed if processes.several else None)
            stop = stopping is not None and stopping.holds(hi, partial(figures, hi), agreed)
            ends = stop or hi == program.steps or _asked_to_end(interrupted(), agreed) is not None
            if disk is not None:
                disk.append(buffers, program.rows(hi), totals.run_statistics(), whole=ends)
            if store is not None:
                store.save(hi, carry, totals, buffers, final=ends)
            if bar is not None:
                bar.set_postfix_str(shown(sums, hi - lo, totals, carry.state.point.x.ndim), refresh=False)
                bar.update(hi - lo)
            if ends:
                break
        backend.synchronize(carry)

    rows = program.rows(done)
    if disk is not None:
        buffers = disk.trace_rows(min(rows, program.draws), carry.state.point.x)
    elif rows < program.held:
        buffers = first_rows(backend, buffers, rows)
    metadata = metadata | {"seconds": time.perf_counter() - began if store is None else store.seconds}
    ended = None if stopping is None else stopping.finding(rows)
    trace = _trace(program, carry, buffers, totals.run_statistics(), metadata, ended)
    by = _asked_to_end(interrupted(), partial(processes.largest, carry))
    if by is not None:
        where = "this error's trace (sys.last_value.trace in a console); a run with a checkpoint could go on"
        if disk is not None:
            where = disk.where
        if store is not None:
            where = f"{where if disk is not None else store.path}, from where the same call goes on"
        raise Interrupted(f"{by} after {rows} of {program.draws} {unit}, which are in {where}", trace, by=by)
    return trace if start <= program.steps else replace(trace, state=None)  # the state there is of a later step


def _asked_to_end(noted: str | None, agreed: Callable[[float], float]) -> str | None:
    """The signal that asks a run to end, if one came to any of the processes that make it."""
    names = [None, *(name for name, _ in ENDING.values())]
    return names[int(agreed(names.index(noted)))]


def _segments(program: Program, carry: Carry, start: int) -> Iterator[tuple[int, int]]:
    """Steps that are driven at once, on one side of the burn-in."""
    specs = program.specs(carry)
    yield from segments(specs, start, program.burn_in)
    yield from segments(specs, max(start, program.burn_in), program.steps)


def _restore(program: Program, row: tuple, saved: dict[str, np.ndarray]) -> tuple | None:
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


def _trace(
    program: Program,
    carry: Carry,
    buffers: tuple | None,
    run_statistics: RunStatistics,
    metadata: dict[str, Any],
    ended: Finding | None,
) -> Trace:
    rows = buffers if buffers is not None else tuple(None for _ in program.recorders)
    results = {
        r.name: r.result(program.target, recorder_state, row)
        for r, recorder_state, row in zip(program.recorders, carry.recorder_states, rows, strict=True)
    }
    found = own_findings(program.recorders, results, carry.state)
    found += [] if ended is None else [ended.to_json()]
    known = metadata["diagnosis"]
    metadata = metadata | {"diagnosis": known | {"findings": [*known.get("findings", ()), *found]}}
    draws, statistics = results.pop("draws", None), results.pop("statistics", None) or {}
    return Trace(draws, statistics, results, run_statistics, carry.state, metadata, program.kernel)


def progress_bar(progress: bool | None, total: int, done: int = 0, unit: str = "step") -> Any:
    """A context with a tqdm bar, or with None if no bar is wanted or tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        if progress:
            raise XpsampleError('progress=True needs tqdm: pip install "xpsample[progress]"') from None
        return nullcontext()
    wanted = sys.stderr.isatty() if progress is None else progress
    return tqdm(total=total, initial=done, unit=unit, file=sys.stderr) if wanted else nullcontext()
