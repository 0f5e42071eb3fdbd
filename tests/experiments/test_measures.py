"""Measures and point sets that experiments share: class coverage, the Vendi score, Wasserstein distances, toys."""

import math
import sys

import numpy as np
import pytest
from scipy.special import entr
from scipy.stats import entropy, wasserstein_distance

from xpsample.experiments import classes
from xpsample.experiments.toys import TOYS, moons, pinwheel, s_curve, swiss_roll
from xpsample.experiments.transport import marginal_wasserstein, wasserstein, wasserstein_1d

# ---- classes: scipy's entropies, counts written out, and cases in closed form ----------------------------------------

SHARES = np.random.default_rng(0).dirichlet(np.ones(10), size=(2, 3))
SHARES[0, 0] = np.eye(10)[4]
SHARES[0, 1] = 0.1
SHARES[1, 2] = [0.5, 0.5, *[0.0] * 8]


def test_the_measures_are_their_definitions():
    # The total variation is the largest difference of the probabilities of an event, a subset of ten classes.
    events = (((n >> np.arange(10)) & 1).astype(float) for n in range(1024))
    variation = np.max([np.sum((SHARES - 0.1) * c, axis=-1) for c in events], axis=0)
    np.testing.assert_allclose(classes.kl_to_uniform(SHARES), entropy(SHARES, np.full(10, 0.1), axis=-1), atol=1e-12)
    np.testing.assert_allclose(classes.tv_to_uniform(SHARES), variation, atol=1e-12)
    np.testing.assert_allclose(classes.normalized_entropy(SHARES), entropy(SHARES, axis=-1) / math.log(10), atol=1e-12)
    np.testing.assert_array_equal(classes.classes_covered(SHARES), [[1, 10, 10], [10, 10, 2]])
    assert classes.kl_to_uniform(SHARES)[1, 2] == pytest.approx(math.log(5))


def test_shares_are_counts_of_all_chains_and_rows():
    labels = np.random.default_rng(2).integers(0, 5, (20, 2, 7))
    found = classes.cumulative_class_shares(labels, 5)
    for n, g in np.ndindex(20, 2):
        counts = np.bincount(labels[: n + 1, g].ravel(), minlength=5)
        np.testing.assert_allclose(found[n, g], counts / counts.sum(), rtol=1e-12)
    np.testing.assert_array_equal(classes.class_shares(labels, 5)[0], found[0])
    np.testing.assert_array_equal(classes.class_shares(np.array([0, 0, 1, -1]), 2), [0.5, 0.25])


def test_discovered_modes_are_those_of_a_set():
    modes = np.random.default_rng(2).integers(-1, 40, (30, 2, 3, 4))
    found = classes.modes_discovered(modes)
    for n, *group in np.ndindex(30, 2, 3):
        assert found[(n, *group)] == len({int(k) for k in modes[(slice(n + 1), *group)].ravel() if k >= 0})
    alone = np.array([[3, 3], [5, 3], [3, 7]])
    np.testing.assert_array_equal(classes.modes_discovered(alone[..., None]), [[1, 1], [2, 1], [2, 2]])
    np.testing.assert_array_equal(classes.modes_discovered(np.full((2, 3), -1)), [0, 0])


def test_the_vendi_score_in_closed_form():
    alike, apart, of_two = np.ones((6, 6)), np.eye(6), np.eye(6)[[0, 0, 0, 1, 1, 2]]
    of_groups = math.exp(entropy(np.array([3, 2, 1]) / 6))
    np.testing.assert_allclose(classes.vendi_score(np.stack([alike, apart, of_two])), [1, 6, of_groups], rtol=1e-12)
    for cosine in (0.0, 0.3, 0.99):
        exact = math.exp(entropy([(1 + cosine) / 2, (1 - cosine) / 2]))
        assert classes.vendi_score(np.array([[1, 0], [cosine, math.sqrt(1 - cosine**2)]])) == pytest.approx(exact)
    assert classes.vendi_score(np.array([[0.0, 0.0], [3.0, 4.0]])) == pytest.approx(2)


def test_the_vendi_score_is_the_entropy_of_a_density_matrix():
    features = np.random.default_rng(0).standard_normal((2, 4, 9))
    for own, found in zip(features, classes.vendi_score(features), strict=True):
        units = own / np.linalg.norm(own, axis=-1, keepdims=True)
        # The density matrix units^T units / 4 has the squared singular values of units / 2 for eigenvalues.
        shares = np.linalg.svd(units / 2, compute_uv=False) ** 2
        np.testing.assert_allclose(found, math.exp(np.sum(entr(shares))), rtol=1e-9)
    assert 4.5 < classes.vendi_score(np.random.default_rng(1).standard_normal((300, 5))) < 5.001


# ---- Wasserstein distances: SciPy, closed forms and one another ------------------------------------------------------

GENERATOR = np.random.default_rng(0)
FEW, MANY = GENERATOR.normal(size=(3, 12)), 2 * GENERATOR.normal(size=(3, 30)) + 1


def test_in_one_dimension_it_is_scipys():
    expected = [wasserstein_distance(x, y) for x, y in zip(FEW, MANY, strict=True)]
    np.testing.assert_allclose(wasserstein_1d(FEW, MANY), expected, rtol=1e-12)
    np.testing.assert_allclose(wasserstein_1d(np.repeat(FEW, 5, axis=-1), MANY), expected, rtol=1e-12)


def test_the_marginal_distance_is_the_sum_over_coordinates():
    x, y = GENERATOR.normal(size=(2, 8, 3)), GENERATOR.normal(size=(2, 5, 3))
    expected = [sum(wasserstein_distance(a[:, i], b[:, i]) for i in range(3)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(marginal_wasserstein(x, y), expected, rtol=1e-12)


def test_exact_distances():
    """In one dimension by sorting; of a shifted copy the shift; above the marginals in general."""
    pytest.importorskip("ot")
    np.testing.assert_allclose(wasserstein(FEW[..., None], MANY[..., None]), wasserstein_1d(FEW, MANY), rtol=1e-9)
    squares = np.mean((np.sort(FEW) - np.sort(MANY[:, :12])) ** 2, axis=-1)
    np.testing.assert_allclose(wasserstein(FEW[..., None], MANY[:, :12, None], 2), np.sqrt(squares), rtol=1e-9)
    x, y, shift = GENERATOR.normal(size=(20, 3)), GENERATOR.normal(size=(25, 3)), np.array([0.3, -0.4, 1.2])
    np.testing.assert_allclose([wasserstein(x, x + shift, p) for p in (1, 2)], 1.3, rtol=1e-9)
    assert marginal_wasserstein(x, y) <= np.sqrt(3) * wasserstein(x, y)
    # A sample and its mirror image have the same marginals up to sign, and nothing in common beside.
    line = np.linspace(-1, 1, 21)[:, None]
    assert marginal_wasserstein(line * [1, 1], line * [1, -1]) < 1e-12
    assert wasserstein(line * [1, 1], line * [1, -1]) > 0.3


def test_without_pot_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r'wasserstein\(\) needs POT: pip install "xpsample\[metrics\]"'):
        wasserstein(FEW, MANY)


# ---- point sets: scikit-learn's with the same random numbers, and Algorithm 3 ----------------------------------------


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
