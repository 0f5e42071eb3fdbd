"""A model's discrete parameters in a block of their own: what is evaluated around a point is its density, and no more.

Also what the neighbors of a point take in memory, and what a message says of a step that was to be given otherwise.
"""

import math
import tracemalloc
from dataclasses import replace

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
def test_a_step_takes_a_density_for_each_neighbor(kernel):
    """A score by differences at each of 60 neighbors was 15,237 rows; densities and two scores of mu are 131."""
    n = 60
    rows, said = rows_a_step(n, xps.Blocks({"z": kernel, "mu": xps.MALA(0.1)}))
    assert rows == said
    scores_of_mu = 2 * (1 + 2 * 2)
    assert rows == 1 + scores_of_mu + (2 * n if isinstance(kernel, xps.LocallyBalanced) else 0)


@pytest.mark.parametrize("scheme", ["central", "forward"])
@pytest.mark.parametrize("kernel", [xps.MALA(0.1), xps.HMC(0.1, 3), xps.ULA(0.01)], ids=lambda k: type(k).__name__)
def test_a_block_is_differenced_in_its_own_coordinates(kernel, scheme):
    """A step of 3 blocks of 1, 2 and 30 coordinates; the chains are those of a score that is given."""
    rows, spread = [0], np.linspace(1.0, 2.0, 30)

    def log_density(p):
        rows[0] += math.prod(np.shape(p.a))
        return -0.5 * (p.a**2 + np.sum((p.b - p.a[..., None]) ** 2, axis=-1) + np.sum((p.c / spread) ** 2, axis=-1))

    def score(x):
        a, b, c = x[..., :1], x[..., 1:3], x[..., 3:]
        return np.concatenate([np.sum(b - a, axis=-1, keepdims=True) - a, a - b, -c / spread**2], axis=-1)

    model = xps.Model(
        log_density, a=xps.Real(), b=xps.Real(2), c=xps.Real(30), gradient=xps.FiniteDifference(1e-5, scheme)
    )
    blocks = xps.Blocks({"a": kernel, "c": xps.RWM(0.5), "b": kernel})
    x0 = model.start(np.zeros(0), chains=CHAINS, seed=0)
    made = []
    for draws in (10, 20):
        rows[0] = 0
        trace = xps.sample(model, blocks, x0, draws, seed=1, progress=False)
        made.append(rows[0] / CHAINS)
    each = 2 if scheme == "central" else 1
    at_a_point, points = (1 + each) + (1 + 2 * each), 1 + (3 if isinstance(kernel, xps.HMC) else 1)
    assert (made[1] - made[0]) / 10 == points * at_a_point + 1
    assert trace.run_statistics.evaluations["log_density"] == points * at_a_point + 1

    exact = xps.Model.of_target(replace(model.target, score=score))
    again = xps.sample(exact, blocks, x0, 20, seed=1, progress=False)
    np.testing.assert_allclose(trace.draws, again.draws, atol=1e-3)


def test_the_neighbors_of_a_large_block_do_not_fill_the_memory(monkeypatch):
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


def test_memory_of_neighbors_is_bounded():
    x = np.zeros((50, 600))
    space = xps.Binary().bind(xps.backend_of(x), x)
    tracemalloc.start()
    values = space.around(numpy_xp, x, lambda y: np.sum(y, axis=-1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values.shape == (50, 600, 1) and peak < 100e6  # 144 MB of positions at once, and as much of choices
