"""Sharded runs: the same result whatever the workers, and errors that say what to do."""

import os
import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import xpsample as xps
from xpsample.conformance.scenarios import scenarios
from xpsample.core.errors import (
    BackendError,
    CapabilityError,
    CheckpointError,
    ConvergenceWarning,
    HyperparameterError,
    Interrupted,
    LogDensityError,
    NoiseError,
    RepellenceWarning,
    WorkerError,
)
from xpsample.kernels.traits import Trait
from xpsample.sampling.noise import Native, derived
from xpsample.sampling.parallel import Shard
from xpsample.srmc.diagnostics import Repellence

X0 = np.random.default_rng(0).normal(size=(7, 2))
CALLS = []


def log_density(x):
    return -0.5 * (x**2).sum(-1)


def score(x):
    return -x


def stop_flag(by: signal.Signals, mark: Path, x):
    """A score whose process gets a signal, once, at the 40th step of a shard of two chains."""
    if x.shape[0] == 2:
        CALLS.append(x)
    if len(CALLS) == 40 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), by)
    return -x


TARGET = xps.Target(log_density, score=score)
WIDE = xps.Target(lambda x: -0.05 * (x**2).sum(-1), score=lambda x: -0.1 * x)
BRIDGE = xps.Bridge(WIDE, TARGET)  # the log of its normalizing constant is log(2 pi)
AIS = xps.AIS(xps.MALA(), np.linspace(0.0, 1.0, 11))
SMC = xps.TemperedSMC(xps.RWM(), [0.0, 0.3, 1.0], moves=1)
MALA = xps.MALA(0.5)


def run(target=TARGET, kernel=None, x0=X0, draws=60, **settings):
    """A run in three shards, with HMC and a warm-up where no kernel is given."""
    own = {"kernel": xps.HMC(), "warmup": 30} if kernel is None else {"kernel": kernel}
    return xps.sample(target, x0=x0, draws=draws, **{"seed": 1, "shards": 3, **own, **settings})


def of_shard(i, n, **settings):
    """What a shard is by itself."""
    return run(**settings, seed=derived(Native(1), f"shard-{i}-of-{n}"), shards=None)


def processes(workers: int) -> ProcessPoolExecutor:
    """A pool of processes that are begun anew: a fork would copy the threads of libraries."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def loky():
    return pytest.importorskip("loky").get_reusable_executor(2)


class Later(Executor):
    """Runs what is submitted when all of it is, the last first: another order than any pool's."""

    def __init__(self):
        self.waiting = []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.waiting.append((future, partial(fn, *args, **kwargs)))
        if len(self.waiting) == 3:
            self.work()
        return future

    def work(self):
        for future, work in reversed(self.waiting):
            future.set_result(work())


def same(a, b):
    assert np.array_equal(a.draws, b.draws)
    assert all(np.array_equal(a.statistics[name], b.statistics[name]) for name in b.statistics)
    assert a.run_statistics.evaluations == b.run_statistics.evaluations
    assert all(np.array_equal(a.warmup[name], b.warmup[name]) for name in b.warmup)


