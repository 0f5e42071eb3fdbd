"""Zero-variance control variates against least squares written out and closed forms, and what they leave alone."""

import numpy as np
import pytest

from xpsample.metrics.control_variates import corrected, linear, quadratic, squares

RNG = np.random.default_rng(0)
PRECISION = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 1.5]])
MEAN = np.array([3.0, -1.0, 0.5])


def draws_of_a_gaussian(n, chains, rng=RNG):
    """Independent draws (n, chains, 3), and their scores."""
    x = MEAN + rng.normal(size=(n, chains, 3)) @ np.linalg.cholesky(np.linalg.inv(PRECISION)).T
    return x, -(x - MEAN) @ PRECISION


@pytest.mark.parametrize("variates", [linear, squares, quadratic])
def test_variates_are_the_second_order_operator_of_monomials(variates):
    """laplacian P + grad P . score, by differences of P = x_i, x_i^2 / 2 and x_i x_j."""
    x, score, h = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3)), 1e-3
    i, j = np.triu_indices(3, 1)
    monomials = {
        linear: lambda x: x,
        squares: lambda x: np.concatenate([x, x**2 / 2], axis=-1),
        quadratic: lambda x: np.concatenate([x, x**2 / 2, x[..., i] * x[..., j]], axis=-1),
    }[variates]
    expected = 0
    for k, e in enumerate(h * np.eye(3)):
        up, here, down = (monomials(x + s * e) for s in (1, 0, -1))
        expected = expected + (up - 2 * here + down) / h**2 + (up - down) / (2 * h) * score[:, k, None]
    np.testing.assert_allclose(variates(x, score), expected, atol=1e-8)


def test_moments_of_a_gaussian_have_no_variance():
    x, score = draws_of_a_gaussian(50, 4)
    values = np.concatenate([x, x**2, x[..., :1] * x[..., 1:2]], axis=-1)
    covariance = np.linalg.inv(PRECISION)
    exact = np.concatenate([MEAN, MEAN**2 + np.diag(covariance), [MEAN[0] * MEAN[1] + covariance[0, 1]]])
    found = corrected(values, x, score)
    np.testing.assert_allclose(found, np.broadcast_to(exact, found.shape), atol=1e-6)


def test_it_is_least_squares_on_the_other_chains():
    """On many draws the penalty is next to none: the coefficients are those of numpy.linalg.lstsq with an intercept."""
    x, score = draws_of_a_gaussian(2000, 4)
    values = x + 0.3 * np.sin(x @ np.array([1.0, -2.0, 0.5]))[..., None]
    found = corrected(values, x, score)
    best = []
    for chain in range(4):
        others = [k for k in range(4) if k != chain]
        g, f = np.reshape(quadratic(x, score)[:, others], (-1, 9)), np.reshape(values[:, others], (-1, 3))
        b = np.linalg.lstsq(np.concatenate([g, np.ones((len(g), 1))], axis=1), f, rcond=None)[0][:-1]
        best.append(values[:, chain] - quadratic(x, score)[:, chain] @ b)
    ratio = np.var(found, axis=(0, 1)) / np.var(np.stack(best, axis=1), axis=(0, 1))
    assert np.all(np.var(found, axis=(0, 1)) < 0.2 * np.var(values, axis=(0, 1)))
    np.testing.assert_allclose(ratio, 1.0, atol=0.01)


def test_a_chain_has_no_say_in_its_own_coefficients():
    """What is subtracted is linear in the chain's variates: other values of the same chain change nothing of it."""
    x, score = draws_of_a_gaussian(60, 5)
    values = np.sin(x)
    other = values.copy()
    other[:, 4] = RNG.normal(size=(60, 3))
    subtracted = values - corrected(values, x, score)
    np.testing.assert_allclose((other - corrected(other, x, score))[:, 4], subtracted[:, 4], atol=1e-12)
    assert np.max(np.abs((other - corrected(other, x, score))[:, 0] - subtracted[:, 0])) > 1e-3


@pytest.mark.slow
def test_values_that_scores_do_not_tell_stay_as_they_are():
    """Noise that has nothing to do with the draws: on 40 sets the squared error is no more than 1.1 times as large."""
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(40):
        x, score = draws_of_a_gaussian(50, 4, rng)
        values = rng.normal(size=x.shape)
        errors.append([np.mean(a, axis=(0, 1)) ** 2 for a in (corrected(values, x, score), values)])
    better, plain = np.sum(errors, axis=(0, 2))
    assert better < 1.1 * plain
    assert np.any(np.all(corrected(values, x, score) == values, axis=0))


@pytest.mark.slow
def test_500_coordinates_and_400_draws_are_no_worse_than_the_mean():
    """More coordinates than draws, heavy tails: the total squared error of 500 means, whose own noise is 6 %."""
    x = np.random.default_rng(5).standard_t(5, size=(100, 4, 500))
    found = corrected(x[..., :40], x, -6 * x / (5 + x * x))
    better, plain = (np.sum(np.mean(a[..., :40], axis=(0, 1)) ** 2) for a in (found, x))
    assert better < 1.1 * plain


@pytest.mark.slow
def test_many_draws_are_fitted_on_some_of_them():
    x, score = draws_of_a_gaussian(9000, 8)
    found = corrected(x, x, score)
    np.testing.assert_allclose(found, np.broadcast_to(MEAN, x.shape), atol=1e-6)
