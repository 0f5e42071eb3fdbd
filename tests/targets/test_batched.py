"""Functions of one position whose evaluations are made by the workers of an executor."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, FunctionError, HyperparameterError, LogDensityError, WorkerError

X0 = np.random.default_rng(0).normal(size=(8, 2))


def normal(x):
    return -0.5 * float(x @ x)


def of_names(p):
    return -0.5 * float(p.mu @ p.mu) - float(p.tau)


def positive(x):
    if x[0] < 0:
        raise ValueError("a negative rate")
    return -float(np.sum(x * x))


def ends(x):
    if x[0] > 100:
        os._exit(1)
    return 0.0


def waits(x):
    time.sleep(0.02 * (x[0] < 0))
    return float(x[0])


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as made:  # after torch and JAX no process is forked
        yield made


def run(f, **settings):
    return xps.sample(xps.Target(xps.batched(f, **settings)), xps.Ensemble(), X0, 20, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [xps.Ensemble(), xps.RWM(1.0), xps.Slice(1.0)], ids=["Ensemble", "RWM", "Slice"])
def test_workers_change_nothing(pool, kernel):
    """For functions of positions and of parameters by name."""

    def draws(executor):
        target = xps.Target(xps.batched(normal, executor=executor))
        model = xps.Model(xps.batched(of_names, executor=executor), mu=xps.Real(2), tau=xps.Positive())
        x0 = model.start(like=np.zeros(0), chains=8, seed=0)
        return [xps.sample(*pair, 20, seed=1).draws for pair in ((target, kernel, X0), (model, kernel, x0))]

    for parallel, alone in zip(draws(pool), draws(None), strict=True):
        assert np.array_equal(parallel, alone)


def test_results_are_in_order():
    with ThreadPoolExecutor(8) as threads:
        np.testing.assert_array_equal(xps.batched(waits, executor=threads)(X0), X0[:, 0])


def test_exceptions_at_some_start_positions_are_no_mistake():
    """As where a prior reaches further than a simulator; what fails everywhere is told."""
    x0, rejecting = np.linspace(-1.0, 2.0, 8)[:, None], xps.batched(positive, rejects=ValueError)
    prior = xps.Target(lambda x: -0.5 * np.sum((x - 1) ** 2, axis=-1))
    bridge = xps.Bridge(prior, xps.Target(rejecting, constrained=True))
    trace = xps.sample(bridge, xps.TemperedSMC(xps.RWM(0.5), [0, 1], moves=1), x0, 1, seed=1)
    assert np.isfinite(trace.state.weights.log_normalizer)
    for start, message in ((x0, r"not finite at the start .* \(0,\): -inf"), (-1 - x0**2, "a negative rate")):
        with pytest.raises(LogDensityError, match=message):
            xps.sample(xps.Target(rejecting), xps.RWM(0.5), start, 5, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [True, False])
def test_an_exception_says_at_which_position_it_was(pool, parallel):
    f = xps.batched(positive, executor=pool if parallel else None)
    with pytest.raises(FunctionError, match=r"a negative rate This was at the position \[-\d\.\d+") as caught:
        xps.sample(xps.Target(f), xps.RWM(1.0), np.abs(X0), 500, seed=1)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.slow
def test_what_cannot_be_sent_is_refused(pool):
    with pytest.raises(CapabilityError, match=r"cannot be pickled for a worker .* module"):
        run(lambda x: -x @ x, executor=pool)


@pytest.mark.slow
def test_a_lost_worker():
    spawning = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning) as own, pytest.raises(WorkerError, match="a worker was lost"):
        xps.batched(ends, executor=own)(1000 + X0)


def test_any_executor_will_do_and_nothing_else():
    class Here(Executor):
        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    assert np.array_equal(run(normal, executor=Here()).draws, run(normal).draws)
    with pytest.raises(HyperparameterError, match="executor"):
        xps.batched(normal, executor=4)


@pytest.mark.slow
def test_compiled_runs_are_refused():
    jnp = pytest.importorskip("jax.numpy")
    with ThreadPoolExecutor(2) as threads, pytest.raises(CapabilityError, match="pass NumPy or torch arrays"):
        xps.sample(xps.Target(xps.batched(normal, executor=threads)), xps.RWM(1.0), jnp.asarray(X0), 5, seed=1)


@pytest.mark.slow
def test_another_executor_goes_on_with_a_checkpoint(pool, tmp_path):
    def sampled(draws, executor):
        target = xps.Target(xps.batched(normal, executor=executor))
        return xps.sample(target, xps.Ensemble(), X0, draws, seed=1, checkpoint=tmp_path).draws

    sampled(10, pool)
    with ThreadPoolExecutor(2) as threads:
        assert np.array_equal(sampled(20, threads), run(normal).draws)


SCRIPT = """
import time
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import xpsample as xps

def slow(x):
    time.sleep(0.02)
    return -0.5 * float(x @ x)

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        target, x0 = xps.Target(xps.batched(slow, executor=pool)), np.random.default_rng(0).normal(size=(8, 2))
        print("begun", flush=True)
        try:
            xps.sample(target, xps.Ensemble(), x0, 10_000, seed=1, progress=False)
        except xps.core.errors.Interrupted as stop:
            print("kept", len(stop.trace.draws), flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_run_and_keeps_its_draws(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout.readline() == "begun\n"
        time.sleep(3)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it, to the workers too
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()
    assert out.startswith("kept ") and int(out.split()[1]) > 0, error