def test_each_shard_is_a_run_of_its_own():
    trace = run()
    assert trace.draws.shape == (60, 7, 2)
    assert trace.metadata["shards"] == 3
    assert repr(trace.kernel) == "<no kernel: each shard was tuned for itself>"
    scores = 0.0
    for i, (first, stop) in enumerate(((0, 3), (3, 5), (5, 7))):
        own = of_shard(i, 3, x0=X0[first:stop])
        assert np.array_equal(trace.draws[:, first:stop], own.draws)
        assert np.array_equal(trace.statistics["energy"][:, first:stop], own.statistics["energy"])
        assert np.array_equal(trace.run_statistics.moved[first:stop], own.run_statistics.moved)
        assert np.array_equal(trace.warmup["HMC.step_size"][:, i], own.warmup["HMC.step_size"])
        scores += (stop - first) / 7 * own.run_statistics.evaluations["score"]
    assert np.isclose(trace.run_statistics.evaluations["score"], scores, rtol=1e-12)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(partial(processes, 1), marks=pytest.mark.slow),
        partial(processes, 2),
        pytest.param(partial(processes, 5), marks=pytest.mark.slow),
        partial(ThreadPoolExecutor, 2),
        Later,
        loky,
    ],
    ids=["1 process", "2 processes", "5 processes", "threads", "another order", "loky"],
)
def test_the_workers_and_their_order_change_nothing(executor):
    by_value = xps.Target(lambda x: -0.5 * (x**2).sum(-1), score=lambda x: -x)
    with executor() as pool:
        same(run(by_value if executor is loky else TARGET, executor=pool), run())


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_arrays_of_other_libraries_come_back(library):
    x0 = pytest.importorskip(library).asarray(X0.astype(np.float32))
    with processes(2) as pool:
        trace, here = (run(x0=x0, seed=xps.Portable(1), executor=executor) for executor in (pool, None))
    assert type(trace.draws) is type(x0) and trace.draws.dtype == x0.dtype and trace.draws.shape == (60, 7, 2)
    assert np.array_equal(np.asarray(trace.draws), np.asarray(here.draws))


def test_a_worker_of_other_settings_is_noticed():
    arguments = xps.Sampler(TARGET, MALA, X0.astype(np.float32), 10).arguments
    with pytest.raises(BackendError, match="received the float64 positions as float32"):
        Shard(xps.Sampler, arguments, Native(1), "float64")()


# ---- kernels and what is joined ----------------------------------------------------------------------------


