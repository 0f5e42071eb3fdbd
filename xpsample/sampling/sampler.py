"""Runs: `Sampler`, a prepared run, and `sample`, which makes one and calls it once."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Schedule
from xpsample.core.checks import check_count, check_flag, errors_of_functions, given
from xpsample.core.devices import Processes, current_device
from xpsample.core.errors import CapabilityError, XpsampleError, keep, keeping
from xpsample.core.hyperparameters import check_hyperparameters, show
from xpsample.core.registry import backend_of
from xpsample.diagnostics.diagnosis import warn
from xpsample.diagnostics.target import computed_in, say_precision
from xpsample.kernels.adapted import AdaptedKernel
from xpsample.kernels.compose import check_target_fits, on_target
from xpsample.kernels.kernel import Kernel
from xpsample.sampling.callbacks import Callback, check_callbacks
from xpsample.sampling.loop import run_program
from xpsample.sampling.noise import NoiseSource, as_noise_source
from xpsample.sampling.program import Program, check_limits, metadata
from xpsample.sampling.transient import TunedPath
from xpsample.sampling.warm_up import warm_up
from xpsample.targets.bound import on_some_rows
from xpsample.targets.contract import check_discrete, check_point
from xpsample.targets.point import Capability
from xpsample.targets.shaped import positions
from xpsample.targets.target import AbstractTarget, HoldsData, Target, check_target
from xpsample.trace.diagnosis import examined
from xpsample.trace.recorders import Draws, Recorder, Statistics, check_recorders, without_store
from xpsample.trace.trace import Trace

if TYPE_CHECKING:  # imported when a run needs them
    from concurrent.futures import Executor

    from xpsample.sampling.checkpoint import Checkpoint
    from xpsample.sampling.until import Until
else:
    Executor = Checkpoint = Until = Any  # for typing.get_type_hints

MOST = 2**63 - 1  # Draws, at most


@dataclass(frozen=True, eq=False, repr=False)
class Sampler:
    """A prepared run, called with a seed.

    Making a `Sampler` validates its arguments, chooses derivatives and evaluates the target at the initial positions.
    The first call traces and compiles the functions on libraries that compile. Later calls with another seed, other
    positions or other data of the same shapes do none of this again. Other shapes are validated and compiled anew.

    Globals and attributes that the target's functions read are fixed when a library traces them: on JAX, a later call
    does not see that they have changed. Pass what changes as `data`, or use `sample`, which always sees current values.

    Parameters
    ----------
    target, kernel, x0, draws, warmup, burn_in, thinning, recorders, checkpoint, until, progress, check, compile, \
