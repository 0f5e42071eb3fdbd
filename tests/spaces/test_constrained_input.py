"""Constrained spaces: what users pass, how spaces are compared, shown and kept, and what refuses them."""

import json
import pickle

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.spaces.test_constrained import SPACES, every_space
from xpsample.core.errors import CapabilityError, HyperparameterError, PositionError
from xpsample.spaces import Constrained, space_from_json

DISCRETE = [
    xps.Binary(),
    xps.Spins(),
    xps.Categorical((0, 1, 2)),
    xps.Categorical(((0, 1), (0.5, 2, 3))),
    xps.OneHot(3),
    xps.Permutations(),
    xps.Integers((0, 5), (9, 6), shape=2),
]


@pytest.mark.parametrize("space", [*SPACES, *DISCRETE], ids=repr)
def test_a_space_is_found_again_in_json(space):
    form = json.loads(json.dumps(space.to_json()))
    again = space_from_json(form)
    assert type(again) is type(space) and again.to_json() == space.to_json()
    if isinstance(space, Constrained):
        assert again == space and repr(again) == repr(space)
        assert form["space"] == type(space).__name__ and form["shape"] == list(space.shape)


@every_space
def test_spaces_are_values(space):
    """Equal where they are written equally, different from all others; so a compiled program serves equal ones."""
    again = eval(repr(space), {name: getattr(xps, name) for name in xps.__all__ if name[0].isupper()})
    assert again == space and hash(again) == hash(space)
    assert pickle.loads(pickle.dumps(space)) == space
    assert [other for other in SPACES if other == space] == [space]
    z = np.full(space.dim, 0.3)
    np.testing.assert_array_equal(again.constrain(numpy_xp, z)[0], space.constrain(numpy_xp, z)[0])


def test_shapes_and_coordinates():
    """The number of coordinates of each, by hand."""
    expected = {
        xps.Real(): ((), 1),
        xps.Real(3, 4): ((3, 4), 12),
        xps.LowerBounded(np.asarray([1, 2])): ((2,), 2),
        xps.UpperBounded(np.float32(0.5), 2, 3): ((2, 3), 6),
        xps.Interval(0, 1): ((), 1),
        xps.PositiveOrdered(2, 3): ((2, 3), 6),
        xps.Simplex(5, 3): ((5, 3), 10),
        xps.UnitVector(3): ((3,), 3),
        xps.ZeroSum(2, 3): ((2, 3), 4),
        xps.CorrelationCholesky(2, 3): ((2, 3, 3), 6),
        xps.CovarianceCholesky(3): ((3, 3), 6),
        xps.Circular(): ((), 2),
        xps.Circular(2): ((2,), 4),
    }
    assert {space: (space.shape, space.dim) for space in expected} == expected
    assert repr(xps.LowerBounded(np.asarray([1, 2]))) == "LowerBounded((1.0, 2.0), 2)"
    assert repr(xps.UpperBounded(np.float32(0.5), 2, 3)) == "UpperBounded(0.5, 2, 3)"


