"""Findings about the positions of the chains of a run. All arrays are the host's."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from xpsample.diagnostics.advice import OF_HMC, Advice
from xpsample.diagnostics.coordinates import spread
from xpsample.diagnostics.findings import Column, Finding, of_columns, of_worst, worst_first

# Chains in different modes are this many of their standard deviations apart, as two normal modes are; and this many
# standard errors of their means, estimated from the difference of their halves' means.
APART, ERRORS = 2.0, 5.0

# Standard deviations of the wider of two parts of all draws by which their means differ where there are two modes, the
# least share of the draws that two chains have in the smaller one, and its fewest distinct draws. Halves of a normal
# distribution differ by 2.65, and of an even one by 3.46; the far part of a heavy tail is wide itself, or one chain's.
SPLIT, LEAST_VISIT, FEWEST_SPLIT = 4.0, 0.02, 16

# A chain walks where its two quarters' means differ by so many of its standard deviations over both, and no step is as
# long as a leap, in these. For a random walk they differ by 1.4, and for a chain with an ESS of 25 in both by 0.4.
DRIFT, LEAP, FEWEST_WALKED = 0.7, 1.2, 32

# Two coordinates are narrowly correlated from there on; how many coordinates are compared; and how near 1 it is that
# one is a function of the other, as two probabilities are that sum to 1.
CORRELATED, MOST_CORRELATED, EXACT = 0.97, 32, 1e-10

# From the first to the last quarter of a run, each of so many draws; a random walk from one point spreads by 2.6.
GROWTH, FEWEST_GROWN = 10.0, 32

# Draws of a start, how many times as distant they are as nearly all draws of the second half, and how many times as far
# as any such number of these in a row.
SHORTEST_START, FAR_OUT, AGAIN = 8, 10.0, 3.0

# The largest probability with which stationary chains are said to settle, and the fewest chains that are looked at.
SETTLING, FEWEST_SETTLING = 1e-5, 32


def judge_modes(
    columns: Sequence[Column],
    draws: np.ndarray,
    walks: np.ndarray,
    moving: np.ndarray,
    advice: Advice = OF_HMC,
    one_mode: bool = False,
) -> Finding | None:
    """Check whether chains keep apart: if, sorted by their means, two neighbors are far from one another.

    Far is more than two standard deviations of a chain: two normal modes of equal weight that are nearer are one. Where
    two coordinates have the same two or more values in chains, but in another order, they are labels that chains have
    swapped: a finding of its own kind. Draws are (draw, chain, column); chains that are not `moving`, (chain, column),
    are ignored. Columns of `walks` (see `walking`) are apart since no chain has come round; chains whose halves
    differ as much as the chains are apart as well: the largest of so many gaps is compared with a t distribution,
    whose degrees of freedom are the chains. With `one_mode` the log density is known not to fall between the chains,
    which then walk.
    """
    if draws.shape[1] < 2 or not draws.size:
        return None
    with np.errstate(all="ignore"):
        means, sds = np.mean(draws, axis=0), np.std(draws, axis=0)
    known = np.where(moving & np.isfinite(means), means, np.nan)
    ordered = np.sort(known, axis=0)
    gaps = np.nan_to_num(np.diff(ordered, axis=0), nan=0.0)
    count = np.maximum(1, np.sum(np.isfinite(known), axis=0))
    spread, half = np.sqrt(np.sum(np.where(np.isfinite(known), sds, 0.0) ** 2, axis=0) / count), len(draws) // 2
    with np.errstate(all="ignore"):
        change = np.where(np.isfinite(known), np.mean(draws[half:], axis=0) - np.mean(draws[:half], axis=0), 0.0)
        error = np.sqrt(np.sum(change**2, axis=0) / count) / 2
        sure = np.max(gaps, axis=0) > ERRORS * len(columns) ** (1 / count) * error
        apart = np.where(spread > 0, np.max(gaps, axis=0) / spread, 0.0)
        if advice.discrete:  # chains may differ in variables that are constant in each
            apart = np.where((spread == 0) & (np.max(gaps, axis=0) > 0), np.inf, apart)
    at = worst_first((apart > APART) & sure & ~walks, apart)
    if not at.size:
        return None
    first = at[0]
    below = int(np.argmax(gaps[:, first])) + 1
    low, high = np.mean(ordered[:below, first]), np.nanmean(ordered[below:, first])
    if one_mode:
        what = (
            f"chains mix slowly in one mode: they are {apart[first]:.3g} standard deviations apart (limit {APART:g}), "
            "but the log density does not fall between them,"
        )
        return of_columns("slow", what, float(apart[first]), advice.further, columns, at)
    labels = None if advice.discrete else _swapped(columns, known, spread, at)
    if labels is not None:
        ordered = np.nanmean(np.sort(known[:, labels], axis=-1), axis=0)
        *others, last = (columns[i][1] for i in labels)
        return of_columns(
            "labels",
            f"chains have swapped {', '.join(others)} and {last}: their means are near "
            f"{', '.join(f'{value:.3g}' for value in ordered)}, in different orders,",
            float(apart[first]),
            "labels, such as of mixture components, have no meaning. Set an order, such as with the space "
            "Ordered(n), or use only quantities that do not depend on it",
            columns,
            at,
        )
    far = np.isfinite(apart[first])
    distance = f"{apart[first]:.3g} standard deviations apart (limit {APART:g})," if far else "and never leave them,"
    return of_columns(
        "modes",
        f"chains stay in different modes, {below} near {low:.3g} and {int(count[first]) - below} near {high:.3g}, "
        f"{distance}",
        float(apart[first]),
        advice.across,
        columns,
        at,
    )


def _swapped(
    columns: Sequence[Column], means: np.ndarray, spread: np.ndarray, at: np.ndarray
) -> tuple[int, ...] | None:
    """The most columns of a group in which the chains' means are the same values, in different orders; or None."""
    for size in range(min(8, len(at)), 1, -1):
        for some in combinations(at[:8], size):
            if len({columns[i][0] for i in some}) > 1:
                continue
            values = means[:, some]
            values = values[np.all(np.isfinite(values), axis=-1)]
            ordered, orders = np.sort(values, axis=-1), np.argsort(values, axis=-1)
            unit = APART * np.max(spread[list(some)])
            if np.any(np.ptp(ordered, axis=0) >= unit) or np.min(np.diff(ordered, axis=-1)) <= unit:
                continue
            if np.all(np.ptp(orders, axis=0) > 0):  # none keeps its place
                return tuple(sorted(some))
    return None