def of_settings(part):
    """Hyperparameters of four settings, or of a part of them."""
    rng, step = np.random.default_rng(2), np.asarray([0.1, 0.2, 0.3, 0.4])[:, None]
    theta, mass = rng.normal(size=(4, 5, 2)), rng.uniform(0.5, 2.0, size=(4, 1, 2))
    return xps.SRMC(xps.HMC(step[part], 3, mass=mass[part]), alpha=step[part], theta=theta[part])


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [(of_settings, (4, 5, 2)), (lambda part: xps.HMC(0.3, 3, mass=np.asarray([[1.0, 0.5], [0.5, 1.0]])), (2, 2))],
    ids=["a sweep is split between its settings", "a matrix as large as the chains are many is not"],
)
def test_hyperparameters_are_split_with_the_chains(kernel, shape):
    x0, part, every = np.random.default_rng(1).normal(size=shape), slice(shape[0] // 2, None), kernel(slice(None))
    trace = run(TARGET, every, x0, shards=2)
    assert np.array_equal(trace.draws[:, part], of_shard(1, 2, kernel=kernel(part), x0=x0[part]).draws)
    assert trace.kernel is every  # nothing was tuned


def test_islands_of_particles():
    trace = run(BRIDGE, SMC, np.sqrt(10) * np.random.default_rng(1).normal(size=(4, 2000, 2)), 2, shards=2)
    assert trace.draws.shape == (2, 4, 2000, 2)
    found = [xps.particle_log_normalizer(state, np.log(20 * np.pi)).value for state in trace.state]
    # The standard errors are about 0.04: one of four is further away by chance once in 10^5 seeds.
    assert np.allclose(np.concatenate(found), np.log(2 * np.pi), atol=0.2)


def test_annealed_importance_sampling_with_the_values_of_a_pilot():
    x0 = np.sqrt(10) * np.random.default_rng(1).normal(size=(200, 2))
    kernel = run(BRIDGE, AIS, x0, 1, burn_in=9, shards=None).kernel
    trace = run(BRIDGE, kernel, x0, 1, burn_in=9, shards=2)
    own = of_shard(1, 2, target=BRIDGE, kernel=kernel, x0=x0[100:], draws=1, burn_in=9)
    assert np.array_equal(trace.state[1].log_weight, own.state.log_weight)


@pytest.mark.parametrize(
    "scenario",
    [s for s in scenarios() if not s.libraries and Trait.SEPARATE in s.kernel(np.asarray).traits],
    ids=lambda scenario: scenario.name,
)
def test_chains_of_kernels_that_say_so_are_separate(scenario):
    """Another start of the last chain changes nothing of the first ones."""
    x0 = scenario.stationary.draw(np.random.default_rng(3), 4)
    other = np.concatenate([x0[:3], x0[:1]])
    target, kernel = scenario.target(np.asarray), scenario.kernel(np.asarray)
    first, second = (xps.sample(target, kernel, x, 6, seed=1, progress=False).draws for x in (x0, other))
    assert np.array_equal(first[:, :3], second[:, :3])
    assert not np.array_equal(x0, other)


@dataclass(frozen=True)
class Positions(xps.Draws):
    """Does not say where its chain axis is."""

    name: str = "positions"
    chain_axis: ClassVar[int | None] = None


def test_results_of_recorders():
    recorders = [
        xps.Moments(),
        xps.BatchMeans(5),
        xps.Record("square", lambda state: state.point.x**2),
        xps.Record("mean", lambda state: {"of": state.point.x.mean(0)}),
        Positions(),
    ]
    x0 = np.random.default_rng(1).normal(size=(4, 2))  # two chains in a shard, as many as coordinates
    found = run(TARGET, MALA, x0, shards=2, recorders=recorders).recorded
    own = of_shard(1, 2, kernel=MALA, x0=x0[2:], recorders=recorders).recorded
    assert found["moments"].count == 60 and found["batch_means"].mcse.shape == (4, 2)
    assert np.array_equal(found["moments"].mean[2:], own["moments"].mean)
    assert np.array_equal(found["square"][:, 2:], own["square"])
    for parts, part in ((found["mean"]["of"], own["mean"]["of"]), (found["positions"], own["positions"])):
        assert len(parts) == 2 and np.array_equal(parts[1], part)  # of each shard
    wide = run(TARGET, MALA, np.tile(x0, 2), shards=2, recorders=recorders[3:4])
    assert wide.recorded["mean"]["of"].shape == (2, 60, 4)


@pytest.mark.slow
def test_what_recorders_and_kernels_ask_for_is_asked_of_the_tuned_kernel():
    recorders = [xps.Draws(), Repellence(), xps.Record("theta", lambda state: state.theta)]
    trace = run(TARGET, xps.SRMC(xps.MALA()), warmup=50, recorders=recorders)
    assert trace.recorded["theta"].shape == (60, 7, 2)
    assert trace.recorded["repellence"].alpha.shape == (7,)
    with pytest.warns(RepellenceWarning, match="in 7 of 7 chains"):
        run(TARGET, xps.SRMC(MALA), recorders=[Repellence(limit=1e-6)])


@pytest.mark.slow
def test_the_path_of_the_warm_up():
    pytest.importorskip("matplotlib")
    trace = run(TARGET, xps.MALA(), draws=20)  # of three, two and two chains
    assert trace.metadata["warmup"] == len(trace.warmup["MALA.step_size"]) == 666
    trace = run(TARGET, xps.HMC(mass=xps.DenseMetric()), X0[:4], 5, warmup=40, shards=2)
    assert trace.warmup["HMC.mass"].shape == (40, 2, 2, 2)  # steps, shards, and a matrix as large as a shard
    panel = trace.plot("warmup").axes[0]
    assert [len(line.get_xdata()) for line in panel.lines] == [40] * 8  # a line for each entry of each shard


@pytest.mark.parametrize("settings", [4, 5])
def test_the_path_of_a_sweep_of_ladders(settings):
    """With as many rungs as a shard has settings."""
    kernel, sweep = xps.ParallelTempering(xps.RWM(), xps.Ladder(rungs=2)), np.ones((settings, 3, 2))
    shapes = {name: rows.shape for name, rows in run(TARGET, kernel, sweep, 5, warmup=40, shards=2).warmup.items()}
    assert shapes["ParallelTempering.betas"] == (40, 2, 2)  # steps, shards, rungs
    assert shapes["RWM.step_size"] == (40, 2, settings, 1) and shapes["scores"] == (40, settings, 3)


def test_a_shard_whose_warm_up_ended_on_the_way_says_so():
    x0 = np.concatenate([X0[:4], 1e5 + X0[4:]])  # the second shard is far out
    with pytest.warns(ConvergenceWarning, match="in their transient phase when the warm-up ended"):
        trace = run(TARGET, xps.RWM(), x0, 20, warmup=60, shards=2)
    assert "warmup" in {finding.kind for finding in trace.diagnose()}


# ---- workers that are lost, and runs that end early --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_lost_worker_ends_the_call_and_the_same_call_resumes(tmp_path, by):
    target = xps.Target(log_density, score=partial(stop_flag, by, tmp_path / "lost"))
    saved = xps.Checkpoint(tmp_path / "run", every=0.0 if by is signal.SIGKILL else 1e9)
    expected = r"lost after 1 of 3 shards .*\. With a new executor, the same call resumes\.\n"
    with processes(1) as pool, pytest.raises(WorkerError, match=expected) as caught:
        run(target, MALA, executor=pool, checkpoint=saved)
    assert isinstance(caught.value.__cause__, BrokenExecutor)
    if by is signal.SIGTERM:  # the worker saved its shard before it ended
        assert len(xps.load(tmp_path / "run" / "shard-1-of-3").draws) > 0
    with processes(2) as pool:
        trace = run(target, MALA, executor=pool, checkpoint=saved)
    assert np.array_equal(trace.draws, run(target, MALA).draws)


@pytest.mark.slow
def test_dask_workers_one_of_which_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    target = xps.Target(log_density, score=partial(stop_flag, signal.SIGKILL, tmp_path / "lost"))
    cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path)
    with cluster, distributed.Client(cluster) as client:
        trace = run(target, executor=client.get_executor(), checkpoint=tmp_path / "run")
    assert (tmp_path / "lost").exists()
    same(trace, run(target))


