"""Rank-normalized ESS and R-hat, and nested R-hat of many short chains."""

from statistics import NormalDist

import numpy as np
import pytest

from tests.diagnostics.test_convergence import arviz, autoregression
from xpsample.diagnostics.convergence import chain_ess, mixing, nested_rhat, normal_quantile, normal_scores, split_rhat


def ranked(draws):
    return normal_scores(draws)[0]


def autoregressive(rho, n, chains, dim, seed=0):
    return autoregression(rho, (n, chains, dim), seed)


def test_normal_quantiles():
    p = np.array([1e-12, 1e-9, 1e-4, 0.02, 0.07, 0.3, 0.5, 0.8, 0.93, 0.999, 1 - 1e-9])
    np.testing.assert_allclose(normal_quantile(p), [NormalDist().inv_cdf(v) for v in p], rtol=1e-6)


def test_equal_draws_share_a_rank():
    z = ranked(np.array([3.0, 1.0, 3.0, 7.0]).reshape(4, 1, 1))[:, 0, 0]
    ranks = np.array([2.5, 1.0, 2.5, 4.0])
    np.testing.assert_allclose(z, normal_quantile((ranks - 0.375) / 4.25))


@pytest.mark.parametrize("n", [100, 101])
def test_figures_agree_with_arviz(n):
    draws = autoregressive(0.7, n, 4, 4)
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
    draws = autoregressive(0.3, n, chains, 200, seed=1)
    assert np.max(nested_rhat(draws)) < 1.01
    assert np.min(split_rhat(autoregressive(0.8, n, chains, 200))) > 1.02


@pytest.mark.parametrize(("chains", "n"), [(32, 20), (128, 20), (1000, 100)])
def test_many_chains_that_remember_have_not_mixed(chains, n):
    assert np.mean(nested_rhat(autoregressive(0.995, n, chains, 50))) > 1.2


def test_many_chains_in_two_modes_or_on_their_way_have_not_mixed():
    draws = autoregressive(0.3, 100, 64, 3)
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


def test_the_ess_of_ranks_does_not_see_a_heavy_tail():
    draws = np.tan(np.pi * (np.random.default_rng(0).random((500, 4, 1)) - 0.5))
    assert mixing(draws).ess_bulk == pytest.approx(chain_ess(ranked(draws)))
    assert 1500 < mixing(draws).ess_bulk[0] < 2700


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
