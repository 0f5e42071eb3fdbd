"""What runs and their summaries keep in memory."""

import tracemalloc

import numpy as np
import pytest

from xpsample import RWM, BatchMeans, Moments, sample
from xpsample.trace import stored
from xpsample.zoo.gaussian import gaussian


def peak(draws):
    tracemalloc.start()
    x0 = np.zeros((4, 2))
    trace = sample(
        gaussian(np.eye(2)), RWM(1.0), x0, draws, seed=1, recorders=(Moments(), BatchMeans(50)), progress=False
    )
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return used, trace


@pytest.mark.slow
def test_memory_of_a_moments_run_is_flat():
    peak(100)  # imports and caches
    short, _ = peak(2_000)
    long, trace = peak(20_000)
    kept = 18_000 * 4 * 2 * 8  # bytes of the further draws
    assert long - short < 0.2 * kept
    assert trace.draws is None
    moments, batches = trace.recorded["moments"], trace.recorded["batch_means"]
    # 5 standard errors, by the run's own estimate: error probability below 1e-5 for the 8 numbers.
    assert np.all(np.abs(moments.mean) < 5 * batches.mcse)
    np.testing.assert_allclose(moments.variance, 1, atol=0.15)


@pytest.mark.slow
def test_a_summary_takes_little_memory_beside_the_draws(monkeypatch):
    """Columns are worked on some at a time: a summary of 2.5 GB of draws needed over 24 GB, and ended the process."""
    monkeypatch.setattr(stored, "WORKED", 2**16)
    trace = sample(gaussian(np.eye(300)), RWM(0.1), np.zeros((16, 300)), 400, seed=1, progress=False)
    tracemalloc.start()
    in_parts = trace.summary()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < trace.draws.nbytes
    monkeypatch.undo()
    at_once = trace.summary()
    assert at_once.names == in_parts.names
    for name in ("mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"):
        np.testing.assert_allclose(getattr(in_parts, name), getattr(at_once, name), rtol=1e-9)
