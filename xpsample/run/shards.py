"""Runs whose chains are cut into shards, each a run of its own, in the processes of an executor or one after another.

The result follows from the seed and from how the chains are cut. How many workers there are, in which order they end,
and which of them are lost changes nothing.
"""

import json
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from pickle import PicklingError
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, given
from xpsample.core.errors import BackendError, CapabilityError, CheckpointError, Interrupted, NoiseError, WorkerError
from xpsample.core.hyperparameters import of_chains
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name
from xpsample.engine.signals import interruptible
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import LACKING, Trait
from xpsample.run.checkpoint import INDEX, SHARD, Checkpoint, steps_in
from xpsample.run.diagnosis import own_findings, worst
from xpsample.run.loading import on_arrays
from xpsample.run.noise import Native, NoiseSource, Portable, derived
from xpsample.run.program import Program
from xpsample.run.recorders import Recorder
from xpsample.run.running import running
from xpsample.run.summary import RunStatistics
from xpsample.run.trace import Trace
from xpsample.run.until import Stopping, Until
from xpsample.run.workers import NONE_WORKED, SPAWNING, check_forks, check_guarded

POLL = 0.5
"""Seconds after which a run that waits for its workers looks whether it is to end."""

MOST_LOST = 3
"""Executors that may break one after the other without any shard being finished."""

Pool = Executor | Callable[[], Executor]
"""What runs shards: an executor, or a function that makes one, again where one breaks."""

FIRST, LATER = 200, 1.5
"""Draws after which `until` looks first, and how many times as many there are from one look to the next."""


def cut(chains: int, shards: int) -> list[tuple[int, int]]:
    """Cut chains into shards [first, stop) whose sizes differ by one at most, the larger ones first."""
    size, more = divmod(chains, shards)
    ends = [i * size + min(i, more) for i in range(shards + 1)]
    return list(pairwise(ends))


def check_shards(
    kernel: Kernel, x: Array, source: NoiseSource, shards: Any, pool: Any
) -> tuple[int, Native | Portable]:
    """How many shards there are, and the noise that theirs is derived from, where the chains can be cut.

    Raises
    ------
    XpsampleError
    """
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


class Start(NamedTuple):
    """What tells, at the start positions of all chains, which arrays are of the chains: those that are cut with them.

    ``chains`` is the length of the first chain axis; ``recorded`` has a row of each `Record`, by name, and ``warmup``
    one of the path of the warm-up, or None.
    """

    chains: int
    recorded: Mapping[str, tree.Tree]
    warmup: Mapping[str, Array] | None


@dataclass(frozen=True)
class Shard:
    """A part of a run, which a worker can be sent. Calling it gives its trace, on the host."""

    run: Callable[..., Trace]
    """``run(kernel=..., x0=..., seed=..., checkpoint=...)``"""
    kernel: Kernel
    x: Array
    dtype: str
    source: NoiseSource
    checkpoint: Checkpoint | None

    def __call__(self) -> Trace:
        if dtype_name(self.x) != self.dtype:
            raise BackendError(
                f"positions of {self.dtype} arrived at the worker as {dtype_name(self.x)}: it has other settings than "
                "this process. Set them by environment variables, or by the executor's initializer"
            )
        try:
            trace = self.run(kernel=self.kernel, x0=self.x, seed=self.source, checkpoint=self.checkpoint)
        except Interrupted as stop:
            raise Interrupted(str(stop), by=stop.by) from None  # what it holds may not be fit for sending
        return replace(on_arrays(trace, to_host), kernel=None)


def make_shards(
    run: Callable[..., Trace],
    kernel: Kernel,
    x: Array,
    source: Native | Portable,
    shards: int,
    checkpoint: str | Path | Checkpoint | None,
) -> list[Shard]:
    """The shards of a run, in the order of their chains."""
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    if checkpoint is not None:
        _check_folder(Path(checkpoint.path), shards)
    made = []
    for i, (first, stop) in enumerate(cut(x.shape[0], shards)):
        name = SHARD.format(i, shards)
        own = checkpoint and replace(checkpoint, path=Path(checkpoint.path) / name)
        part = of_chains(kernel, x.ndim - 1, x.shape[0], slice(first, stop))
        made.append(Shard(run, part, 1 * x[first:stop, ...], dtype_name(x), derived(source, name), own))
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


class Workers(AbstractContextManager["Workers"]):
    """What runs shards: an executor that is given, or those that a function makes, which end with the block.

    Parameters
    ----------
    pool : Executor or callable, optional
        Without one the shards run here, one after another.
    """

    def __init__(self, pool: Pool | None) -> None:
        self.pool = pool
        if isinstance(pool, Executor):
            check_forks(pool)
        self._made: Executor | None = None

    def executor(self) -> Executor:
        """The executor: the last that was made, if it was not broken."""
        if isinstance(self.pool, Executor):
            return self.pool
        if self._made is None:
            assert self.pool is not None
            made = self.pool()
            if not isinstance(made, Executor):
                raise CapabilityError(
                    f"executor is a function and must make a concurrent.futures.Executor; got {given(made)}"
                )
            check_forks(made)
            self._made = made
        return self._made

    def replace(self) -> bool:
        """Have the next executor made; False if it was given."""
        if self._made is None:
            return False
        made, self._made = self._made, None
        made.shutdown(wait=True)  # its other workers may still be saving their shards
        return True

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            self._made.shutdown(wait=False, cancel_futures=True)