shards, executor, callbacks
        As in `sample`.

    Raises
    ------
    XpsampleError
        If the arguments do not fit together.

    See Also
    --------
    sample : Makes a `Sampler` and calls it once.

    Examples
    --------
    Fit one model to several data sets:

    >>> import numpy as np
    >>> import xpsample as xps
    >>> def log_density(x, y):
    ...     return -0.5 * np.sum((y - x) ** 2, axis=-1)
    >>> def score(x, y):
    ...     return np.sum(y - x, axis=-1, keepdims=True)
    >>> data = np.random.default_rng(0).normal(size=(3, 50))
    >>> sampler = xps.Sampler(xps.Target(log_density, score, data=data[0]), xps.HMC(), np.zeros((4, 1)), 500)
    >>> [bool(abs(sampler(seed=1, data=y).draws.mean() - y.mean()) < 0.05) for y in data]
    [True, True, True]
    """

    target: AbstractTarget
    kernel: Kernel
    x0: Any
    draws: int
    _: KW_ONLY
    warmup: int | None = None
    burn_in: int = 0
    thinning: int = 1
    recorders: Sequence[Recorder] = (Draws(), Statistics())
    checkpoint: "str | Path | Checkpoint | None" = None
    until: "Until | None" = None
    progress: bool | None = None
    check: bool = False
    compile: bool = False
    shards: int | None = None
    executor: "Executor | None" = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        check_flag("check", self.check)
        check_flag("compile", self.compile)
        if self.progress is not None:
            check_flag("progress", self.progress)
        if self.until is not None:
            from xpsample.sampling.until import check_until

            check_until(self.until, self.recorders, self.positions)
        check_callbacks(self.callbacks, self.is_sharded)
        check_target("target", self.target)
        if not isinstance(self.kernel, Kernel):
            raise CapabilityError(f"kernel must be a Kernel, such as RWM(0.5) or your own; got {given(self.kernel)}")
        with current_device(self.positions):
            if self.check:
                self._check_score()
            self.program  # noqa: B018, which validates the rest
            processes = Processes.of(self.positions)
            if processes is not None and self.checkpoint is not None:
                processes.refuse("checkpoint=", "make shorter runs, and save the trace of each")
            if processes is not None and self.store is not None:
                processes.refuse("Draws(store=...)", "use Moments(), or keep a part of the draws in each process")

    def __repr__(self) -> str:
        return show(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.arguments

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments that this `Sampler` was made with."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def is_sharded(self) -> bool:
        """Return whether the chains are split into shards."""
        return self.shards is not None or self.executor is not None

    @cached_property
    def positions(self) -> Array:
        """Initial positions, shape ``(*chains, dim)``."""
        return positions(self.target, self.x0)

    @cached_property
    def store(self) -> str | None:
        """Store of the draws, in place of memory."""
        return without_store(check_recorders(self.recorders))[1]

    @cached_property
    def program(self) -> Program:
        """The kernel on the bound target, before the warm-up."""
        schedule = Schedule(
            check_count("draws", self.draws, 1, MOST),
            check_count("burn_in", self.burn_in, 0, MOST),
            check_count("thinning", self.thinning, 1, MOST),
        )
        recorders, _ = without_store(check_recorders(self.recorders))
        x0, kernel = self.positions, self.kernel
        bound = self.target.prepare(x0, kernel.requires)
        check_hyperparameters(kernel, x0)
        check_target_fits(kernel, bound)
        return Program(on_target(kernel, bound, x0), bound, recorders, schedule, self.compile)

    @cached_property
    def digits(self) -> dict[str, Any]:
        """The dtype in which a log density in float32 computes, if it has fewer digits, for the diagnosis."""
        return computed_in(self.program.target, self.positions)

    def __call__(
        self, seed: int | NoiseSource, x0: Array | Mapping[str, Array] | None = None, data: tree.Tree = None
    ) -> Trace:
        """Run the kernel.

        Parameters
        ----------
        seed : int or NoiseSource
        x0 : array or mapping, optional
            Initial positions that replace the `Sampler`'s.
        data : tree of arrays, optional
            Data that replace the target's.

        Returns
        -------
        Trace

        Raises
        ------
        XpsampleError
            If positions are not on the target's space, the target is not finite there, or it cannot use the data.
        Interrupted
            On Ctrl-C or SIGTERM.
        """
        clock, target, x, program = time.perf_counter(), self.target, self.positions, self.program
        if x0 is not None or data is not None:
            x = x if x0 is None else positions(target, x0)
            placed = program.data
            if data is not None:
                if not isinstance(target, HoldsData):
                    raise CapabilityError(f"data= was passed, and {type(target).__name__} holds no data")
                target = target.with_data(data)
                placed = target.place_data(backend_of(x), x)
            if not _same_form((x, placed), (self.positions, program.data)):
                return replace(self, target=target, x0=x)(seed)
            if data is not None:
                program = replace(program, target=program.target.with_data(placed))
            with current_device(x), errors_of_functions("the target failed at the initial positions"):
                checked = on_some_rows(program.target)
                program.target.space.check(program.backend.xp, x)
                check_point(checked, checked.evaluate(x), x)
                check_discrete(checked, x)
        with current_device(x):
            if self.is_sharded:
                from xpsample.sampling.parallel import run_shards

                moved = x0 is not None or data is not None
                trace = run_shards(replace(self, target=target, x0=x) if moved else self, seed)
            else:
                trace = self.warm_up_and_draw(target, program, x, as_noise_source(seed), clock)
            with keeping(trace=lambda: trace):
                trace, findings = examined(trace, program.target)
                warn(findings)
            return trace

    def warm_up_and_draw(
        self, target: AbstractTarget, program: Program, x: Array, source: NoiseSource, clock: float
    ) -> Trace:
        """Run without shards, and without the diagnosis."""
        settings: dict[str, Any] = {"checkpoint": self.checkpoint, "progress": self.progress}
        settings |= {"until": self.until, "clock": clock}
        inside = self.kernel.tuning_inside
        path = TunedPath.of(inside) if isinstance(inside, AdaptedKernel) else None
        if path is not None:
            program = replace(program, recorders=check_recorders((*program.recorders, path)))
        warmed = warm_up(target, program, x, source, self.warmup, **settings)
        if warmed.trace is not None:
            return warmed.trace
        program, carry, processes = warmed.program, warmed.carry, Processes.of(x)
        check_limits(program, carry, source, program.schedule.draws if self.store is None else 0)
        about = warmed.described(metadata(program, x, source))
        if processes is None:
            about["diagnosis"] |= self.digits
            warn([say_precision(carry.state, self.burn_in, about["diagnosis"])])
        else:
            about["processes"] = {"count": processes.count, "here": processes.here}
        if self.checkpoint is not None:
            from xpsample.sampling.identity import identity

            settings["identity"] = identity(target, program, carry.state.point.x, source)
        if self.store is not None:
            from xpsample.sampling.store import RowStore

            settings["store"] = RowStore(self.store)
        try:
            trace = run_program(program, carry, source, about, callbacks=self.callbacks, **settings)
        except BaseException as error:
            if isinstance(kept := getattr(error, "trace", None), Trace):
                keep(error, trace=_with_path(kept, warmed.path, path))
            raise
        return _with_path(trace, warmed.path, path)

    def _check_score(self) -> None:
        """Raise unless the score is the gradient of the log density."""
        from xpsample.targets.check import check_gradient
        from xpsample.targets.model import Model

        own = self.target.target if isinstance(self.target, Model) else self.target
        if not isinstance(own, Target):
            raise XpsampleError(
                "check=True compares the score of a Target with its density; this target is made of one"
            )
        if not self.kernel.requires & (Capability.SCORE | Capability.HVP):
            raise CapabilityError(
                f"check=True compares the score with the log density, and {type(self.kernel).__name__} uses no score: "
                "omit check"
            )
        check_gradient(own, self.positions)


def _same_form(one: tree.Tree, other: tree.Tree) -> bool:
    """Return whether two trees have the same structure, and arrays of the same library, device, dtype and shape."""
    here, there = dict(tree.items(one)), dict(tree.items(other))
    return here.keys() == there.keys() and all(_form(leaf) == _form(there[path]) for path, leaf in here.items())


def _form(leaf: Any) -> Any:
    """Library, devices, dtype and shape of an array; the type of another leaf, and its value."""
    if is_array(leaf):
        return backend_of(leaf).name, backend_of(leaf).devices(leaf), leaf.dtype, tuple(leaf.shape)
    return type(leaf), leaf


def _with_path(trace: Trace, warmed: dict[str, Array] | None, recorder: TunedPath | None) -> Trace:
    """Add the path of the tuned hyperparameters to a trace, from its warm-up or its own steps."""
    if warmed is None and recorder is None:
        return trace
    recorded = dict(trace.recorded)
    return replace(trace, warmup=warmed if recorder is None else recorded.pop(recorder.name), recorded=recorded)


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
    checkpoint: "str | Path | Checkpoint | None" = None,
    until: "Until | None" = None,
    progress: bool | None = None,
    check: bool = False,
    compile: bool = False,
    shards: int | None = None,
    executor: "Executor | None" = None,
    callbacks: Sequence[Callback] = (),
) -> Trace:
    """Run a kernel, record its draws, and warn about problems of the run.

    Parameters
    ----------
    target : AbstractTarget
        What to sample: a `Target`, `Model`, `Parametric` or `Tempered`.
    kernel : Kernel
        Kernel to run. Its unset hyperparameters are tuned in a warm-up, pooled over the chains of the last axis; each
        index of the other axes is a group of chains that is tuned separately.
    x0 : array, shape (*chains, dim), or mapping
        Start positions. They decide the library, dtype and device of everything. Leading axes are independent chains.
        Those of a `Model` may be values by name, each ``(*chains, *shape)``; those on ``Real(channels, height, width)``
        are images, ``(*chains, channels, height, width)``.
    draws : int
        Rows to keep of every chain; ``burn_in + draws * thinning`` steps are made.
    seed : int or NoiseSource
        An integer for the library's own generator, or `Native`, `Portable`, `Replay`.
    warmup : int, optional
        Steps that tune the kernel, made first and discarded. By default 0 if every hyperparameter is set, otherwise
        ``100 + 800 / sqrt(chains)``, since chains of a group share their adaptation, and more while chains are in
        their transient phase or lag behind. For `AIS` they are the pilot's steps; `TemperedSMC` and `SOSMC` tune at
        every step and have no warm-up.
    burn_in : int
        Steps discarded after the warm-up.
    thinning : int
        Steps per kept row.
    recorders : sequence of Recorder
        What to keep. With `Moments` or `BatchMeans` alone, memory does not grow with the length of the run.
    checkpoint : path or Checkpoint, optional
        Directory in which the run is saved. Repeating the same call resumes the run where it stopped, or extends a
        finished run if `draws` is larger. The result equals an uninterrupted run bit for bit. When `draws` is
        smaller, the first ones are returned, without a state, and with `run_statistics` of all steps that were made.
        A checkpoint of another run is refused. One process at a time may use a directory.
    until : Until, optional
        When the run may stop before all draws are made: ``Until(ess=400, rhat=1.01, seconds=600)``. `draws` is then the
        most. With `shards` it needs a checkpoint.
    progress : bool, optional
        Show a progress bar (tqdm), with the acceptance and the divergences of each group. By default, if tqdm is
        installed, in a terminal or a notebook; without a bar, a long run reports its progress once, after 30 s.
    check : bool
        Compare the target's score with finite differences of its log density before the first step.
    compile : bool
        Compile the step, by ``torch.compile``, for torch arrays. JAX arrays always run compiled, NumPy and CuPy
        arrays never.
    shards : int, optional
        Number of parts into which the first chain axis is split. Each is a separate run with its own noise and
        warm-up; the trace has all chains, and no tuned kernel. The draws depend on the number of shards, and on
        nothing about the workers.
    executor : concurrent.futures.Executor, optional
        Executor whose workers run the shards: a process pool, or one of loky, dask (``client.get_executor()``) or
        mpi4py. Without one, the shards run here, one after another. If a worker is lost, the call ends with a
        `WorkerError`; with a checkpoint, the same call with a new executor resumes.
    callbacks : sequence of Callback, optional
        Objects with methods ``on_start(run)``, ``on_block(run)`` and ``on_end(run)``, which are called before the first
        step after the warm-up, after each block of steps, and at the end. ``run.step`` of ``run.steps`` steps are made,
        and ``run.trace`` is the trace of their draws. A text that `on_start` or `on_block` returns ends the run, and
        becomes ``trace.metadata["ended"]``. Not with `shards`.

    Returns
    -------
    Trace

    Raises
    ------
    XpsampleError
        Before the first step, if anything does not fit together. The message says what would.
    Interrupted
        On Ctrl-C or SIGTERM, after the current block of steps. Like any other error after the first draw, and a
        `DiagnosisWarning` that a filter raises as an error, it has an attribute ``trace`` with the draws so far.
    WorkerError
        If an executor breaks because a worker died. With a checkpoint, the same call with a new executor resumes.

    Warns
    -----
    DiagnosisWarning
        At the end, with a line for each finding of `Trace.diagnose`: a `DivergenceWarning` of divergences, a
        `RepellenceWarning` of a tilt that is too strong, a `ConvergenceWarning` of all else. A run without recorded
        draws is judged by its statistics, and by `Moments` and `BatchMeans` if it has them. One of fewer than ten draws
        says nothing of how its chains have mixed.

    See Also
    --------
    Sampler : The prepared run, for many fits of one model.
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
    sampler = Sampler(
        target,
        kernel,
        x0,
        draws,
        warmup=warmup,
        burn_in=burn_in,
        thinning=thinning,
        recorders=recorders,
        checkpoint=checkpoint,
        until=until,
        progress=progress,
        check=check,
        compile=compile,
        shards=shards,
        executor=executor,
        callbacks=callbacks,
    )
    return sampler(seed)
