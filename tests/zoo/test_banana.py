"""The twisted normal: density and moments from its exact draws' formula, derivatives, the published setting."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_hvp, check_libraries, check_moments, check_score
from xpsample.zoo.curved import banana, banana_moments, bend, unbend

stats = pytest.importorskip("scipy.stats")
SETTINGS = [(0.5, 1.0), (0.03, 10.0), (0.0, 2.0)]


@pytest.mark.parametrize(("curvature", "scale"), SETTINGS)
def test_density_and_derivatives(curvature, scale):
    rng = np.random.default_rng(0)
    x = bend(rng.standard_normal((4, 3, 2)), curvature, scale)
    target = banana(curvature, scale)

    def reference(one):
        x1, x2 = one
        return stats.norm.logpdf(x1, 0, scale) + stats.norm.logpdf(x2, curvature * (x1**2 - scale**2), 1)

    check_density(target, reference, x.reshape(-1, 2))
    check_score(target, x)
    check_hvp(target, x, rng.standard_normal(x.shape))


@pytest.mark.parametrize(("curvature", "scale"), SETTINGS)
def test_moments_are_those_of_exact_draws(curvature, scale):
    z = np.random.default_rng(1).standard_normal((200_000, 2))
    x = bend(z, curvature, scale)
    check_moments(banana_moments(curvature, scale), x)
    np.testing.assert_allclose(unbend(x, curvature, scale), z, atol=1e-12)


def test_published_moments():
    """E x2^2 = 19 and the variance of x2^2, 4,600.898 by the benchmark's long run."""
    moments = banana_moments(0.03, 10.0)
    np.testing.assert_allclose(moments.square, [100.0, 19.0])
    np.testing.assert_allclose(moments.square_variance, [20_000.0, 4600.898], rtol=0.003)


def test_libraries(typed_library):
    check_libraries(banana(0.03, 10.0), 3 * np.random.default_rng(2).standard_normal((2, 3, 2)), typed_library)
