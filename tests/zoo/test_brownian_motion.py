"""The Brownian motion with unknown scales: SciPy's prior and likelihood, derivatives, quadrature, published moments."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_libraries, check_score
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.data import load_dataset
from xpsample.zoo.time_series import brownian_moments, brownian_motion, brownian_parameters

stats = pytest.importorskip("scipy.stats")
OBSERVED = np.array([0.3, np.nan, -0.4, np.nan, 0.1])


def reference(x, observed=OBSERVED):
    """The joint density in the scales, and the Jacobian of the softplus."""
    scales, path = np.logaddexp(0.0, x[:2]), x[2:]
    total = np.sum(stats.lognorm.logpdf(scales, s=2.0)) - np.sum(np.logaddexp(0.0, -x[:2]))
    total += np.sum(stats.norm.logpdf(path, np.concatenate([[0.0], path[:-1]]), scales[0]))
    seen = ~np.isnan(observed)
    return total + np.sum(stats.norm.logpdf(observed[seen], path[seen], scales[1]))


def test_density_and_score():
    x = np.random.default_rng(0).standard_normal((4, 3, 7))
    target = brownian_motion(OBSERVED)
    check_density(target, reference, x.reshape(-1, 7))
    check_score(target, x)


def test_parameters():
    x = np.array([[0.0, -3.0, 1.0, 2.0]])
    np.testing.assert_allclose(brownian_parameters(x), [[np.log(2.0), np.log1p(np.exp(-3.0)), 1.0, 2.0]])


def test_a_scale_by_quadrature():
    """E of the innovation scale given the rest, from the target on a grid and from the constrained density by SciPy."""
    grid, path, noise = np.linspace(-12.0, 12.0, 4001), [0.2, 0.1, -0.2, 0.0, 0.2], 0.3
    x = np.tile([0.0, np.log(np.expm1(noise)), *path], (len(grid), 1))
    x[:, 0] = grid
    target = brownian_motion(OBSERVED)
    weights = np.exp(target.log_density(x, target.data) - np.max(target.log_density(x, target.data)))
    found = np.sum(weights * np.logaddexp(0.0, grid)) / np.sum(weights)
    scale = np.exp(np.linspace(-12.0, 5.0, 4001))
    density = stats.lognorm.pdf(scale, s=2.0) * scale  # of its logarithm
    density *= np.prod(stats.norm.pdf(np.diff([0.0, *path])[:, None], 0.0, scale), axis=0)
    assert found == pytest.approx(np.sum(density * scale) / np.sum(density), rel=1e-4)


def test_the_published_data_and_moments(data_folder):
    target, moments = brownian_motion(), brownian_moments()
    assert np.sum(target.data["seen"]) == 20
    x = np.random.default_rng(1).standard_normal((3, 32))
    check_density(target, lambda one: reference(one, load_dataset("targets/brownian_motion")["observed"]), x)
    assert all(len(part) == 32 for part in moments)
    assert np.all(moments.variance > 0) and np.all(moments.square_variance > 0)
    # What is seen lies within its noise of the posterior mean of the path.
    off = np.where(target.data["seen"] > 0, target.data["observed"] - moments.mean[2:], 0.0)
    assert np.max(np.abs(off)) < 3 * moments.mean[1]


def test_libraries(typed_library):
    check_libraries(brownian_motion(OBSERVED), np.random.default_rng(2).standard_normal((2, 3, 7)), typed_library)


def test_what_is_refused():
    with pytest.raises(HyperparameterError, match=r"observed has shape \(steps,\)"):
        brownian_motion(np.zeros((2, 2)))