@pytest.mark.parametrize("error", [None, BrokenExecutor("the workers ended first")], ids=["waiting", "broken"])
def test_sigterm_ends_the_call(error):
    """Also where it reaches the workers, too. It keeps the shards that are finished, and cancels the others."""

    class Told(Later):
        def work(self):
            (first, work), (second, _), _ = self.waiting
            first.set_result(work())
            signal.raise_signal(signal.SIGTERM)
            if error is not None:
                second.set_exception(error)

    pool = Told()
    with pytest.raises(Interrupted, match=r"SIGTERM after [01] of 3 shards.* starts again; with checkpoint=") as caught:
        run(executor=pool)
    if error is None:
        assert caught.value.trace.draws.shape == (60, 3, 2)
    assert pool.waiting[2][0].cancelled()


def test_shards_that_wait_are_cancelled_where_one_fails():
    class Failing(Later):
        def work(self):
            self.waiting[0][0].set_exception(ZeroDivisionError("by zero"))

    pool = Failing()
    with pytest.raises(ZeroDivisionError):
        run(executor=pool)
    assert [future.cancelled() for future, _ in pool.waiting] == [False, True, True]


def test_workers_that_never_work():
    class Broken(Executor):
        def submit(self, fn, /, *args, **kwargs):
            raise BrokenExecutor("There are no workers.")

    with pytest.raises(WorkerError, match=r"0 of 3 shards \(There are no workers\)\..* put them into a module\.\n"):
        run(executor=Broken())


@pytest.mark.parametrize("step", [1, 40])
def test_ctrl_c_keeps_the_shards_that_are_finished(step):
    """In the middle of a shard, and before its first step."""
    seen = []

    def interrupting(x):
        if not np.array_equal(x.shape, (7, 2)):
            seen.append(x.shape[0])
        if seen.count(2) == step:
            signal.raise_signal(signal.SIGINT)
        return -x

    torch = pytest.importorskip("torch")
    with pytest.raises(Interrupted, match="Ctrl-C after 1 of 3 shards, whose chains are in") as caught:
        run(xps.Target(log_density, score=interrupting), MALA, torch.asarray(X0))
    trace = caught.value.trace
    assert isinstance(trace.draws, torch.Tensor) and trace.draws.shape == (60, 3, 2)
    assert trace.metadata["seed"] == {"source": "Native", "seed": 1} and trace.metadata["shards"] == 1


