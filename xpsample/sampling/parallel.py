"""Sharded runs: the first chain axis is split, and each shard is an independent run, here or in a worker.

The result depends on the seed and on the number of shards. It does not depend on the number of workers, on the order in
which the shards finish, or on workers that are lost.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.core.devices import Processes, current_device
from xpsample.core.errors import BackendError, CapabilityError, Interrupted, NoiseError, WorkerError, keeping, unended
from xpsample.core.hyperparameters import of_chains, show
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name
from xpsample.core.worker_processes import NONE_WORKED, check_executor, check_forks, check_pickled, end_with_parent
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.adapted import tuned, with_tuning
from xpsample.kernels.compose import unset_inside
from xpsample.kernels.following import Piloted
from xpsample.kernels.kernel import Info
from xpsample.kernels.traits import LACKING, Trait
from xpsample.sampling.checkpoint import SHARD, check_shards, inside
from xpsample.sampling.interrupts import interruptible
from xpsample.sampling.load import moved_to, on_arrays
from xpsample.sampling.noise import Native, NoiseSource, Portable, as_noise_source, derived
from xpsample.sampling.program import Carry, Program, check_limits
from xpsample.sampling.progress import progress_bar
from xpsample.sampling.transient import WarmUpPath
from xpsample.sampling.warm_up import warm_up_steps
from xpsample.trace.joined import join
from xpsample.trace.recorders import Record
from xpsample.trace.saving import OF_SHARDS
from xpsample.trace.trace import Trace


@dataclass(frozen=True)
class Shard:
    """Run of a part of the chains, which can be pickled. Calling it returns its trace, with arrays of NumPy."""

    kind: type  # `Sampler`, which imports this module
    arguments: dict[str, Any]
    seed: Native | Portable
    dtype: str

    def __call__(self) -> Trace:
        x = self.arguments["x0"]
        arrived = dtype_name(x)
        if arrived != self.dtype:  # a JAX array of float64 is unpickled as float32 if x64 is off
            raise BackendError(
                f"a worker received the {self.dtype} positions as {arrived}, because its settings differ. Set "
                "JAX_ENABLE_X64=1 in the environment or the executor's initializer."
            )
        try:
            with current_device(x):
                run = self.kind(**self.arguments)
                trace = run.warm_up_and_draw(run.target, run.program, x, self.seed, time.perf_counter())
        except Interrupted as stop:
            raise Interrupted(str(stop), by=stop.by) from None  # without its trace, which may not be picklable
        except Exception as error:
            vars(error).pop("trace", None)  # which may not be picklable either
            raise
        return replace(on_arrays(trace, to_host), kernel=None)


def run_shards(run: Any, seed: int | NoiseSource) -> Trace:
    """Run the shards of a run, in the workers of an executor or here one after another, and join their traces."""
    began, x0, program = time.perf_counter(), run.positions, run.program
    shards, source = _check(run, seed)
    warmup = warm_up_steps(run.kernel, x0[: x0.shape[0] // shards, ...], run.warmup) or None  # the same in all shards
    carry, path = _start(program, x0, warmup)
    check_limits(program, carry, source, program.schedule.draws)
    rows = {r.name: r.function(carry.state) for r in program.recorders if isinstance(r, Record)}
    parts = split(run, warmup, source, shards)
    traces: dict[int, Trace] = {}

    def finish(i: int, result: Callable[[], Trace]) -> None:
        try:
            traces[i] = result()
        except BrokenExecutor:
            raise
        except Exception as error:
            check_pickled(error, "the target, the kernel or a recorder")
            first = sum(part.arguments["x0"].shape[0] for part in parts[:i])
            last = first + parts[i].arguments["x0"].shape[0] - 1
            error.add_note(f"This was in shard {i} of {shards}, of chains {first} to {last}.")
            raise
        if bar is not None:
            bar.update(1)

    def joined() -> Trace | None:
        if not traces:
            return None
        trace = join([traces[i] for i in sorted(traces)], program.recorders, x0.shape[0], rows, path)
        own = {"kernel": show(run.kernel), "seed": source.describe(), "seconds": time.perf_counter() - began}
        kernel = OF_SHARDS if unset_inside(run.kernel) else run.kernel
        return replace(moved_to(trace, x0), metadata=trace.metadata | own, kernel=kernel)

    resume = "resumes" if run.checkpoint else "starts again; with checkpoint= it would resume"
    with progress_bar(run.progress, shards, unit="shard") as bar, keeping(trace=joined):
        try:
            _run_all(parts, run.executor, finish)
        except KeyboardInterrupt as stop:  # an Interrupted, or Ctrl-C between two shards that run here
            by, kept = getattr(stop, "by", "Ctrl-C"), ", whose chains are in this error's trace" if traces else ""
            text = f"{by} after {len(traces)} of {shards} shards{kept}. The same call {resume}."
            raise Interrupted(text, by=by) from None
        except BrokenExecutor as error:
            raise WorkerError(
                f"a worker was lost after {len(traces)} of {shards} shards ({unended(error)}). With a new executor, "
                f"the same call {resume}.{'' if traces else NONE_WORKED}"
            ) from error
    trace = joined()
    assert trace is not None
    return trace


def _run_all(
    parts: Sequence[Shard], executor: Executor | None, finish: Callable[[int, Callable[[], Trace]], None]
) -> None:
    """Run shards, and call ``finish(number, result)`` for each one that is done, where ``result()`` is its trace."""
    if executor is None:
        for i, part in enumerate(parts):
            finish(i, part)
        return
    waiting: dict[Future[Trace], int] = {}
    done: SimpleQueue[Future[Trace]] = SimpleQueue()
    with interruptible() as interrupted:
        try:
            for i, part in enumerate(parts):
                future = executor.submit(_work, part, os.getpid())
                waiting[future] = i
                future.add_done_callback(done.put)
            while waiting and not (interrupted() and done.empty()):
                try:
                    future = done.get(timeout=0.5)
                except Empty:
                    continue
                finish(waiting.pop(future), future.result)
        except BrokenExecutor:
            if not interrupted():  # otherwise, the same signal ended the workers
                raise
        finally:
            for future in waiting:
                future.cancel()
        if interrupted():
            raise Interrupted("", by=interrupted())


def _work(part: Shard, caller: int) -> Trace:
    """Run a shard in a worker. SIGTERM, by which executors end their workers, ends it as soon as the shard is saved."""
    end_with_parent(caller)
    try:
        return part()
    except Interrupted as stop:
        if stop.by == "SIGTERM":
            signal.raise_signal(signal.SIGTERM)
        raise


def _check(run: Any, seed: int | NoiseSource) -> tuple[int, Native | Portable]:
    """Return the number of shards and the noise; raise if the run cannot be split, or the executor not be used."""
    kernel, x, shards, source = run.kernel, run.positions, run.shards, as_noise_source(seed)
    if run.executor is not None:
        check_executor(run.executor)
        check_forks(run.executor)
    if (processes := Processes.of(x)) is not None:
        processes.refuse("shards=", "omit it, since each process already has a part of the chains")
    if x.ndim < 2:
        raise CapabilityError(
            f"shards= splits the first chain axis, but x0 is a single position, of shape {x.shape}. Pass x0 of shape "
            "(chains, dim)."
        )
    if shards is None:
        raise CapabilityError(
            "executor= needs shards=, the number of parts of the chains. Set shards= to at least the number of "
            "workers; the draws depend on it."
        )
    shards = check_count("shards", shards, 1, x.shape[0])
    if x.ndim == 2 and Trait.SEPARATE not in kernel.traits:
        raise CapabilityError(
            f"the chains of {type(kernel).__name__} cannot be split into shards: {LACKING[Trait.SEPARATE]}. Pass x0 of "
            "shape (islands, chains, dim) to split between islands."
        )
    if not isinstance(source, Native | Portable):
        raise NoiseError(f"shards cannot use {type(source).__name__}: each shard draws its own noise. Pass a seed.")
    if run.store is not None:
        raise CapabilityError(
            "shards cannot share Draws(store=...). Use Moments() or BatchMeans(), or separate runs, each with its own "
            "seed and store."
        )
    if run.until is not None:
        raise CapabilityError(
            "until= does not work with shards=. Run without shards, or repeat the call with the same checkpoint= and "
            "larger draws=, which resumes."
        )
    return shards, source


def _start(program: Program, x0: Array, warmup: int | None) -> tuple[Carry, dict[str, Array] | None]:
    """Return the carry at the initial positions, and a row of the path of the warm-up.

    It raises what a run of all chains raises before its first step, with their numbers. Untuned hyperparameters have
    their initial values.
    """
    if not warmup:
        return program.init(x0), None
    if isinstance(program.kernel, Piloted):
        raise CapabilityError(
            f"{type(program.kernel).__name__} has unset hyperparameters, which each shard would tune differently. Run "
            "without shards first and use its trace.kernel."
        )
    warming = replace(program, kernel=with_tuning(program.kernel, warmup, pooled=True), recorders=())
    begun = warming.init(x0).state
    zeros = 0.0 * program.target.as_floating(x0)[..., 0]
    info = Info(zeros, zeros, zeros, Evaluations(0, 0, 0))
    _, path = WarmUpPath(warming.kernel).update(program.target, None, begun, info)
    kernel, state = tuned(program.kernel, warming.kernel, begun)
    return replace(program, kernel=kernel).start(state), path


def split(run: Any, warmup: int | None, source: Native | Portable, shards: int) -> list[Shard]:
    """Split a run into shards whose sizes differ by at most one chain, in the order of the chains."""
    x, saved = run.positions, run.checkpoint
    if saved is not None:
        check_shards(Path(inside(saved, "").path), shards)
    made = []
    for i, chains in enumerate(np.array_split(np.arange(x.shape[0]), shards)):
        own, name = slice(int(chains[0]), int(chains[-1]) + 1), SHARD.format(i, shards)
        kernel = of_chains(run.kernel, x.ndim - 1, x.shape[0], own)
        checkpoint = None if saved is None else inside(saved, name)
        # The positions are copied because torch pickles all of the array that a slice is a view of.
        part = {"kernel": kernel, "x0": 1 * x[own, ...], "checkpoint": checkpoint, "warmup": warmup}
        alone = {"progress": False, "check": False, "shards": None, "executor": None}
        made.append(Shard(type(run), run.arguments | part | alone, derived(source, name), dtype_name(x)))
    return made
