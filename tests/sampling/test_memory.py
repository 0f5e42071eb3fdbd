"""What runs and their summaries keep in memory."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

from xpsample import RWM, BatchMeans, Draws, Moments, Statistics, sample
from xpsample.diagnostics import coordinates, diagnosis
from xpsample.sampling import store
from xpsample.trace import stored
from xpsample.zoo.gaussian import gaussian


def peak(draws, target, x0, recorders):
    """The memory that a run takes at most, and its trace."""
    tracemalloc.start()
    trace = sample(target, RWM(1.0), x0, draws, seed=1, recorders=recorders, progress=False)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return used, trace


@pytest.mark.slow
def test_memory_of_a_moments_run_is_flat():
    make = partial(peak, target=gaussian(np.eye(2)), x0=np.zeros((4, 2)), recorders=(Moments(), BatchMeans(50)))
    make(100)  # imports and caches
    short, _ = make(2_000)
    long, trace = make(20_000)
    kept = 18_000 * 4 * 2 * 8  # bytes of the further draws
    assert long - short < 0.2 * kept
    assert trace.draws is None
    moments, batches = trace.recorded["moments"], trace.recorded["batch_means"]
    # 5 standard errors, by the run's own estimate: error probability below 1e-5 for the 8 numbers.
    assert np.all(np.abs(moments.mean) < 5 * batches.mcse)
    np.testing.assert_allclose(moments.variance, 1, atol=0.15)


@pytest.mark.slow
def test_memory_of_a_stored_run_does_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 2**19)
    monkeypatch.setattr(diagnosis, "COPIED", 2**16)  # which are looked at as a whole
    monkeypatch.setattr(coordinates, "COPIED", 2**16)

    def used(draws):
        recorders = (Draws(store=tmp_path / f"{draws}.zarr"), Statistics())
        return peak(draws, gaussian(np.eye(5)), np.zeros((40, 5)), recorders)[0]

    used(100)
    short, long = used(8_000), used(24_000)
    assert long - short < 0.5 * 16_000 * 40 * 5 * 8  # of what the draws between them take


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
