"""Runs whose chains are cut into shards: the same result whatever the workers, and errors that say what to do."""

import os
import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from xpsample.sampling.parallel import Shard, cut
from xpsample.sampling.whole import Whole
from xpsample.sampling.workers import _work
from xpsample.srmc.diagnostics import Repellence
from xpsample.trace.recorders import Recorder

X0 = np.random.default_rng(0).normal(size=(7, 2))
CALLS = []


def processes(workers: int) -> ProcessPoolExecutor:
    """A pool of processes that are begun anew: a fork would copy the threads of libraries."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def log_density(x):
    return -0.5 * (x**2).sum(-1)


def score(x):
    return -x


def dying_once(mark: Path, x):
    """A score whose process ends, once, in the shard whose chains start above 10."""
    if (x[..., 0] > 5).all() and not mark.exists():
        mark.touch()
        os._exit(1)
    return -x


TARGET = xps.Target(log_density, score=score)
run = partial(xps.sample, TARGET, xps.HMC(), X0, 60, seed=1, warmup=30, shards=3)


class Backwards(Executor):
    """Runs what is submitted when a result is asked for, the last first: another order than any pool's."""

    def __init__(self):
        self.waiting = []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.waiting.append((future, partial(fn, *args, **kwargs)))
        if len(self.waiting) == 3:
            for waiting, work in reversed(self.waiting):
                waiting.set_result(work())
        return future


def same(a, b):
    assert np.array_equal(a.draws, b.draws)
    assert all(np.array_equal(a.statistics[name], b.statistics[name]) for name in b.statistics)
    assert a.run_statistics.evaluations == b.run_statistics.evaluations
    assert all(np.array_equal(a.warmup[name], b.warmup[name]) for name in b.warmup)


@given(st.integers(1, 1000), st.data())
@settings(max_examples=50)
def test_chains_are_cut_evenly(chains, data):
    parts = cut(chains, data.draw(st.integers(1, chains)))
    assert [i for first, stop in parts for i in range(first, stop)] == list(range(chains))
    sizes = [stop - first for first, stop in parts]
    assert max(sizes) - min(sizes) <= 1


def test_each_shard_is_a_run_of_its_own():
    trace = run()
    assert trace.draws.shape == (60, 7, 2)
    assert trace.metadata["shards"] == 3
    assert repr(trace.kernel) == "<no kernel: each shard was tuned for itself>"
    scores = 0.0
    for i, (first, stop) in enumerate(((0, 3), (3, 5), (5, 7))):
        noise = derived(Native(1), f"shard-{i}-of-3")
        own = xps.sample(TARGET, xps.HMC(), X0[first:stop], 60, seed=noise, warmup=30)
        assert np.array_equal(trace.draws[:, first:stop], own.draws)
        assert np.array_equal(trace.statistics["energy"][:, first:stop], own.statistics["energy"])
        assert np.array_equal(trace.run_statistics.moved[first:stop], own.run_statistics.moved)
        assert np.array_equal(trace.warmup["HMC.step_size"][:, i], own.warmup["HMC.step_size"][:, 0])
        scores += (stop - first) / 7 * own.run_statistics.evaluations["score"]
    assert np.isclose(trace.run_statistics.evaluations["score"], scores, rtol=1e-12)


@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)]
)
def test_the_number_of_workers_changes_nothing(workers):
    with processes(workers) as pool:
        same(run(executor=pool), run())


def test_threads_and_their_order_change_nothing():
    with ThreadPoolExecutor(2) as pool:
        same(run(executor=pool), run())
    same(run(executor=Backwards()), run())


def test_a_default_warm_up_is_as_long_in_all_shards():
    trace = xps.sample(TARGET, xps.MALA(), X0, 20, seed=1, shards=3)  # of three, two and two chains
    assert trace.metadata["warmup"] == len(trace.warmup["MALA.step_size"]) == 666


