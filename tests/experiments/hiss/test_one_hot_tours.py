"""Tours as one-hot matrices: against the definition, and their scores."""

import itertools

import numpy as np
import pytest

from tests.zoo.enumeration import SCORE, slopes
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.targets import Capability, Target

CITIES = np.random.default_rng(0).random((5, 2)) * 10
ORDERS = np.array(list(itertools.permutations(range(5))))


def one_hot(orders):
    return (orders[..., None] == np.arange(5)).astype(float).reshape(*orders.shape[:-1], -1)


def test_every_tour(typed_library):
    x = typed_library.array(one_hot(ORDERS))
    found = tsp_one_hot(CITIES, 2.0).prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
    lengths = np.sum(np.linalg.norm(CITIES[ORDERS] - CITIES[np.roll(ORDERS, -1, axis=1)], axis=-1), axis=1)
    rtol = 1e-5 if typed_library.dtype == "float32" else 1e-12
    np.testing.assert_allclose(typed_library.host(found), lengths / -2, rtol=rtol)


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
    assert tsp_one_hot(CITIES, standardized=True).hvp is None
