"""Measures on few states, against NumPy and closed forms, on every library."""

import math

import numpy as np
import pytest

from xpsample import Portable, sample
from xpsample.core.errors import CapabilityError
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.kernels import GWG, RWM
from xpsample.metrics.discrete import (
    coverage,
    exact_probabilities,
    frequencies,
    kl_divergence,
    log_mean_absolute_error,
    prominent_states,
    total_variation,
)
from xpsample.spaces import Binary, Categorical, OneHot, Spins
from xpsample.targets import Target
from xpsample.trace.histogram import Histogram
from xpsample.trace.recorders import Draws

SPACES = {
    "binary": (Binary(), 4),
    "spins": (Spins(), 3),
    "three": (Categorical((0, 1, 2)), 3),
    "uneven": (Categorical(((0, 1), (5,), (1, 3, 7))), 3),
    "one-hot": (OneHot(3), 6),
}
P = np.array([[0.5, 0.25, 0.25, 0.0], [0.1, 0.2, 0.3, 0.4]])
Q = np.array([0.25, 0.25, 0.5, 0.0])


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_numbers_are_those_of_the_rows_of_states(name, dtype, library):
    space, dim = SPACES[name]
    states = space.states(dim)
    picked = np.random.default_rng(0).integers(len(states), size=(50, 2, 3))
    draws = library.array(states[picked].astype(dtype))
    bound = space.bind(library.backend, draws)
    np.testing.assert_array_equal(library.host(bound.number(library.xp, draws)), picked)


def test_frequencies_and_coverage(library32):
    counts = np.array([[0, 3, 1, 0], [1, 1, 1, 1]])
    like, there = library32.array(P), library32.array(counts)
    shares = frequencies(there, like)
    assert shares.dtype == like.dtype
    np.testing.assert_allclose(library32.host(shares), counts / 4)
    np.testing.assert_allclose(library32.host(coverage(there, like)), [0.5, 1.0])
    among = library32.array(np.array([False, True, False, True]))
    np.testing.assert_allclose(library32.host(coverage(there, like, among)), [0.5, 1.0])
    prominent = prominent_states(like, 0.5)
    np.testing.assert_array_equal(library32.host(prominent), [[1, 1, 1, 0], [0, 1, 1, 1]])


def test_distances(typed_library):
    p, q = typed_library.array(P), typed_library.array(Q)
    tolerance = 1e-6 if typed_library.dtype == "float32" else 1e-13
    tv, error = total_variation(p, q), log_mean_absolute_error(p, q)
    assert tv.dtype == error.dtype == p.dtype
    np.testing.assert_allclose(typed_library.host(tv), [0.25, 0.4], rtol=tolerance)
    np.testing.assert_allclose(typed_library.host(error), np.log([0.125, 0.2]), rtol=10 * tolerance)
    there = kl_divergence(p, q)
    by_hand = 0.5 * math.log(2) + 0.25 * math.log(0.5)
    np.testing.assert_allclose(typed_library.host(there), [by_hand, np.inf], rtol=10 * tolerance)
    back = kl_divergence(q, p)  # the other direction is another number, and finite
    expected = [0.25 * math.log(0.5) + 0.5 * math.log(2), np.sum(Q[:3] * np.log(Q[:3] / P[1, :3]))]
    np.testing.assert_allclose(typed_library.host(back), expected, rtol=10 * tolerance)


def test_exact_probabilities():
    target = Target(lambda x: x[..., 0] * 2.0, space=Spins())
    p = exact_probabilities(target, 2)
    np.testing.assert_allclose(p, np.exp([-2, -2, 2, 2]) / (2 * np.exp(2) + 2 * np.exp(-2)))
    with pytest.raises(ValueError, match="discrete space"):
        exact_probabilities(Target(lambda x: x.sum(-1)), 2)


# ---- the recorder ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integers", [False, True])
def test_the_histogram_is_that_of_the_draws(integers, library):
    x0 = np.zeros((2, 3, 4)).astype("int64" if integers else "float64")
    target, seed = joint_bernoulli(isolated_modes() + 0.05), Portable(1)
    settings = {"seed": seed, "burn_in": 3, "thinning": 2, "recorders": (Draws(), Histogram()), "progress": False}
    trace = sample(target, GWG(), library.array(x0), 40, **settings)
    counts = trace.recorded["histogram"]
    assert tuple(counts.shape) == (2, 3, 16)
    number = library.host(trace.draws).astype(int) @ [8, 4, 2, 1]
    expected = [[np.bincount(number[:, i, j], minlength=16) for j in range(3)] for i in range(2)]
    np.testing.assert_array_equal(library.host(counts), expected)


def test_a_histogram_needs_states():
    with pytest.raises(CapabilityError, match=r"not Real\(\)"):
        sample(Target(lambda x: -(x**2).sum(-1)), RWM(1.0), np.zeros((2, 1)), 2, seed=1, recorders=(Histogram(),))
