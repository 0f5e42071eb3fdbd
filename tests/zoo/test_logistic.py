"""Logistic regression: many data sets, saturated logits, other coordinates, the shipped data."""

import numpy as np
import pytest

from tests.zoo.derivatives import EVERYTHING
from xpsample import Target
from xpsample.core.errors import HyperparameterError
from xpsample.experiments.breast_cancer.affine import affine
from xpsample.zoo.logistic import breast_cancer, load_breast_cancer, logistic_regression

ROWS, DIM = 40, 5


def test_many_data_sets_are_one_target_each(library):
    """With data along an axis, chains (data, chains) see their own."""
    rng = np.random.default_rng(5)
    features, labels = rng.standard_normal((3, ROWS, DIM)), (rng.random((3, ROWS)) < 0.4).astype(int)
    x, v = rng.standard_normal((2, 3, 4, DIM))
    together = logistic_regression(features, labels).prepare(library.array(x), EVERYTHING)
    point = together.evaluate(library.array(x))
    products = together.hvp(library.array(x), library.array(v))
    sums = together.score_plus_hvp(library.array(x), library.array(v))
    for i in range(3):
        alone = logistic_regression(features[i], labels[i]).prepare(x[i], EVERYTHING)
        expected = alone.evaluate(x[i])
        np.testing.assert_allclose(library.host(point.log_density)[i], expected.log_density, rtol=1e-12)
        np.testing.assert_allclose(library.host(point.score)[i], expected.score, rtol=1e-11)
        np.testing.assert_allclose(library.host(products)[i], alone.hvp(x[i], v[i]), rtol=1e-11)
        np.testing.assert_allclose(library.host(sums)[i], alone.score_plus_hvp(x[i], v[i]), rtol=1e-11)
    with pytest.raises(HyperparameterError, match=r"features have shape \(\*data, rows, dim\)"):
        logistic_regression(features, labels[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_far_out_everything_stays_finite(dtype):
    target = logistic_regression(np.asarray([[1.0], [1.0]]), np.asarray([1, 0]), prior_scale=1e6)
    x = np.asarray([[1e4], [-1e4]], dtype=dtype)
    bound = target.prepare(x, EVERYTHING)
    point = bound.evaluate(x)
    np.testing.assert_allclose(point.log_density, -1e4, rtol=1e-4)  # one row is certain, the other costs |x|
    np.testing.assert_allclose(point.score, [[-1.0], [1.0]], rtol=1e-6)
    np.testing.assert_allclose(bound.hvp(x, x), 0.0, atol=1e-6)
    assert point.log_density.dtype == point.score.dtype == np.dtype(dtype)


# ---- other coordinates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_data", [True, False])
def test_affine_follows_the_chain_rule(with_data):
    rng = np.random.default_rng(3)
    features, labels = rng.standard_normal((ROWS, DIM)), (rng.random(ROWS) < 0.4).astype(int)
    z, v = rng.standard_normal((2, 2, 3, DIM))
    center, factor = rng.standard_normal(DIM), np.eye(DIM) + 0.3 * rng.standard_normal((DIM, DIM))
    inner = logistic_regression(features, labels)
    if not with_data:
        bound = inner.prepare(z, EVERYTHING)
        inner = Target(lambda x: bound.evaluate(x).log_density, score=bound.score, hvp=bound.hvp)
    x = center + z @ factor.T
    moved, still = affine(inner, center, factor).prepare(z, EVERYTHING), inner.prepare(x, EVERYTHING)
    np.testing.assert_allclose(moved.evaluate(z).log_density, still.evaluate(x).log_density, rtol=1e-12)
    np.testing.assert_allclose(moved.evaluate(z).score, still.evaluate(x).score @ factor, rtol=1e-12)
    np.testing.assert_allclose(moved.score(z), still.score(x) @ factor, rtol=1e-12)
    np.testing.assert_allclose(moved.hvp(z, v), still.hvp(x, v @ factor.T) @ factor, rtol=1e-12)


def test_affine_leaves_absent_derivatives_absent_and_checks_shapes():
    target = affine(Target(lambda x: -(x * x).sum(-1)), np.zeros(2), np.eye(2))
    assert target.score is None and target.hvp is None and target.log_density_and_score is None
    with pytest.raises(HyperparameterError, match="do not fit"):
        affine(target, np.zeros(2), np.eye(3))


# ---- the data --------------------------------------------------------------------------------------------------------


def test_shipped_data_is_the_published_one():
    data = load_breast_cancer()
    assert data.train_features.shape == (455, 31) and data.test_features.shape == (114, 31)
    labels = np.concatenate([data.train_labels, data.test_labels])
    assert (labels == 1).sum() == 212 and (labels == 0).sum() == 357  # malignant, benign: UCI's counts
    np.testing.assert_allclose(data.train_features[:, 0], 1.0)
    np.testing.assert_allclose(data.train_features[:, 1:].mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(data.train_features[:, 1:].std(axis=0), 1.0, rtol=1e-10)
    assert data.names[:2] == ("intercept", "mean radius") and len(data.names) == 31
    # Malignant nuclei are larger: the sign of the coding.
    assert data.train_features[data.train_labels == 1, 1].mean() > 0.5
    point = breast_cancer().prepare(np.zeros((2, 31)), EVERYTHING).evaluate(np.zeros((2, 31)))
    np.testing.assert_allclose(point.log_density, 455 * np.log(0.5))