def test_bounds_are_copied_from_any_library(library):
    """A user's array may change later; the space does not. A space with bounds of one library serves all others."""
    low = np.asarray([0.0, 1.0])
    space = xps.Interval(low, np.asarray([2.0, 5.0]))
    low[:] = 5.0
    assert space.low == (0.0, 1.0)
    assert np.all(space.constrain(numpy_xp, np.asarray([-1e4, -1e4]))[0] == [0.0, 1.0])
    assert xps.Interval(library.array([0.0, 1.0]), library.array([2.0, 5.0])) == space


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: xps.Real(0), "a length of Real must be a positive integer; got 0"),
        (lambda: xps.Positive(2.0), "a length of Positive must be a positive integer; got 2.0"),
        (lambda: xps.Positive(True), "a positive integer; got True"),
        (lambda: xps.Positive((3, 4)), r"write Positive\(3, 4\), without inner brackets"),
        (lambda: xps.Simplex(), r"Simplex needs a length, as in Simplex\(3\)"),
        (lambda: xps.Simplex(1), "at least 2; got 1"),
        (lambda: xps.Simplex(3, 1), "at least 2; got 1"),
        (lambda: xps.Simplex(0, 3), "a positive integer; got 0"),
        (lambda: xps.UnitVector(1), "at least 2; got 1"),
        (lambda: xps.Ordered(), "Ordered needs a length"),
        (lambda: xps.CorrelationCholesky(1), "at least 2; got 1"),
        (lambda: xps.CovarianceCholesky(0), "a positive integer; got 0"),
        (lambda: xps.LowerBounded(float("nan")), "low must be finite; got nan"),
        (lambda: xps.UpperBounded(float("inf")), "high must be finite; got inf"),
        (lambda: xps.LowerBounded("0"), "low must be a number or an array of the positions' library; got '0'"),
        (lambda: xps.LowerBounded([[1.0], [1.0, 2.0]]), "rows of several lengths"),
        (lambda: xps.LowerBounded(np.zeros(0)), "low is empty"),
        (lambda: xps.LowerBounded(np.zeros(3), 2), r"low of shape \(3,\) does not broadcast to the shape \(2,\)"),
        (lambda: xps.Interval(1.0, 1.0), "low must be below high; got 1.0 and 1.0"),
        (lambda: xps.Interval(np.asarray([0.0, 2.0]), 1.0), r"low must be below high; got \[0.0, 2.0\] and 1.0"),
        (lambda: xps.Interval(np.zeros(2), np.ones(3)), "the bounds do not fit each other"),
        (lambda: xps.Interval(-1e308, 1e308), "high - low must be finite"),
        (lambda: space_from_json({"space": "Sphere"}), "a space is one of Binary, .*ZeroSum; got {'space': 'Sph"),
        (lambda: space_from_json({"space": "Interval", "shape": [], "low": 0.0}), "is no space: KeyError: 'high'"),
        (lambda: space_from_json({"space": "Positive", "shape": 3}), "is no space: TypeError"),
        (lambda: space_from_json("Positive"), "got 'Positive'"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


def test_bounds_that_float32_cannot_tell_apart():
    space = xps.Interval(1.0, 1.0 + 1e-9)
    assert space.constrain(numpy_xp, np.zeros(1))[0] == 1.0 + 5e-10
    for f in (space.constrain, space.unconstrain, space.contains):
        x = np.zeros(1 if f == space.constrain else (), dtype=np.float32)
        with pytest.raises(HyperparameterError, match="must be finite and differ in float32"):
            f(numpy_xp, x)
    with pytest.raises(HyperparameterError, match="must be finite and differ in float32"):
        xps.LowerBounded(1e300).constrain(numpy_xp, np.zeros(1, dtype=np.float32))


@pytest.mark.parametrize(
    ("space", "method", "x", "message"),
    [
        (xps.Simplex(5, 3), "constrain", np.zeros((4, 15)), r"has 10 coordinates, \(\*chains, 10\); got \(4, 15\)"),
        (xps.Simplex(5, 3), "unconstrain", np.zeros((4, 15)), r"have shape \(\*chains, 5, 3\); got \(4, 15\)"),
        (xps.Simplex(5, 3), "contains", np.zeros(3), r"have shape \(\*chains, 5, 3\); got \(3,\)"),
        (xps.Positive(2), "constrain", np.zeros((4, 2), dtype=np.int64), "coordinates must be float.*got dtype int64"),
        (xps.Positive(), "unconstrain", np.ones(4, dtype=np.int64), "values must be float.*; got dtype int64"),
    ],
    ids=["coordinates", "values", "too few", "integer coordinates", "integer values"],
)
def test_wrong_coordinates_and_values(library, space, method, x, message):
    with pytest.raises(PositionError, match=message):
        getattr(space, method)(library.xp, library.array(x))


def test_coordinates_are_arrays():
    with pytest.raises(PositionError, match=r"coordinates must be an array; got \[1.0\]"):
        xps.Positive().constrain(numpy_xp, [1.0])


# ---- targets ---------------------------------------------------------------------------------------------------------


def log_density(x):
    return -0.5 * np.sum(x**2, axis=-1)


@pytest.mark.parametrize("space", [s for s in SPACES if not isinstance(s, xps.Real)], ids=repr)
def test_a_target_refuses_a_space_that_it_would_not_map_into(space):
    assert isinstance(space, Constrained)
    for kind in (lambda: xps.Target(log_density, space=space), lambda: xps.Parametric(log_density, {}, space=space)):
        with pytest.raises(CapabilityError, match=r"the positions of a Target are unconstrained, .* Use a Model"):
            kind()


def test_a_class_is_no_space():
    with pytest.raises(HyperparameterError, match=r"space must be a Space, .*; got the class Simplex, not one of"):
        xps.Target(log_density, space=xps.Simplex)


def test_a_target_on_real_vectors():
    """`Real()` takes positions of any length, `Real(3)` those of its own."""
    for space in (xps.Real(), xps.Real(3)):
        trace = xps.sample(xps.Target(log_density, space=space), xps.RWM(1.0), np.zeros((4, 3)), 10, seed=1)
        assert trace.draws.shape == (10, 4, 3)
    with pytest.raises(PositionError, match=r"Real\(3\) has 3 coordinates; the positions are \(4, 2\)"):
        xps.sample(xps.Target(log_density, space=xps.Real(3)), xps.RWM(1.0), np.zeros((4, 2)), 10, seed=1)
