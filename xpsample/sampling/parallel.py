"""Runs whose chains are cut into shards, each a run of its own, in the processes of an executor or one after another.

The result follows from the seed and from how the chains are cut. How many workers there are, in which order they end,
and which of them are lost changes nothing.
"""

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, given
from xpsample.core.errors import (
    BackendError,
    CapabilityError,
    CheckpointError,
    Interrupted,
    NoiseError,
    WorkerError,
    unended,
)
from xpsample.core.hyperparameters import of_chains, show
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name
from xpsample.core.worker_processes import NONE_WORKED, SPAWNING, check_guarded, of_pickling
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.compose import anything_left_out
from xpsample.kernels.following import Piloted
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import LACKING, Trait
from xpsample.kernels.tuning import tuned, with_tuning
from xpsample.sampling.checkpoint import INDEX, SHARD, Checkpoint, steps_in
from xpsample.sampling.limits import check_limits
from xpsample.sampling.load import moved_to, on_arrays
from xpsample.sampling.noise import Native, NoiseSource, Portable, as_noise_source, derived
from xpsample.sampling.processes import Processes
from xpsample.sampling.program import Carry, Program
from xpsample.sampling.progress import progress_bar
from xpsample.sampling.until import Stopping, Unlimited, figures
from xpsample.sampling.warm_up import WarmUpPath, warm_up_steps
from xpsample.sampling.whole import Whole
from xpsample.sampling.workers import Pool, Workers
from xpsample.trace.joined import Start, join
from xpsample.trace.not_kept import OF_SHARDS
from xpsample.trace.recorders import Record, Recorder, without_store
from xpsample.trace.trace import Trace

FIRST, LATER = 200, 1.5
"""Draws after which `until` looks first, and how many times as many there are from one look to the next."""


