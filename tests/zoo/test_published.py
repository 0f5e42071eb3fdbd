"""Targets with published data: their shapes, densities on the data, and the moments of their long runs."""

import numpy as np

from tests.zoo import test_continuous as direct
from tests.zoo.derivatives import check_density, check_score
from xpsample import MALA
from xpsample.zoo.data import load_dataset
from xpsample.zoo.gaussian import conditioned_covariance
from xpsample.zoo.logistic import (
    german_credit,
    german_credit_moments,
    german_credit_rows,
    item_response,
    item_response_moments,
)
from xpsample.zoo.time_series import brownian_moments, brownian_motion, stochastic_volatility, volatility_moments


def test_german_credit(data_folder):
    features, labels = german_credit_rows()
    assert features.shape == (1000, 25) and np.sum(labels) == 300
    np.testing.assert_allclose(features.mean(axis=0), [*np.zeros(24), 1.0], atol=1e-12)
    np.testing.assert_allclose(features.std(axis=0), [*np.ones(24), 0.0], atol=1e-12)
    moments, published = german_credit_moments(), load_dataset("targets/german_credit")
    names = ("global_scale", "local_scales", "unscaled_weights")
    mean, sd = (np.concatenate([published[f"{name}_{what}"] for name in names]) for what in ("mean", "sd"))
    assert np.max(np.abs(moments.mean - mean) / sd) < 0.02
    np.testing.assert_allclose(np.sqrt(moments.variance), sd, rtol=0.02)
    assert np.all(moments.square_variance > 0) and len(moments.square_variance) == 51
    x = 0.3 * np.random.default_rng(1).standard_normal((3, 51))
    check_density(german_credit(), lambda one: direct.german_credit(one, features, labels), x)


def test_item_response(data_folder):
    found, moments = load_dataset("targets/item_response"), item_response_moments()
    data = (found["student"], found["question"], found["correct"])
    assert np.sum(item_response().data["asked"]) == len(found["correct"]) == 30_012  # no pair twice
    x = np.random.default_rng(1).standard_normal((2, 501))
    check_density(item_response(), lambda one: direct.item_response(one, *data), x)
    # At the posterior mean the score is small beside what one standard deviation changes.
    score = item_response().prepare(moments.mean, MALA(0.1).requires).score(moments.mean)
    assert np.max(np.abs(score) * np.sqrt(moments.variance)) < 1.0


def test_brownian_motion(data_folder):
    target, moments = brownian_motion(), brownian_moments()
    assert np.sum(target.data["seen"]) == 20
    observed = load_dataset("targets/brownian_motion")["observed"]
    x = np.random.default_rng(1).standard_normal((3, 32))
    check_density(target, lambda one: direct.brownian_motion(one, observed), x)
    assert all(len(part) == 32 for part in moments)
    assert np.all(moments.variance > 0) and np.all(moments.square_variance > 0)
    # What is seen lies within its noise of the posterior mean of the path.
    off = np.where(target.data["seen"] > 0, target.data["observed"] - moments.mean[2:], 0.0)
    assert np.max(np.abs(off)) < 3 * moments.mean[1]


def test_stochastic_volatility(data_folder):
    moments, x = volatility_moments(), 0.1 * np.random.default_rng(1).standard_normal((2, 2429))
    returns = np.asarray(load_dataset("targets/stochastic_volatility")["returns"], dtype=np.float64)
    check_density(stochastic_volatility(), lambda one: direct.stochastic_volatility(one, returns), x)
    check_score(stochastic_volatility(), x, [0, 1, 1000, 2426, 2427, 2428], rtol=1e-5)
    assert all(part.shape == (2429,) for part in moments) and np.all(np.isnan(moments.mean))
    assert 0.02**2 / 10 < moments.square[-2] < 0.1**2 and 4 < moments.square[-1] < 40**2


def test_eigenvalues_of_covariances_are_even_in_the_logarithm_about_one():
    plain, turned = conditioned_covariance(5, 1e4), conditioned_covariance(5, 1e4, rotation_seed=3)
    np.testing.assert_allclose(np.diag(plain), [0.01, 0.1, 1.0, 10.0, 100.0])
    np.testing.assert_array_equal(plain, np.diag(np.diag(plain)))
    np.testing.assert_allclose(np.linalg.eigvalsh(turned), np.diag(plain))
    assert np.max(np.abs(turned - np.diag(np.diag(turned)))) > 1.0
    np.testing.assert_array_equal(conditioned_covariance(3, 1.0), np.eye(3))