def test_loky_sends_functions_by_value():
    loky = pytest.importorskip("loky")
    target = xps.Target(lambda x: -0.5 * (x**2).sum(-1), score=lambda x: -x)
    pool = loky.get_reusable_executor(2)
    same(xps.sample(target, xps.HMC(), X0, 60, seed=1, warmup=30, shards=3, executor=pool), run())
    pool.shutdown()


def test_functions_that_cannot_be_sent():
    target = xps.Target(lambda x: -0.5 * (x**2).sum(-1), score=lambda x: -x)
    with processes(1) as pool, pytest.raises(CapabilityError, match="define its functions in a module"):
        xps.sample(target, xps.MALA(0.5), X0, 10, seed=1, shards=2, executor=pool)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries_come_back(library):
    xp = pytest.importorskip({"torch": "torch", "jax": "jax.numpy"}[library])
    x0 = xp.asarray(X0.astype(np.float32))
    shared = partial(xps.sample, TARGET, xps.HMC(), x0, 40, seed=xps.Portable(1), warmup=20, shards=2)
    with processes(2) as pool:
        trace = shared(executor=pool)
    assert type(trace.draws) is type(x0)
    assert trace.draws.dtype == x0.dtype
    here = shared()
    assert np.array_equal(np.asarray(trace.draws), np.asarray(here.draws))
    assert trace.draws.shape == (40, 7, 2)


def test_a_worker_of_other_settings_is_noticed():
    shard = Shard(Whole(TARGET, xps.MALA(0.5), X0.astype(np.float32), 10, 1, None, 0, 1, (), False), "float64")
    with pytest.raises(BackendError, match="arrived at the worker as float32"):
        shard()


# ---- sweeps, islands, kernels ------------------------------------------------------------------------------


def test_a_sweep_is_cut_between_its_settings():
    x0 = np.random.default_rng(1).normal(size=(4, 5, 2))
    step = np.asarray([0.1, 0.2, 0.3, 0.4])[:, None]
    theta = np.random.default_rng(2).normal(size=(4, 5, 2))
    mass = np.random.default_rng(3).uniform(0.5, 2.0, size=(4, 1, 2))
    kernel = xps.SRMC(xps.HMC(step, 3, mass=mass), alpha=step, theta=theta)
    trace = xps.sample(TARGET, kernel, x0, 30, seed=1, shards=2)
    part = slice(2, 4)
    half = xps.SRMC(xps.HMC(step[part], 3, mass=mass[part]), alpha=step[part], theta=theta[part])
    own = xps.sample(TARGET, half, x0[part], 30, seed=derived(Native(1), "shard-1-of-2"))
    assert np.array_equal(trace.draws[:, part], own.draws)
    assert trace.kernel is kernel  # nothing was tuned


def test_a_matrix_as_large_as_the_chains_are_many_is_not_cut():
    x0, mass = np.random.default_rng(1).normal(size=(2, 2)), np.asarray([[1.0, 0.5], [0.5, 1.0]])
    trace = xps.sample(TARGET, xps.HMC(0.3, 3, mass=mass), x0, 30, seed=1, shards=2)
    own = xps.sample(TARGET, xps.HMC(0.3, 3, mass=mass), x0[1:], 30, seed=derived(Native(1), "shard-1-of-2"))
    assert np.array_equal(trace.draws[:, 1:], own.draws)


def test_islands_of_particles():
    wide = xps.Target(lambda x: -0.05 * (x**2).sum(-1), score=lambda x: -0.1 * x)
    bridge, kernel = xps.Bridge(wide, TARGET), xps.TemperedSMC(xps.RWM(), [0.0, 0.3, 1.0], moves=1)
    x0 = np.sqrt(10) * np.random.default_rng(1).normal(size=(4, 2000, 2))
    with pytest.raises(CapabilityError, match="TemperedSMC cannot be cut"):
        xps.sample(bridge, kernel, x0[0], 2, seed=1, shards=2)
    trace = xps.sample(bridge, kernel, x0, 2, seed=1, shards=2)
    assert trace.draws.shape == (2, 4, 2000, 2)
    found = [xps.particle_log_normalizer(state, np.log(20 * np.pi)).value for state in trace.state]
    # The standard errors are about 0.04: one of four is further away by chance once in 10^5 seeds.
    assert np.allclose(np.concatenate(found), np.log(2 * np.pi), atol=0.2)


