"""Runs: `sample` for a whole one, `steps` for one step at a time. The loop itself belongs to the backend."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag
from xpsample.core.devices import current_device
from xpsample.core.errors import CapabilityError, Interrupted, XpsampleError, entry
from xpsample.core.hyperparameters import show
from xpsample.engine.loop import Watcher, run
from xpsample.engine.processes import Processes
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.compose import anything_left_out
from xpsample.kernels.following import Piloted
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.tuning import Tuning, tuned, with_tuning
from xpsample.metrics.findings import Finding
from xpsample.run.bar import progress_bar
from xpsample.run.checkpoint import Checkpoint, opened
from xpsample.run.course import Course
from xpsample.run.diagnosis import category
from xpsample.run.limits import check_limits
from xpsample.run.loading import moved_to
from xpsample.run.noise import NoiseSource, as_noise_source
from xpsample.run.prepare import identity, positions, prepare
from xpsample.run.prepare import metadata as metadata_of
from xpsample.run.probes import computed_in, examined, say_precision
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
from xpsample.run.warm_up import TunedPath, WarmUpPath, warm_up_steps
from xpsample.run.warming import warm_up
from xpsample.run.watching import check_watchers
from xpsample.targets.check import check_gradient
from xpsample.targets.model import Model
from xpsample.targets.point import Capability
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
    watchers: Sequence[Watcher] = (),
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
    watchers : sequence of Watcher, optional
        Objects with ``begin(view)``, ``between(view)`` and ``end(view)``, which are called before the first step after
        the warm-up, between blocks of steps, and at the end. ``view.step`` of ``view.steps`` steps are made, and
        ``view.trace`` has what they drew. A text that `begin` or `between` returns ends the run, and is
        ``trace.metadata["ended"]``. Not with `shards`.

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
    x0 = positions(target, x0)
    with current_device(x0):
        check_flag("check", check)
        check_flag("compile", compile)
        if progress is not None:
            check_flag("progress", progress)
        check_until(until, recorders, x0)
        watchers = check_watchers(watchers, shards is not None or executor is not None)
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
            if isinstance(kernel, Kernel) and not kernel.requires & (Capability.SCORE | Capability.HVP):
                raise CapabilityError(
                    f"check=True compares the score with the log density, and {type(kernel).__name__} uses no score: "
                    "leave it out"
                )
            check_gradient(own, x0)
        if shards is not None or executor is not None:
            trace = _in_shards(target, kernel, x0, seed, shards, executor, checkpoint, until, progress, settings)
        else:
            trace = _one_run(
                target,
                kernel,
                x0,
                seed=seed,
                checkpoint=checkpoint,
                until=until,
                progress=progress,
                watchers=watchers,
                **settings,
            )
        trace, findings = examined(trace, target.space, lambda: target.prepare(x0, kernel.requires))
        _warn(findings)
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
    program = prepare(target, kernel, x0, *(settings[name] for name in names))
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
    part = partial(_one_run, target, progress=False, **settings)
    parts = make_shards(part, kernel, x0, source, count, checkpoint)

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
    watchers: Sequence[Watcher] = (),
) -> Trace:
    """The run from positions (*chains, dim); nothing is said of what is wrong with it."""
    clock = time.perf_counter()
    with current_device(x0):
        program = prepare(target, kernel, x0, recorders, burn_in, thinning, draws, compile)
        kept, where = without_store(program.recorders)
        program, disk = replace(program, recorders=kept), None if where is None else RowStore(where)
        processes = Processes.of(x0)
        if checkpoint is not None:
            processes.check_one("checkpoint=", "make shorter runs, and save the trace of each")
        if disk is not None:
            processes.check_one("Draws(store=...)", "keep Moments(), or the draws themselves, a part in each process")
        source, inside = as_noise_source(seed), kernel.tuning_inside
        own = TunedPath.of(inside) if isinstance(inside, Tuning) else None
        if own is not None:
            program = replace(program, recorders=check_recorders((*program.recorders, own)))
        in_time = None if until is None or until.seconds is None else replace(until, ess=None, rhat=None)
        warmed = warm_up(target, program, x0, source, warmup, checkpoint, progress, in_time, clock)
        if warmed.trace is not None:
            return warmed.trace
        program, carry = warmed.program, warmed.carry
        check_limits(program, carry, source, program.draws if disk is None else 0)
        metadata = metadata_of(program, x0, source) | processes.about
        if not processes.several:
            if coarse := computed_in(program.target, x0):
                metadata["diagnosis"]["computed_in"] = coarse
            _warn([say_precision(carry.state, burn_in, metadata["diagnosis"])], stacklevel=4)
        if warmed.steps:
            metadata["warmup"] = warmed.steps
        if warmed.findings:
            metadata["diagnosis"]["findings"] = [found.to_json() for found in warmed.findings]
        described = identity(target, program, carry.state.point.x, source) if checkpoint is not None else {}
        with opened(checkpoint, program, carry, described, metadata, disk) as store, locked(disk):
            course = Course(program, carry, source, metadata, store, disk, progress, until, clock, watchers)
            try:
                trace = course.trace(run(**course.given))
            except Interrupted as stop:
                stop.trace = _with_path(stop.trace, warmed.path, own)
                raise
        return _with_path(trace, warmed.path, own)


def _with_path(trace: Trace, path: dict[str, Array] | None, own: TunedPath | None) -> Trace:
    """The trace with the path of its warm-up, or with that which a recorder has of what was tuned on the way."""
    recorded = dict(trace.recorded)
    return replace(trace, warmup=path if own is None else recorded.pop(own.name), recorded=recorded)


def _warn(findings: Iterable[Finding | None], stacklevel: int = 3) -> None:
    """A line for each thing that is wrong with a run."""
    for finding in findings:
        if finding is not None and finding.kind != "few_draws":
            text = f"{finding} [{entry(finding.kind, 'diagnosis')}]"
            warnings.warn(text, category(finding), stacklevel=stacklevel)
