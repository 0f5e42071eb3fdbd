"""Chain ESS, split R-hat and Monte Carlo standard errors against ArviZ, closed forms and each other."""

import numpy as np
import pytest

from xpsample.metrics import chain_ess, mcse_mean, split_rhat

LIBRARIES = ["numpy", "torch", "jax.numpy", "array_api_strict"]
DIAGNOSTICS = [chain_ess, split_rhat, mcse_mean]


@pytest.fixture(params=LIBRARIES)
def xp(request):
    """Each library, array-api-strict at its strictest."""
    library = pytest.importorskip(request.param)
    if request.param != "array_api_strict":
        yield library
        return
    library.set_array_api_strict_flags(boolean_indexing=False, data_dependent_shapes=False)
    yield library
    library.reset_array_api_strict_flags()


def autoregression(rho, shape, seed=1):
    """A stationary AR(1) along axis 0 with unit variance."""
    noise = np.random.default_rng(seed).normal(size=shape)
    x = noise.copy()
    for t in range(1, shape[0]):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return x


def arviz(name, draws, **kwargs):
    stats = pytest.importorskip("arviz_stats.base").array_stats
    return getattr(stats, name)(draws, chain_axis=1, draw_axis=0, **kwargs)


# The last lags and pairs differ by parity and for very short chains, so many lengths; one chain; and chains apart.
@pytest.mark.parametrize("n", [10, 11, 12, 13, 14, 15, 25, 250, 1001])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.95, -0.5, -0.95])
def test_equals_arviz(n, rho):
    draws = autoregression(rho, (n, 4, 3))
    apart = draws + np.arange(4.0)[:, None]
    for given in (draws, draws[:, :1], apart):
        np.testing.assert_allclose(chain_ess(given), arviz("ess", given, method="mean"), rtol=1e-9)
        np.testing.assert_allclose(mcse_mean(given), arviz("mcse", given, method="mean"), rtol=1e-9)
        if given.shape[1] > 1:  # ArviZ has none of one chain
            np.testing.assert_allclose(split_rhat(given), arviz("rhat", given, method="split"), rtol=1e-11)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.3])
def test_ess_of_an_autoregression(rho):
    """n (1 - rho) / (1 + rho), for each of 30 coordinates; the estimates scatter by less than 15 %."""
    n, chains = 10_000, 4
    ess = chain_ess(autoregression(rho, (n, chains, 30)))
    exact = n * chains * (1 - rho) / (1 + rho)
    np.testing.assert_allclose(np.mean(ess), exact, rtol=0.05)
    np.testing.assert_allclose(ess, exact, rtol=0.2)


def test_ess_of_an_antithetic_chain_is_capped():
    draws = autoregression(-0.99, (1000, 2, 2))
    np.testing.assert_allclose(chain_ess(draws), 2000 * np.log10(2000))


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_libraries_agree(xp, diagnostic):
    draws = autoregression(0.7, (201, 3, 2, 4)).astype(np.float32)
    result = diagnostic(xp.asarray(draws))
    assert result.dtype == xp.float32
    assert result.shape == (4,)
    np.testing.assert_allclose(np.asarray(result), diagnostic(draws.astype(np.float64)), rtol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
@pytest.mark.first_cases(1)
def test_traces_under_jit(diagnostic):
    jax = pytest.importorskip("jax")
    draws = jax.numpy.asarray(autoregression(0.7, (200, 3, 2)), dtype="float32")
    np.testing.assert_allclose(jax.jit(diagnostic)(draws), diagnostic(draws), rtol=1e-4)


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_chain_axes_are_flattened(diagnostic):
    draws = autoregression(0.5, (100, 6, 2))
    np.testing.assert_array_equal(diagnostic(draws.reshape(100, 2, 3, 2)), diagnostic(draws))
    np.testing.assert_array_equal(diagnostic(draws[:, 0, :]), diagnostic(draws[:, :1, :]))


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
@pytest.mark.filterwarnings("error")
def test_constant_and_non_finite_coordinates_are_nan(xp, diagnostic):
    draws = autoregression(0.5, (101, 3, 5)).astype(np.float32)
    clean = diagnostic(draws)
    draws[:, :, 1] = 0.1
    draws[50, 1, 2] = np.inf
    draws[50, 1, 3] = np.nan
    result = np.asarray(diagnostic(xp.asarray(draws)))
    np.testing.assert_array_equal(np.isnan(result), [False, True, True, True, False])
    np.testing.assert_allclose(result[[0, 4]], clean[[0, 4]], rtol=1e-4)


@pytest.mark.filterwarnings("error")
def test_chains_stuck_apart():
    draws = np.zeros((100, 4, 1)) + 0.1 * np.arange(4.0)[:, None]
    assert split_rhat(draws) == np.inf
    assert np.isnan(chain_ess(draws))
    assert np.isnan(mcse_mean(draws))
    draws[50:] += 1.0  # halves that are constant
    assert np.isnan(chain_ess(draws))
    draws[7, 0] += 1.0  # a chain that moves, among three that do not
    assert chain_ess(draws) < 10


@pytest.mark.parametrize("n", [4, 9, 10])
def test_no_ess_of_fewer_than_ten_draws(n):
    """What Stan's sum gives for them is N log10(N), whatever the draws."""
    ess = chain_ess(autoregression(0.9, (n, 4, 3)))
    assert np.all(np.isnan(ess)) if n < 10 else np.all(ess < 4 * n)


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
@pytest.mark.parametrize("shape", [(0, 2, 3), (1, 2, 3), (3, 2, 3), (10, 0, 3), (10, 2, 0)])
@pytest.mark.filterwarnings("error")
def test_too_few_draws_are_nan(xp, diagnostic, shape):
    result = np.asarray(diagnostic(xp.ones(shape, dtype=xp.float32)))
    assert result.shape == shape[-1:]
    assert np.all(np.isnan(result))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_and_offset_do_not_matter(scale):
    """Squares of these numbers leave float32; an offset of 1e3 costs three of its seven digits."""
    draws = autoregression(0.5, (500, 2, 3)).astype(np.float32)
    shifted = np.float32(scale) * (draws + np.float32(1e3))
    np.testing.assert_allclose(chain_ess(shifted), chain_ess(draws), rtol=1e-2)
    np.testing.assert_allclose(split_rhat(shifted), split_rhat(draws), rtol=1e-3)
    np.testing.assert_allclose(mcse_mean(shifted), np.float32(scale) * mcse_mean(draws), rtol=1e-2)


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_bad_draws(diagnostic):
    with pytest.raises(TypeError, match="floating dtype, not int64"):
        diagnostic(np.ones((10, 2, 3), dtype=np.int64))
    with pytest.raises(ValueError, match=r"\(draw, \*chains, dim\), not \(10,\)"):
        diagnostic(np.ones(10))
