"""Class coverage and the Vendi score, against scipy's entropies, counts written out, and cases in closed form."""

import math

import numpy as np
import pytest
from scipy.special import entr
from scipy.stats import entropy

from xpsample.experiments import classes

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
