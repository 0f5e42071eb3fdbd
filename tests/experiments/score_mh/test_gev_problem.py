"""The GEV distribution: SciPy's density and quantiles (c = -xi), differences, the edge of the support, kernels."""

from dataclasses import replace

import numpy as np
import pytest

from xpsample import MALA, RWM, SRMC, ULA, Exact, sample
from xpsample.core.errors import DivergenceWarning
from xpsample.experiments.score_mh.gev_problem import gev, gev_quantile

EVERYTHING = SRMC(MALA(0.1), alpha=1.0, tilt=Exact()).requires
SHAPES = np.array([-0.4, -1e-9, 0.0, 1e-9, 0.3, 1.2])
LOCATION, SCALE = 0.5, 2.0


def inner(shape, count=30):
    """Positions (shapes, count, 1) of each law's support."""
    return gev_quantile(np.linspace(0.001, 0.999, count), shape[:, None], LOCATION, SCALE)[..., None]


def bound_to(library, x):
    return gev(SHAPES[:, None], LOCATION, SCALE).prepare(x, EVERYTHING)


def test_density_is_scipys(library):
    stats = pytest.importorskip("scipy.stats")
    x = inner(SHAPES)
    found = library.host(bound_to(library, library.array(x)).evaluate(library.array(x)).log_density)
    wanted = stats.genextreme.logpdf(x[..., 0], -SHAPES[:, None], LOCATION, SCALE)
    # SciPy's own formula loses digits for shapes next to 0.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_quantiles_are_scipys():
    stats = pytest.importorskip("scipy.stats")
    p = np.linspace(0.001, 0.999, 30)
    wanted = stats.genextreme.ppf(p, -SHAPES[:, None], LOCATION, SCALE)
    np.testing.assert_allclose(inner(SHAPES)[..., 0], wanted, rtol=1e-6)


def test_derivatives_are_differences(library):
    host = inner(SHAPES)
    x, h = library.array(host), 1e-6
    bound = bound_to(library, x)
    up, down = (library.array(host + step) for step in (h, -h))
    slope = library.host(bound.evaluate(up).log_density - bound.evaluate(down).log_density) / (2 * h)
    np.testing.assert_allclose(library.host(bound.score(x))[..., 0], slope, rtol=1e-5, atol=1e-6)
    bend = library.host(bound.score(up) - bound.score(down)) / (2 * h)
    v = library.array(np.full_like(host, 3.0))
    np.testing.assert_allclose(library.host(bound.hvp(x, v)), 3.0 * bend, rtol=1e-5, atol=1e-5)


def test_nothing_is_outside_of_the_support(library):
    inside, outside = np.array([[[1.0]], [[1.0]]]), np.array([[[4.1]], [[-4.1]]])  # bounds of xi = -0.5, 0.5: 4, -4
    target = gev(np.array([[-0.5], [0.5]]), 0.0, 2.0).prepare(library.array(inside), EVERYTHING)
    point = target.evaluate(library.array(outside))
    np.testing.assert_array_equal(library.host(point.log_density), -np.inf)
    assert np.all(np.isnan(library.host(point.score)))
    assert np.all(np.isfinite(library.host(target.evaluate(library.array(inside)).score)))


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DivergenceWarning")
def test_metropolis_keeps_to_the_support_and_has_the_right_quantiles():
    """Shares below five quantiles, within 5 standard errors over 400 chains: wrong alarm below 1 in 10^4 runs."""
    shapes = np.array([-0.5, 0.5])[:, None]
    x0 = gev_quantile(np.random.default_rng(0).random((2, 400)), shapes)[..., None]
    for kernel in (RWM(1.5), MALA(0.3)):
        draws = sample(gev(shapes), kernel, x0, 400, seed=1).draws[..., 0]
        assert np.all(1 + shapes * draws > 0)
        for p in (0.05, 0.25, 0.5, 0.75, 0.95):
            shares = np.mean(draws < gev_quantile(p, shapes), axis=0)
            error = np.std(shares, axis=1) / 20
            assert np.all(np.abs(np.mean(shares, axis=1) - p) < 5 * error), (kernel, p)


def test_ula_is_frozen_where_it_leaves_the_support():
    shape, x0 = -0.5, np.full((50, 1), 1.9)  # 0.1 below the bound
    with pytest.warns(DivergenceWarning):
        trace = sample(replace(gev(shape), constrained=False), ULA(0.05), x0, 50, seed=1)
    left = trace.run_statistics.diverged > 0
    assert np.any(left)
    assert np.all(trace.draws < 2.0)
