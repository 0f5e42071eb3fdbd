"""Discrete spaces: every operation against the list of states, on every library."""

import itertools

import numpy as np
import pytest
from array_api_compat import array_namespace
from array_api_compat import numpy as numpy_xp

from xpsample.core.errors import CapabilityError, HyperparameterError, LogDensityError, PositionError
from xpsample.gradients.choices import Evaluations
from xpsample.kernels import GWG, MALA
from xpsample.spaces import Binary, Categorical, OneHot, Spins
from xpsample.targets import Capability, Point, Ratio, Target, Tempered

RAGGED = Categorical(((0, 1), (-1.0, 0.5, 2.0), (3,), (1, 5, 7, 9)))
SPACES = {
    "binary": (Binary(), 4),
    "spins": (Spins(), 4),
    "levels": (Categorical((0, 1, 2)), 3),
    "reals": (Categorical((2.0, -0.5, 0.25)), 3),
    "ragged": (RAGGED, 4),
    "one-hot": (OneHot(3), 6),
}
INTEGERS = ["binary", "spins", "levels", "one-hot"]
ALL = Capability.LOG_DENSITY | Capability.SCORE | Capability.DISCRETE | Capability.DIFFERENCES
every_space = pytest.mark.parametrize("name", SPACES)


def values_of(space, dim):
    """The values of each variable, in order, as positions of its coordinates: rows of (values, coordinates)."""
    if isinstance(space, Binary):
        return [[[0.0], [1.0]]] * dim
    if isinstance(space, Spins):
        return [[[-1.0], [1.0]]] * dim
    if isinstance(space, OneHot):
        return [np.eye(space.choices).tolist()] * (dim // space.choices)
    rows = list(space.values)
    rows = rows if isinstance(rows[0], (tuple, list)) else [rows] * dim
    return [[[float(v)] for v in row] for row in rows]


def around(space, x):
    """All single moves from one state by the definition: {(variable, alternative): state}; missing ones left out."""
    values, width, found = values_of(space, len(x)), len(x) // space.variables(len(x)), {}
    for i, row in enumerate(values):
        at = slice(i * width, (i + 1) * width)
        k = row.index(list(x[at]))
        for j in range(1, len(row)):
            y = np.array(x)
            y[at] = row[(k + j) % len(row)]
            found[i, j] = y
    return found


def bound_space(library, space, x):
    return space.bind(library.backend, x)


# ---- the list of states ----------------------------------------------------------------------------------------------


@every_space
def test_states_are_all_combinations_with_the_last_variable_fastest(name):
    space, dim = SPACES[name]
    rows = itertools.product(*values_of(space, dim))
    np.testing.assert_array_equal(space.states(dim), [np.concatenate(row) for row in rows])
    assert space.variables(dim) == len(values_of(space, dim))
    assert space.choices == max(2, *(len(row) for row in values_of(space, dim)))


def test_counts_of_values_and_states():
    assert RAGGED.sizes(4) == (2, 3, 1, 4)
    assert Categorical((0, 1, 2)).sizes(2) == (3, 3)
    with pytest.raises(PositionError, match="8388608 states, too many to enumerate"):
        Binary().states(23)


# ---- moves -----------------------------------------------------------------------------------------------------------


@every_space
def test_moves_go_around_the_values_and_back(library, name):
    """For joint moves from any state to any other: the k-th value goes to the (k + j)-th, and `back` undoes it."""
    space, dim = SPACES[name]
    states, values, xp = space.states(dim), values_of(space, dim), library.xp
    numbers = np.array(list(itertools.product(*(range(len(row)) for row in values))))
    to = np.random.default_rng(0).permutation(len(states))
    x, sizes = library.array(states), np.asarray([len(row) for row in values])
    bound = bound_space(library, space, x)
    np.testing.assert_array_equal(library.host(bound.index(xp, x)), numbers)
    np.testing.assert_array_equal(library.host(bound.number(xp, x)), np.arange(len(states)))
    choice = library.array(((numbers[to] - numbers) % sizes).astype("int32"))
    y = bound.move(xp, x, choice)
    np.testing.assert_array_equal(library.host(y), states[to])
    np.testing.assert_array_equal(library.host(bound.move(xp, y, bound.back(xp, choice))), states)
    np.testing.assert_array_equal(library.host(bound.move(xp, x, 0 * choice)), states)


@every_space
def test_neighbors_are_the_states_one_move_away(library, name):
    """Of one chain, and of any number of axes."""
    space, dim = SPACES[name]
    states = space.states(dim)
    x, n = library.array(states), space.variables(dim)
    bound = bound_space(library, space, x)
    found, index = library.host(bound.neighbors(library.xp, x)), library.host(bound.index(library.xp, x))
    assert found.shape == (n, space.choices - 1, len(states), dim)
    for s, state in enumerate(states):
        for (i, j), y in around(space, state).items():
            np.testing.assert_array_equal(found[i, j - 1, s], y)
    for rows in (3, np.arange(6).reshape(2, 3)):
        few = library.array(states[rows])
        np.testing.assert_array_equal(library.host(bound.neighbors(library.xp, few)), found[:, :, rows])
        np.testing.assert_array_equal(library.host(bound.index(library.xp, few)), index[rows])


@every_space
def test_the_mirror_of_the_kth_value_is_the_kth_last(library, name):
    space, dim = SPACES[name]
    x = library.array(space.states(dim))
    bound = bound_space(library, space, x)
    mirrored = library.host(bound.index(library.xp, bound.move(library.xp, x, bound.mirror(library.xp, x))))
    last = np.asarray([len(row) - 1 for row in values_of(space, dim)])
    np.testing.assert_array_equal(mirrored, last - library.host(bound.index(library.xp, x)))


@every_space
def test_changes_of_a_separable_function_equal_brute_force(library, name):
    """Of sum_i f_i(x_i) with f_i different in every coordinate, to every state one move away; -inf where none is."""
    space, dim = SPACES[name]
    states = space.states(dim)
    weights = np.random.default_rng(5).normal(size=(2, dim))
    x, a, b = library.array(states), *(library.array(row)[:, None] for row in weights)
    found = library.host(bound_space(library, space, x).changes(library.xp, x, lambda v: a * v + b * v**3))

    def total(y):
        return np.sum(weights[0] * y + weights[1] * y**3)

    expected = np.full((len(states), space.variables(dim), space.choices - 1), -np.inf)
    for s, state in enumerate(states):
        for (i, j), y in around(space, state).items():
            expected[s, i, j - 1] = total(y) - total(state)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_move_as_numbers_do_and_stay_integers(library32, name, dtype):
    if dtype == "int64" and library32.name.startswith("jax"):
        pytest.skip("JAX has no int64 without its 64-bit types")
    space, dim = SPACES[name]
    states = space.states(dim)
    x, real = library32.array(states.astype(dtype)), library32.array(states)
    bound, bound_real = (bound_space(library32, space, a) for a in (x, real))
    found, expected = bound.neighbors(library32.xp, x), library32.host(bound_real.neighbors(library32.xp, real))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(library32.host(found), expected.astype(dtype))
    np.testing.assert_array_equal(library32.host(bound.number(library32.xp, x)), np.arange(len(states)))


# ---- differences of log densities ------------------------------------------------------------------------------------


def log_density(x, data):
    xp = array_namespace(x)
    return xp.sum(data["b"] * x, axis=-1) + 0.5 * xp.sum(x * (x @ data["w"]), axis=-1)


def problem(space, dim, **more):
    rng = np.random.default_rng(7)
    w = rng.normal(size=(dim, dim)) * 0.3
    data = {"b": rng.normal(size=dim) * 0.3, "w": w + w.T}
    return Target(log_density, score=lambda x, d: d["b"] + x @ d["w"], data=data, space=space, **more)


def expected_differences(target, space, states):
    density = {tuple(s): float(target.log_density(s, target.data)) for s in states}
    expected = np.full((len(states), space.variables(states.shape[-1]), space.choices - 1), -np.inf)
    for s, state in enumerate(states):
        for (i, j), y in around(space, state).items():
            expected[s, i, j - 1] = density[tuple(y)] - density[tuple(state)]
    return expected


@every_space
@pytest.mark.parametrize("integers", [False, True], ids=["floating", "integers"])
def test_differences_by_neighbors_equal_those_of_the_density(library, name, integers):
    space, dim = SPACES[name]
    if integers and name not in INTEGERS:
        pytest.skip("values that are no integers")
    states = space.states(dim)
    target = problem(space, dim)
    x = library.array(states.astype("int32") if integers else states)
    bound = target.prepare(x, ALL)
    moves = space.variables(dim) * (space.choices - 1)
    assert bound.costs.evaluate == Evaluations(log_density=1 + moves, score=1)
    tolerance = 1e-4 if integers else 1e-10  # the library's default floating numbers may be float32
    found, expected = library.host(bound.evaluate(x).differences), expected_differences(target, space, states)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@every_space
def test_differences_that_the_user_gives_are_taken_as_they_are(library, name):
    """And cost one evaluation, not one for each neighbor."""
    space, dim = SPACES[name]
    x = library.array(space.states(dim))
    own = bound_space(library, space, x)
    target = problem(space, dim, differences=lambda x, d: 0 * finite_changes(library, own, x) + d["b"][0])
    bound = target.prepare(x, Capability.DISCRETE | Capability.DIFFERENCES)
    found = library.host(bound.evaluate(x).differences)
    finite = np.isfinite(found)
    np.testing.assert_array_equal(found[finite], target.data["b"][0])
    assert bound.costs.evaluate == Evaluations(log_density=1, score=1)


def finite_changes(library, bound, x):
    changes = bound.changes(library.xp, x, lambda v: v)
    return library.xp.where(library.xp.isfinite(changes), changes, 0.0)


def test_differences_of_another_shape_are_refused():
    target = Target(lambda x: np.sum(x, axis=-1), differences=lambda x: np.zeros((*x.shape, 2)), space=Binary())
    with pytest.raises(LogDensityError, match=r"differences must have shape \(5, 3, 1\) for .*; got \(5, 3, 2\)"):
        target.prepare(np.zeros((5, 3)), Capability.DISCRETE | Capability.DIFFERENCES)


def test_tempered_differences_keep_what_is_impossible():
    """At beta = 0 all states that there are weigh the same, and those that there are not still nothing."""
    space, dim = SPACES["ragged"]
    x = space.states(dim)
    target = problem(space, dim)
    plain = target.prepare(x, ALL).evaluate(x).differences
    for beta in (0.0, 0.5):
        tempered = Tempered(target, beta).prepare(x, ALL).evaluate(x).differences
        np.testing.assert_array_equal(np.isinf(tempered), np.isinf(plain))
        np.testing.assert_allclose(tempered[np.isfinite(plain)], beta * plain[np.isfinite(plain)])


def test_the_discrete_score_is_cut_off_where_it_would_overflow(library32):
    """Log-ratios are cut off at half the logarithm of the largest number, so that their sums stay finite."""
    x = library32.array(np.zeros((1, 3)))
    target = Target(lambda x: 1e4 * array_namespace(x).sum(x, axis=-1), space=Binary())
    bound = target.prepare(x, ALL & ~Capability.SCORE)
    feature = library32.host(Ratio().feature(bound, bound.evaluate(x)))
    assert np.all(np.isfinite(feature)) and np.all(feature > 1e19)
    assert np.isfinite(np.sum(feature * np.float32(1e5)))


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED = [
    (Binary(), [[0.0, 2.0]], "all coordinates of the positions must be 0 and 1"),
    (Spins(), [[0.0, 1.0]], "all coordinates of the positions must be -1 and 1"),
    (Categorical((0, 1, 2)), [[0.0, 3.0]], "coordinate 1 of the positions must be one of 0, 1, 2"),
    (Categorical(((0, 1), (5,))), [[0.0, 1.0]], "coordinate 1 of the positions must be one of 5"),
    (Categorical(((0, 1), (5,))), [[0.0, 5.0, 5.0]], r"values for 2 variables; the positions \(1, 3\) have 3"),
    (OneHot(3), [[1.0, 0.0, 0.0, 1.0]], r"dim must be a multiple of the 3 choices; got positions \(1, 4\)"),
    (OneHot(3), [[1.0, 1.0, 0.0]], "every block of 3 coordinates must hold one 1 and otherwise 0"),
    (OneHot(3), [[2.0, -1.0, 0.0]], "every block of 3 coordinates must hold one 1 and otherwise 0"),
    (Categorical((0, 0.5)), np.zeros((1, 2), dtype="int32"), "values that are no integers; the positions are int32"),
    (Spins(), [[float("nan"), 1.0]], "all coordinates of the positions must be -1 and 1"),
]


@pytest.mark.parametrize(("space", "x", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_positions_outside_the_space_are_refused(library, space, x, message):
    with pytest.raises(PositionError, match=message):
        space.check(library.xp, library.array(np.asarray(x)))


@every_space
def test_positions_of_the_space_are_taken(library, name):
    space, dim = SPACES[name]
    space.check(library.xp, library.array(space.states(dim)))
    if name in INTEGERS:
        space.check(library.xp, library.array(space.states(dim).astype("int32")))
    with pytest.raises(PositionError, match="integers or real floating numbers; got dtype bool"):
        space.check(numpy_xp, np.zeros((2, dim), dtype=bool))
    with pytest.raises(PositionError, match="dim >= 1"):
        space.check(numpy_xp, np.zeros(()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical((1, 1)), r"must be distinct, and at least one is needed; got \(1.0, 1.0\)"),
        (lambda: Categorical(((0, 1), ())), r"values must be a sequence of numbers, 1 at least; got \(\)"),
        (lambda: Categorical(()), r"values must be a sequence of numbers, 1 at least; got \(\)"),
        (lambda: OneHot(1), "choices must be an integer of at least 2; got 1"),
    ],
)
def test_spaces_that_there_are_not(make, message):
    with pytest.raises((PositionError, HyperparameterError), match=message):
        make()


def test_kernels_say_which_space_they_need():
    real = Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x)
    with pytest.raises(CapabilityError, match=r"moves on a discrete space and the target's space is Real\(\)"):
        real.prepare(np.zeros((2, 3)), GWG().requires)
    with pytest.raises(PositionError, match="got dtype int64"):
        real.prepare(np.zeros((2, 3), dtype=np.int64), MALA(0.1).requires)


def test_functions_see_floating_numbers(library32):
    """Whatever the positions are."""
    seen = []

    def density(x):
        seen.append(x.dtype)
        return array_namespace(x).sum(x, axis=-1)

    x = library32.array(np.zeros((2, 3), dtype="int32"))
    bound = Target(density, space=Binary()).prepare(x, ALL & ~Capability.SCORE)
    assert isinstance(bound.evaluate(x), Point) and bound.evaluate(x).x.dtype == x.dtype
    assert all(library32.xp.isdtype(dtype, "real floating") for dtype in seen)
