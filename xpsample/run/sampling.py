"""Runs: `sample` for a whole one, `steps` for one step at a time. The loop itself belongs to the backend."""

import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_flag, given
from xpsample.core.devices import current_device
from xpsample.core.errors import CapabilityError, CheckpointError, DivergenceWarning, Interrupted, XpsampleError
from xpsample.core.hyperparameters import check_hyperparameters, show
from xpsample.core.registry import backend_of
from xpsample.core.tree import dtype_name
from xpsample.core.version import __version__
from xpsample.kernels.kernel import Kernel
from xpsample.run.checkpoint import Checkpoint, Store, opened, part_of
from xpsample.run.identity import PYTHON, describe
from xpsample.run.limits import check_limits, example_row
from xpsample.run.noise import NoiseSource, Replay, as_noise_source, chunk_steps, segments
from xpsample.run.pace import Pace, interruptible
from xpsample.run.program import Carry, Program
from xpsample.run.recorders import Draws, Recorder, Statistics, check_recorders
from xpsample.run.summary import RunStatistics
from xpsample.run.totals import Totals
from xpsample.run.trace import Trace
from xpsample.targets.bound import BoundTarget
from xpsample.targets.check import check_gradient
from xpsample.targets.target import AbstractTarget, Target, check_target

MOST = 2**63 - 1
"""Draws, at most."""


def sample(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array,
    draws: int,
    *,
    seed: int | NoiseSource,
    burn_in: int = 0,
    thinning: int = 1,
    recorders: Sequence[Recorder] = (Draws(), Statistics()),
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool | None = None,
    check: bool = False,
    compile: bool = False,
) -> Trace:
    """Run a kernel and keep what the recorders keep.

    Parameters
    ----------
    target : AbstractTarget
        What to sample: a `Target`, `Parametric` or `Tempered`.
    kernel : Kernel
        How.
    x0 : array, shape (*chains, dim)
        Start positions. They decide the library, dtype and device of everything. Leading axes are independent chains.
    draws : int
        Rows to keep of every chain; ``burn_in + draws * thinning`` steps are made.
    seed : int or NoiseSource
        An integer for the library's own generator, or `Native`, `Portable`, `Replay`.
    burn_in : int
        Steps thrown away first.
    thinning : int
        Steps per kept row.
    recorders : sequence of Recorder
        What to keep. With `Moments` or `BatchMeans` alone, memory does not grow with the length of the run.
    checkpoint : path or Checkpoint, optional
        A directory where the run is saved. The same call made again goes on where the last one stopped, or extends a
        finished run when `draws` is larger. The result is bit for bit that of one uninterrupted run. When `draws` is
        smaller, the first ones are returned, without a state, and with `run_statistics` of all steps that were made.
        A checkpoint of another run is refused. One process at a time may use a directory.
    progress : bool, optional
        Show a progress bar (tqdm). By default, if tqdm is installed and stderr is a terminal.
    check : bool
        Compare the target's score with finite differences of its log density before the first step.
    compile : bool
        Compile the step, by ``torch.compile``, for torch arrays. JAX arrays always run compiled, NumPy and CuPy
        arrays never.

    Returns
    -------
    Trace

    Raises
    ------
    XpsampleError
        Before the first step, if anything does not fit together. The message says what would.
    Interrupted
        On Ctrl-C, after the block of steps that is under way. Its `trace` holds what was drawn.
    """
    with current_device(x0):
        check_flag("check", check)
        check_flag("compile", compile)
        if progress is not None:
            check_flag("progress", progress)
        program = _prepare(target, kernel, x0, recorders, burn_in, thinning, draws, compile)
        if check:
            if not isinstance(target, Target):
                raise XpsampleError(
                    "check=True compares the score of a Target with its density; this target is made of one"
                )
            check_gradient(target, x0)
        began = time.perf_counter()
        source, carry = as_noise_source(seed), program.init(x0)
        program.target.backend.synchronize(carry)
        pace = Pace(time.perf_counter() - began)
        check_limits(program, carry, source)
        metadata = _metadata(program, x0, source)
        about = identity(target, program, x0, source) if checkpoint is not None else {}
        with opened(checkpoint, program, carry, about, metadata) as store:
            return _run(program, carry, source, store, progress, metadata, pace)


def _run(
    program: Program,
    carry: Carry,
    source: NoiseSource,
    store: Store | None,
    progress: bool | None,
    metadata: dict[str, Any],
    pace: Pace,
) -> Trace:
    backend = program.target.backend
    began = time.perf_counter()

    buffers, totals, start = None, Totals(), 0
    if store is not None:
        saved = store.load(carry)
        if saved is not None:
            start, carry, totals = saved
        row = example_row(program, carry, source, start)
        if start < program.steps:
            store.check(row)
        if saved is not None:
            buffers = _restore(program, row, store.rows())
        if start > program.steps:
            _check_cut(program, carry, start)

    burning, done = replace(program, recorders=()), start
    with progress_bar(progress, program.steps, start) as bar, interruptible() as interrupted:
        for lo, hi in pace.blocks(_segments(program, carry, start)):
            if lo < program.burn_in:
                (state, _), _, _ = burning.drive(Carry(carry.state, ()), None, source, lo, hi)
                carry = Carry(state, carry.recorder_states)
            else:
                carry, buffers, sums = program.drive(carry, buffers, source, lo, hi)
                totals.add(hi - lo, sums)
            done = hi
            pace.measure(hi - lo, partial(backend.synchronize, carry))
            if store is not None:
                store.save(hi, carry, totals, buffers, final=hi == program.steps or interrupted())
            if bar is not None:
                backend.synchronize(carry.state.point.x)
                bar.update(hi - lo)
            if interrupted():
                break
        backend.synchronize(carry)

    rows = program.rows(done)
    if rows < program.draws:
        buffers = tree.map(lambda buffer: buffer[:rows, ...], buffers)
    metadata = metadata | {"seconds": time.perf_counter() - began}
    trace = _trace(program, carry, buffers, totals.run_statistics(), metadata)
    if interrupted():
        where = "this error's trace (sys.last_value.trace in a console); a run with a checkpoint could go on"
        if store is not None:
            where = f"{store.path}, from where the same call goes on"
        raise Interrupted(f"Ctrl-C after {rows} of {program.draws} draws, which are in {where}", trace)
    return trace if start <= program.steps else replace(trace, state=None)  # the state there is of a later step