def judge_crossings(
    columns: Sequence[Column], draws: np.ndarray, at: Sequence[int], moving: np.ndarray, advice: Advice = OF_HMC
) -> Finding | None:
    """Check whether the draws of all chains lie in two places, for columns `at` whose chains do not agree how often.

    Draws are (draw, chain, column), and `moving` says of each chain and column whether it moved.
    """
    for i in at:
        chains = draws[:, moving[:, i], i]
        values = np.sort(chains, axis=None)
        if not np.all(np.isfinite(values)) or len(values) < 2:
            continue
        unit = np.max(np.abs(values))
        values = values / (unit if unit > 0 else 1.0)
        below = np.arange(1, len(values))
        total = np.cumsum(values - values[0])
        low = total[:-1] / below
        high = (total[-1] - total[:-1]) / (len(values) - below)
        share = below / len(values)
        between = share * (1 - share) * (high - low) ** 2
        k = int(np.argmax(between))
        within = max(np.std(values[: k + 1]), np.std(values[k + 1 :]))
        gap = high[k] - low[k]
        if within <= 0 or gap < SPLIT * within:
            continue
        above = np.mean(chains > unit * values[k], axis=0)
        visits = np.sum((above if share[k] > 0.5 else 1 - above) > LEAST_VISIT)
        few = min(len(np.unique(part)) for part in (values[: k + 1], values[k + 1 :]))
        if visits < min(2, len(above)) or few < FEWEST_SPLIT:
            continue
        places = f"{unit * (low[k] + values[0]):.3g} and {unit * (high[k] + values[0]):.3g}"
        what = f"chains seldom cross between two modes, near {places},"
        return of_columns("modes", what, float(gap / within), advice.across, columns, np.asarray([i]))
    return None


