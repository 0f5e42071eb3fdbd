"""Neal's funnel: SciPy's normals, derivatives, moments of exact draws."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_hvp, check_libraries, check_score
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.curved import funnel, funnel_draws, funnel_moments

stats = pytest.importorskip("scipy.stats")


def test_density_is_normalised_and_derivatives_are_its_differences():
    rng = np.random.default_rng(0)
    x = funnel_draws(12, rng).reshape(4, 3, 10)

    def reference(one):
        return stats.norm.logpdf(one[0], 0, 3) + np.sum(stats.norm.logpdf(one[1:], 0, np.exp(one[0] / 2)))

    check_density(funnel(), reference, x.reshape(-1, 10))
    assert float(funnel().log_density(x[0, 0])) == pytest.approx(reference(x[0, 0]), rel=1e-12)
    check_score(funnel(), 0.5 * x)
    check_hvp(funnel(), 0.5 * x, rng.standard_normal(x.shape))


def test_moments():
    """Of the log variance by draws; of the others, whose tails are too wide for draws, by those of a log normal."""
    moments, draws = funnel_moments(4), funnel_draws(100_000, np.random.default_rng(1), 4)
    assert np.mean(draws[:, 0]) == pytest.approx(0.0, abs=5 * 3 / 316)
    assert np.mean(draws[:, 0] ** 2) == pytest.approx(moments.square[0], rel=5 * np.sqrt(2) / 316)
    assert moments.square_variance[0] == pytest.approx(2 * 81)
    scale = stats.lognorm(s=3.0)  # exp(x_1): E y^2 = E scale, E y^4 = 3 E scale^2
    np.testing.assert_allclose(moments.square[1:], scale.moment(1))
    np.testing.assert_allclose(moments.square_variance[1:], 3 * scale.moment(2) - scale.moment(1) ** 2)
    np.testing.assert_array_equal(moments.mean, 0.0)


def test_libraries(typed_library):
    check_libraries(funnel(5), np.random.default_rng(2).standard_normal((2, 3, 5)), typed_library)


def test_one_dimension_is_no_funnel():
    with pytest.raises(HyperparameterError, match="dim must be an integer of at least 2"):
        funnel(1)
