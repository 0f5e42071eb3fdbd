"""Measures on few states and of tours, against NumPy, closed forms and definitions, on every library."""

import itertools
import math

import numpy as np
import pytest

from xpsample import Portable, sample
from xpsample.core.errors import CapabilityError
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.kernels import GWG, RWM
from xpsample.metrics.discrete import (
    canonical_tours,
    coverage,
    exact_probabilities,
    frequencies,
    kl_divergence,
    log_mean_absolute_error,
    prominent_states,
    total_variation,
    tour_diversity,
)
from xpsample.spaces import Spins
from xpsample.targets import Target
from xpsample.trace.histogram import Histogram
from xpsample.trace.recorders import Draws

P = np.array([[0.5, 0.25, 0.25, 0.0], [0.1, 0.2, 0.3, 0.4]])
Q = np.array([0.25, 0.25, 0.5, 0.0])


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


# ---- tours -----------------------------------------------------------------------------------------------------------

TOURS = np.array([np.random.default_rng(k).permutation(6) for k in range(40)])


def mismatch(a, b):
    a, b = [*a, a[0]], [*b, b[0]]
    return sum((a[i], a[j]) != (b[i], b[j]) for i, j in itertools.combinations(range(len(a)), 2))


def jaccard(a, b, directed):
    def edges(t):
        pairs = zip(t, np.roll(t, -1), strict=True)
        return set(pairs) if directed else {frozenset(pair) for pair in pairs}

    return len(edges(a) & edges(b)) / len(edges(a) | edges(b))


@pytest.mark.parametrize("up_to_symmetry", [False, True])
def test_averages_over_pairs_of_distinct_tours(up_to_symmetry, library):
    rows = np.concatenate([TOURS, TOURS[:5], np.roll(TOURS[:5], 2, axis=1), TOURS[:3, ::-1]])
    found = tour_diversity(library.array(rows.reshape(-1, 1, 6)), up_to_symmetry)
    distinct = sorted({tuple(t) for t in (canonical_tours(rows) if up_to_symmetry else rows)})
    assert [tuple(t) for t in found.tours] == distinct
    pairs = list(itertools.combinations(distinct, 2))
    assert found.mismatch == pytest.approx(np.mean([mismatch(a, b) for a, b in pairs]))
    assert found.jaccard == pytest.approx(np.mean([jaccard(a, b, not up_to_symmetry) for a, b in pairs]))


def test_more_tours_than_a_block():
    tours = np.array([np.random.default_rng(k).permutation(8) for k in range(1300)])
    found = tour_diversity(tours)
    closed = np.concatenate([found.tours, found.tours[:, :1]], axis=1)
    agree = (closed[:, None] == closed[None]).sum(-1)[np.triu_indices(len(closed), 1)]
    assert found.mismatch == pytest.approx(np.mean(36 - agree * (agree - 1) / 2))


def test_canonical_tours_are_the_classes():
    """(n - 1)! / 2 closed tours of n cities; one tour has no pairs."""
    every = np.array(list(itertools.permutations(range(6))))
    classes = canonical_tours(every)
    assert len(np.unique(classes, axis=0)) == 60
    for moved in (np.roll(every, 1, axis=1), every[:, ::-1]):
        np.testing.assert_array_equal(canonical_tours(moved), classes)
    found = tour_diversity(TOURS[[0, 0]])
    assert len(found.tours) == 1 and np.isnan(found.mismatch) and np.isnan(found.jaccard)
    with pytest.raises(ValueError, match="no tours"):
        tour_diversity(np.zeros((0, 5), dtype=int))


def test_the_papers_numbers_are_possible():
    """Table 1 of HiSS, 14 cities: 27 and 10/18 are a swap of two cities; 105 is no place in agreement."""
    tour = np.arange(14)
    swapped = tour.copy()
    swapped[[4, 9]] = swapped[[9, 4]]
    found = tour_diversity(np.array([tour, swapped]))
    assert found.mismatch == 27 and found.jaccard == pytest.approx(0.5556, abs=1e-4)
    assert tour_diversity(np.array([tour, np.roll(tour, 1)])).mismatch == 105
