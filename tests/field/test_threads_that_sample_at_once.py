"""Threads that sample at the same time, one target or several, each get the chains that one thread gets."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps


def centred(x):
    return -0.5 * array_namespace(x).sum(x**2, axis=-1)


def shifted(x):
    return -0.5 * array_namespace(x).sum((x - 3.0) ** 2, axis=-1)


@pytest.mark.first_cases(5)
@pytest.mark.first_tier
@pytest.mark.parametrize("threads", [2, 8])
def test_each_thread_gets_the_chains_of_its_own(library32, threads):
    """Targets are shared by threads, which prepare, tune and compile them at once."""
    x0 = library32.array(np.full((4, 2), 0.5))

    def run(target, seed):
        trace = xps.sample(target, xps.RWM(), x0, 10, warmup=10, seed=seed, progress=False)
        return library32.host(trace.draws)

    alone = {(f, seed): run(xps.Target(f), seed) for f in (centred, shifted) for seed in (1, 2)}
    targets = {f: xps.Target(f) for f in (centred, shifted)}
    asked = [list(alone)[i % 4] for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda of: run(targets[of[0]], of[1]), asked))
    for of, draws in zip(asked, found, strict=True):
        np.testing.assert_array_equal(draws, alone[of])
