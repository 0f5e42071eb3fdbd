"""Runs: `sample` for a whole one, `steps` for one step at a time. The loop itself belongs to the backend."""

import itertools
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_flag, given
from xpsample.core.devices import current_device
from xpsample.core.errors import CapabilityError, Interrupted, XpsampleError, entry
from xpsample.core.hyperparameters import check_hyperparameters, show
from xpsample.core.registry import backend_of
from xpsample.core.tree import dtype_name
from xpsample.core.version import __version__
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.blocks import on_target
from xpsample.kernels.compose import anything_left_out
from xpsample.kernels.following import Piloted
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.tuning import Tuning, tuned, with_tuning
from xpsample.metrics.findings import Finding
from xpsample.run.checkpoint import Checkpoint, opened
from xpsample.run.diagnosis import about, category
from xpsample.run.identity import PYTHON, describe
from xpsample.run.limits import check_limits
from xpsample.run.loading import moved_to
from xpsample.run.loop import progress_bar, run_program
from xpsample.run.noise import NoiseSource, Replay, as_noise_source, chunk_steps
from xpsample.run.pace import Pace
from xpsample.run.processes import Processes
from xpsample.run.program import Carry, Program
from xpsample.run.recorders import (
    Draws,
    Record,
    Recorder,
    Statistics,
    check_recorders,
    without_store,
)
from xpsample.run.shards import Pool, Start, Workers, check_shards, make_shards, run_shards, run_until
from xpsample.run.store import RowStore, locked
from xpsample.run.trace import Trace
from xpsample.run.until import Until, check_until
from xpsample.run.warm_up import ROOM, ROUNDS, TunedPath, WarmUpPath, judge_warm_up, warm_up_source, warm_up_steps
from xpsample.spaces.named import Named
from xpsample.spaces.space import Real
from xpsample.targets.bound import BoundTarget
from xpsample.targets.check import check_gradient
from xpsample.targets.model import Model
from xpsample.targets.shaped import coordinates, shape_of
from xpsample.targets.start import pilot_starts
from xpsample.targets.target import AbstractTarget, Target, check_target

MOST = 2**63 - 1
"""Draws, at most."""


