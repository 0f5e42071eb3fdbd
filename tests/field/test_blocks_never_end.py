"""A model's discrete parameters in a block of their own: what is evaluated around a point is its density, and no more.

Also what the neighbours of a point take in memory, and what a message says of a step that was to be given otherwise.
"""

import math
import tracemalloc

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.spaces import discrete

CHAINS = 2


def counting_mixture(n):
    """A mixture with drawn assignments, whose derivatives are differences, and the rows that it was evaluated at."""
    y = np.random.default_rng(0).normal(size=n)
    rows = [0, 0]  # all, and the most at once

    def log_density(p, y):
        this = math.prod(p.z.shape[:-1])
        rows[0], rows[1] = rows[0] + this, max(rows[1], this)
        mean = p.z * p.mu[..., 1:] + (1 - p.z) * p.mu[..., :1]
        return -0.5 * np.sum((p.mu / 3) ** 2, axis=-1) - 0.5 * np.sum((y - mean) ** 2, axis=-1)

    model = xps.Model(log_density, data=y, mu=xps.Ordered(2), z=xps.Binary(n), gradient=xps.FiniteDifference())
    return model, rows


def rows_a_step(n, kernel, steps=10):
    model, rows = counting_mixture(n)
    x0 = model.start(np.zeros(0), chains=CHAINS, seed=0)
    xps.sample(model, kernel, x0, 1, seed=1, progress=False)
    rows[:] = 0, 0
    one = xps.sample(model, kernel, x0, steps, seed=1, progress=False)
    many, rows[:] = list(rows), (0, 0)
    xps.sample(model, kernel, x0, 2 * steps, seed=1, progress=False)
    return (rows[0] - many[0]) / steps / CHAINS, one.run_statistics.evaluations["log_density"]


@pytest.mark.parametrize("kernel", [xps.LocallyBalanced(), xps.Gibbs()], ids=["balanced", "gibbs"])
def test_a_step_takes_a_density_for_each_neighbour(kernel):
    """A score by differences at each of 60 neighbours was 15,237 rows; densities and three scores are 370."""
    n = 60
    rows, said = rows_a_step(n, xps.Blocks({"z": kernel, "mu": xps.MALA(0.1)}))
    assert rows == said
    scores = 2 * (1 + 2 * (n + 2))
    assert rows == scores + (2 * n if isinstance(kernel, xps.LocallyBalanced) else 0)


def test_the_neighbours_of_a_large_block_do_not_fill_the_memory(monkeypatch):
    """They are evaluated in slabs; the values are those of all at once."""
    model, rows = counting_mixture(40)
    kernel = xps.Blocks({"z": xps.LocallyBalanced(), "mu": xps.MALA(0.1)})
    x0 = model.start(np.zeros(0), chains=CHAINS, seed=0)
    whole = xps.sample(model, kernel, x0, 5, seed=1, progress=False)
    assert rows[1] >= 40 * CHAINS
    again, rows = counting_mixture(40)
    monkeypatch.setattr(discrete, "SLAB", 7 * CHAINS * 40)  # seven variables at once, of 40
    slabs = xps.sample(again, kernel, x0, 5, seed=1, progress=False)
    np.testing.assert_array_equal(slabs.draws, whole.draws)
    assert rows[1] == 42 * CHAINS  # the positions of a score by differences


def test_memory_of_neighbours_is_bounded():
    space = xps.Binary().bind(xps.backend_of(np.zeros(0)), np.zeros((50, 600)))
    x = np.zeros((50, 600))
    tracemalloc.start()
    values = space.around(numpy_xp, x, lambda y: np.sum(y, axis=-1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values.shape == (50, 600, 1)
    assert peak < 100e6  # 144 MB of positions at once, and as much of choices
