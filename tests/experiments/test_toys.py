"""The planar point sets: scikit-learn's with the same random numbers, Algorithm 3 row by row."""

import math

import numpy as np
import pytest

from xpsample.experiments.toys import TOYS, moons, pinwheel, s_curve, swiss_roll


def test_curves_are_those_of_scikit_learn():
    """With the same generator in the same state, number by number."""
    made = pytest.importorskip("sklearn.datasets")
    flat = made.make_moons(301, shuffle=False, noise=0.1, random_state=3)[0]
    np.testing.assert_allclose(moons(301, np.random.RandomState(3)), flat, atol=1e-12)
    for ours, theirs in ((s_curve, made.make_s_curve), (swiss_roll, made.make_swiss_roll)):
        noise = {s_curve: 0.1, swiss_roll: 0.5}[ours]
        space = theirs(301, noise=noise, random_state=3)[0]
        np.testing.assert_allclose(ours(301, np.random.RandomState(3)), space[:, [0, 2]], atol=1e-12)


def test_pinwheel_is_algorithm_3():
    """With the same generator: 5 arms, r from N(1, 0.5^2), delta from N(0, 0.05^2) and phi = 2 pi y / 5 + r / 4."""
    rng = np.random.default_rng(1)
    y, r, delta = rng.integers(5, size=300), 1 + 0.5 * rng.standard_normal(300), 0.05 * rng.standard_normal(300)
    phi = 2 * math.pi * y / 5 + 0.25 * r
    expected = np.stack([r * np.cos(phi) + delta, r * np.sin(phi) + delta], axis=-1)
    np.testing.assert_allclose(pinwheel(300, np.random.default_rng(1)), expected, rtol=1e-12)


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
