"""A user sets a limit of time, or sends a signal, and the run goes on.

Densities sleep some hundredths of a second. What is asserted is counted in calls of the density and in steps, which a
busy machine does not change, or is far from what it was: a limit of 0.3 seconds that took 4 seconds and more.
"""

import signal
import time

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import ConvergenceWarning, Interrupted

X0 = np.random.default_rng(0).normal(size=(4, 2))


class Slow:
    """A normal density, or its score, that takes its time, and sends SIGTERM at some of its calls."""

    def __init__(self, seconds, *at):
        self.seconds, self.at, self.calls = seconds, at, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls in self.at:
            signal.raise_signal(signal.SIGTERM)
        time.sleep(self.seconds)
        return -0.5 * np.sum(x * x, axis=-1)

    def score(self, x):
        """It, with a call."""
        self(x)
        return -x


def run(density, kernel=None, draws=1000, **settings):
    target = xps.Target(density, score=lambda x: -x)
    return xps.sample(target, kernel or xps.RWM(1.0), X0, draws, **{"seed": 1, "progress": False} | settings)


# ---- time ------------------------------------------------------------------------------------------------------------


def test_time_ends_a_warm_up():
    density = Slow(0.02)
    with pytest.warns(ConvergenceWarning, match=r"time was up after \d+ of 500 warm-up steps, and there are no draws"):
        trace = run(density, xps.HMC(), until=xps.Until(seconds=0.3))
    assert trace.draws is None and density.calls < 60
    made = trace.warmup["acceptance_probability"].shape[0]
    assert 0 < made == trace.run_statistics.steps < 60
    assert isinstance(trace.kernel, xps.HMC) and trace.kernel.step_size is None


def test_time_ends_a_warm_up_which_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    whole = run(Slow(0.0), xps.MALA(), 20, warmup=40)
    density = Slow(0.02)
    with pytest.warns(ConvergenceWarning, match="time was up after"):
        run(density, xps.MALA(), 20, warmup=40, until=xps.Until(seconds=0.2), checkpoint=tmp_path)
    before = density.calls
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # and the density is the same
    again = run(density, xps.MALA(), 20, warmup=40, until=xps.Until(seconds=60), checkpoint=tmp_path)
    np.testing.assert_array_equal(again.draws, whole.draws)
    assert density.calls < before + 80  # a run from the start makes 85 calls or more


def test_time_that_the_warm_up_took_is_not_given_again():
    """A warm-up of 20 steps of 0.02 seconds leaves a tenth of a second."""
    density = Slow(0.02)
    trace = run(density, xps.MALA(), warmup=20, until=xps.Until(seconds=0.6))
    assert trace.draws is None or len(trace.draws) <= 20


def test_a_first_block_is_one_step():
    """It was sixteen, of which each may take a thousand evaluations. Ten more are those of checks and the start."""
    density = Slow(0.04)
    run(density, xps.HMC(0.2, 10), until=xps.Until(seconds=0.1))
    assert density.calls <= 20


# ---- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [3, 12])
def test_a_signal_ends_a_run_after_the_step(steps):
    counting = Slow(0.0)
    run(counting, draws=1)
    density = Slow(0.02, counting.calls - 1 + steps)  # calls before the first step, and one a step
    with pytest.raises(Interrupted) as stop:
        run(density)
    assert density.calls == counting.calls - 1 + steps and stop.value.by == "SIGTERM"
    assert len(stop.value.trace.draws) == steps


def test_a_signal_ends_a_warm_up_after_the_step():
    density = Slow(0.02, 20)
    with pytest.raises(Interrupted, match=r"after \d+ of 500 warm-up steps") as stop:
        run(density, xps.MALA())
    assert density.calls == 20
    made = stop.value.trace.warmup["acceptance_probability"].shape[0]
    assert 10 < made < 20 and made == stop.value.trace.run_statistics.steps
    assert stop.value.trace.draws is None


def long_steps(density, **settings):
    """Ten steps of HMC, each of 50 scores."""
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=density.score)
    return xps.sample(target, xps.HMC(0.2, 50), X0, 10, seed=1, progress=False, **settings)


def test_a_second_signal_ends_a_long_step_with_the_state_before_it(tmp_path):
    """Of NUTS, whose steps are up to 1,023 evaluations, or of HMC with as many."""
    whole = long_steps(Slow(0.0))
    density = Slow(0.001, 180, 185)  # in the third step, after one that is thrown away
    with pytest.raises(Interrupted, match="SIGTERM after 2 of 10 draws") as stop:
        long_steps(density, checkpoint=tmp_path)
    assert density.calls < 190
    trace = stop.value.trace
    np.testing.assert_array_equal(trace.draws, whole.draws[:2])
    np.testing.assert_array_equal(trace.state.point.x, whole.draws[1])
    np.testing.assert_array_equal(xps.load(tmp_path).draws, whole.draws[:2])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(Interrupted, match="SIGTERM after 0 of 10 draws") as stop:
        long_steps(Slow(0.001, 20, 25))  # before the first step is made
    assert stop.value.trace.draws is None


# ---- single steps ----------------------------------------------------------------------------------------------------
