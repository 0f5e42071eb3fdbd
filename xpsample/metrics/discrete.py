"""Comparison of draws with a distribution on few states (counts, distances, coverage), and diversity of tours.

States are numbered as the rows of `Discrete.states`. Distributions are arrays (..., states) that sum to 1.
"""

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array, Mask, Same
from xpsample.core.registry import to_host
from xpsample.spaces.discrete import Discrete
from xpsample.targets.target import Target


def exact_probabilities(target: Target, dim: int) -> np.ndarray:
    """Probabilities of all states of a target on a discrete space, host array (states,), by enumeration.

    Parameters
    ----------
    target : Target
        Target with a log density, and no data but NumPy arrays.
    dim : int
        Dimension of its positions.

    Raises
    ------
    PositionError
        If there are too many states.
    ValueError
        If the target has no discrete space or no log density.
    """
    if not isinstance(target.space, Discrete) or target.log_density is None:
        raise ValueError("only targets with a log density on a discrete space can be enumerated")
    args = () if target.data is None else (target.data,)
    logs = np.asarray(target.log_density(target.space.states(dim), *args))
    weights = np.exp(logs - np.max(logs))
    return weights / np.sum(weights)


def frequencies(counts: Array, like: Same) -> Same:
    """Counts (..., states) as shares, in the floating dtype of `like`."""
    xp = array_namespace(counts)
    counts = xp.astype(counts, like.dtype)
    return counts / xp.sum(counts, axis=-1, keepdims=True)


def total_variation(p: Same, q: Same) -> Same:
    """Half the sum of ``|p - q|``, (..., states) to (...), from 0 to 1."""
    xp = array_namespace(p, q)
    return 0.5 * xp.sum(xp.abs(p - q), axis=-1)


def kl_divergence(p: Same, q: Same) -> Same:
    """KL(p || q) = sum of ``p log(p / q)`` in nats, (..., states) to (...), with 0 log 0 = 0.

    For KL(exact || estimate), p is the exact distribution; it is infinite if a possible state was never seen.
    """
    xp = array_namespace(p, q)
    p, q = xp.broadcast_arrays(p, q)
    seen, possible, one = p > 0, q > 0, xp.ones_like(p)
    terms = p * (xp.log(xp.where(seen, p, one)) - xp.log(xp.where(possible, q, one)))
    return xp.sum(xp.where(seen & ~possible, xp.full_like(p, math.inf), terms), axis=-1)


def log_mean_absolute_error(estimate: Same, exact: Same) -> Same:
    """Natural log of the mean over states of ``|estimate - exact|``, (..., states) to (...).

    The HiSS paper's logMAE is the mean of this over chains. It is -inf if an estimate is exact.
    """
    xp = array_namespace(estimate, exact)
    return xp.log(xp.mean(xp.abs(estimate - exact), axis=-1))


def prominent_states(probabilities: Array, ratio: float = 1e-3) -> Mask:
    """Which states have at least `ratio` times the largest probability: (..., states) to the same, of bool."""
    xp = array_namespace(probabilities)
    return probabilities >= ratio * xp.max(probabilities, axis=-1, keepdims=True)


def coverage(counts: Array, like: Same, among: Mask = None) -> Same:
    """Share of states that were visited at all, counts (..., states) to (...), as in Appendix D of the HiSS paper.

    Parameters
    ----------
    counts : array, shape (..., states)
    like : array
        Gives the floating dtype of the result.
    among : array of bool, shape (states,), optional
        Count these states only, and give their share; all states when not given.
    """
    xp = array_namespace(counts)
    visited = counts > 0
    if among is None:
        return xp.mean(xp.astype(visited, like.dtype), axis=-1)
    total = xp.sum(xp.astype(among, like.dtype), axis=-1)
    return xp.sum(xp.astype(visited & among, like.dtype), axis=-1) / total


class TourDiversity(NamedTuple):
    """``tours`` (unique, n) are the distinct ones; two averages over pairs of them are nan if there is only one.

    ``mismatch``: of the n (n + 1) / 2 pairs i < j of stops of the closed tour, those at which not both cities agree.
    ``jaccard``: the number of edges in both tours over the number in either.
    """

    tours: np.ndarray
    mismatch: float
    jaccard: float


def tour_diversity(tours: Array, up_to_symmetry: bool = False) -> TourDiversity:
    """Distinct tours and how far they are from each other, on the host.

    The HiSS paper does not define its measures. These follow its public code: tours with another first city, or in the
    other direction, count as distinct; cities are compared stop by stop, the first stop again at the end; edges have a
    direction. If m stops agree, there are ``C(n + 1, 2) - C(m, 2)`` mismatches: the paper's 105 for 14 cities means
    that at most one stop agrees.

    Parameters
    ----------
    tours : array, shape (..., n)
        Cities 0 .. n - 1 in order.
    up_to_symmetry : bool
        Rotate every tour first to begin at city 0, followed by the smaller of its neighbors (`canonical_tours`), and
        ignore the direction of edges.

    Raises
    ------
    ValueError
        If there is no tour.
    """
    host = np.asarray(to_host(tours))
    host = host.reshape(-1, host.shape[-1]).astype(np.int64)
    if not len(host):
        raise ValueError("there are no tours")
    distinct = np.unique(canonical_tours(host) if up_to_symmetry else host, axis=0)
    count, n = distinct.shape
    closed = np.concatenate([distinct, distinct[:, :1]], axis=1)
    start, end = closed[:, :-1], closed[:, 1:]
    if up_to_symmetry:
        start, end = np.minimum(start, end), np.maximum(start, end)
    edges, cities = _ones(start * n + end, n * n), _ones(closed + n * np.arange(n + 1), n * (n + 1))
    length = edges[0].sum()  # n; for two cities without direction 1
    mismatch = jaccard = 0.0
    each = 512
    for first in range(0, count, each):
        rows = slice(first, first + each)
        later = np.arange(count) > np.arange(first, min(first + each, count))[:, None]
        agree, shared = cities[rows] @ cities.T, edges[rows] @ edges.T
        mismatch += float(np.sum((n * (n + 1) - agree * (agree - 1)) / 2, where=later, dtype=np.float64))
        jaccard += float(np.sum(shared / (2 * length - shared), where=later, dtype=np.float64))
    pairs = count * (count - 1) // 2
    return TourDiversity(distinct, *(total / pairs if pairs else float("nan") for total in (mismatch, jaccard)))


def canonical_tours(tours: Array) -> np.ndarray:
    """Rotate tours (..., n) to begin at city 0, followed by the smaller of its two neighbors, on the host."""
    host = np.asarray(to_host(tours)).astype(np.int64)
    n = host.shape[-1]
    start = np.argmax(host == 0, axis=-1)[..., None]
    forward = np.take_along_axis(host, (start + np.arange(n)) % n, axis=-1)
    backward = np.take_along_axis(host, (start - np.arange(n)) % n, axis=-1)
    return np.where(forward[..., 1:2] <= backward[..., 1:2], forward, backward)


def _ones(index: np.ndarray, width: int) -> np.ndarray:
    """Rows (rows, width) of zeros with ones in the columns `index`, (rows, k)."""
    table = np.zeros((len(index), width), dtype=np.float32)
    np.put_along_axis(table, index, 1.0, axis=1)
    return table
