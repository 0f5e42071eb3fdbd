"""Wasserstein distances against SciPy, closed forms and one another."""

import sys

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from xpsample.core.errors import HyperparameterError
from xpsample.metrics import marginal_wasserstein, wasserstein, wasserstein_1d

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(3, 12)), 2 * GENERATOR.normal(size=(3, 30)) + 1


def test_in_one_dimension_it_is_scipys(typed_library):
    found = typed_library.host(wasserstein_1d(typed_library.array(X), typed_library.array(Y)))
    expected = [wasserstein_distance(x, y) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=2e-6 if typed_library.dtype == "float32" else 1e-12)


def test_of_equal_sizes_it_is_that_of_sorted_pairs(library):
    x, y = X, Y[:, :12]
    for p in (1, 2, 3):
        expected = np.mean(np.abs(np.sort(x) - np.sort(y)) ** p, axis=-1) ** (1 / p)
        found = library.host(wasserstein_1d(library.array(x), library.array(y), p))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_repeats_of_a_sample_change_nothing():
    np.testing.assert_allclose(wasserstein_1d(np.repeat(X, 5, axis=-1), Y, 2), wasserstein_1d(X, Y, 2), rtol=1e-12)


def test_the_marginal_distance_is_the_sum_over_coordinates(library):
    x, y = GENERATOR.normal(size=(2, 8, 3)), GENERATOR.normal(size=(2, 5, 3))
    expected = [sum(wasserstein_distance(a[:, i], b[:, i]) for i in range(3)) for a, b in zip(x, y, strict=True)]
    found = library.host(marginal_wasserstein(library.array(x), library.array(y)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_exact_distances(library):
    """In one dimension by sorting; of a shifted copy the shift; above the marginals in general."""
    pytest.importorskip("ot")
    for p in (1, 2):
        found = wasserstein(library.array(X[..., None]), library.array(Y[..., None]), p)
        np.testing.assert_allclose(found, wasserstein_1d(X, Y, p), rtol=1e-9)
    x, shift = GENERATOR.normal(size=(20, 3)), np.array([0.3, -0.4, 1.2])
    for p in (1, 2):
        np.testing.assert_allclose(wasserstein(x, x + shift, p), 1.3, rtol=1e-9)
    y = GENERATOR.normal(size=(25, 3))
    assert marginal_wasserstein(x, y) <= np.sqrt(3) * wasserstein(x, y)
    # A sample and its mirror image have the same marginals up to sign, and nothing in common beside.
    line = np.linspace(-1, 1, 21)[:, None]
    assert marginal_wasserstein(line * [1, 1], line * [1, -1]) < 1e-12
    assert wasserstein(line * [1, 1], line * [1, -1]) > 0.3


def test_without_pot_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r'wasserstein\(\) needs POT: pip install "xpsample\[metrics\]"'):
        wasserstein(X, Y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wasserstein(X, Y, 3), "p must be 1 or 2; got 3"),
        (lambda: wasserstein_1d(X, Y, 0.5), "p must be at least 1; got 0.5"),
    ],
)
def test_bad_input_says_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
