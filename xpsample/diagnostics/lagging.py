"""Findings about chains that lag behind the others, or are stuck, in a warm-up. All arrays are the host's."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xpsample.diagnostics.findings import Finding

# Standard deviations of the log density between the chains that are behind and the lowest one that is not; and the
# least of these, the value for a Gaussian in one dimension: a target that is flatter has no chains that are far below.
# What matters is the gap. Chains that mix slowly, or that are in a funnel, have means that differ by many of these,
# each by a little from the next one: 11 in all of 128 chains of RWM on a Gaussian (100), with gaps of up to 3.8.
GAP, LEAST_SD = 5.0, math.sqrt(0.5)

# Standard deviation of the log density of a stuck chain, at most, and its share of the distance to the others.
# The standard deviation is 0.7 or more where chains have converged. At a huge log density it is larger, because of
# rounding and since the smallest moves change it. On Lotka-Volterra it was 1e-6 to 3e-4 of the distance for chains that
# never converged, some of which pulled the step size of all down, and 0.03 and more for chains in a local mode. With d
# coordinates it is about sqrt(d / 2) in any mode, which is below a thousandth only of distances above 700 sqrt(d): no
# volume makes up for these.
STILL, HOPELESS = 0.05, 1e-3


def judge_arrival(rows: np.ndarray, when: str = "when the warm-up ended") -> Finding | None:
    """Which chains lie far below the others of their group in the last quarter of a warm-up, or of a run.

    By log densities (step, *groups, chains); what is not finite says nothing.
    """
    rounding = spacing(rows)
    last = np.ma.masked_invalid(rows[-(rows.shape[0] // 4) :].astype(np.float64))
    means, later = (part.mean(0).filled(np.nan) for part in (last, last[len(last) // 2 :]))
    now = later > means  # if a chain converged just now, its transient is no part of its variance
    variances = np.where(now, last[len(last) // 2 :].var(0).filled(np.nan), last.var(0).filled(np.nan))
    means = np.where(now, later, means)
    chains: list[tuple[int, ...]] = []
    below = 0.0
    for group in np.ndindex(means.shape[:-1]):
        late, distance = _behind(means[group], variances[group], rounding)
        chains += [(*group, int(i)) for i in late]
        below = max(below, distance)
    return chains_behind(chains, below, when) if chains else None


def spacing(rows: np.ndarray) -> float:
    """Relative spacing of floating numbers of the dtype; 0 for integers."""
    return float(np.finfo(rows.dtype).eps) if np.issubdtype(rows.dtype, np.floating) else 0.0


def lagging_chains(found: Finding | None, chains: tuple[int, ...]) -> np.ndarray:
    """Mask (*chains) of the chains that the finding of `judge_arrival` names."""
    marked: np.ndarray = np.zeros(chains, dtype=bool)
    for chain in found.chains if found is not None else ():
        marked[chain] = True
    return marked


def stuck_by(rows: np.ndarray, found: Finding | None) -> np.ndarray:
    """Depth of stuck chains below the others in log density, and 0 for other chains, (*chains).

    They are the chains of the finding of `judge_arrival` whose log density does not move in the last half.
    """
    lagging = lagging_chains(found, rows.shape[1:])
    if found is None:
        return np.zeros(lagging.shape)
    last = np.ma.masked_invalid(rows[len(rows) // 2 :].astype(np.float64))
    sd, mean = last.std(0), last.mean(0)
    below = np.ma.median(np.ma.array(mean, mask=lagging), axis=-1, keepdims=True) - mean
    still = np.maximum(np.maximum(STILL, spacing(rows) * np.abs(mean)), HOPELESS * below)
    return np.where(lagging & (sd < still).filled(False), np.ma.filled(below, 0.0), 0.0)


def chains_behind(chains: Sequence[tuple[int, ...]], below: float, when: str = "when the warm-up ended") -> Finding:
    """Finding of chains whose log densities are up to `below` lower than the others'."""
    some = "a chain was" if len(chains) == 1 else f"{len(chains)} chains were up to"
    return Finding(
        "behind",
        f"{some} {_round(below)} below the others in log density {when}",
        below,
        "not converged, or in another mode, whose weight the draws do not show. Use a longer warm-up (warmup=), or "
        "start closer",
        chains=tuple(chains),
    )


def chains_begun_again(distances: np.ndarray) -> Finding:
    """Chains that were stuck below the others by so much, (*chains), and began again where these were."""
    chains, below = tuple(map(tuple, np.argwhere(distances > 0).tolist())), float(np.max(distances))
    one = len(chains) == 1
    some = "a chain was stuck" if one else f"{len(chains)} chains were stuck up to"
    others = "the position of another one" if one else "the positions of others"
    return Finding(
        "restart",
        f"{some} {_round(below)} below the others in log density in the warm-up, and restarted from {others}",
        below,
        "the draws are right. To avoid this, start closer to the other chains",
        chains=chains,
    )


def _round(below: float) -> str:
    return f"{below:,.0f}" if below < 1e6 else f"{below:.3g}"


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

    Chains in their transient phase have large variances, so the lower quartile of the variances in the upper half
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