def test_a_run_resumes_from_its_shards(tmp_path):
    first, more = (run(draws=draws, checkpoint=tmp_path) for draws in (60, 90))
    assert np.array_equal(more.draws[:60], first.draws)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"shard-{i}-of-3" for i in range(3)]
    assert np.array_equal(xps.load(tmp_path / "shard-1-of-3").draws, more.draws[:, 3:5])
    run(TARGET, MALA, checkpoint=tmp_path / "plain", shards=None)
    for refused, message in (
        (partial(run, checkpoint=tmp_path, shards=2), "another number of shards"),
        (partial(run, checkpoint=tmp_path, shards=None), "in shards"),
        (partial(xps.load, tmp_path), "in shards"),
        (partial(run, checkpoint=tmp_path / "plain"), "a run without shards"),
    ):
        with pytest.raises(CheckpointError, match=message):
            refused()


# ---- messages ----------------------------------------------------------------------------------------------


def test_the_bar_counts_shards(capsys):
    pytest.importorskip("tqdm")
    run(progress=True)
    assert "3/3" in capsys.readouterr().err


def test_functions_that_cannot_be_sent():
    target = xps.Target(lambda x: -0.5 * (x**2).sum(-1), score=lambda x: -x)
    with processes(1) as pool, pytest.raises(CapabilityError, match=r"cannot be pickled .* Define functions in a mod"):
        run(target, MALA, executor=pool)


def test_an_error_says_of_which_chains_it_is():
    def failing(x):
        return np.where(np.arange(len(x)) == 5, np.nan, log_density(x))

    with pytest.raises(LogDensityError, match="not finite at the start positions"):  # of all chains, before any shard
        run(xps.Target(failing, score=score), MALA)

    def raising(x):
        if x.shape[0] == 2:
            raise ZeroDivisionError("by zero")
        return -x

    with pytest.raises(Exception, match="by zero") as caught:
        run(xps.Target(log_density, score=raising), MALA)
    assert caught.value.__notes__[-1] == "This was in shard 1 of 3, of chains 3 to 4."


POOL, SHARED = ThreadPoolExecutor(1), xps.SRLD(xps.ULA(0.1), 1.0, shared=True)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"shards": None, "executor": POOL}, CapabilityError, "executor= needs shards="),
        ({"shards": 8}, HyperparameterError, "shards must be a positive integer and at most 7"),
        ({"shards": 0}, HyperparameterError, "shards must be a positive integer"),
        ({"executor": 3}, HyperparameterError, "a concurrent.futures.Executor, .*; got 3"),
        ({"executor": ThreadPoolExecutor}, HyperparameterError, "got the class ThreadPoolExecutor"),
        ({"executor": lambda: POOL}, HyperparameterError, "a concurrent.futures.Executor, .*; got <function"),
        ({"until": xps.Until(ess=10)}, CapabilityError, "until= does not work with shards=.* larger draws="),
        ({"recorders": [xps.Draws(store="unused.zarr")]}, CapabilityError, "shards cannot share Draws"),
        ({"seed": xps.Replay({})}, NoiseError, "each shard draws its own noise. Pass a seed"),
        ({"x0": X0[0]}, CapabilityError, "x0 is a single position"),
        ({"kernel": SHARED}, CapabilityError, "SRLD cannot be split .* depend on"),
        ({"target": BRIDGE, "kernel": SMC}, CapabilityError, "TemperedSMC cannot be split"),
        ({"target": BRIDGE, "kernel": AIS}, CapabilityError, r"Run without shards first and use its trace\.kernel"),
    ],
)
def test_what_does_not_fit_together(settings, error, message):
    with pytest.raises(error, match=message):
        run(**settings)
