"""Findings about chains that lag behind the others, or are stuck, in a warm-up. All arrays are the host's."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xpsample.diagnostics.findings import Finding

GAP, LEAST_SD = 5.0, math.sqrt(0.5)
"""Standard deviations of the log density between the chains that are behind and the lowest one that is not; and the
least of these, that of a Gaussian in one dimension: a target that is flatter has no chains that are far below.

What matters is the gap. Chains that mix slowly, or that are in a funnel, have means that differ by many of these, each
by a little from the next one: 11 in all of 128 chains of RWM on a Gaussian (100), with gaps of up to 3.8.
"""

RISING, AFAR = 4.0, 20.0
"""Of a chain that comes in: standard errors by which steps that raise its log density outnumber those that lower it,
and standard deviations by which that rises. A reversible chain that stays makes as many of those steps as of these.

Of 128 chains some still rise by up to 14 when a third of a warm-up is over, and arrive soon enough.
"""

HOPELESS = 1e-4
"""The share of the way to the others in log density by which a chain moves in a quarter of a warm-up, or comes in after
a third of one, at least. One that moves by less will not arrive, and may do no more than round: where the score is
wrong far out, chains at -1e8 and -1e10 moved by 2e-6 to 1e-5 of their way while the steps of all went to 4e-6.
"""

NO_VOLUME = 50.0
"""For each coordinate, by how much a chain that is lost is below the others in log density, at least: its region would
have weight if its scales were exp(50) times those of theirs.
"""


def judge_arrival(rows: np.ndarray) -> Finding | None:
    """Which chains lie far below the others of their group in the last quarter of a warm-up.

    By log densities (step, *groups, chains); what is not finite says nothing.
    """
    rounding = spacing(rows)
    last = np.ma.masked_invalid(rows[-(rows.shape[0] // 4) :].astype(np.float64))
    means, later = (part.mean(0).filled(np.nan) for part in (last, last[len(last) // 2 :]))
    now = later > means  # a chain may have come in just now: where it came from is no part of its variance
    variances = np.where(now, last[len(last) // 2 :].var(0).filled(np.nan), last.var(0).filled(np.nan))
    means = np.where(now, later, means)
    chains: list[tuple[int, ...]] = []
    below = 0.0
    for group in np.ndindex(means.shape[:-1]):
        late, distance = _behind(means[group], variances[group], rounding)
        chains += [(*group, int(i)) for i in late]
        below = max(below, distance)
    return chains_behind(chains, below) if chains else None


def spacing(rows: np.ndarray) -> float:
    """That of numbers of the dtype near 1, or of their size: 0 where it has no fractions."""
    return float(np.finfo(rows.dtype).eps) if np.issubdtype(rows.dtype, np.floating) else 0.0


def some_come_in(rows: np.ndarray, dim: int) -> bool:
    """Whether chains come in from afar: in the second half of these steps, the log density of one rises nearly always,
    and from the first half of that to the second by many standard deviations of the log density of a Gaussian.

    Log densities are (step, *chains), of positions with `dim` coordinates. What is not finite says nothing, nor does a
    chain that is so far below another one of its group that what it rises by is nothing.
    """
    half, before, now = _halves(rows)
    way = np.sign(np.ma.diff(half, axis=0))
    rises = way.sum(0) > RISING * np.ma.sqrt(np.abs(way).sum(0))
    left = now.max(axis=-1, keepdims=True) - now if now.ndim else 0.0
    far = now - before > np.maximum(AFAR * math.sqrt(0.5 * dim), HOPELESS * left)
    return bool(np.any(np.ma.filled(rises & far, False)))


def lost_by(rows: np.ndarray, dim: int) -> np.ndarray:
    """By how much lost chains are below more than half of their group, in log density, and 0 for others, (*chains).

    A chain is lost where no volume makes up for its density, and it stays there in the second half of these log
    densities (step, *chains), of positions with `dim` coordinates.
    """
    _, before, now = _halves(rows)
    if not now.ndim:
        return np.zeros(())
    below = -np.sort(-now.filled(-np.inf), axis=-1)[..., [now.shape[-1] // 2]] - now
    lost = (below > NO_VOLUME * dim) & (np.abs(now - before) < HOPELESS * below)
    return np.where(np.ma.filled(lost, False), np.ma.filled(below, 0.0), 0.0)


def _halves(rows: np.ndarray) -> tuple[Any, Any, Any]:
    """The second half of some steps, and the means of the halves of that."""
    half = np.ma.masked_invalid(rows[rows.shape[0] // 2 :].astype(np.float64))
    middle = half.shape[0] // 2
    return half, half[:middle].mean(0), half[middle:].mean(0)


def chains_behind(chains: Sequence[tuple[int, ...]], below: float) -> Finding:
    """Chains whose log densities are below those of the others, by up to `below`."""
    some = "a chain was" if len(chains) == 1 else f"{len(chains)} chains were up to"
    return Finding(
        "behind",
        f"in log density, {some} {below:,.0f} below the others when the warm-up ended",
        below,
        "not arrived, or in another mode: give a longer warm-up (warmup=), or start closer; the draws do not show what "
        "weight another mode has",
        chains=tuple(chains),
    )


def chains_begun_again(chains: Sequence[tuple[int, ...]], below: float) -> Finding:
    """Chains that were lost, below the others by up to `below`, and began again where these were."""
    some = "a chain stayed" if len(chains) == 1 else f"{len(chains)} chains stayed up to"
    others = "another one was" if len(chains) == 1 else "others were"
    return Finding(
        "restart",
        f"in log density, {some} {below:,.0f} below the others in the warm-up, and began again where {others}",
        below,
        "nothing is wrong with the draws; starts that are closer to the others avoid it",
        chains=tuple(chains),
    )


def stand_ins(out: np.ndarray) -> np.ndarray:
    """For each chain the one of its group to look at in its place: itself, or one that is not `out` if it is.

    `out` is (*groups, chains); a group whose chains are all out stays as it is.
    """
    found = np.broadcast_to(np.arange(out.shape[-1]), out.shape).copy()
    for group in np.ndindex(out.shape[:-1]):
        others = np.flatnonzero(~out[group])
        if len(others):
            found[group][out[group]] = np.resize(others, out[group].sum())
    return found


def side_by_side(findings: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[Finding]:
    """The chains behind of several shards as one finding, of JSON fields and the first chain of each shard."""
    found = [(first, Finding.from_json(dict(fields))) for first, fields in findings]
    if found:
        chains = [(first + i, *rest) for first, one in found for i, *rest in one.chains]
        yield chains_behind(chains, max(one.value for _, one in found))


def _behind(means: np.ndarray, variances: np.ndarray, rounding: float) -> tuple[np.ndarray, float]:
    """Chains below the first gap under the best quarter, and how far the lowest is below the median of the others.

    Chains that are just coming in have large variances, so it is the lower quartile of those of the upper half that
    counts.
    """
    order = np.argsort(-means)[: np.isfinite(means).sum()]  # what is not finite comes last
    if len(order) < 2:
        return order[:0], 0.0
    ranked, upper = means[order], order[: (len(order) + 1) // 2]
    sd = max(math.sqrt(np.quantile(variances[upper], 0.25)), LEAST_SD, rounding * abs(ranked[0]))
    # A quarter of the chains is never behind: of many, a few may have found a place that others need not go to.
    ahead = math.ceil(0.25 * len(order))
    gaps = np.flatnonzero(ranked[ahead - 1 : -1] - ranked[ahead:] > GAP * sd)
    if not len(gaps):
        return order[:0], 0.0
    first = ahead + gaps[0]
    return np.sort(order[first:]), float(np.median(ranked[:first]) - ranked[-1])
