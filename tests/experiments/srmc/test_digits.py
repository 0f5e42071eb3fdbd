"""The srmc-digits experiment in its quick size, through the command line."""

import numpy as np

import xpsample as xps
from xpsample.experiments.srmc.digits import ALPHAS, CONTROLS, ROWS

RUN = "srmc-digits"


def test_rows(rows):
    assert [row["alpha"] for row in rows] == [*ALPHAS, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert [row["sampler"].split()[0] for row in rows[len(ALPHAS) :]] == ["all", "single", "PT+GWG", "model,", "model,"]
    assert rows[0]["theta"] == 0.0 and rows[3]["theta"] > rows[2]["theta"] > 0.0
    for row in rows:
        assert 0.0 <= row["kl"] <= np.log(10) + 1e-9
        assert 1.0 - 1e-6 <= row["vendi"] <= 5.0 + 1e-6  # of 5 chains
        assert row["classes"] >= 1
    assert rows[0]["same_class"] == 1.0  # 100 flips of 784 pixels


def test_files(out):
    with np.load(out / "machine.npz", allow_pickle=False) as machine:
        assert machine["weights"].shape == (784, 100)
    with np.load(out / "images.npz", allow_pickle=False) as images:
        x, others = images["images"], [images[name] for name in CONTROLS]
    assert x.shape == (1 + ROWS, len(ALPHAS), 5, 784)
    assert {way.shape for way in others} == {(1 + ROWS, 5, 784)}
    assert set(np.unique(x)) == {0.0, 1.0}
    for way in (x[:, 0], *others):
        assert np.all(way[0] == x[0, 0, 0]) and np.any(way[-1] != way[0])


def test_all_bits_at_once_are_new_draws_of_independent_ones():
    """Where the gradient foretells exactly what a flip changes, every move is accepted and forgets where it was."""
    b = np.array([1.5, -1.0, 0.3])
    target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    trace = xps.sample(target, CONTROLS["all bits"], np.ones((2000, 3)), 2, seed=0)
    np.testing.assert_allclose(trace.run_statistics.acceptance_probability, 1.0, atol=1e-5)  # at a finite step size
    # 2,000 pairs: five standard errors of a mean and of a product of deviations are 0.056 and 0.028
    one, other = trace.draws - 1 / (1 + np.exp(-b))
    np.testing.assert_allclose(np.mean(one, axis=0), 0.0, atol=0.056)
    np.testing.assert_allclose(np.mean(one * other, axis=0), 0.0, atol=0.028)
