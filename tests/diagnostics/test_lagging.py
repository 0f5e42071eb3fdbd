"""Chains that have not arrived are told from those that mix slowly, and from one that found a place of its own."""

import numpy as np
import pytest

from xpsample.diagnostics.lagging import judge_arrival, stand_ins, stuck_by

RNG = np.random.default_rng(3)


def rows(*levels, steps=400, sd=2.0):
    """Log densities around a level for each chain; the standard error of a mean of 100 is a tenth of the sd."""
    return np.asarray(levels) + sd * np.random.default_rng(1).normal(size=(steps, len(levels)))


def behind(values):
    found = judge_arrival(values)
    return [] if found is None else [chain for (chain,) in found.chains]


def far_below_the_upper_half(values):
    """A rule without the gap: 5 standard deviations below the median of the upper half."""
    last = values[-(len(values) // 4) :]
    means, variances = last.mean(0), last.var(0)
    upper = means >= np.median(means)
    return np.flatnonzero(means < np.median(means[upper]) - 5 * np.sqrt(np.quantile(variances[upper], 0.25)))


@pytest.mark.parametrize(
    ("levels", "sd", "late"),
    [
        ((35, -5, 36, -4), 2.0, [1, 3]),
        ((-4, -5, 36, -4), 2.0, [0, 1, 3]),  # a single one has arrived
        ((0, 0, 0, -240_000), 2.0, [3]),
        ((0, -40), 2.0, [1]),
        ((0, 0, 0, 0, 0, 0, 0, 0, -30, -20, -200), 2.0, [8, 9, 10]),
        ((0, -4, 3, -5), 2.0, []),
        ((7,), 2.0, []),
        # One in a place of its own, of more than four: less than the best quarter, as in the neck of a funnel.
        ((0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0), 2.0, []),
        ((0, 0, 0, -1.0), 0.01, []),  # nearly flat
        ((0, 0, 0, -6.0), 0.01, [3]),
    ],
)
def test_chains_below_a_gap(levels, sd, late):
    assert behind(rows(*levels, sd=sd)) == late


def test_the_finding_says_which_chains_and_how_far():
    found = judge_arrival(rows(35, -5, 36, -4.5))
    assert found.kind == "behind" and found.value == pytest.approx(40.5, abs=1)
    assert "2 chains were up to 4" in str(found) and "(chains 1, 3): not converged, or in another mode" in str(found)
    assert "a chain was 40 below the others" in str(judge_arrival(rows(0, -40)))


def test_chains_that_mix_slowly_are_not_behind():
    """128 chains that each move by a part of the spread in the time that is judged: as RWM on a Gaussian (100)."""
    slow = 7.0 * RNG.normal(size=128) + 2.0 * RNG.normal(size=(400, 128))
    assert len(far_below_the_upper_half(slow)) > 10
    assert behind(slow) == []


def test_a_chain_that_came_in_just_before_the_end_has_arrived():
    """Its way in was taken for the standard deviation of where it is, and hid those that stay behind."""
    values = rows(0, 0, 0, 0, 0)
    values[:340, 1] -= 400.0
    values[:370, 2] -= 400.0
    assert behind(values) == [2]
    values = rows(0, -240, 0, -240)
    values[:340, 2] -= 260.0
    assert behind(values) == [1, 3]


def test_rounding_is_no_distance():
    """Numbers of float32 at 1e8 are 8 apart."""
    at = np.float32(-1e8)
    assert behind(np.full((400, 4), at) - np.asarray([0, 0, 0, 16], dtype=np.float32)) == []
    assert behind(np.full((400, 4), -1e8) - np.asarray([0, 0, 0, 16])) == [3]


def test_what_is_not_finite_says_nothing():
    values = rows(0, -40, 0, 0)
    values[:, 2], values[:, 3] = -np.inf, np.nan
    assert behind(values) == [1]
    values[:, 1] = -np.inf
    assert judge_arrival(values) is None
    assert judge_arrival(np.full((400, 4), -np.inf)) is None


def test_stand_ins_are_of_the_same_group_and_in():
    out = np.asarray([[False, True, False, True], [True, True, True, True], [False] * 4])
    np.testing.assert_array_equal(stand_ins(out), [[0, 0, 2, 2], [0, 1, 2, 3], [0, 1, 2, 3]])


def test_a_chain_is_stuck_if_it_stays_far_below_the_others():
    low = rows(0, 0, 0, 0, steps=160)
    low[:, 3] = -1e6
    stuck = lambda values: stuck_by(values, judge_arrival(values))  # noqa: E731
    np.testing.assert_allclose(stuck(low), [0, 0, 0, 1e6], rtol=1e-4)
    np.testing.assert_allclose(stuck(low.astype(np.float32)), stuck(low), rtol=1e-4)
    assert not np.any(stuck(low + np.asarray([0, 0, 0, 1.0]) * np.linspace(0, 1e4, 160)[:, None]))  # it converges
    assert not np.any(stuck(rows(0, 0, 0, -1e3, steps=160)))  # it moves, in a mode of its own
    assert not np.any(stuck(np.where(low < -1e5, np.nan, low)))
    both = np.stack([low, low[:, ::-1]], axis=1)
    assert (stuck(both) > 0).tolist() == [[False] * 3 + [True], [True] + [False] * 3]
    np.testing.assert_allclose(stuck(low[:, [0, 3, 3, 3]]), [0, 1e6, 1e6, 1e6], rtol=1e-4)  # all but one


def test_each_group_of_chains_is_judged_for_itself():
    """The chains of all groups are named, and the distance is the largest, in whatever order they come."""
    groups = ((0, -300, 0, 0), (0, 0, 0, 0), (5, 4, 6, -40), (-90, -90, -90, -90))
    for order in ((0, 1, 2, 3), (2, 1, 0, 3)):
        found = judge_arrival(np.stack([rows(*groups[i]) for i in order], axis=1))
        late = {0: 1, 2: 3}
        assert found.chains == tuple((place, late[i]) for place, i in enumerate(order) if i in late)
        assert found.value == pytest.approx(300, abs=3)
    assert judge_arrival(np.stack([rows(*groups[i]) for i in (1, 3)], axis=1)) is None
