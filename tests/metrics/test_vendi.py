"""The Vendi score, against cases in closed form and the entropy of the density matrix."""

import math

import numpy as np
import pytest
from scipy.special import entr

from xpsample.metrics import cosine_similarity, vendi_score


def test_all_alike_all_different_and_groups(typed_library):
    alike, apart = np.ones((6, 6)), np.eye(6)
    # Groups of 3, 2 and 1: the eigenvalues of K / n are the shares of the groups.
    groups = (np.array([0, 0, 0, 1, 1, 2])[:, None] == [0, 0, 0, 1, 1, 2]).astype(float)
    shares = np.array([3, 2, 1]) / 6
    expected = [1, 6, math.exp(-np.sum(shares * np.log(shares)))]
    found = vendi_score(typed_library.array(np.stack([alike, apart, groups])))
    np.testing.assert_allclose(typed_library.host(found), expected, rtol=1e-4)


def test_two_samples_in_closed_form():
    for cosine in (0.0, 0.3, 0.99):
        p = (1 + cosine) / 2
        exact = math.exp(-p * math.log(p) - (1 - p) * math.log(1 - p))
        assert vendi_score(np.array([[1, cosine], [cosine, 1]])) == pytest.approx(exact)


def test_von_neumann_entropy_of_a_full_matrix(library):
    features = np.random.default_rng(0).standard_normal((2, 4, 9))
    found = library.host(vendi_score(cosine_similarity(library.array(features))))
    for i in range(2):
        units = features[i] / np.linalg.norm(features[i], axis=-1, keepdims=True)
        # The density matrix units^T units / 4 has the squared singular values of units / 2 for eigenvalues.
        shares = np.linalg.svd(units / 2, compute_uv=False) ** 2
        np.testing.assert_allclose(found[i], math.exp(np.sum(entr(shares))), rtol=1e-9)


def test_more_samples_than_features_gives_at_most_the_features(library32):
    features = np.random.default_rng(1).standard_normal((300, 5))
    score = float(library32.host(vendi_score(cosine_similarity(library32.array(features)))))
    assert 4.5 < score < 5.001


def test_a_zero_vector_is_like_no_other():
    np.testing.assert_array_equal(cosine_similarity(np.array([[0.0, 0.0], [3.0, 4.0]])), np.eye(2))


def test_bad_shape():
    with pytest.raises(ValueError, match=r"not \(2, 3\)"):
        vendi_score(np.zeros((2, 3)))
