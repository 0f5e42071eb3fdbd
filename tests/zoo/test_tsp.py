"""Tours against the definition, the space of permutations."""

import itertools

import numpy as np
import pytest

from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.spaces.discrete import Permutations
from xpsample.targets import Capability
from xpsample.zoo.tsp import tsp

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


@pytest.mark.parametrize("x", [[[0.0, 1.0, 1.0]], [[1, 2, 3]], [[0.0, 0.5, 2.0]]])
def test_what_is_no_permutation_is_refused(x, library):
    with pytest.raises(PositionError, match=r"each of 0 \.\. 2 once"):
        Permutations().check(library.xp, library.array(np.array(x)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tsp(np.ones((3, 3))), r"\(n, 2\)"),
        (lambda: tsp(CITIES, 0.0), "temperature"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
