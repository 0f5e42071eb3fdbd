"""How different the tours of a run are: Table 1 of the HiSS paper, and the same up to rotation and reversal."""

from typing import NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.registry import to_host

_ROWS = 512


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

    The HiSS paper does not define its measures. These follow its public code: tours that begin elsewhere, or run the
    other way round, count as distinct; cities are compared stop by stop, the first stop again at the end; edges have a
    direction. If m stops agree, there are ``C(n + 1, 2) - C(m, 2)`` mismatches: the paper's 105 for 14 cities means
    that at most one stop agrees.

    Parameters
    ----------
    tours : array, shape (..., n)
        Cities 0 .. n - 1 in order.
    up_to_symmetry : bool
        Turn every tour first to begin at city 0 and to go on to the smaller of its neighbours (`canonical_tours`), and
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
    for first in range(0, count, _ROWS):
        rows = slice(first, first + _ROWS)
        later = np.arange(count) > np.arange(first, min(first + _ROWS, count))[:, None]
        agree, shared = cities[rows] @ cities.T, edges[rows] @ edges.T
        mismatch += float(np.sum((n * (n + 1) - agree * (agree - 1)) / 2, where=later, dtype=np.float64))
        jaccard += float(np.sum(shared / (2 * length - shared), where=later, dtype=np.float64))
    pairs = count * (count - 1) // 2
    return TourDiversity(distinct, *(total / pairs if pairs else float("nan") for total in (mismatch, jaccard)))


def canonical_tours(tours: Array) -> np.ndarray:
    """Tours (..., n) turned to begin at city 0 and to go on to the smaller of its two neighbours, on the host."""
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
