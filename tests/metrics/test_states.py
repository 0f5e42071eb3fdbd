"""Shares of enumerated states against counting by hand, on every library."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import entropy

import xpsample as xps
from tests.targets.test_discrete import SPACES
from xpsample.errors import CapabilityError, PositionError
from xpsample.metrics import (
    coverage,
    kl_divergence,
    log_mean_absolute_error,
    state_counts,
    state_numbers,
    total_variation,
)
from xpsample.targets.discrete import place_values


@pytest.mark.parametrize("name", SPACES)
def test_the_number_of_a_state_is_its_row(library, name):
    space, dim = SPACES[name]
    states = space.states(dim)
    numbers = library.host(state_numbers(space, library.array(states)))
    np.testing.assert_array_equal(numbers, np.arange(len(states)))
    assert math.prod(space.sizes(dim)) == len(states)


@pytest.mark.parametrize("name", SPACES)
def test_counts_are_those_of_a_dictionary(library, name):
    space, dim = SPACES[name]
    states = space.states(dim)
    draws = states[np.random.default_rng(1).integers(len(states), size=(50, 2, 3))]
    counts = library.host(state_counts(space, library.array(draws)))
    assert counts.shape == (2, 3, len(states))
    for chain in np.ndindex(2, 3):
        seen = Counter(map(tuple, draws[(slice(None), *chain)]))
        np.testing.assert_array_equal(counts[chain], [seen[tuple(state)] for state in states])


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_the_recorder_counts_what_the_draws_show(library, dtype):
    target = xps.Target(lambda x: 0.3 * library.xp.sum(x, axis=-1), space=xps.Binary())
    start = np.random.default_rng(2).integers(2, size=(5, 4))
    x0 = library.array(start.astype("int32" if dtype == "int64" else dtype))
    recorders = (xps.Draws(), xps.StateCounts())
    trace = xps.sample(target, xps.SingleFlip(), x0, 30, seed=3, recorders=recorders, progress=False)
    counts = library.host(trace.recorded["state_counts"])
    np.testing.assert_array_equal(counts, library.host(state_counts(xps.Binary(), trace.draws)))
    assert np.all(counts.sum(axis=-1) == 30)


def test_recorders_of_means_take_integer_positions(library):
    target = xps.Target(lambda x: 0.3 * library.xp.sum(x, axis=-1), space=xps.Binary())
    x0 = library.array(np.zeros((3, 4), dtype=np.int32))
    recorders = (xps.Draws(), xps.Moments(), xps.BatchMeans(5))
    trace = xps.sample(target, xps.SingleFlip(), x0, 20, seed=3, recorders=recorders, progress=False)
    mean = library.host(trace.draws).astype(float).mean(axis=0)
    np.testing.assert_allclose(library.host(trace.recorded["moments"].mean), mean, rtol=1e-6)
    np.testing.assert_allclose(library.host(trace.recorded["batch_means"].mean), mean, rtol=1e-6)


def test_distances_between_shares(library):
    rng = np.random.default_rng(4)
    p, q = rng.dirichlet(np.ones(6), size=3), rng.dirichlet(np.ones(6))
    p[0] = rng.permutation([0.0, 0.1, 0.2, 0.3, 0.25, 0.15])
    a, b = library.array(p), library.array(q)
    np.testing.assert_allclose(library.host(total_variation(a, b)), np.abs(p - q).sum(axis=1) / 2)
    np.testing.assert_allclose(library.host(kl_divergence(a, b)), [entropy(row, q) for row in p])
    np.testing.assert_allclose(library.host(log_mean_absolute_error(a, b)), np.mean(np.log(np.abs(p - q).mean(axis=1))))
    backwards = library.host(kl_divergence(b, a))
    assert np.isinf(backwards[0]) and np.all(np.isfinite(backwards[1:]))
    assert library.host(log_mean_absolute_error(b, b)) == pytest.approx(math.log(1e-12))


def test_coverage_counts_what_was_visited_at_all(library):
    counts = library.array(np.asarray([[0, 3, 1, 0], [0, 0, 0, 9]], dtype=np.int32))
    np.testing.assert_allclose(library.host(coverage(counts)), [0.5, 0.25])


def test_spaces_that_are_too_large_are_refused():
    with pytest.raises(PositionError, match="too many to enumerate"):
        place_values(xps.Binary(), 40)
    with pytest.raises(PositionError, match="too many to enumerate"):
        state_counts(xps.Spins(), np.ones((2, 40)))


def test_the_recorder_wants_a_discrete_space():
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1))
    with pytest.raises(CapabilityError, match="StateCounts needs a discrete space"):
        xps.sample(target, xps.RWM(1.0), np.zeros((2, 3)), 5, seed=1, recorders=(xps.StateCounts(),))
