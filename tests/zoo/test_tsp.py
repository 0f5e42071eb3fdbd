"""Tours against the definition, the space of permutations, and TSPLIB's optimum."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.spaces.permutations import Permutations
from xpsample.targets import Capability
from xpsample.zoo.tsp import draw_tours, tsp

CITIES = np.random.default_rng(0).random((5, 2)) * 10
ORDERS = np.array(list(itertools.permutations(range(5))))


def length(order):
    return sum(np.hypot(*(CITIES[a] - CITIES[b])) for a, b in zip(order, np.roll(order, -1), strict=True))


def test_every_tour(typed_library):
    expected = [-length(order) / 2 for order in ORDERS]
    rtol = 1e-5 if typed_library.dtype == "float32" else 1e-12
    x = typed_library.array(ORDERS.astype(float))
    found = tsp(CITIES, 2.0).prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
    np.testing.assert_allclose(typed_library.host(found), expected, rtol=rtol)


def test_integer_positions(library):
    x = library.array(ORDERS)
    found = tsp(CITIES).prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
    np.testing.assert_allclose(library.host(found), [-length(order) for order in ORDERS], rtol=1e-5)


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


@pytest.mark.parametrize("x", [[[0.0, 1.0, 1.0]], [[1, 2, 3]], [[0.0, 0.5, 2.0]]])
def test_what_is_no_permutation_is_refused(x, library):
    with pytest.raises(PositionError, match=r"each of 0 \.\. 2 once"):
        Permutations().check(library.xp, library.array(np.array(x)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tsp(np.ones((3, 3))), r"\(n, 2\)"),
        (lambda: tsp(CITIES, 0.0), "temperature"),
        (lambda: draw_tours(np.ones((19, 2)), 1), "18 cities at most; got 19"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
