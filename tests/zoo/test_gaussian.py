"""Covariances of a given condition: eigenvalues, rotation, what is refused; SciPy's density."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_score
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.gaussian import conditioned_covariance, gaussian

stats = pytest.importorskip("scipy.stats")


def test_eigenvalues_are_even_in_the_logarithm_about_one():
    plain, turned = conditioned_covariance(5, 1e4), conditioned_covariance(5, 1e4, rotation_seed=3)
    np.testing.assert_allclose(np.diag(plain), [0.01, 0.1, 1.0, 10.0, 100.0])
    np.testing.assert_array_equal(plain, np.diag(np.diag(plain)))
    np.testing.assert_allclose(np.linalg.eigvalsh(turned), np.diag(plain))
    assert np.max(np.abs(turned - np.diag(np.diag(turned)))) > 1.0
    np.testing.assert_array_equal(conditioned_covariance(3, 1.0), np.eye(3))


def test_density_of_a_rotated_one():
    covariance = conditioned_covariance(6, 1e3, rotation_seed=1)
    x = np.random.default_rng(0).multivariate_normal(np.zeros(6), covariance, size=8)
    check_density(gaussian(covariance), stats.multivariate_normal(np.zeros(6), covariance).logpdf, x)
    check_score(gaussian(covariance), x)


def test_a_condition_below_one_is_refused():
    with pytest.raises(HyperparameterError, match="condition"):
        conditioned_covariance(3, 0.5)