def test_chains_of_annealed_importance_sampling_are_cut():
    """With the values that a pilot of all of them found, as the message of a kernel without them says."""
    wide = xps.Target(lambda x: -0.5 * (x**2).sum(-1) / 10, score=lambda x: -x / 10)
    bridge, betas = xps.Bridge(wide, TARGET), np.linspace(0.0, 1.0, 11)
    x0 = np.sqrt(10) * np.random.default_rng(1).normal(size=(200, 2))
    shared = partial(xps.sample, bridge, draws=1, burn_in=9)
    with pytest.raises(CapabilityError, match=r"run without shards first, and cut that of its trace\.kernel"):
        shared(xps.AIS(xps.MALA(), betas), x0=x0, seed=1, shards=2)
    kernel = shared(xps.AIS(xps.MALA(), betas), x0=x0, seed=1).kernel
    trace = shared(kernel, x0=x0, seed=1, shards=2)
    own = shared(kernel, x0=x0[100:], seed=derived(Native(1), "shard-1-of-2"))
    assert np.array_equal(trace.state[1].log_weight, own.state.log_weight)
    found = xps.log_normalizer(np.concatenate([state.log_weight for state in trace.state]), np.log(20 * np.pi))
    assert abs(found.value - np.log(2 * np.pi)) < 5 * found.standard_error


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


def test_a_cycle_is_searched_for_in_each_shard():
    b = np.array([1.0, -1.0])
    target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    trace = xps.sample(target, xps.ACS(), np.zeros((8, 2)), 50, seed=1, shards=2)
    assert trace.warmup["ACS.cycle"].shape == (trace.metadata["warmup"], 2, 2)  # shards, and the ends of the cycle


def test_chains_that_repel_each_other_are_not_cut():
    with pytest.raises(CapabilityError, match=r"SRLD cannot be cut, since its chains depend on each other"):
        xps.sample(TARGET, xps.SRLD(xps.ULA(0.1), 1.0, shared=True), X0, 10, seed=1, shards=2)
    xps.sample(TARGET, xps.SRLD(xps.ULA(0.1), 1.0), X0, 10, seed=1, shards=2)


def test_results_of_recorders():
    recorders = [
        xps.Moments(),
        xps.BatchMeans(5),
        xps.Record("square", lambda state: state.point.x**2),
        xps.Record("mean", lambda state: {"of": state.point.x.mean(0)}),
    ]
    shared = partial(xps.sample, TARGET, xps.MALA(0.5), seed=1, recorders=recorders)
    trace = shared(X0[:4], 30, shards=2)  # two chains in a shard, as many as coordinates
    found = trace.recorded
    assert found["moments"].mean.shape == (4, 2)
    assert found["moments"].count == 30
    assert found["batch_means"].mcse.shape == (4, 2)
    assert found["square"].shape == (30, 4, 2)
    assert found["mean"]["of"].shape == (2, 30, 2)  # of each shard
    own = shared(X0[2:4], 30, **{"seed": derived(Native(1), "shard-1-of-2")})
    assert np.array_equal(found["moments"].mean[2:], own.recorded["moments"].mean)
    assert np.array_equal(found["mean"]["of"][1], own.recorded["mean"]["of"])


@dataclass(frozen=True)
class Positions(Recorder):
    """Does not say where its chain axis is."""

    name: str = "positions"

    def init(self, target, state):
        return None

    def update(self, target, carry, state, info):
        return None, state.point.x

    def result(self, target, carry, rows):
        return rows


