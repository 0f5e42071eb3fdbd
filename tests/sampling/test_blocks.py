"""Blocks of steps: a second long where steps are slow, and what Ctrl-C leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.core import tree
from xpsample.core.errors import Interrupted
from xpsample.kernels import HMC
from xpsample.sampling import loop
from xpsample.sampling.checkpoint import SavedRun
from xpsample.sampling.interrupts import Terminated, interruptible, terminable
from xpsample.sampling.loop import Pace
from xpsample.sampling.noise import NoiseSource, Portable
from xpsample.sampling.program import summable
from xpsample.targets import Target

X0 = np.random.default_rng(0).normal(size=(300, 2))
TARGET = Target(lambda x: -0.5 * (x[..., 0] ** 2 + x[..., 1] ** 2), score=lambda x: -x)
KERNEL = HMC(0.9, 2)


def run(x0, draws=600, seed=3, kernel=KERNEL, **settings):
    return xps.sample(TARGET, kernel, x0, draws, seed=seed, progress=False, **settings)


def assert_same(a, b, draws):
    for (path, left), (_, right) in zip(tree.items(a), tree.items(b), strict=True):
        np.testing.assert_array_equal(left[:draws], right[:draws], err_msg=path)


@dataclass(frozen=True)
class Stopping(NoiseSource):
    """Noise with Ctrl-C, or another signal, in the middle of the first block that ends after a step."""

    step: int
    times: int = 1
    source: NoiseSource = Portable(3)
    number: signal.Signals = signal.SIGINT

    def block(self, backend, specs, start, stop, like):
        if start <= self.step < stop:
            for _ in range(self.times):
                signal.raise_signal(self.number)
        return self.source.block(backend, specs, start, stop, like)

    def describe(self):
        return self.source.describe()


# ---- blocks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


def made(clock, step, segments):
    """The lengths of the blocks of a run whose steps take `step(t)` seconds, and how often it was waited for."""
    lengths, waits, following = [], [], Pace()
    for lo, hi in following.blocks(segments):
        clock.seconds += sum(step(t) for t in range(lo, hi))
        lengths.append(hi - lo)
        following.measure(hi, lambda: waits.append(1))
    assert sum(lengths) == sum(hi - lo for lo, hi in segments)
    return lengths, len(waits)


SLOWER = [(0, 1024), (1024, 2048), (2048, 2064), (2064, 2080)]
BLOCKS = {
    "a second at a time": (lambda t: 0.125, [(0, 24)], [1, 8, 8, 7]),
    "one step of more than half a second": (lambda t: 30.0, [(0, 16)], [1] * 16),
    "fast steps at once": (lambda t: 1e-5, [(0, 1024), (1024, 2048), (2048, 4096)], [1, 1023, 1024, 2048]),
    "a first block that compiles": (
        lambda t: 8.0 if t == 0 else 1e-5,
        [(0, 1024), (1024, 2048)],
        [1, 1, 1, 2, 8, 32, 128, 512, 339, 1024],
    ),
    "steps that get slower": (lambda t: 1e-5 if t < 2048 else 0.125, SLOWER, [1, 1023, 1024, 16, 8, 8]),
    "some times as long as the last": (lambda t: 0.01, [(0, 1024)], [1, 16, 100]),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_as_long_as_steps_allow(clock, name):
    seconds, segments, expected = BLOCKS[name]
    lengths, waits = made(clock, seconds, segments)
    assert lengths[: len(expected)] == expected
    if name == "fast steps at once":
        assert waits == 1


@pytest.mark.parametrize("seed", [3, Portable(3)], ids=["native", "portable"])
def test_results_do_not_depend_on_where_blocks_end(library, seed, monkeypatch):
    """So a block may be one step: on JAX it is the program of longer ones, whose loop has an end as argument."""

    def everything():
        trace = run(library.array(X0), 60, seed, xps.MALA(), warmup=30, burn_in=7, thinning=2)
        arrays = tree.map(library.host, (trace.draws, trace.statistics, trace.state, trace.warmup))
        return arrays, vars(trace.run_statistics)

    whole = everything()
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    np.testing.assert_equal(everything(), whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_probabilities_are_exact(dtype):
    p = np.random.default_rng(0).random(4096).astype(dtype)
    parts = summable(numpy_xp, p)
    for part in parts:
        assert np.sum(part) == np.cumsum(part)[-1] == np.cumsum(part[::-1])[-1] == np.sum(part.astype(np.float64))
    np.testing.assert_allclose(sum(parts), p, rtol=0, atol=2.0**-25 if dtype == "float32" else 2.0**-45)


def test_slow_runs_are_saved_while_they_go_on(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(loop, "SECONDS", 0.05)
    monkeypatch.setattr(SavedRun, "save", lambda self, step, *rest, **named: saved.append(step))

    def slow(x):
        time.sleep(0.005)
        return TARGET.log_density(x)

    xps.sample(Target(slow), xps.RWM(1.0), X0, 60, seed=1, checkpoint=tmp_path, progress=False)
    assert saved[0] == 1 and saved[-1] == 60 and np.max(np.diff(saved)) <= 16


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_what_was_drawn_is_kept(library):
    """Until the end of the step, or of the block where that is made as a whole, as on JAX."""
    whole = run(library.array(X0), seed=Portable(3))
    with pytest.raises(Interrupted, match=r"Ctrl-C after \d+ of 600 draws.*sys.last_value.trace") as stop:
        run(library.array(X0), seed=Stopping(40))
    trace = stop.value.trace
    drawn = trace.draws.shape[0]
    assert 0 < drawn < 600 and trace.run_statistics.steps == drawn
    keep = [tree.map(library.host, (t.draws, t.statistics)) for t in (trace, whole)]
    assert_same(*keep, drawn)
    np.testing.assert_array_equal(library.host(trace.state.point.x), keep[1][0][drawn - 1])
    assert trace.summary()


def test_ctrl_c_before_the_first_draw():
    with pytest.raises(Interrupted, match="Ctrl-C after 0 of 600 draws") as stop:
        run(X0, seed=Stopping(3), burn_in=700)
    assert stop.value.trace.draws is None


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_saves_and_the_same_call_goes_on(tmp_path, library, number, name):
    handler = signal.getsignal(number)
    message = rf"{name} after \d+ of 600 draws.*The same call resumes it"
    with pytest.raises(Interrupted, match=message) as stop:
        run(library.array(X0), seed=Stopping(40, number=number), checkpoint=tmp_path)
    assert stop.value.by == name and signal.getsignal(number) is handler
    again = run(library.array(X0), seed=Portable(3), checkpoint=tmp_path)
    whole = run(library.array(X0), seed=Portable(3))
    np.testing.assert_array_equal(library.host(again.draws), library.host(whole.draws))
    np.testing.assert_equal(vars(again.run_statistics), vars(whole.run_statistics))


def test_a_second_ctrl_c_stops_at_once():
    with pytest.raises(KeyboardInterrupt) as stop:
        run(X0, seed=Stopping(40, times=2))
    assert not isinstance(stop.value, Interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_sigterm_ends_the_process():
    code = (
        "import signal, numpy as np, xpsample as xps\n"
        "from xpsample.sampling.interrupts import interruptible\n"
        "with interruptible() as interrupted:\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print(interrupted(), flush=True)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('still here', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "SIGTERM\n")


def test_sigterm_between_the_runs_of_a_command(tmp_path):
    with terminable():
        with pytest.raises(Interrupted, match=r"SIGTERM after \d+ of 600 draws"):  # at the end of a block
            run(X0, seed=Stopping(40, number=signal.SIGTERM), checkpoint=tmp_path)
        with pytest.raises(Terminated):  # the second one, at once
            run(X0, seed=Stopping(40, times=2, number=signal.SIGTERM))
        with pytest.raises(KeyboardInterrupt) as stop:
            signal.raise_signal(signal.SIGTERM)
        assert stop.value.by == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_ctrl_c_in_the_last_step_is_not_lost():
    calls = iter(range(601))

    def last(state):
        if next(calls) == 600:  # after one at the start
            signal.raise_signal(signal.SIGINT)
        return state.point.x

    with pytest.raises(Interrupted, match="Ctrl-C after 600 of 600 draws") as stop:
        run(X0, recorders=[xps.Draws(), xps.Record("last", last)])
    assert stop.value.trace.draws.shape[0] == 600


def test_a_program_that_handles_ctrl_c_itself_is_left_to():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *a: seen.append(1))
    try:
        assert run(X0, seed=Stopping(40)).draws.shape[0] == 600 and seen
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_than_the_main_one_handle_no_signals():
    results = []

    def worker():
        with interruptible() as interrupted:
            results.append(interrupted())

    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
    assert results == [None]


FORKED = """
import os, signal, sys
from contextlib import nullcontext
from xpsample.sampling.interrupts import interruptible

in_a_run = sys.argv[1] == "True"
with interruptible() as noted:
    child = os.fork()
    if child == 0:
        with interruptible() if in_a_run else nullcontext(lambda: None) as own:
            signal.raise_signal(signal.SIGTERM)
        os._exit(int(own() == "SIGTERM"))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == (1 if in_a_run else -signal.SIGTERM), code
    assert noted() is None
"""
"""In a process of its own, without the threads that JAX has in this one."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.parametrize("in_a_run", [False, True])
def test_a_run_notes_no_signals_for_the_processes_that_are_forked_from_it(in_a_run):
    """An executor's workers: they would never end."""
    subprocess.run([sys.executable, "-c", FORKED, str(in_a_run)], check=True)
