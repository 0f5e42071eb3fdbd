"""Pairs on a curved valley: SciPy's normals, derivatives, moments of exact draws and the published ones."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_hvp, check_libraries, check_moments, check_score
from xpsample.zoo.curved import rosenbrock, rosenbrock_draws, rosenbrock_moments

stats = pytest.importorskip("scipy.stats")


def test_density_and_derivatives():
    rng = np.random.default_rng(0)
    x = rosenbrock_draws(6, rng, 3).reshape(2, 3, 6)

    def reference(one):
        u, v = one[:3], one[3:]
        return np.sum(stats.norm.logpdf(u, 1, 1) + stats.norm.logpdf(v, u**2, np.sqrt(0.1)))

    target = rosenbrock(3)
    check_density(target, reference, x.reshape(-1, 6))
    assert float(target.log_density(x[0, 0])) == pytest.approx(reference(x[0, 0]), rel=1e-12)
    check_score(target, x)
    check_hvp(target, x, rng.standard_normal(x.shape))


def test_moments():
    moments = rosenbrock_moments(2)
    check_moments(moments, rosenbrock_draws(200_000, np.random.default_rng(1), 2))
    np.testing.assert_allclose(moments.square, [2.0, 2.0, 10.10017429, 10.10017429], rtol=1e-4)
    # Those that are published are from draws.
    np.testing.assert_allclose(moments.square_variance[::2], [6.00036273, 668.69693635], rtol=2e-3)


def test_libraries(typed_library):
    check_libraries(rosenbrock(2), np.random.default_rng(2).standard_normal((2, 3, 4)), typed_library)