def test_nothing_is_taken_for_chains_because_it_is_as_long():
    pytest.importorskip("matplotlib")
    x0 = np.random.default_rng(1).normal(size=(4, 4))
    recorders = [xps.Record("mean", lambda state: state.point.x.mean(0)), Positions()]
    found = xps.sample(TARGET, xps.MALA(0.5), x0, 2, seed=1, shards=2, recorders=recorders).recorded
    assert found["mean"].shape == (2, 2, 4)  # four coordinates, and four chains
    assert found["positions"].shape == (2, 2, 2, 4)  # two draws, and two chains in a shard
    x0 = np.random.default_rng(1).normal(size=(4, 2))
    trace = xps.sample(TARGET, xps.HMC(mass=xps.DenseMetric()), x0, 5, seed=1, warmup=40, shards=2)
    path = trace.warmup
    assert path["HMC.mass"].shape == (40, 2, 2, 2)
    panel = trace.plot("warmup").axes[0]
    assert [len(line.get_xdata()) for line in panel.lines] == [40] * 8  # a line for each entry of each shard
    assert path["HMC.step_size"].shape == (40, 2)
    sweep = np.random.default_rng(1).normal(size=(4, 3, 2))
    kernel = xps.ParallelTempering(xps.RWM(), xps.Ladder(rungs=2))
    path = xps.sample(TARGET, kernel, sweep, 5, seed=1, warmup=40, shards=2).warmup
    assert path["ParallelTempering.betas"].shape == (40, 2, 2)  # two rungs, and two settings in a shard
    assert path["RWM.step_size"].shape == (40, 2, 2, 2, 1)
    assert path["scores"].shape == (40, 4, 3)


def test_a_shard_whose_warm_up_ended_on_the_way_says_so():
    x0 = np.concatenate([X0[:4], 1e5 + X0[4:]])  # the second shard is far out
    with pytest.warns(ConvergenceWarning, match="on their way when the warm-up ended"):
        trace = xps.sample(TARGET, xps.RWM(), x0, 20, seed=1, warmup=60, shards=2)
    assert "warmup" in {finding.kind for finding in trace.diagnose()}


# ---- workers that die, and runs that end early -------------------------------------------------------------


def starts() -> np.ndarray:
    x0 = X0.copy()
    x0[5:, 0] = 10 + np.abs(x0[5:, 0])
    return x0


@pytest.mark.slow
def test_a_lost_worker_is_replaced(tmp_path):
    mark, made = tmp_path / "died", []
    target = xps.Target(log_density, score=partial(dying_once, mark))
    shared = partial(xps.sample, target, xps.HMC(), starts(), 60, seed=1, warmup=30, shards=3)

    def pool():
        made.append(processes(2))
        return made[-1]

    trace = shared(executor=pool)
    assert mark.exists()
    assert len(made) == 2
    same(trace, shared())


def ending(folder: Path, x):
    """A score whose process is killed in the middle of a shard; and the next one is told to end."""
    if x.shape[0] == 2:
        CALLS.append(x)
    for number in (signal.SIGKILL, signal.SIGTERM):
        if len(CALLS) == 40 and not (folder / number.name).exists():
            (folder / number.name).touch()
            os.kill(os.getpid(), number)
            break
    return -x


@pytest.mark.slow
def test_workers_that_are_killed_or_told_to_end_are_replaced(tmp_path):
    target = xps.Target(log_density, score=partial(ending, tmp_path))
    shared = partial(xps.sample, target, xps.MALA(0.5), X0, 60, seed=1, shards=3)
    trace = shared(executor=partial(processes, 1), checkpoint=xps.Checkpoint(tmp_path / "run", every=0.0))
    assert (tmp_path / "SIGKILL").exists() and (tmp_path / "SIGTERM").exists()
    assert np.array_equal(trace.draws, shared().draws)


def test_sigterm_ends_a_worker_and_not_the_run(monkeypatch):
    def shard():
        raise Interrupted("told to end", by="SIGTERM")

    sent = []
    monkeypatch.setattr(signal, "raise_signal", sent.append)
    for caller, expected in ((os.getpid(), []), (os.getpid() + 1, [signal.SIGTERM])):
        with pytest.raises(Interrupted):
            _work(shard, caller)
        assert sent == expected


