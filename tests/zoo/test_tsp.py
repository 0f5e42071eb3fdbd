"""Tours: both forms against the definition, their scores, the space of permutations, and TSPLIB's optimum."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from tests.zoo.enumeration import SCORE, slopes
from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.spaces.permutations import Permutations
from xpsample.targets import Capability, Target
from xpsample.zoo.tsp import draw_tours, tsp, tsp_one_hot

CITIES = np.random.default_rng(0).random((5, 2)) * 10
ORDERS = np.array(list(itertools.permutations(range(5))))


def length(order):
    return sum(np.hypot(*(CITIES[a] - CITIES[b])) for a, b in zip(order, np.roll(order, -1), strict=True))


def one_hot(orders):
    return (orders[..., None] == np.arange(5)).astype(float).reshape(*orders.shape[:-1], -1)


def test_every_tour_in_both_forms(typed_library):
    expected = [-length(order) / 2 for order in ORDERS]
    rtol = 1e-5 if typed_library.dtype == "float32" else 1e-12
    for target, host in ((tsp(CITIES, 2.0), ORDERS.astype(float)), (tsp_one_hot(CITIES, 2.0), one_hot(ORDERS))):
        x = typed_library.array(host)
        found = target.prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
        np.testing.assert_allclose(typed_library.host(found), expected, rtol=rtol)


def test_integer_positions(library):
    x = library.array(ORDERS)
    found = tsp(CITIES).prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
    np.testing.assert_allclose(library.host(found), [-length(order) for order in ORDERS], rtol=1e-5)


def test_a_missing_city_is_impossible(library):
    x = library.array(one_hot(np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 3]])))
    target = tsp_one_hot(CITIES)
    values = library.host(target.prepare(x[:1, ...], SCORE).evaluate(x).log_density)
    assert np.isfinite(values[0]) and values[1] == -np.inf


def test_the_score_of_lengths_tells_every_change_of_one_row():
    """With the rows before and after as they are, to write city c at place k costs score[k, c]."""
    target, order = tsp_one_hot(CITIES, 2.0), ORDERS[37]
    score = target.score(one_hot(order), target.data).reshape(5, 5)
    for k, c in itertools.product(range(5), range(5)):
        before, after = order[k - 1], order[(k + 1) % 5]
        legs = np.hypot(*(CITIES[before] - CITIES[c])) + np.hypot(*(CITIES[c] - CITIES[after]))
        assert score[k, c] == pytest.approx(-legs / 2)


def test_the_score_of_coordinates_is_the_gradient_of_the_length():
    target, x = tsp_one_hot(CITIES, 2.0, "coordinates"), one_hot(ORDERS[[0, 50]])

    def through(x):
        points = x.reshape(*x.shape[:-1], 5, 5) @ CITIES
        return -np.sum(np.linalg.norm(points - np.roll(points, -1, axis=-2), axis=-1), axis=-1) / 2

    np.testing.assert_allclose(target.score(x, target.data), slopes(Target(through), x), rtol=1e-5, atol=1e-7)
    twice = one_hot(np.array([0, 0, 1, 2, 3]))
    assert np.all(np.isfinite(target.score(twice, target.data)))


@pytest.mark.parametrize("relaxation", ["lengths", "coordinates"])
def test_standardised_scores(relaxation, library):
    x = library.array(one_hot(ORDERS[:4]))
    plain, scaled = (tsp_one_hot(CITIES, 2.0, relaxation, s).prepare(x, SCORE).evaluate(x).score for s in (False, True))
    np.testing.assert_allclose(np.std(library.host(scaled), axis=-1), 1, rtol=1e-12)
    ratio = library.host(plain) / library.host(scaled)
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), rtol=1e-9)


def test_hvp_of_lengths():
    target, x = tsp_one_hot(CITIES, 2.0), np.random.default_rng(1).random((2, 25))
    v, data = np.random.default_rng(2).random((2, 25)), target.data
    curved = target.score(x + v, data) - target.score(x, data)  # the score is linear
    np.testing.assert_allclose(target.hvp(x, v, data), curved, rtol=1e-10)
    assert tsp_one_hot(CITIES, standardised=True).hvp is None


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
        (lambda: tsp_one_hot(CITIES, 1.0, "soft"), "lengths, coordinates"),
        (lambda: draw_tours(np.ones((19, 2)), 1), "18 cities at most; got 19"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