def steps(target: AbstractTarget, kernel: Kernel, x0: Array, *, seed: int | NoiseSource) -> Iterator[tuple[Any, Any]]:
    """Yield (state, info) after every step, without end. The chain is that of `sample` with the same seed.

    Parameters
    ----------
    target, kernel, x0, seed
        As in `sample`.

    Yields
    ------
    state : NamedTuple
        The kernel's state; positions in ``state.point.x``, shape ``(*chains, dim)``.
    info : NamedTuple
        What the step did.
    """
    with current_device(x0):
        program = _prepare(target, kernel, x0, (_Everything(),), 0, 1, 1)
        source, backend = as_noise_source(seed), program.target.backend
        carry = program.init(x0)
        specs = program.specs(carry)
        length = 1 if isinstance(source, Replay) else chunk_steps(specs)
        like = backend.xp.asarray(program.like(carry), copy=True)  # the carry's own memory may be reused
    for start in itertools.count(0, length):
        block = source.block(backend, specs, start, start + length, like)
        for i in range(length):
            # Each step is a run of one row, so that the driver never reuses the memory of what is yielded.
            noise = Replay({name: rows[i : i + 1, ...] for name, rows in block.items()})
            carry, rows, sums = program.drive(carry, None, noise, 0, 1)
            state, info = tree.map(lambda row: row[0, ...], rows)[0]
            yield state, info._replace(evaluations=sums[-1])


@dataclass(frozen=True)
class _Everything(Recorder):
    """The whole state and info as a row."""

    name: str = "everything"

    def init(self, target: BoundTarget, state: Any) -> tree.Tree:
        return None

    def update(self, target: BoundTarget, carry: tree.Tree, state: Any, info: Any) -> tuple[tree.Tree, tree.Tree]:
        return None, (state, info._replace(evaluations=None))  # plain integers, which have no rows

    def result(self, target: BoundTarget, carry: tree.Tree, rows: tree.Tree) -> Any:
        return rows


def _prepare(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array,
    recorders: Sequence[Recorder],
    burn_in: int,
    thinning: int,
    draws: int,
    compile: bool = False,
) -> Program:
    check_target("target", target)
    if not isinstance(kernel, Kernel):
        raise CapabilityError(
            f"kernel must be one of xpsample.kernels, such as RWM(0.5), or your own Kernel; got {given(kernel)}"
        )
    draws, burn_in = check_count("draws", draws, 1, MOST), check_count("burn_in", burn_in, 0, MOST)
    thinning, recorders = check_count("thinning", thinning, 1, MOST), check_recorders(recorders)
    bound = target.prepare(x0, kernel.requires)
    check_hyperparameters(kernel, x0)
    return Program(kernel, bound, recorders, burn_in, thinning, draws, compile)


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
    program: Program, carry: Carry, buffers: tuple | None, run_statistics: RunStatistics, metadata: dict[str, Any]
) -> Trace:
    diverged = int(np.sum(run_statistics.diverged))
    if diverged:
        chains, total = int(np.sum(run_statistics.diverged > 0)), np.size(run_statistics.diverged)
        warnings.warn(
            f"{diverged} of {run_statistics.steps * total} steps diverged, in {chains} of "
            f"{total} chains (non-finite proposals, energy errors, or chains frozen where they left "
            "the finite numbers): take a smaller step size, or Target(..., constrained=True) where a log density of "
            "-inf is meant; trace.run_statistics.diverged has the counts",
            DivergenceWarning,
            stacklevel=4,
        )
    rows = buffers if buffers is not None else tuple(None for _ in program.recorders)
    results = {
        r.name: r.result(program.target, recorder_state, row)
        for r, recorder_state, row in zip(program.recorders, carry.recorder_states, rows, strict=True)
    }
    draws, statistics = results.pop("draws", None), results.pop("statistics", {})
    return Trace(draws, statistics, results, run_statistics, carry.state, metadata)


def identity(target: AbstractTarget, program: Program, x: Array, source: NoiseSource) -> dict[str, Any]:
    """What identifies a run, as JSON values. The number of draws is left out, so that a run can be extended."""
    return {
        "python": PYTHON,
        "target": describe(target),
        "kernel": describe(program.kernel),
        "noise": source.describe(),
        "positions": describe(x),
        "backend": backend_of(x).name,
        "burn_in": program.burn_in,
        "thinning": program.thinning,
        "recorders": [describe(r) for r in program.recorders],
        "compiled": program.compile,
    }


def _metadata(program: Program, x: Array, source: NoiseSource) -> dict[str, Any]:
    return {
        "kernel": show(program.kernel),
        "backend": backend_of(x).name,
        "dtype": dtype_name(x),
        "device": str(device_of(x)),
        "seed": source.describe(),
        "burn_in": program.burn_in,
        "thinning": program.thinning,
        "compiled": program.compile,
        "version": __version__,
    }


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