def test_a_broken_executor_is_waited_for_before_there_is_another():
    seen = []

    class Breaking(ThreadPoolExecutor):
        def __init__(self):
            seen.append("made")
            super().__init__(1)

        def submit(self, fn, /, *args, **kwargs):
            if seen.count("made") == 2:
                return super().submit(fn, *args, **kwargs)
            future = Future()
            future.set_exception(BrokenExecutor("a worker died"))
            return future

        def shutdown(self, wait=True, *, cancel_futures=False):
            seen.append("waited" if wait else "left")
            super().shutdown(wait, cancel_futures=cancel_futures)

    same(run(executor=Breaking), run())
    assert seen == ["made", "waited", "made", "left"]


def test_sigterm_of_all_processes_ends_the_run():
    """The workers may end first."""

    class Ended(Executor):
        def submit(self, fn, /, *args, **kwargs):
            signal.raise_signal(signal.SIGTERM)
            raise BrokenExecutor("the workers have ended")

    with pytest.raises(Interrupted, match="SIGTERM after 0 of 3 shards"):
        run(executor=Ended)


def test_an_executor_that_breaks_says_how_to_go_on(tmp_path):
    mark = tmp_path / "died"
    target = xps.Target(log_density, score=partial(dying_once, mark))
    shared = partial(xps.sample, target, xps.HMC(), starts(), 60, seed=1, warmup=30, shards=3)
    shared = partial(shared, checkpoint=tmp_path / "run")
    with (
        processes(1) as executor,
        pytest.raises(WorkerError, match="With a new executor the same call goes on") as caught,
    ):
        shared(executor=executor)
    assert isinstance(caught.value.__cause__, BrokenExecutor)
    with processes(2) as executor:
        trace = shared(executor=executor)
    same(trace, shared(checkpoint=None))


def test_the_bar_counts_shards(capsys):
    pytest.importorskip("tqdm")
    run(progress=True)
    assert "3/3" in capsys.readouterr().err


def test_shards_that_wait_are_cancelled_where_one_fails():
    futures = []

    class Failing(Executor):
        def submit(self, fn, /, *args, **kwargs):
            futures.append(Future())
            if len(futures) == 1:
                futures[0].set_exception(ZeroDivisionError("by zero"))
            return futures[-1]

    with pytest.raises(ZeroDivisionError):
        run(executor=Failing())
    assert [future.cancelled() for future in futures] == [False, True, True]


def test_workers_that_always_die_end_the_run():
    class Broken(Executor):
        def submit(self, fn, /, *args, **kwargs):
            raise BrokenExecutor("There are no workers.")

    with pytest.raises(WorkerError, match=r"lost after 0 of 3 shards \(There are no workers\)\. With"):
        run(executor=Broken)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_dask_workers_one_of_which_is_killed(tmp_path, workers):
    distributed = pytest.importorskip("distributed")
    mark = tmp_path / "died"
    target = xps.Target(log_density, score=partial(dying_once, mark))
    shared = partial(xps.sample, target, xps.HMC(), starts(), 60, seed=1, warmup=30, shards=5)
    cluster = distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path)
    with cluster, distributed.Client(cluster) as client:
        trace = shared(executor=client.get_executor(), checkpoint=tmp_path / "run")
    assert mark.exists()
    same(trace, shared())


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
    target = xps.Target(log_density, score=interrupting)
    with pytest.raises(Interrupted, match="Ctrl-C after 1 of 3 shards") as caught:
        xps.sample(target, xps.MALA(0.5), torch.asarray(X0), 60, seed=1, shards=3)
    trace = caught.value.trace
    assert isinstance(trace.draws, torch.Tensor) and trace.draws.shape == (60, 3, 2)
    assert trace.metadata["seed"] == {"source": "Native", "seed": 1} and trace.metadata["shards"] == 1


