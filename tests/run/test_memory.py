"""A run that keeps moments only uses memory that does not grow with its length."""

import tracemalloc

import numpy as np

from xpsample import RWM, BatchMeans, Moments, sample
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


def test_memory_of_a_moments_run_is_flat():
    peak(100)  # imports and caches
    short, _ = peak(2_000)
    long, trace = peak(20_000)
    assert long < 1.1 * short
    assert trace.draws is None
    moments, batches = trace.recorded["moments"], trace.recorded["batch_means"]
    # 5 standard errors, by the run's own estimate: error probability below 1e-5 for the 8 numbers.
    assert np.all(np.abs(moments.mean) < 5 * batches.mcse)
    np.testing.assert_allclose(moments.variance, 1, atol=0.15)
