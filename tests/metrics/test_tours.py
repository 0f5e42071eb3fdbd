"""Diversity of tours, pair by pair from the definitions."""

import itertools

import numpy as np
import pytest

from xpsample.metrics.discrete import canonical_tours, tour_diversity

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
    """(n - 1)! / 2 closed tours of n cities."""
    every = np.array(list(itertools.permutations(range(6))))
    classes = canonical_tours(every)
    assert len(np.unique(classes, axis=0)) == 60
    for moved in (np.roll(every, 1, axis=1), every[:, ::-1]):
        np.testing.assert_array_equal(canonical_tours(moved), classes)


def test_the_papers_numbers_are_possible():
    """Table 1 of HiSS, 14 cities: 27 and 10/18 are a swap of two cities; 105 is no place in agreement."""
    tour = np.arange(14)
    swapped = tour.copy()
    swapped[[4, 9]] = swapped[[9, 4]]
    found = tour_diversity(np.array([tour, swapped]))
    assert found.mismatch == 27 and found.jaccard == pytest.approx(0.5556, abs=1e-4)
    assert tour_diversity(np.array([tour, np.roll(tour, 1)])).mismatch == 105


def test_one_tour_has_no_pairs():
    found = tour_diversity(TOURS[[0, 0]])
    assert len(found.tours) == 1 and np.isnan(found.mismatch) and np.isnan(found.jaccard)
    with pytest.raises(ValueError, match="no tours"):
        tour_diversity(np.zeros((0, 5), dtype=int))