def sample(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array | Mapping[str, Array],
    draws: int,
    *,
    seed: int | NoiseSource,
    warmup: int | None = None,
    burn_in: int = 0,
    thinning: int = 1,
    recorders: Sequence[Recorder] = (Draws(), Statistics()),
    checkpoint: str | Path | Checkpoint | None = None,
    until: Until | None = None,
    progress: bool | None = None,
    check: bool = False,
    compile: bool = False,
    shards: int | None = None,
    executor: Pool | None = None,
) -> Trace:
    """Run a kernel, keep what the recorders keep, and warn of what is wrong with it.

    Parameters
    ----------
    target : AbstractTarget
        What to sample: a `Target`, `Model`, `Parametric` or `Tempered`.
    kernel : Kernel
        How. Hyper-parameters that it leaves out are tuned in a warm-up, pooled over the chains of the last axis; each
        index of the other axes is a group of chains that is tuned for itself.
    x0 : array, shape (*chains, dim), or mapping
        Start positions. They decide the library, dtype and device of everything. Leading axes are independent chains.
        Those of a `Model` may be values by name, each ``(*chains, *shape)``; those on ``Real(channels, height, width)``
        are images, ``(*chains, channels, height, width)``.
    draws : int
        Rows to keep of every chain; ``burn_in + draws * thinning`` steps are made.
    seed : int or NoiseSource
        An integer for the library's own generator, or `Native`, `Portable`, `Replay`.
    warmup : int, optional
        Steps that tune the kernel, before any other and thrown away. By default 0 where nothing is left out, else
        ``100 + 800 / sqrt(chains)``, since chains of a group learn from each other, and more while the chains are still
        on their way to where they stay, up to 15 times as many. Of `AIS` they are the pilot's;
        `TemperedSMC` and `SOSMC` tune at each of their own steps, and have none.
    burn_in : int
        Steps thrown away first, after the warm-up.
    thinning : int
        Steps per kept row.
    recorders : sequence of Recorder
        What to keep. With `Moments` or `BatchMeans` alone, memory does not grow with the length of the run.
    checkpoint : path or Checkpoint, optional
        A directory where the run is saved. The same call made again goes on where the last one stopped, or extends a
        finished run when `draws` is larger. The result is bit for bit that of one uninterrupted run. When `draws` is
        smaller, the first ones are returned, without a state, and with `run_statistics` of all steps that were made.
        A checkpoint of another run is refused. One process at a time may use a directory.
    until : Until, optional
        When the run may stop before all draws are made: ``Until(ess=400, rhat=1.01, seconds=600)``. `draws` is then the
        most. With `shards` it needs a checkpoint.
    progress : bool, optional
        Show a progress bar (tqdm), with the acceptance and the divergences of each group. By default, if tqdm is
        installed and stderr is a terminal.
    check : bool
        Compare the target's score with finite differences of its log density before the first step.
    compile : bool
        Compile the step, by ``torch.compile``, for torch arrays. JAX arrays always run compiled, NumPy and CuPy
        arrays never.
    shards : int, optional
        Cut the first chain axis into so many parts. Each is a run of its own, with noise and a warm-up of its own; the
        trace has all chains, and no tuned kernel. The draws depend on the number of shards, and on nothing about
        the workers.
    executor : concurrent.futures.Executor or callable, optional
        Whose workers run the shards; they run here, one after another, when not given. A process pool, or those of
        loky, dask (``client.get_executor()``) and mpi4py. A function that makes an executor, such as
        ``ProcessPoolExecutor``, is called again where a worker was lost.

    Returns
    -------
    Trace

    Raises
    ------
    XpsampleError
        Before the first step, if anything does not fit together. The message says what would.
    Interrupted
        On Ctrl-C or SIGTERM, after the block of steps that is under way. Its ``trace`` holds what was drawn.
    WorkerError
        If an executor breaks, since a worker was lost. With a checkpoint the same call with a new executor goes on.

    Warns
    -----
    DiagnosisWarning
        At the end, one line for each finding of `Trace.diagnose`: a `DivergenceWarning` of divergences, a
        `RepellenceWarning` of a tilt that is too strong, a `ConvergenceWarning` of all else. A run without recorded
        draws is judged by its statistics, and by `Moments` and `BatchMeans` if it has them. One of fewer than ten draws
        says nothing of how its chains have mixed.

    See Also
    --------
    steps : The same chain, one state after another.
    start : Positions to start from.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(), x0, 1000, seed=1)
    >>> trace.draws.shape
    (1000, 4, 2)
    >>> bool(abs(trace.draws.mean()) < 0.1)
    True
    >>> again = xps.sample(target, trace.kernel, trace.draws[-1], 1000, seed=2)  # the tuned kernel: no warm-up
    """
    x0 = _positions(target, x0)
    with current_device(x0):
        check_flag("check", check)
        check_flag("compile", compile)
        if progress is not None:
            check_flag("progress", progress)
        check_until(until, recorders, x0)
        settings: dict[str, Any] = {
            "draws": draws,
            "warmup": warmup,
            "burn_in": burn_in,
            "thinning": thinning,
            "recorders": recorders,
            "compile": compile,
        }
        if check:
            check_target("target", target)
            own = target.target if isinstance(target, Model) else target
            if not isinstance(own, Target):
                raise XpsampleError(
                    "check=True compares the score of a Target with its density; this target is made of one"
                )
            check_gradient(own, x0)
        if shards is not None or executor is not None:
            trace = _in_shards(target, kernel, x0, seed, shards, executor, checkpoint, until, progress, settings)
        else:
            trace = _one_run(
                target, kernel, x0, seed=seed, checkpoint=checkpoint, until=until, progress=progress, **settings
            )
        _warn(trace)
        return trace


