"""Class coverage, against scipy's entropies and counts written out."""

import math

import numpy as np
import pytest
from scipy.stats import entropy

from xpsample.metrics import (
    class_shares,
    classes_covered,
    cumulative_class_shares,
    kl_to_uniform,
    normalised_entropy,
    tv_to_uniform,
)

SHARES = np.random.default_rng(0).dirichlet(np.ones(10), size=(2, 3))
SHARES[0, 0] = np.eye(10)[4]
SHARES[0, 1] = 0.1
SHARES[1, 2] = [0.5, 0.5, *[0.0] * 8]


def test_the_measures_are_their_definitions(typed_library):
    shares, u = typed_library.array(SHARES), np.full(10, 0.1)
    for metric, expected in (
        (kl_to_uniform, entropy(SHARES, u, axis=-1)),
        (tv_to_uniform, np.max([np.sum((SHARES - 0.1) * c, axis=-1) for c in _events()], axis=0)),
        (normalised_entropy, entropy(SHARES, axis=-1) / math.log(10)),
    ):
        found = metric(shares)
        assert str(found.dtype).endswith(typed_library.dtype)
        np.testing.assert_allclose(typed_library.host(found), expected, atol=1e-6)
    np.testing.assert_array_equal(typed_library.host(classes_covered(shares)), np.count_nonzero(SHARES, axis=-1))


def _events():
    """All subsets of ten classes: the total variation is the largest difference of a probability."""
    return (((n >> np.arange(10)) & 1).astype(float) for n in range(1024))


def test_one_class_and_evenly_spread():
    assert kl_to_uniform(SHARES)[0, 0] == pytest.approx(math.log(10))
    assert normalised_entropy(SHARES)[0, 0] == 0 and tv_to_uniform(SHARES)[0, 0] == pytest.approx(0.9)
    assert kl_to_uniform(SHARES)[0, 1] == pytest.approx(0, abs=1e-12)
    assert normalised_entropy(SHARES)[0, 1] == pytest.approx(1) and tv_to_uniform(SHARES)[0, 1] == pytest.approx(0)
    assert kl_to_uniform(SHARES)[1, 2] == pytest.approx(math.log(5))


def test_shares_are_counts(typed_library):
    labels = np.random.default_rng(1).integers(0, 4, (3, 2, 50))
    expected = np.stack([np.mean(labels == c, axis=-1) for c in range(4)], axis=-1)
    found = class_shares(typed_library.array(labels), 4, typed_library.array(SHARES))
    assert str(found.dtype).endswith(typed_library.dtype)
    np.testing.assert_allclose(typed_library.host(found), expected, rtol=1e-6)


def test_cumulative_shares_pool_chains_and_rows(library):
    labels = np.random.default_rng(2).integers(0, 5, (20, 2, 7))
    found = library.host(cumulative_class_shares(library.array(labels), 5, library.array(SHARES)))
    for n in range(20):
        for g in range(2):
            counts = np.bincount(labels[: n + 1, g].ravel(), minlength=5)
            np.testing.assert_allclose(found[n, g], counts / counts.sum(), rtol=1e-12)


def test_a_label_of_no_class_counts_as_a_sample():
    np.testing.assert_allclose(class_shares(np.array([0, 0, 1, -1]), 2, np.zeros(1)), [0.5, 0.25])


def test_bad_input():
    with pytest.raises(ValueError, match=r"shape \(0,\) and 3 classes"):
        class_shares(np.zeros(0, dtype=int), 3, np.zeros(1))
    with pytest.raises(ValueError, match="0 classes"):
        class_shares(np.zeros(2, dtype=int), 0, np.zeros(1))
