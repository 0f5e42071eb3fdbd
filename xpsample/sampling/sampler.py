"""Runs: `sample` for a whole one. The loop itself is the engine's (`xpsample.sampling.loop`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag
from xpsample.core.devices import current_device
from xpsample.kernels.kernel import Kernel
from xpsample.sampling.asked import check_asked
from xpsample.sampling.loop import Watcher
from xpsample.sampling.noise import NoiseSource
from xpsample.sampling.prepare import positions
from xpsample.sampling.probes import examined
from xpsample.sampling.until import Until
from xpsample.sampling.whole import Whole
from xpsample.targets.target import AbstractTarget
from xpsample.trace.diagnosis import warn
from xpsample.trace.recorders import Draws, Recorder, Statistics
from xpsample.trace.trace import Trace

if TYPE_CHECKING:  # which import what few runs need
    from concurrent.futures import Executor

    from xpsample.sampling.checkpoint import Checkpoint


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
    until: Until | None = None,
    progress: bool | None = None,
    check: bool = False,
    compile: bool = False,
    shards: int | None = None,
    executor: "Executor | None" = None,
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
        on their way to where they stay, or some are behind. Of `AIS` they are the pilot's;
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
        most. Not with `shards`.
    progress : bool, optional
        Show a progress bar (tqdm), with the acceptance and the divergences of each group. By default, if tqdm is
        installed, in a terminal or a notebook; without one a long run says once, after 30 s, how far it is.
    check : bool
        Compare the target's score with finite differences of its log density before the first step.
    compile : bool
        Compile the step, by ``torch.compile``, for torch arrays. JAX arrays always run compiled, NumPy and CuPy
        arrays never.
    shards : int, optional
        Cut the first chain axis into so many parts. Each is a run of its own, with noise and a warm-up of its own; the
        trace has all chains, and no tuned kernel. The draws depend on the number of shards, and on nothing about
        the workers.
    executor : concurrent.futures.Executor, optional
        Executor whose workers run the shards: a process pool, or one of loky, dask (``client.get_executor()``) or
        mpi4py. Without one, the shards run here, one after another. If a worker is lost, the call ends with a
        `WorkerError`; with a checkpoint, the same call with a new executor resumes.
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
        If a worker is lost. With a checkpoint, the same call with a new executor resumes.

    Warns
    -----
    DiagnosisWarning
        At the end, with a line for each finding of `Trace.diagnose`: a `DivergenceWarning` of divergences, a
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
    x0, cut = positions(target, x0), shards is not None or executor is not None
    with current_device(x0):
        check_flag("check", check)
        watchers = check_asked(x0, recorders, until, progress, compile, watchers, cut)
        if check:
            from xpsample.sampling.checked import check_score

            check_score(target, kernel, x0)
        made = (draws, seed, warmup, burn_in, thinning, recorders, compile)
        whole = Whole(target, kernel, x0, *made, checkpoint, until, progress, watchers)
        if cut:
            from xpsample.sampling.parallel import run_shards  # which imports multiprocessing

            trace = run_shards(whole, shards, executor)
        else:
            trace = whole.trace()
        trace, findings = examined(trace, target.space, lambda: target.prepare(x0, kernel.requires))
        warn(findings)
        return trace
