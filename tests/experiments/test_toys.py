"""The planar point sets: scikit-learn's with the same random numbers, Algorithm 3 row by row."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from xpsample.experiments.toys import TOYS, moons, pinwheel, s_curve, swiss_roll
from xpsample.metrics import squared_mmd
from xpsample.metrics.stein import RBF


def test_curves_are_those_of_scikit_learn():
    """With the same generator in the same state, number by number."""
    made = pytest.importorskip("sklearn.datasets")
    flat = made.make_moons(301, shuffle=False, noise=0.1, random_state=3)[0]
    np.testing.assert_allclose(moons(301, np.random.RandomState(3)), flat, atol=1e-12)
    for ours, theirs in ((s_curve, made.make_s_curve), (swiss_roll, made.make_swiss_roll)):
        noise = {s_curve: 0.1, swiss_roll: 0.5}[ours]
        space = theirs(301, noise=noise, random_state=3)[0]
        np.testing.assert_allclose(ours(301, np.random.RandomState(3)), space[:, [0, 2]], atol=1e-12)


def pinwheel_by_rows(rows, rng, arms=5, radial=0.5, tangential=0.05, rate=0.25):
    """Algorithm 3, one row after the other."""
    found = []
    for _ in range(rows):
        y, r, delta = rng.integers(arms), rng.normal(1, radial), rng.normal(0, tangential)
        phi = 2 * math.pi * y / arms + rate * r
        found.append((r * math.cos(phi) + delta, r * math.sin(phi) + delta))
    return np.array(found)


def mmd_scaled(x, y):
    """The unbiased squared MMD over its standard deviation under equal laws, estimated by 40 permutations."""
    n, joined, rng = len(x), np.concatenate([x, y]), np.random.default_rng(0)
    pairs = np.exp(-cdist(joined, joined, "sqeuclidean") / 0.1)
    first = np.zeros((2 * n, 41))  # of the columns, each a way to part the points, as they come and by permutations
    first[:n, 0] = 1
    for column in range(1, 41):
        first[rng.permutation(2 * n)[:n], column] = 1
    of_first = pairs @ first
    within = np.sum(first * of_first, axis=0)
    across = np.sum((1 - first) * of_first, axis=0)
    rest = np.sum(pairs) - within - 2 * across
    squared = (within + rest - 2 * n) / (n * (n - 1)) - 2 * across / n**2
    assert squared[0] == pytest.approx(float(squared_mmd(x, y, RBF(0.1))), rel=1e-9)
    return squared[0] / np.std(squared[1:])


def test_pinwheel_is_algorithm_3_and_another_one_is_seen():
    """6 standard deviations of the statistic: a wrong alarm in far less than 1 of 1,000 runs."""
    theirs = pinwheel_by_rows(1500, np.random.default_rng(1))
    assert mmd_scaled(pinwheel(1500, np.random.default_rng(2)), theirs) < 6
    for broken in ({"arms": 6}, {"rate": 0.5}, {"radial_sd": 0.35}):
        assert mmd_scaled(pinwheel(1500, np.random.default_rng(2), **broken), theirs) > 6


@pytest.mark.parametrize("name", TOYS)
def test_noise_is_that_of_the_table(name):
    """What draws differ in from those with the same random numbers and no noise has the stated deviation."""
    toy = TOYS[name]
    x = toy.generate(4000, np.random.default_rng(1))
    assert x.shape == (4000, 2) and x.dtype == np.float64 and np.all(np.isfinite(x))
    clean = {"moons": moons, "s-curve": s_curve, "swiss-roll": swiss_roll}.get(name)
    if clean is None:
        noise = x - pinwheel(4000, np.random.default_rng(1), tangential_sd=0.0)
        np.testing.assert_allclose(noise[:, 0], noise[:, 1], atol=1e-12)
    else:
        noise = x - clean(4000, np.random.default_rng(1), noise=0.0)
    assert np.std(noise) == pytest.approx(toy.noise, rel=0.06)  # 5 standard errors of 4,000 numbers
