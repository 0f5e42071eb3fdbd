"""A user looks at what a warm-up did, or stops it."""

import signal

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import Interrupted
from xpsample.diagnostics.findings import Finding
from xpsample.sampling import transient
from xpsample.sampling.noise import Native

TARGET = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x)


def test_the_path_of_many_coordinates_takes_little_memory():
    """It had the metric of all coordinates at every step, many times the draws."""
    trace = xps.sample(TARGET, xps.MALA(), np.zeros((4, 20_000)), 2, seed=1, warmup=60, progress=False)
    assert trace.kernel.preconditioner.shape[-1] == 20_000
    assert sum(values.nbytes for values in trace.warmup.values()) < 60 * 1200 * 8
    few = xps.sample(TARGET, xps.MALA(), np.zeros((4, 1000)), 2, seed=1, warmup=60, progress=False)
    assert few.warmup["MALA.preconditioner"].shape[-1] == 1000


def test_the_path_of_a_warm_up_that_was_stopped_has_all_its_rounds(monkeypatch):
    drawn = rounds(monkeypatch)

    noted = Native.block

    def stopping(self, *args):
        if len(set(drawn)) == 3 and not raised:  # in the third round
            raised.append(signal.raise_signal(signal.SIGINT))
        return noted(self, *args)

    raised = []
    monkeypatch.setattr(Native, "block", stopping)
    with pytest.raises(Interrupted, match=r"after \d+ of 3200 warm-up steps") as stop:
        xps.sample(TARGET, xps.RWM(), np.zeros((64, 2)), 10, seed=1, warmup=None, progress=False)
    assert 2400 < stop.value.trace.warmup["acceptance_probability"].shape[0] < 5600


@pytest.mark.slow
def test_every_round_of_a_warm_up_has_noise_of_its_own(monkeypatch):
    """And none has that of the run."""
    drawn = rounds(monkeypatch)
    xps.sample(TARGET, xps.RWM(), np.zeros((64, 2)), 10, seed=1, progress=False)
    assert len(set(drawn)) == 4 and drawn[-1] == 1


def rounds(monkeypatch):
    """Warm-ups have stages of 800, 1,600 and 3,200 steps; the seeds whose numbers are drawn."""
    drawn, block = [], Native.block

    def noted(self, *args):
        drawn.append(self.seed)
        return block(self, *args)

    monkeypatch.setattr(Native, "block", noted)
    moving = Finding("warmup", "on the way", 1.0, "wait")
    monkeypatch.setattr(
        transient, "judge_warm_up", lambda rows, pooled: moving if len(rows) >= 800 and len(rows) != 1066 else None
    )
    return drawn