def walking(draws: np.ndarray, bad: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return whether chains of `bad` columns are on an unfinished slow walk, and how far they drift, (column,).

    The draws (draw, chain, column) are of the second half, in order.
    """
    n, columns = draws.shape[0] // 2, draws.shape[-1]
    if n < FEWEST_WALKED or not draws.size or not bad:
        return np.zeros(columns, dtype=bool), np.zeros(columns)
    with np.errstate(all="ignore"):
        drift = np.mean(draws[n:], axis=0) - np.mean(draws[:n], axis=0)
        sd = np.sqrt(np.mean(np.var(draws, axis=0), axis=0))
        ratio = np.sqrt(np.mean(drift**2, axis=0)) / sd
        ratio = np.where(np.isfinite(ratio), ratio, 0.0)
        walks = (ratio > DRIFT) & np.isin(np.arange(columns), bad)
        if np.any(walks):
            longest = np.max(np.abs(np.diff(draws[..., walks], axis=0)), axis=(0, 1))
            walks[walks] = longest < LEAP * max(1.0, np.sqrt(128 / len(draws))) * sd[walks]
    return walks, ratio


def judge_walk(
    columns: Sequence[Column], walks: np.ndarray, ratio: np.ndarray, high: bool, advice: Advice
) -> Finding | None:
    """Finding of a slow walk, by `walking`'s figures of columns that have not mixed.

    `high` says that nearly all steps are accepted.
    """
    what = (
        "chains move slowly: from one quarter of the run to the next they drift by {worst:.2g} standard deviations "
        f"(limit {DRIFT})"
    )
    far = f"use larger steps; or {advice.further}" if high and not advice.unset else advice.further
    return of_worst("slow", what, far, columns, walks, ratio)


def judge_correlation(columns: Sequence[Column], draws: np.ndarray, at: np.ndarray, advice: Advice) -> Finding | None:
    """Check whether the columns `at`, which mix badly, are narrowly correlated with others of their group."""
    chosen = at[:MOST_CORRELATED]
    if len(chosen) < 2 or draws.shape[0] < FEWEST_WALKED:
        return None
    with np.errstate(all="ignore"):
        values = draws[..., chosen]
        values = np.reshape(values - np.mean(values, axis=0), (-1, len(chosen)))
        if len(np.unique(values[:, 0])) < FEWEST_WALKED:  # of so few moves any two coordinates seem correlated
            return None
        sd = np.sqrt(np.mean(values**2, axis=0))
        found = (values.T @ values) / len(values) / (sd[:, None] * sd)
    groups = [columns[i][0] for i in chosen]
    for i in range(len(chosen)):
        for j in range(len(chosen)):
            size = abs(found[i, j])
            if i == j or groups[i] != groups[j] or not np.isfinite(size) or size > 1 - EXACT:
                found[i, j] = 0.0
    first, other = np.unravel_index(np.argmax(np.abs(found)), found.shape)
    worst = float(found[first, other])
    if abs(worst) < CORRELATED:
        return None
    return of_columns(
        "correlated",
        f"a correlation of {worst:.6g} (limit {CORRELATED} in absolute value) slows the chains down",
        worst,
        advice.together([columns[chosen[i]][1] for i in (first, other)]),
        columns,
        chosen[[first, other]],
    )


def judge_growth(columns: Sequence[Column], draws: np.ndarray, advice: Advice = OF_HMC) -> Finding | None:
    """Check whether the spread of an unadjusted chain's draws, (draw, chain, column), grows from quarter to quarter."""
    n = draws.shape[0] // 4
    if n * draws.shape[1] < FEWEST_GROWN or n < 2 or not draws.size:
        return None
    first, second, third, last = (spread(draws[i * n : (i + 1) * n]) for i in range(4))
    with np.errstate(all="ignore"):
        growth = np.where((first < second) & (second < third) & (third < last), last / first, 0.0)
    what = (
        "the spread of the chains grows by a factor of {worst:.3g} from the first to the last quarter of the run "
        f"(limit {GROWTH:g})"
    )
    fix = f"the steps do not leave the target invariant; {advice.smaller}, or a kernel that accepts or rejects"
    return of_worst("growth", what, fix, columns, growth > GROWTH, growth)


def judge_start(
    columns: Sequence[Column], first: np.ndarray, later: np.ndarray, tilted: bool, step: int = 1
) -> Finding | None:
    """Check whether draws of a chain's first quarter are extreme, compared with every `step`-th one of its second half.

    Compared are the median distance of the first 8, 16, 32, ... draws of each chain from the center of the later ones,
    and the 90 % quantile of theirs: no moments, so that a heavy tail alone is no start. Chains stay out in such a tail
    for a while, whenever they are there: as many later draws in a row that are as far out show that it is the target's.
    Draws are (draw, chain, column). On a `tilted` target the first steps are large.
    """
    if len(first) < 2 * SHORTEST_START or not later.size:
        return None
    far = np.zeros(first.shape[-1])
    with np.errstate(all="ignore"):
        center = np.median(later, axis=(0, 1))
        distance, later = np.abs(first - center), np.abs(later - center)
        # A start is extreme only if nearly all later draws are within a tenth of the way to its farthest draw.
        near = later <= (1 + 1e-9) * np.max(distance, axis=(0, 1)) / FAR_OUT
        wanted = np.flatnonzero(np.sum(near, axis=(0, 1)) > int(0.9 * (near[..., 0].size - 1)))
        if not wanted.size:
            return None
        distance, later = distance[..., wanted], later[..., wanted]
        usual, size = np.quantile(later, 0.9, axis=(0, 1)), SHORTEST_START
        while size <= len(first):
            out = np.max(np.median(distance[:size], axis=0), axis=0) / usual
            at = np.flatnonzero(out > np.fmax(far[wanted], FAR_OUT))
            if at.size:
                again = _farthest(later[..., at], max(1, size // step)) / usual[at]
                far[wanted[at]] = np.where(AGAIN * again < out[at], out[at], far[wanted[at]])
            size *= 2
    far = np.where(np.isfinite(far), far, 0.0)
    kind, advice = "transient", "set burn_in, so that the transient phase does not count as draws"
    if tilted:
        kind, advice = (
            "tilt",
            (
                "the tilt may be too strong in the first steps of the history. Use a smaller alpha, a schedule with a "
                "larger offset, more burn_in, or closer initial positions"
            ),
        )
    what = (
        f"the first draws are {{worst:.3g}} times as far from the center as nearly all later ones (limit {FAR_OUT:g})"
    )
    return of_worst(kind, what, advice, columns, far > FAR_OUT, far)


def judge_settling(columns: Sequence[Column], draws: np.ndarray) -> Finding | None:
    """Check whether many chains, (draw, chain, column), were further out or further in at first than at the end.

    Each is too short to tell, and the nested R-hat compares means. Compared are a chain's mean distances from the
    median in its first and its last quarter, in each column and in all of a group together. A stationary chain of a
    reversible kernel can be read backwards, so that the difference of the two has either sign. Then its sum over chains
    exceeds t times the root of the sum of squares with a probability of at most 2 exp(-t^2 / 2), whatever the
    distribution (Efron, Journal of the American Statistical Association 64, 1969, 1278-1302).
    """
    n = draws.shape[0] // 4
    if n < 2 or draws.shape[1] < FEWEST_SETTLING or not draws.size:
        return None
    groups = np.asarray([str(group) for group, _ in columns])
    with np.errstate(all="ignore"):
        distance = np.abs(draws - np.median(draws, axis=(0, 1)))
        distance /= np.mean(distance, axis=(0, 1))
        change = np.nan_to_num(np.mean(distance[:n], axis=0) - np.mean(distance[-n:], axis=0))  # (chain, column)
        together = np.stack([np.mean(change[:, groups == group], axis=1) for group in groups], axis=1)
        badness, of_group = (np.abs(np.sum(a, axis=0)) / np.sqrt(np.sum(a**2, axis=0)) for a in (change, together))
    settles = np.fmax(badness, of_group) > np.sqrt(2 * np.log(4 * len(badness) / SETTLING))
    size = np.mean(change, axis=0)
    kind, advice = "transient", "use a longer warm-up, or set burn_in"
    what = (
        "chains have not converged: from the first to the last quarter of the draws, their mean distance from the "
        "median "
        "changes by {by:+.0%}"
    )
    return of_worst(kind, what, advice, columns, settles, badness, by=-size)


def _farthest(distance: np.ndarray, size: int) -> np.ndarray:
    """The largest median of `size` draws in a row of any chain, (column,)."""
    rows = len(distance) // size * size
    blocks = np.reshape(distance[:rows], (-1, size, *distance.shape[1:]))
    return np.max(np.median(blocks, axis=1), axis=(0, 1)) if rows else np.zeros(distance.shape[-1])