@dataclass(frozen=True, eq=False)
class Sharded:
    """A run of all chains in shards, as `sample` is asked for it."""

    whole: Whole
    shards: int | None
    executor: Pool | None

    def trace(self) -> Trace:
        """Make it, after the checks that one run of all chains makes before its first step."""
        began, whole = time.perf_counter(), self.whole
        program, source, count = self._checked()
        fewest = whole.x0[: whole.x0.shape[0] // count, ...]
        warmup = warm_up_steps(whole.kernel, fewest, whole.warmup) or None  # the same in all shards
        carry, path = _at_start(program, whole.x0, warmup)
        check_limits(program, carry, source, program.schedule.draws)
        rows = {r.name: r.function(carry.state) for r in program.recorders if isinstance(r, Record)}
        parts = make_shards(replace(whole, warmup=warmup, until=None, progress=False), source, count)
        start, looks = Start(whole.x0.shape[0], rows, path), _looks(whole, parts, program)
        stopping = Unlimited() if whole.until is None else Stopping(whole.until, looks, lambda draws: draws)

        def of_all(trace: Trace) -> Trace:
            own = {"kernel": show(whole.kernel), "seed": source.describe(), "seconds": time.perf_counter() - began}
            same = OF_SHARDS if anything_left_out(whole.kernel) else whole.kernel
            return replace(moved_to(trace, whole.x0), metadata=trace.metadata | own, kernel=same)

        with progress_bar(whole.progress, count, unit="shard") as bar, Workers(self.executor) as workers:
            try:
                for draws in looks:
                    trace = run_shards(draws, parts, workers, program.recorders, start, bar)
                    known = trace.metadata["diagnosis"]
                    if stopping.holds(draws, partial(figures, trace.draws, trace.recorded.values(), known)):
                        break
            except Interrupted as stop:
                if stop.trace is not None:
                    stop.trace = of_all(stop.trace)
                raise
        found = [*known["findings"], *(finding.to_json() for finding in stopping.findings(draws))]
        return of_all(replace(trace, metadata=trace.metadata | {"diagnosis": known | {"findings": found}}))

    def _checked(self) -> tuple[Program, Native | Portable, int]:
        """The program of all chains, the noise that the shards' is derived from, and how many there are."""
        whole, program = self.whole, self.whole.program()
        Processes.of(whole.x0).check_one("shards=", "leave it out, for each process has a part of the chains already")
        count, source = check_shards(whole.kernel, whole.x0, as_noise_source(whole.seed), self.shards, self.executor)
        if without_store(program.recorders)[1] is not None:
            raise CapabilityError(
                "shards cannot share the store of Draws(store=...): keep Moments() or BatchMeans(), whose memory does "
                "not grow, or make a run with a seed and a store of its own for each part of the chains"
            )
        if whole.until is not None and whole.checkpoint is None:
            raise CapabilityError(
                "until= looks at all chains between rounds of the shards, each of which goes on from the checkpoint of "
                "the last: give a checkpoint, in a folder that all workers reach"
            )
        return program, source, count


def cut(chains: int, shards: int) -> list[tuple[int, int]]:
    """Cut chains into shards [first, stop) whose sizes differ by one at most, the larger ones first."""
    size, more = divmod(chains, shards)
    ends = [i * size + min(i, more) for i in range(shards + 1)]
    return list(pairwise(ends))


def check_shards(
    kernel: Kernel, x: Array, source: NoiseSource, shards: Any, pool: Any
) -> tuple[int, Native | Portable]:
    """How many shards there are, and the noise that theirs is derived from; raises where the chains cannot be cut."""
    check_guarded()
    if not (pool is None or isinstance(pool, Executor) or callable(pool)):
        raise CapabilityError(
            "executor must be a concurrent.futures.Executor, or a function that makes one; a dask client gives one by "
            f"client.get_executor(); got {given(pool)}"
        )
    if x.ndim < 2:
        raise CapabilityError("chains are cut into shards along the first chain axis, and x0 is a single position")
    if shards is None:
        raise CapabilityError(
            "shards is missing: say into how many parts the chains are cut, at least as many as there are workers. The "
            "result depends on it, and not on the workers"
        )
    shards = check_count("shards", shards, 1, x.shape[0])
    if x.ndim == 2 and Trait.SEPARATE not in kernel.traits:
        raise CapabilityError(
            f"the chains of {type(kernel).__name__} cannot be cut, since {LACKING[Trait.SEPARATE]}: give x0 one more "
            "axis in front, (islands, chains, dim), whose islands are cut"
        )
    if not isinstance(source, (Native, Portable)):
        raise NoiseError(f"each shard draws noise of its own, which {type(source).__name__} has none of: give a seed")
    return shards, source


def _at_start(program: Program, x0: Array, warmup: int | None) -> tuple[Carry, dict[str, Array] | None]:
    """The carry of a run at the start positions, with the first guesses of what a warm-up tunes; a row of its path."""
    if not warmup:
        return program.init(x0), None
    if isinstance(program.kernel, Piloted):
        raise CapabilityError(
            f"{type(program.kernel).__name__} leaves out what a pilot tunes, and each shard would have a pilot of its "
            "own: make a run without shards first, and cut that of its trace.kernel"
        )
    warming = replace(program, kernel=with_tuning(program.kernel, warmup, pooled=True), recorders=())
    begun = warming.init(x0).state
    zeros = 0.0 * program.target.as_floating(x0)[..., 0]
    info = Info(zeros, zeros, zeros, Evaluations(0, 0, 0))
    _, path = WarmUpPath(warming.kernel).update(program.target, None, begun, info)
    kernel, state = tuned(program.kernel, warming.kernel, begun)
    return replace(program, kernel=kernel).start(state), path


@dataclass(frozen=True)
class Shard:
    """A part of a run, which a worker can be sent: the run of its chains, and the dtype of their positions.

    Calling it gives its trace, on the host.
    """

    whole: Whole
    dtype: str

    def __call__(self) -> Trace:
        arrived = dtype_name(self.whole.x0)
        if arrived != self.dtype:
            raise BackendError(
                f"positions of {self.dtype} arrived at the worker as {arrived}: it has other settings than this "
                "process. Set them by environment variables, or by the executor's initializer"
            )
        try:
            trace = self.whole.trace()
        except Interrupted as stop:
            raise Interrupted(str(stop), by=stop.by) from None  # what it holds may not be fit for sending
        return replace(on_arrays(trace, to_host), kernel=None)


def make_shards(whole: Whole, source: Native | Portable, shards: int) -> list[Shard]:
    """The shards of a run, in the order of their chains."""
    x, checkpoint = whole.x0, whole.checkpoint
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    if checkpoint is not None:
        _check_folder(Path(checkpoint.path), shards)
    made = []
    for i, (first, stop) in enumerate(cut(x.shape[0], shards)):
        name = SHARD.format(i, shards)
        own = checkpoint and replace(checkpoint, path=Path(checkpoint.path) / name)
        kernel = of_chains(whole.kernel, x.ndim - 1, x.shape[0], slice(first, stop))
        part = replace(whole, kernel=kernel, x0=1 * x[first:stop, ...], seed=derived(source, name), checkpoint=own)
        made.append(Shard(part, dtype_name(x)))
    return made


def _check_folder(path: Path, shards: int) -> None:
    """Raise where a checkpoint is that of a run which was not cut, or was cut in another way."""
    if (path / INDEX).exists():
        raise CheckpointError(f"{path} holds the checkpoint of a run that is not cut into shards: use another path")
    for other in path.glob(SHARD.format("*", "*")):
        if not other.name.endswith(f"-of-{shards}"):
            raise CheckpointError(
                f"{path} holds the checkpoint of a run that is cut in another way ({other.name}), and this one has "
                f"{shards} shards: give the same shards, or use another path"
            )


def rounds(draws: int, made: int = 0) -> Iterator[int]:
    """How many draws shards have when `until` looks at them, up to `draws`; looks before `made` draws are left out."""
    look = FIRST
    while look < draws:
        if look >= made:
            yield look
        look = math.ceil(LATER * look)
    yield draws


def _looks(whole: Whole, shards: Sequence[Shard], program: Program) -> list[int]:
    """How many draws shards have at the end of each round."""
    if whole.until is None:
        return [program.schedule.draws]
    saved = (shard.whole.checkpoint for shard in shards)
    made = max(program.schedule.rows(steps_in(Path(own.path))) for own in saved if isinstance(own, Checkpoint))
    return list(rounds(program.schedule.draws, made))


def run_shards(
    draws: int, shards: Sequence[Shard], workers: Workers, recorders: Sequence[Recorder], start: Start, bar: Any
) -> Trace:
    """Run all shards, each from its checkpoint, if it has one: the trace of all chains, on the host.

    The bar counts shards. The trace of an `Interrupted` has the chains of those that are finished; WorkerError if the
    executor breaks.
    """
    traces: dict[int, Trace] = {}
    saved = (
        "the same call goes on" if shards[0].whole.checkpoint else "the same call, which has no checkpoint, begins anew"
    )
    parts = [replace(shard, whole=replace(shard.whole, draws=draws)) for shard in shards]
    if bar is not None:
        bar.reset()
    try:
        with closing(workers.results(parts)) as finished:
            for i, result in finished:
                with _named(i, shards):
                    traces[i] = result()
                if bar is not None:
                    accepted = np.mean(traces[i].run_statistics.acceptance_probability)
                    bar.set_postfix_str(f"accepts {accepted:.2f}", refresh=False)
                    bar.update(1)
    except KeyboardInterrupt as stop:  # an Interrupted, or Ctrl-C between the runs of two shards
        done, by = [traces[i] for i in sorted(traces)], getattr(stop, "by", "Ctrl-C")
        raise Interrupted(
            f"{by} after {len(done)} of {len(shards)} shards, whose chains are in this error's trace; {saved}",
            join(done, recorders, start) if done else None,
            by=by,
        ) from None
    except BrokenExecutor as error:
        raise WorkerError(
            f"a worker was lost after {len(traces)} of {len(shards)} shards ({unended(error)}). With a new executor "
            f"{saved}; a function that makes executors, such as executor=lambda: {SPAWNING}, is called again by itself"
            f"{'' if traces else NONE_WORKED}"
        ) from error
    return join([traces[i] for i in range(len(shards))], recorders, start)


@contextmanager
def _named(i: int, shards: Sequence[Shard]) -> Iterator[None]:
    """Say of which shard an error is, and what to do about a function that cannot be sent to a worker."""
    try:
        yield
    except (BrokenExecutor, Interrupted):
        raise
    except Exception as error:
        if of_pickling(error):
            raise CapabilityError(
                f"the target, the kernel or a recorder cannot be sent to a worker ({error}): define its functions in a "
                "module, or take an executor that sends functions by value, such as those of loky or dask"
            ) from error
        first = sum(shard.whole.x0.shape[0] for shard in shards[:i])
        last = first + shards[i].whole.x0.shape[0] - 1
        error.add_note(f"This was in shard {i} of {len(shards)}, of chains {first} to {last}.")
        raise
