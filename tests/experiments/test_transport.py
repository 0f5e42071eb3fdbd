"""Wasserstein distances against SciPy, closed forms and one another."""

import sys

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from xpsample.experiments.transport import marginal_wasserstein, wasserstein, wasserstein_1d

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(3, 12)), 2 * GENERATOR.normal(size=(3, 30)) + 1


def test_in_one_dimension_it_is_scipys():
    expected = [wasserstein_distance(x, y) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(wasserstein_1d(X, Y), expected, rtol=1e-12)
    np.testing.assert_allclose(wasserstein_1d(np.repeat(X, 5, axis=-1), Y), expected, rtol=1e-12)


def test_the_marginal_distance_is_the_sum_over_coordinates():
    x, y = GENERATOR.normal(size=(2, 8, 3)), GENERATOR.normal(size=(2, 5, 3))
    expected = [sum(wasserstein_distance(a[:, i], b[:, i]) for i in range(3)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(marginal_wasserstein(x, y), expected, rtol=1e-12)


def test_exact_distances():
    """In one dimension by sorting; of a shifted copy the shift; above the marginals in general."""
    pytest.importorskip("ot")
    np.testing.assert_allclose(wasserstein(X[..., None], Y[..., None]), wasserstein_1d(X, Y), rtol=1e-9)
    squares = np.mean((np.sort(X) - np.sort(Y[:, :12])) ** 2, axis=-1)
    np.testing.assert_allclose(wasserstein(X[..., None], Y[:, :12, None], 2), np.sqrt(squares), rtol=1e-9)
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
        wasserstein(X, Y)