def _in_shards(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array,
    seed: int | NoiseSource,
    shards: int | None,
    executor: Pool | None,
    checkpoint: str | Path | Checkpoint | None,
    until: Until | None,
    progress: bool | None,
    settings: dict[str, Any],
) -> Trace:
    """The run of all shards, after the checks that one run of all chains makes before its first step."""
    began = time.perf_counter()
    names = ("recorders", "burn_in", "thinning", "draws", "compile")
    program = _prepare(target, kernel, x0, *(settings[name] for name in names))
    Processes.of(x0).check_one("shards=", "leave it out, for each process has a part of the chains already")
    count, source = check_shards(kernel, x0, as_noise_source(seed), shards, executor)
    if without_store(program.recorders)[1] is not None:
        raise CapabilityError(
            "shards cannot share the store of Draws(store=...): keep Moments() or BatchMeans(), whose memory does not "
            "grow, or make a run with a seed and a store of its own for each part of the chains"
        )
    if until is not None and checkpoint is None:
        raise CapabilityError(
            "until= looks at all chains between rounds of the shards, each of which goes on from the checkpoint of the "
            "last: give a checkpoint, in a folder that all workers reach"
        )
    fewest = x0[: x0.shape[0] // count, ...]
    settings["warmup"] = warm_up_steps(kernel, fewest, settings["warmup"]) or None  # the same in all shards
    carry, path = _at_start(program, x0, settings["warmup"])
    check_limits(program, carry, source, program.draws)
    rows = {r.name: r.function(carry.state) for r in program.recorders if isinstance(r, Record)}
    run = partial(_one_run, target, progress=False, **settings)
    parts = make_shards(run, kernel, x0, source, count, checkpoint)

    def of_all(trace: Trace) -> Trace:
        own = {"kernel": show(kernel), "seed": source.describe(), "seconds": time.perf_counter() - began}
        same = None if anything_left_out(kernel) else kernel
        return replace(moved_to(trace, x0), metadata=trace.metadata | own, kernel=same)

    start = Start(x0.shape[0], rows, path)
    with progress_bar(progress, count, unit="shard") as bar, Workers(executor) as workers:
        try:
            if until is None:
                return of_all(run_shards(parts, workers, program.recorders, start, bar))
            return of_all(run_until(parts, workers, program.recorders, start, bar, until, program))
        except Interrupted as stop:
            if stop.trace is not None:
                stop.trace = of_all(stop.trace)
            raise


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


def _one_run(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array,
    draws: int,
    *,
    seed: int | NoiseSource,
    warmup: int | None,
    burn_in: int,
    thinning: int,
    recorders: Sequence[Recorder],
    checkpoint: str | Path | Checkpoint | None = None,
    until: Until | None = None,
    progress: bool | None,
    compile: bool,
) -> Trace:
    """The run from positions (*chains, dim); nothing is said of what is wrong with it."""
    with current_device(x0):
        program = _prepare(target, kernel, x0, recorders, burn_in, thinning, draws, compile)
        kept, where = without_store(program.recorders)
        program, disk = replace(program, recorders=kept), None if where is None else RowStore(where)
        processes = Processes.of(x0)
        if checkpoint is not None:
            processes.check_one("checkpoint=", "make shorter runs, and save the trace of each")
        if disk is not None:
            processes.check_one("Draws(store=...)", "keep Moments(), or the draws themselves, a part in each process")
        source, path = as_noise_source(seed), None
        inside = kernel.tuning_inside
        own = TunedPath.of(inside) if isinstance(inside, Tuning) else None
        if own is not None:
            program = replace(program, recorders=check_recorders((*program.recorders, own)))
        tuning = warm_up_steps(kernel, x0, warmup)
        found = None
        if tuning:
            rounds = 1 if warmup is not None else ROUNDS
            program, carry, path, found = _warm_up(target, program, x0, source, tuning, rounds, checkpoint, progress)
            tuning = path["acceptance_probability"].shape[0]
        began = time.perf_counter()
        carry = carry if tuning else program.init(x0)
        program.target.backend.synchronize(carry)
        pace = Pace(processes.largest(carry, time.perf_counter() - began))
        check_limits(program, carry, source, program.draws if disk is None else 0)
        metadata = _metadata(program, x0, source) | processes.about | ({"warmup": tuning} if tuning else {})
        if found is not None:
            metadata["diagnosis"]["findings"] = [found.to_json()]
        described = identity(target, program, carry.state.point.x, source) if checkpoint is not None else {}
        with opened(checkpoint, program, carry, described, metadata, disk) as store, locked(disk):
            try:
                trace = run_program(program, carry, source, store, progress, metadata, pace, until, disk=disk)
            except Interrupted as stop:
                stop.trace = _with_path(stop.trace, path, own)
                raise
        return _with_path(trace, path, own)


def _with_path(trace: Trace, path: dict[str, Array] | None, own: TunedPath | None) -> Trace:
    """The trace with the path of its warm-up, or with that which a recorder has of what was tuned on the way."""
    recorded = dict(trace.recorded)
    return replace(trace, warmup=path if own is None else recorded.pop(own.name), recorded=recorded)


def _warm_up(
    target: AbstractTarget,
    program: Program,
    x0: Array,
    source: NoiseSource,
    steps: int,
    rounds: int,
    checkpoint: str | Path | Checkpoint | None,
    progress: bool | None,
) -> tuple[Program, Carry, dict[str, Array], Finding | None]:
    """Tune what the kernel leaves out: the program with the tuned kernel, where it starts, the path, and what is wrong.

    Where the chains are still on their way at the end, another warm-up follows from there, twice as long.
    """
    paths: list[dict[str, Array]] = []
    for number in range(1, rounds + 1):
        ready, carry, path = _one_warm_up(target, program, x0, source, steps, number, checkpoint, progress)
        paths.append(path)
        found = judge_warm_up(path, pooled=len(x0.shape) > 1)
        if found is None:
            break
        x0, steps = carry.state.point.x, 2 * steps
    xp = program.target.xp
    return ready, carry, {name: xp.concat([path[name] for path in paths], axis=0) for name in paths[0]}, found


def _one_warm_up(
    target: AbstractTarget,
    program: Program,
    x0: Array,
    source: NoiseSource,
    steps: int,
    number: int,
    checkpoint: str | Path | Checkpoint | None,
    progress: bool | None,
) -> tuple[Program, Carry, dict[str, Array]]:
    """A warm-up of so many steps.

    It is a run of its own, with a checkpoint of its own in the folder ``warmup`` of the run's, ``warmup-2`` and so on.
    """
    pooled, room = len(x0.shape) > 1, -(-steps // ROOM) * ROOM
    starts, noise = x0, warm_up_source(source, number)
    if isinstance(program.kernel, Piloted):
        kernel, _ = program.kernel.pilot(steps)
        starts = pilot_starts(target, program.target.space, x0, noise.seed)
        assert isinstance(kernel.tuning_inside, Tuning)
        path: Recorder = TunedPath.of(kernel.tuning_inside)
        bound = target.prepare(starts, kernel.requires)
    else:
        kernel, bound = with_tuning(program.kernel, steps, pooled), program.target
        path = WarmUpPath(with_tuning(program.kernel, 0, pooled))
    warming = Program(kernel, bound, (path,), 0, 1, steps, program.compile, room)
    carry = warming.init(starts)
    check_limits(warming, carry, noise, warming.draws)
    metadata = _metadata(warming, starts, noise)
    described: dict[str, Any] = {}
    if checkpoint is not None:
        settings = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        checkpoint = replace(settings, path=Path(settings.path) / ("warmup" if number == 1 else f"warmup-{number}"))
        described = identity(target, warming, starts, noise)
    with opened(checkpoint, warming, carry, described, metadata) as store:
        trace = run_program(warming, carry, noise, store, progress, metadata, Pace(0.0), unit="warm-up steps")
    found = trace.recorded[path.name]
    if isinstance(program.kernel, Piloted):
        rows = {name.rpartition(".")[2]: a for name, a in found.items() if "." in name}
        program = replace(program, kernel=program.kernel.after_pilot(rows))
        return program, program.init(x0), found
    kernel, state = tuned(program.kernel, kernel, trace.state)
    program = replace(program, kernel=kernel)
    return program, program.start(state), found


def steps(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array | Mapping[str, Array],
    *,
    seed: int | NoiseSource,
    warmup: int | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield (state, info) after every step, without end. The chain is that of `sample` with the same seed.

    Parameters
    ----------
    target, kernel, x0, seed, warmup
        As in `sample`; the steps of the warm-up are made before the first that is yielded.

    Yields
    ------
    state : NamedTuple
        The kernel's state; positions in ``state.point.x``, shape ``(*chains, dim)``.
    info : NamedTuple
        What the step did.

    See Also
    --------
    sample : Runs a kernel and keeps its draws.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> from itertools import islice
    >>> for state, info in islice(xps.steps(target, xps.MALA(0.5), x0, seed=1), 3):
    ...     state.point.x.shape
    (4, 2)
    (4, 2)
    (4, 2)
    """
    x0 = _positions(target, x0)
    with current_device(x0):
        program = _prepare(target, kernel, x0, (_Everything(),), 0, 1, 1)
        source, backend = as_noise_source(seed), program.target.backend
        tuning = warm_up_steps(kernel, x0, warmup)
        if tuning:
            rounds = 1 if warmup is not None else ROUNDS
            program, carry, *_ = _warm_up(target, program, x0, source, tuning, rounds, None, False)
        else:
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
            yield state, info._replace(evaluations=sums.evaluations)


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


def _positions(target: AbstractTarget, x0: Array | Mapping[str, Array]) -> Array:
    """Start positions (*chains, dim), of values by name where a model is given these, or of arrays such as images."""
    if isinstance(target, Model) and isinstance(x0, Mapping):
        return target.position(x0)
    return cast(Array, coordinates(target, x0))  # what is none is refused where it is checked


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
    return Program(on_target(kernel, bound, x0), bound, recorders, burn_in, thinning, draws, compile)


def _warn(trace: Trace) -> None:
    """A line for each thing that is wrong with a run."""
    for finding in trace.diagnose():
        if finding.kind != "few_draws":
            text = f"{finding} [{entry(finding.kind, 'diagnosis')}]"
            warnings.warn(text, category(finding), stacklevel=3)


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
    space = program.target.space
    return {
        **({"parameters": space.to_json()} if isinstance(space, Named) else {}),
        **({"space": space.to_json()} if isinstance(space, Real) and shape_of(space) else {}),
        "kernel": show(program.kernel),
        "backend": backend_of(x).name,
        "dtype": dtype_name(x),
        "device": str(device_of(x)),
        "seed": source.describe(),
        "burn_in": program.burn_in,
        "thinning": program.thinning,
        "compiled": program.compile,
        "version": __version__,
        "diagnosis": about(program.kernel, program.target.space, x.shape[-1]),
    }
