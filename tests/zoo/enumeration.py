"""Checks of a target on a discrete space against the list of its states."""

import numpy as np

from tests.conftest import open_library
from xpsample.spaces.discrete import Discrete
from xpsample.targets import Capability

DENSITY = Capability.LOG_DENSITY | Capability.DISCRETE
SCORE = DENSITY | Capability.SCORE
NUMPY = open_library("numpy", "float64")
TOLERANCE = {"float64": 1e-11, "float32": 5e-5}


def brute_differences(space: Discrete, states, values):
    """(states, variables, choices - 1): the values at all positions one move away, minus those here."""
    place = {tuple(row): k for k, row in enumerate(states)}
    dim = states.shape[1]
    n, others = space.variables(dim), space.choices - 1
    by_variable = [sorted({tuple(row[i]) for row in states.reshape(len(states), n, -1)}) for i in range(n)]
    if dim != n:  # one-hot: in the order of the place of the 1
        by_variable = [rows[::-1] for rows in by_variable]
    found = np.full((len(states), n, others), -np.inf)
    for k, state in enumerate(states):
        blocks = state.reshape(n, -1)
        for i, rows in enumerate(by_variable):
            here = rows.index(tuple(blocks[i]))
            for j in range(1, len(rows)):
                moved = blocks.copy()
                moved[i] = rows[(here + j) % len(rows)]
                found[k, i, j - 1] = values[place[tuple(moved.ravel())]] - values[k]
    return found


def check_states(target, dim, direct, library, has_score=True):
    """Density, score and differences of every state against `direct`, the definition of one position's log density."""
    states = target.space.states(dim)
    values = np.array([direct(state) for state in states])
    x, tolerance = library.array(states), TOLERANCE[library.dtype]
    bound = target.prepare(x, DENSITY | Capability.DIFFERENCES)
    point = bound.evaluate(x)
    assert point.log_density.dtype == point.differences.dtype == x.dtype
    np.testing.assert_allclose(library.host(point.log_density), values, rtol=tolerance, atol=10 * tolerance)
    expected = brute_differences(target.space, states, values)
    np.testing.assert_allclose(library.host(point.differences), expected, rtol=tolerance, atol=20 * tolerance)
    if target.differences_at is not None:
        bound = target.prepare(x, DENSITY | Capability.DIFFERENCES_AT)
        for i in range(expected.shape[1]):
            found = library.host(bound.differences_at(x, i))
            np.testing.assert_allclose(found, expected[:, i], rtol=tolerance, atol=20 * tolerance)
    for rows in (3, np.arange(6).reshape(2, 3)):  # any chain axes, none among them
        few = states[rows]
        found = target.prepare(few, DENSITY | Capability.DIFFERENCES).evaluate(few).differences
        np.testing.assert_allclose(found, expected[rows], rtol=1e-11, atol=1e-10)
    if has_score:
        bound = target.prepare(x, SCORE)
        assert bound.evaluate(x).score.dtype == x.dtype
        score = library.host(bound.evaluate(x).score)
        np.testing.assert_allclose(score, slopes(target, states), rtol=1e-4, atol=1e-5 + 20 * tolerance)


def slopes(target, x, h=1e-5):
    """Central differences of the log density as a function of real numbers, on the host."""
    args = () if target.data is None else (target.data,)
    found = np.empty_like(x)
    for i in range(x.shape[-1]):
        e = np.zeros(x.shape[-1])
        e[i] = h
        found[..., i] = (target.log_density(x + e, *args) - target.log_density(x - e, *args)) / (2 * h)
    return found


def check_between(target, x, library, h=1e-5):
    """Score and hvp off the states against differences of the density and of the score."""
    args = () if target.data is None else (target.data,)
    v = np.random.default_rng(5).standard_normal(x.shape)
    np.testing.assert_allclose(target.score(x, *args), slopes(target, x), rtol=1e-6, atol=1e-6)
    both = target.log_density_and_score
    if both is not None:
        np.testing.assert_allclose(both(x, *args)[0], target.log_density(x, *args), rtol=1e-13)
        np.testing.assert_allclose(both(x, *args)[1], target.score(x, *args), rtol=1e-13)
    if target.hvp is not None:
        curved = (target.score(x + h * v, *args) - target.score(x - h * v, *args)) / (2 * h)
        np.testing.assert_allclose(target.hvp(x, v, *args), curved, rtol=1e-6, atol=1e-6)
        start = library.array(target.space.states(x.shape[-1])[:1] if x.shape[-1] < 20 else np.sign(x[:1]))
        bound = target.prepare(start, Capability.HVP | SCORE)
        mine = bound.hvp(library.array(x), library.array(v))
        tolerance = TOLERANCE[library.dtype]
        np.testing.assert_allclose(library.host(mine), target.hvp(x, v, *args), rtol=tolerance, atol=20 * tolerance)
