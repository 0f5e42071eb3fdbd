"""Measures of images."""

import sys

import numpy as np
import pytest

from xpsample.core.errors import HyperparameterError
from xpsample.metrics import mean_squared_error, structural_similarity

TRUTH = np.random.default_rng(0).uniform(0, 200, size=(9, 8))


def test_squared_error(typed_library):
    x = TRUTH + np.arange(6.0).reshape(2, 3, 1, 1)
    found = typed_library.host(mean_squared_error(typed_library.array(x), typed_library.array(TRUTH)))
    np.testing.assert_allclose(found, np.arange(6.0).reshape(2, 3) ** 2, rtol=1e-4)


def test_similarity_by_its_definition(library):
    """Of an image of one window: the formula of Wang et al., with unbiased variances."""
    pytest.importorskip("skimage")
    truth = TRUTH[:7, :7]
    x = np.stack([truth, 0.5 * truth + 30, np.full((7, 7), 100.0)])
    found = structural_similarity(library.array(x), library.array(truth), data_range=255.0)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    expected = []
    for one in x:
        covariance = np.cov(truth.ravel(), one.ravel())
        means = 2 * truth.mean() * one.mean() + c1, truth.mean() ** 2 + one.mean() ** 2 + c1
        expected.append(means[0] / means[1] * (2 * covariance[0, 1] + c2) / (np.trace(covariance) + c2))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert expected[0] == pytest.approx(1.0) and expected[2] < 0.1


def test_the_range_is_the_references_by_default():
    pytest.importorskip("skimage")
    x = TRUTH[None] + 5 * np.random.default_rng(1).normal(size=(2, 9, 8))
    same = structural_similarity(x, TRUTH, data_range=TRUTH.max() - TRUTH.min())
    np.testing.assert_array_equal(structural_similarity(x, TRUTH), same)
    assert np.all(same < structural_similarity(x, TRUTH, data_range=1000.0))


def test_bad_shapes_and_a_missing_library(monkeypatch):
    pytest.importorskip("skimage")
    with pytest.raises(HyperparameterError, match=r"got \(2, 9, 7\) and \(9, 8\)"):
        structural_similarity(np.zeros((2, 9, 7)), TRUTH)
    monkeypatch.setitem(sys.modules, "skimage.metrics", None)
    with pytest.raises(ImportError, match=r'scikit-image: pip install "xpsample\[metrics\]"'):
        structural_similarity(TRUTH, TRUTH)
