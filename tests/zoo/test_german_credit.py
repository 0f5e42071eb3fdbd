"""Sparse logistic regression: SciPy's prior and likelihood, derivatives, the published data and moments."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_libraries, check_score
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.data import load_dataset
from xpsample.zoo.logistic import (
    german_credit,
    german_credit_moments,
    german_credit_parameters,
    german_credit_rows,
)

stats = pytest.importorskip("scipy.stats")
RNG = np.random.default_rng(5)
FEATURES, LABELS = RNG.standard_normal((30, 3)), RNG.integers(2, size=30)


def reference(x, features=FEATURES, labels=LABELS):
    """The joint density in the scales, and the Jacobian of the exponential."""
    n = features.shape[1]
    scales, w = np.exp(x[: n + 1]), x[n + 1 :]
    total = np.sum(stats.gamma.logpdf(scales, 0.5, scale=2.0)) + np.sum(x[: n + 1]) + np.sum(stats.norm.logpdf(w))
    logits = features @ (w * scales[1:] * scales[0])
    return total + np.sum(stats.logistic.logcdf(np.where(labels == 1, logits, -logits)))


def test_density_and_score():
    x = np.random.default_rng(0).standard_normal((4, 3, 7))
    target = german_credit(FEATURES, LABELS)
    check_density(target, reference, x.reshape(-1, 7))
    check_score(target, x)


def test_parameters():
    x = np.array([[0.0, 1.0, -1.0, 3.0, 4.0]])
    np.testing.assert_allclose(german_credit_parameters(x), [[1.0, np.e, 1 / np.e, 3.0, 4.0]])


def test_the_published_data_and_moments(data_folder):
    features, labels = german_credit_rows()
    assert features.shape == (1000, 25) and np.sum(labels) == 300
    np.testing.assert_allclose(features.mean(axis=0), [*np.zeros(24), 1.0], atol=1e-12)
    np.testing.assert_allclose(features.std(axis=0), [*np.ones(24), 0.0], atol=1e-12)
    moments, published = german_credit_moments(), load_dataset("targets/german_credit")
    names = ("global_scale", "local_scales", "unscaled_weights")
    mean, sd = (np.concatenate([published[f"{name}_{what}"] for name in names]) for what in ("mean", "sd"))
    assert np.max(np.abs(moments.mean - mean) / sd) < 0.02
    np.testing.assert_allclose(np.sqrt(moments.variance), sd, rtol=0.02)
    assert np.all(moments.square_variance > 0) and len(moments.square_variance) == 51
    x = 0.3 * np.random.default_rng(1).standard_normal((3, 51))
    check_density(german_credit(), lambda one: reference(one, features, labels), x)


def test_libraries(typed_library):
    x = np.random.default_rng(2).standard_normal((2, 3, 7))
    check_libraries(german_credit(FEATURES, LABELS), x, typed_library)


@pytest.mark.parametrize("arguments", [(FEATURES,), (None, LABELS), (FEATURES, LABELS[:-1]), (FEATURES[0], LABELS)])
def test_what_is_refused(arguments):
    with pytest.raises(HyperparameterError, match="labels"):
        german_credit(*arguments)
