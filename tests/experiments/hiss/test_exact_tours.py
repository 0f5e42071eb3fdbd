"""Independent draws of tours: their distribution, and their size."""

import itertools

import numpy as np
from scipy.stats import chi2

from xpsample.experiments.hiss.exact_tours import draw_tours
from xpsample.zoo.tsp import tsp

CITIES = np.random.default_rng(0).random((5, 2)) * 10


def test_exact_draws_have_the_law_of_all_orders():
    """5 cities, all 120 orders; a chi-squared statistic of 119 degrees of freedom, false alarm 1e-4."""
    orders = np.array(list(itertools.permutations(range(5))))
    length = np.sum(np.linalg.norm(CITIES[orders] - CITIES[np.roll(orders, -1, axis=1)], axis=-1), axis=1)
    tours, log_normalizer = draw_tours(CITIES, 100_000, 2.0, seed=1)
    np.testing.assert_allclose(log_normalizer, np.log(np.sum(np.exp(-length / 2.0))), rtol=1e-12)
    expected = 100_000 * np.exp(-length / 2.0 - log_normalizer)
    key = 5 ** np.arange(5)
    found = np.sum((tours @ key)[:, None] == (orders @ key)[None, :], axis=0)
    assert found.sum() == 100_000
    assert np.sum((found - expected) ** 2 / expected) < chi2.ppf(1 - 1e-4, 119)
    cold, _ = draw_tours(CITIES, 10, 1e-3)
    np.testing.assert_allclose(
        tsp(CITIES).log_density(cold, np.linalg.norm(CITIES[:, None] - CITIES, axis=-1).ravel()), -np.min(length)
    )