def run_shards(
    shards: Sequence[Shard], workers: Workers, recorders: Sequence[Recorder], start: Start, bar: Any
) -> Trace:
    """Run all shards: the trace of all chains, on the host.

    Parameters
    ----------
    shards : sequence of Shard
    workers : Workers
    recorders : sequence of Recorder
    start : Start
    bar : tqdm.tqdm or None
        Counts shards.

    Raises
    ------
    Interrupted
        Its ``trace`` has the chains of the shards that are finished.
    WorkerError
        If the executor breaks.
    """
    traces: dict[int, Trace] = {}
    saved = "the same call goes on" if shards[0].checkpoint else "the same call, which has no checkpoint, begins anew"
    finish = _here if workers.pool is None else partial(_there, workers)
    try:
        for i, trace in finish(shards, traces):
            traces[i] = trace
            if bar is not None:
                accepted = np.mean(trace.run_statistics.acceptance_probability)
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
            f"a worker was lost after {len(traces)} of {len(shards)} shards ({error}). With a new executor {saved}; a "
            f"function that makes executors, such as executor=lambda: {SPAWNING}, is called again by itself"
            f"{'' if traces else NONE_WORKED}"
        ) from error
    return join([traces[i] for i in range(len(shards))], recorders, start)


def run_until(
    shards: Sequence[Shard],
    workers: Workers,
    recorders: Sequence[Recorder],
    start: Start,
    bar: Any,
    until: Until,
    program: Program,
) -> Trace:
    """Run all shards in rounds of more and more draws, each from the checkpoint of the last, until they are enough.

    Parameters
    ----------
    shards, workers, recorders, start, bar
        As in `run_shards`.
    until : Until
    program : Program
        Of all chains; says how many steps give how many draws, and how many draws are the most.
    """
    made = max(program.rows(steps_in(Path(shard.checkpoint.path))) for shard in shards if shard.checkpoint)
    looks = list(rounds(program.draws, made))
    stopping = Stopping(until, looks, lambda draws: draws)
    for draws in looks:
        if bar is not None:
            bar.reset()
        part = [replace(shard, run=partial(shard.run, draws=draws)) for shard in shards]
        trace = run_shards(part, workers, recorders, start, bar)
        if stopping.holds(draws, partial(_figures, trace)):
            break
    known = trace.metadata["diagnosis"]
    found = [*known["findings"], *(finding.to_json() for finding in stopping.findings(draws))]
    return replace(trace, metadata=trace.metadata | {"diagnosis": known | {"findings": found}})


def _figures(trace: Trace) -> tuple[float, float]:
    """The least ESS and the largest R-hat."""
    if trace.draws is not None:
        return worst(trace.draws, trace.metadata["diagnosis"]["categorical"])
    told = running(trace.recorded.values())
    return (math.nan, math.nan) if told is None else told.worst()


def _here(shards: Sequence[Shard], traces: Mapping[int, Trace]) -> Iterator[tuple[int, Trace]]:
    """Shards one after another, in this process."""
    for i, shard in enumerate(shards):
        with _named(i, shards):
            trace = shard()
        yield i, trace


def _there(workers: Workers, shards: Sequence[Shard], traces: Mapping[int, Trace]) -> Iterator[tuple[int, Trace]]:
    """Shards as workers finish them. Where a function makes the executor, one that breaks is replaced."""
    lost = 0
    with interruptible() as interrupted:
        while len(traces) < len(shards):
            before = len(traces)
            try:
                yield from _finished(workers.executor(), shards, traces, interrupted)
            except BrokenExecutor:
                lost = lost + 1 if len(traces) == before else 1
                if lost >= MOST_LOST or not workers.replace():
                    raise


def _finished(
    executor: Executor,
    shards: Sequence[Shard],
    traces: Mapping[int, Trace],
    interrupted: Callable[[], str | None],
) -> Iterator[tuple[int, Trace]]:
    """The shards that have no trace yet, as an executor finishes them."""
    futures: dict[int, Future[Any]] = {}
    finished: SimpleQueue[int] = SimpleQueue()
    try:
        for i, shard in enumerate(shards):
            if i not in traces:
                futures[i] = executor.submit(_work, shard, os.getpid())
                futures[i].add_done_callback(partial(_note, finished, i))
        while futures:
            with suppress(Empty):
                i = finished.get(timeout=POLL)
                with _named(i, shards):
                    trace = futures.pop(i).result()
                yield i, trace
            if interrupted():
                raise Interrupted("", by=interrupted())
    except BrokenExecutor:
        if interrupted():  # the signal has ended the workers, too
            raise Interrupted("", by=interrupted()) from None
        raise
    finally:
        for future in futures.values():
            future.cancel()


