"""MMD and KSD against loops over pairs, closed forms on Gaussians, and Stein's identity."""

import math

import numpy as np
import pytest

from xpsample.core.errors import HyperparameterError
from xpsample.metrics import discrepancy, fisher_divergence, median_bandwidth, squared_ksd, squared_mmd
from xpsample.metrics.stein import RBF, InverseMultiquadric

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(2, 9, 3)), GENERATOR.normal(size=(2, 7, 3)) + 0.5
PRECISION = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.5]])

PAIRS = {
    "rbf": (RBF(1.7), lambda a, b: math.exp(-np.sum((a - b) ** 2) / 1.7)),
    "imq": (InverseMultiquadric(1.7, -0.3), lambda a, b: (1 + np.sum((a - b) ** 2) / 1.7) ** -0.3),
}


def mean(f, x, y, skip):
    return np.mean([f(a, b) for i, a in enumerate(x) for j, b in enumerate(y) if not (skip and i == j)])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_mmd_is_the_mean_over_pairs(name, unbiased, library):
    kernel, k = PAIRS[name]
    expected = [
        mean(k, x, x, unbiased) + mean(k, y, y, unbiased) - 2 * mean(k, x, y, False) for x, y in zip(X, Y, strict=True)
    ]
    found = squared_mmd(library.array(X), library.array(Y), kernel, unbiased)
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-9, atol=1e-12)


def stein_kernel(k, a, b, s, eps=1e-4):
    """The four terms, derivatives by central differences."""
    units = eps * np.eye(len(a))
    by_a = np.array([(k(a + e, b) - k(a - e, b)) / (2 * eps) for e in units])
    by_b = np.array([(k(a, b + e) - k(a, b - e)) / (2 * eps) for e in units])
    trace = sum((k(a + e, b + e) - k(a + e, b - e) - k(a - e, b + e) + k(a - e, b - e)) / (4 * eps**2) for e in units)
    return s(a) @ s(b) * k(a, b) + s(a) @ by_b + s(b) @ by_a + trace


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_ksd_is_the_mean_over_pairs(name, unbiased, library):
    kernel, k = PAIRS[name]

    def term(a, b):
        return stein_kernel(k, a, b, lambda x: -PRECISION @ x)

    expected = [mean(term, x, x, unbiased) for x in X]
    found = squared_ksd(library.array(X), library.array(-X @ PRECISION), kernel, unbiased)
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-6, atol=1e-7)


def test_blocks_change_nothing(monkeypatch):
    def values():
        scores = -X @ PRECISION
        return [squared_mmd(X, Y), squared_ksd(X, scores), squared_mmd(X, Y, RBF(np.array([1.0, 2.0])), False)]

    whole = values()
    monkeypatch.setattr(discrepancy, "BLOCK", 20)
    np.testing.assert_allclose(values(), whole, rtol=1e-10)


def test_a_far_sample_keeps_its_digits(library32):
    near = library32.host(squared_ksd(library32.array(X), library32.array(-X @ PRECISION), RBF(2.0)))
    far = library32.host(squared_ksd(library32.array(X + 256), library32.array(-X @ PRECISION), RBF(2.0)))
    np.testing.assert_allclose(far, near, rtol=1e-3, atol=1e-3)


# Means of independent estimates are compared within 5 standard errors: error probability 6e-7 a comparison.


def assert_mean(values, expected):
    assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(len(values))


def test_mmd_of_two_gaussians():
    """E K of N(0, v) and N(m, v) in one dimension is (1 + 4 v / sigma)^(-1/2) exp(-m^2 / (sigma + 4 v))."""
    rng, v, shift, sigma = np.random.default_rng(1), 0.7, 0.8, 2.0
    x, y = math.sqrt(v) * rng.normal(size=(2, 4000, 20, 1))
    expected = 2 * (1 + 4 * v / sigma) ** -0.5 * (1 - math.exp(-(shift**2) / (sigma + 4 * v)))
    assert_mean(squared_mmd(x, y + shift, RBF(sigma)), expected)
    assert_mean(squared_mmd(x, y, RBF(sigma)), 0.0)
    biased = squared_mmd(x, y, RBF(sigma), unbiased=False)
    assert biased.min() > 0 and biased.mean() > 0.02


def test_the_median_bandwidth(library):
    squared = [np.sum((a - b) ** 2) for i, a in enumerate(X[0]) for b in X[0][:i]]
    found = library.host(median_bandwidth(library.array(X)))
    np.testing.assert_allclose(found[0], np.median(squared), rtol=1e-10)
    default = library.host(squared_mmd(library.array(X), library.array(Y)))
    joined = [float(median_bandwidth(np.concatenate([x, y]))) for x, y in zip(X, Y, strict=True)]
    given = [squared_mmd(x, y, RBF(h)) for x, y, h in zip(X, Y, joined, strict=True)]
    np.testing.assert_allclose(default, given, rtol=1e-9)
    many = np.random.default_rng(4).normal(size=(2501, 1))
    assert median_bandwidth(many) == median_bandwidth(many[::3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: squared_mmd(X, Y, RBF()), "a metric needs a fixed bandwidth"),
        (lambda: squared_ksd(X, X, InverseMultiquadric()), "a metric needs a fixed bandwidth"),
        (lambda: squared_ksd(X[:, :1], X[:, :1], RBF(1.0)), "n at least 2"),
        (lambda: squared_mmd(X[0, :, 0], Y[0, :, 0], RBF(1.0)), "n at least 2"),
        (lambda: fisher_divergence(np.zeros((7, 3)), np.zeros((6, 3))), r"other has shape \(6, 3\), but score has \(7"),
    ],
)
def test_bad_input_says_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


def test_the_fisher_divergence_of_two_gaussians(library):
    """E |x / v - (x - m) / w|^2 under N(0, v I) in the plane, in 3 batches of 40,000 draws, to 4 standard errors."""
    v, w, m = 2.0, 0.5, np.array([1.0, -2.0])
    x = math.sqrt(v) * np.random.default_rng(5).normal(size=(3, 40_000, 2))
    scores, others = -x / v, -(x - m) / w
    found = library.host(fisher_divergence(library.array(scores), library.array(others)))
    each = np.sum((scores - others) ** 2, axis=-1)
    expected = 2 * v * (1 / w - 1 / v) ** 2 + m @ m / w**2
    assert np.all(np.abs(found - expected) < 4 * np.std(each, axis=-1) / math.sqrt(40_000))
    np.testing.assert_allclose(found, np.mean(each, axis=-1), rtol=1e-12)
