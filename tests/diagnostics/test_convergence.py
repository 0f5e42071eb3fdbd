"""ESS, R-hat and Monte Carlo standard errors, of ranks and of many short chains too, against ArviZ and closed forms."""

from statistics import NormalDist

import numpy as np
import pytest

from xpsample.diagnostics.convergence import mixing, nested_rhat, normal_quantile, normal_scores
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


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_libraries_agree(xp, diagnostic):
    """With chain axes that are flattened."""
    draws = autoregression(0.7, (201, 3, 2, 4)).astype(np.float32)
    result, expected = diagnostic(xp.asarray(draws)), diagnostic(draws.reshape(201, 6, 4).astype(np.float64))
    assert result.dtype == xp.float32
    assert result.shape == (4,)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=2e-4)
    np.testing.assert_array_equal(diagnostic(draws[:, 0, 0, :]), diagnostic(draws[:, :1, 0, :]))


@pytest.mark.slow
@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
@pytest.mark.first_cases(1)
def test_traces_under_jit(diagnostic):
    jax = pytest.importorskip("jax")
    draws = jax.numpy.asarray(autoregression(0.7, (200, 3, 2)), dtype="float32")
    np.testing.assert_allclose(jax.jit(diagnostic)(draws), diagnostic(draws), rtol=1e-4)


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


# ---- ranks, and nested R-hat of many short chains --------------------------------------------------------------------


def ranked(draws):
    return normal_scores(draws)[0]


def test_normal_quantiles():
    p = np.array([1e-12, 1e-9, 1e-4, 0.02, 0.07, 0.3, 0.5, 0.8, 0.93, 0.999, 1 - 1e-9])
    np.testing.assert_allclose(normal_quantile(p), [NormalDist().inv_cdf(v) for v in p], rtol=1e-6)


def test_equal_draws_share_a_rank():
    z = ranked(np.array([3.0, 1.0, 3.0, 7.0]).reshape(4, 1, 1))[:, 0, 0]
    ranks = np.array([2.5, 1.0, 2.5, 4.0])
    np.testing.assert_allclose(z, normal_quantile((ranks - 0.375) / 4.25))


@pytest.mark.parametrize("n", [100, 101])
def test_figures_agree_with_arviz(n):
    draws = autoregression(0.7, (n, 4, 4))
    draws[..., 1] = np.round(draws[..., 1])  # ties
    draws[..., 2] = np.tan(1.4 * np.clip(draws[..., 2], -1.1, 1.1))  # a heavy tail
    draws[:, 0, 3] *= 3  # a chain with another scale, which only folding sees
    found = mixing(draws)
    np.testing.assert_allclose(found.ess_bulk, arviz("ess", draws, method="bulk"), rtol=1e-4)
    np.testing.assert_allclose(found.ess_tail, arviz("ess", draws, method="tail", prob=(0.05, 0.95)), rtol=1e-9)
    np.testing.assert_allclose(found.rhat, arviz("rhat", draws, method="rank"), rtol=1e-4)
    assert found.rhat[3] > 1.05 and split_rhat(draws)[3] < 1.02


def test_what_has_no_figures():
    draws = np.random.default_rng(0).normal(size=(50, 3, 4))
    draws[..., 1] = 2.0
    draws[4, 1, 2] = np.nan
    for values in mixing(draws):
        np.testing.assert_array_equal(np.isnan(values), [False, True, True, False])


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "n"), [(32, 20), (128, 20), (1000, 10), (1000, 100)])
def test_many_short_chains_that_forget_have_mixed(chains, n):
    """Of 200 coordinates none is above 1.01 (by chance one is in 4 of 100 seeds), where split R-hat is for all."""
    draws = autoregression(0.3, (n, chains, 200), seed=1)
    assert np.max(nested_rhat(draws)) < 1.01
    assert np.min(split_rhat(autoregression(0.8, (n, chains, 200)))) > 1.02


@pytest.mark.parametrize(("chains", "n"), [(32, 20), (128, 20), (1000, 100)])
def test_many_chains_that_remember_have_not_mixed(chains, n):
    assert np.mean(nested_rhat(autoregression(0.995, (n, chains, 50)))) > 1.2


def test_many_chains_in_two_modes_or_on_their_way_have_not_mixed():
    draws = autoregression(0.3, (100, 64, 3))
    modes = draws + np.where(np.arange(64) % 2, 3.0, -3.0)[:, None]
    assert np.all(nested_rhat(modes) > 2)
    drifting = draws + np.linspace(0, 2, 100)[:, None, None]
    assert np.all(nested_rhat(drifting) > 1.1)
    spreading = draws * np.linspace(0.5, 2, 100)[:, None, None]
    assert np.all(mixing(spreading).rhat > 1.02)


def test_chains_that_never_move():
    x = np.random.default_rng(0).normal(size=(1, 64, 2)) + np.zeros((50, 1, 1))
    assert np.all(nested_rhat(x) > 2)
    assert np.all(np.isnan(nested_rhat(x[:3])))


@pytest.mark.parametrize("n", [11, 12])
@pytest.mark.parametrize("ties", [False, True])
def test_one_sort_gives_what_sorting_anew_gives(n, ties):
    """Scores of the draws and of their distances from the median, and the quantiles of the tails: to the bit."""
    draws = np.random.default_rng(n).normal(size=(n, 3, 2))
    draws = np.round(draws) if ties else draws
    even = draws if n % 2 == 0 else np.delete(draws, n // 2, axis=0)
    folded = ranked(np.abs(even - np.median(even, axis=(0, 1))))
    found = mixing(draws)
    np.testing.assert_array_equal(found.rhat, np.fmax(split_rhat(ranked(even)), split_rhat(folded)))
    low, high = np.quantile(draws, (0.05, 0.95), axis=(0, 1))
    tails = [chain_ess((draws <= limit).astype(float)) for limit in (low, high)]
    np.testing.assert_array_equal(found.ess_tail, np.fmin(*tails))