def _work(shard: Shard, caller: int) -> Trace:
    """What a worker does. SIGTERM, which executors end their workers by, ends it as soon as its shard is saved.

    Parameters
    ----------
    shard : Shard
    caller : int
        The process that waits for the shard: where that makes it by itself, it is told.
    """
    try:
        return shard()
    except Interrupted as stop:
        if stop.by == "SIGTERM" and os.getpid() != caller:
            signal.raise_signal(signal.SIGTERM)
        raise


def _note(finished: SimpleQueue, i: int, future: Future[Any]) -> None:
    finished.put(i)


@contextmanager
def _named(i: int, shards: Sequence[Shard]) -> Iterator[None]:
    """Say of which shard an error is, and what to do about a function that cannot be sent to a worker."""
    try:
        yield
    except (BrokenExecutor, Interrupted):
        raise
    except Exception as error:
        if isinstance(error, PicklingError) or (
            isinstance(error, AttributeError | TypeError) and "pickle" in str(error)
        ):
            raise CapabilityError(
                f"the target, the kernel or a recorder cannot be sent to a worker ({error}): define its functions in a "
                "module, or take an executor that sends functions by value, such as those of loky or dask"
            ) from error
        first = sum(shard.x.shape[0] for shard in shards[:i])
        last = first + shards[i].x.shape[0] - 1
        error.add_note(f"This was in shard {i} of {len(shards)}, of chains {first} to {last}.")
        raise


# ---- traces ----------------------------------------------------------------------------------------------------------


def join(traces: Sequence[Trace], recorders: Sequence[Recorder], start: Start) -> Trace:
    """The traces of shards as one, with their chains side by side."""
    first = traces[0]
    chains = [np.shape(trace.run_statistics.moved)[0] for trace in traces]

    def joined(parts: Sequence[Any], axis: int | None) -> Any:
        return None if parts[0] is None else tree.map(partial(_side_by_side, axis, 0), *parts)

    def compared(rows: tree.Tree, parts: Sequence[tree.Tree], path: bool = False) -> Any:
        """Parts (draw, ...) put side by side where rows of all chains are as long as these are many, and parts, too."""

        def one(row: Array, *own: np.ndarray) -> np.ndarray:
            lengths = row.shape[:1], [part.shape[1:2] for part in own]
            pooled = path and lengths == ((1,), [(1,) for _ in own])
            of_chains = pooled or lengths == ((start.chains,), [(n,) for n in chains])
            return _side_by_side(1 if of_chains else None, 1 if path else 0, *own)

        return tree.map(one, rows, *parts)

    recorded = {}
    for recorder in recorders:
        if recorder.name in first.recorded:
            parts, row = [trace.recorded[recorder.name] for trace in traces], start.recorded.get(recorder.name)
            recorded[recorder.name] = joined(parts, recorder.chain_axis) if row is None else compared(row, parts)
    paths = [trace.warmup for trace in traces]
    state = tuple(trace.state for trace in traces)
    found = own_findings([r for r in recorders if r.name in recorded], recorded, state)
    of_shards = [f for trace in traces for f in trace.metadata["diagnosis"].get("findings", ())]
    on_the_way = [f for f in of_shards if f["kind"] == "warmup"]
    found = [*sorted(on_the_way, key=lambda f: -f["value"])[:1], *found]
    known = first.metadata["diagnosis"] | {"findings": list({json.dumps(f): f for f in found}.values())}
    return Trace(
        draws=joined([trace.draws for trace in traces], 1),
        statistics=joined([trace.statistics for trace in traces], 1),
        recorded=recorded,
        run_statistics=_statistics([trace.run_statistics for trace in traces], chains),
        state=state,
        metadata=first.metadata | {"shards": len(traces), "diagnosis": known},
        warmup=joined(paths, 1) if start.warmup is None else compared(start.warmup, paths, path=True),
    )


def _side_by_side(axis: int | None, shards: int, *leaves: np.ndarray) -> np.ndarray:
    """Arrays of shards side by side along an axis.

    Where they have none, the shards get an axis of their own, `shards`; a number that is the same in all of them stays.
    """
    if axis is not None and np.ndim(leaves[0]) > axis:
        return np.concatenate(leaves, axis=axis)
    same = np.ndim(leaves[0]) == 0 and all(np.array_equal(leaf, leaves[0]) for leaf in leaves)
    return leaves[0] if same else np.stack(leaves, axis=shards)


def _statistics(parts: Sequence[RunStatistics], chains: Sequence[int]) -> RunStatistics:
    """Means over steps side by side, and means over chains averaged."""
    fields = ("acceptance_probability", "moved", "diverged")
    weights = np.asarray(chains) / sum(chains)
    return RunStatistics(
        steps=parts[0].steps,
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in fields},
        evaluations={
            name: float(weights @ [part.evaluations[name] for part in parts]) for name in parts[0].evaluations
        },
    )
