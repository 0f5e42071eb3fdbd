"""Chains that have not arrived are told from those that mix slowly, and from one that found a place of its own."""

import numpy as np
import pytest

from xpsample.diagnostics.lagging import judge_arrival, lost_by, some_come_in, stand_ins

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
    ("levels", "late"),
    [
        ((35, -5, 36, -4), [1, 3]),
        ((-4, -5, 36, -4), [0, 1, 3]),  # a single one has arrived
        ((0, 0, 0, -240_000), [3]),
        ((0, -40), [1]),
        ((0, 0, 0, 0, 0, 0, 0, 0, -30, -20, -200), [8, 9, 10]),
        ((0, -4, 3, -5), []),
        ((7,), []),
    ],
)
def test_chains_below_a_gap(levels, late):
    assert behind(rows(*levels)) == late


def test_the_finding_says_which_chains_and_how_far():
    found = judge_arrival(rows(35, -5, 36, -4.5))
    assert found.kind == "behind" and found.value == pytest.approx(40.5, abs=1)
    assert "2 chains were up to 4" in str(found) and "(chains 1, 3): not arrived, or in another mode" in str(found)
    assert "a chain was 40 below the others" in str(judge_arrival(rows(0, -40)))


def test_one_chain_in_a_place_of_its_own_leaves_the_others_in_peace():
    """Of more than four, in which it is less than the best quarter: as in the neck of a funnel."""
    levels = np.zeros(12)
    levels[5] = 60.0
    assert behind(rows(*levels)) == []


def test_chains_that_mix_slowly_are_not_behind():
    """128 chains that each move by a part of the spread in the time that is judged: as RWM on a Gaussian (100)."""
    slow = 7.0 * RNG.normal(size=128) + 2.0 * RNG.normal(size=(400, 128))
    assert len(far_below_the_upper_half(slow)) > 10
    assert behind(slow) == []


def test_a_chain_that_came_in_just_before_the_end_has_arrived():
    values = rows(0, 0, 0, 0, 0)
    values[:340, 1] -= 400.0
    values[:370, 2] -= 400.0
    assert behind(values) == [2]


def test_a_target_that_is_nearly_flat_has_no_chains_behind():
    assert behind(rows(0, 0, 0, -1.0, sd=0.01)) == []
    assert behind(rows(0, 0, 0, -6.0, sd=0.01)) == [3]


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


def test_groups_are_compared_each_with_itself():
    values = np.stack([rows(0, 0, 0), rows(-90, -90, -130)], axis=1)
    found = judge_arrival(values)
    assert found.chains == ((1, 2),) and found.value == pytest.approx(40, abs=1)
    assert judge_arrival(values[:, :, :2]) is None


def test_stand_ins_are_of_the_same_group_and_in():
    out = np.asarray([[False, True, False, True], [True, True, True, True], [False] * 4])
    np.testing.assert_array_equal(stand_ins(out), [[0, 0, 2, 2], [0, 1, 2, 3], [0, 1, 2, 3]])


def test_a_chain_that_rises_at_every_step_comes_in():
    stays, far = rows(0, 0, 0, sd=1.0, steps=160), np.linspace(-4000, 0, 160)
    late = stays + far[:, None] * np.asarray([0, 1, 0])
    assert some_come_in(late, 2) and some_come_in(late[:, :2].reshape(160, 2, 1), 2)
    assert not some_come_in(stays, 2)
    assert not some_come_in(late, 8000)  # a way that is short beside the spread of so many coordinates
    assert not some_come_in(np.concatenate([late[:80] - 4000, stays[:80]]), 2)  # it has arrived
    assert not some_come_in(late[::-1], 2)
    assert not some_come_in(np.where(late < -100, np.nan, 0.0), 2)


def test_a_rise_that_is_nothing_beside_the_way_is_no_coming_in():
    """A chain at -1e10 that climbs by rounding, or crawls; alone it may come in, for all that is known."""
    crawls = np.linspace(-1e10, -1e10 + 1e5, 160)
    beside = np.stack([rows(0, steps=160)[:, 0], crawls], axis=1)
    assert not some_come_in(beside, 2) and some_come_in(crawls, 2)
    assert some_come_in(beside + np.asarray([0, 1.0])[None] * np.linspace(0, 1e8, 160)[:, None], 2)


def test_a_chain_is_lost_where_it_stays_far_below_more_than_half_of_the_others():
    low = rows(0, 0, 0, -1e6, steps=160)
    np.testing.assert_allclose(lost_by(low, 8), [0, 0, 0, 1e6], rtol=1e-4)
    np.testing.assert_allclose(lost_by(low.astype(np.float32), 8), lost_by(low, 8), rtol=1e-4)
    assert not np.any(lost_by(low, 20_001))  # a volume may make up for it
    assert not np.any(lost_by(low + np.asarray([0, 0, 0, 1.0]) * np.linspace(0, 1e4, 160)[:, None], 8))  # it comes in
    assert not np.any(lost_by(rows(0, 0, -1e6, -1e6, steps=160), 8))  # half of them: who is to say
    assert not np.any(lost_by(np.where(low < -1e5, np.nan, low), 8)) and not np.any(lost_by(low[:, 0], 8))
    both = np.stack([low, low[:, ::-1]], axis=1)
    assert (lost_by(both, 8) > 0).tolist() == [[False] * 3 + [True], [True] + [False] * 3]


def test_chains_that_wander_do_not_come_in():
    """Random walks rise as far, but fall as often. At 4 standard errors one of 128 comes in by chance in 1 %."""
    walks = 100 * np.cumsum(np.random.default_rng(4).normal(size=(160, 128)), axis=0)
    assert not some_come_in(walks, 2)


def test_the_way_in_of_one_chain_does_not_hide_those_that_stay_behind():
    """Of two chains that have arrived one just did: its way was taken for the standard deviation of where it is."""
    values = rows(0, -240, 0, -240)
    values[:340, 2] -= 260.0
    assert behind(values) == [1, 3]