def test_a_run_goes_on_from_its_shards(tmp_path):
    first = run(checkpoint=tmp_path)
    more = xps.sample(TARGET, xps.HMC(), X0, 90, seed=1, warmup=30, shards=3, checkpoint=tmp_path)
    assert np.array_equal(more.draws[:60], first.draws)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"shard-{i}-of-3" for i in range(3)]
    assert np.array_equal(xps.load(tmp_path / "shard-1-of-3").draws, more.draws[:, 3:5])
    with pytest.raises(CheckpointError, match="cut in another way"):
        run(checkpoint=tmp_path, shards=2)
    with pytest.raises(CheckpointError, match="in shards"):
        xps.sample(TARGET, xps.HMC(), X0, 60, seed=1, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="in shards"):
        xps.load(tmp_path)
    xps.sample(TARGET, xps.MALA(0.5), X0, 60, seed=1, checkpoint=tmp_path / "plain")
    with pytest.raises(CheckpointError, match="not cut into shards"):
        run(checkpoint=tmp_path / "plain")


def test_an_error_says_of_which_chains_it_is():
    def failing(x):
        return np.where(x[..., 0] > 5, np.nan, -0.5 * (x**2).sum(-1))

    with pytest.raises(LogDensityError, match="not finite at the start positions"):  # of all chains, before any shard
        xps.sample(xps.Target(failing, score=score), xps.MALA(0.5), starts(), 10, seed=1, shards=3)

    def raising(x):
        if x.shape[0] == 2:
            raise ZeroDivisionError("by zero")
        return -x

    with pytest.raises(Exception, match="by zero") as caught:
        xps.sample(xps.Target(log_density, score=raising), xps.MALA(0.5), X0, 10, seed=1, shards=3)
    assert caught.value.__notes__[-1] == "This was in shard 1 of 3, of chains 3 to 4."


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"shards": None, "executor": ThreadPoolExecutor}, CapabilityError, "shards is missing"),
        ({"shards": 8}, HyperparameterError, "shards must be a positive integer and at most 7"),
        ({"shards": 0}, HyperparameterError, "shards must be a positive integer"),
        ({"executor": 3}, CapabilityError, "executor must be a concurrent.futures.Executor"),
        ({"executor": lambda: 3}, CapabilityError, "must make a concurrent.futures.Executor; got 3"),
        ({"until": xps.Until(ess=10)}, CapabilityError, "until= looks at all chains .* give a checkpoint"),
        ({"recorders": [xps.Draws(store="unused.zarr")]}, CapabilityError, "shards cannot share the store"),
        ({"seed": xps.Replay({})}, NoiseError, "each shard draws noise of its own"),
    ],
)
def test_what_does_not_fit_together(settings, error, message):
    with pytest.raises(error, match=message):
        run(**settings)


@pytest.mark.slow
def test_what_recorders_and_kernels_ask_for_is_asked_of_the_tuned_kernel():
    recorders = [xps.Draws(), Repellence(), xps.Record("theta", lambda state: state.theta)]
    trace = xps.sample(TARGET, xps.SRMC(xps.MALA()), X0, 50, seed=1, warmup=50, shards=3, recorders=recorders)
    assert trace.recorded["theta"].shape == (50, 7, 2)
    assert trace.recorded["repellence"].alpha.shape == (7,)
    with pytest.warns(RepellenceWarning, match="in 7 of 7 chains"):
        xps.sample(TARGET, xps.SRMC(xps.MALA(0.5)), X0, 50, seed=1, shards=3, recorders=[Repellence(limit=1e-6)])
    bridge = xps.Bridge(xps.Target(lambda x: -0.05 * (x**2).sum(-1), score=lambda x: -0.1 * x), TARGET)
    islands = np.random.default_rng(1).normal(size=(2, 10, 2))
    with pytest.raises(CapabilityError, match="each shard would have a pilot of its own"):
        xps.sample(bridge, xps.AIS(xps.RWM(), [0.0, 0.5, 1.0]), islands, 1, seed=1, shards=2)


def test_a_single_position_has_no_chains_to_cut():
    with pytest.raises(CapabilityError, match="x0 is a single position"):
        xps.sample(TARGET, xps.MALA(0.5), X0[0], 10, seed=1, shards=1)
