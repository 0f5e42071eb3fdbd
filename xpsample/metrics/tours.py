"""How different the tours of a run are: Table 1 of the HiSS paper, and the same up to rotation and reversal."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.core.registry import to_host

_ROWS = 512


class TourDiversity(NamedTuple):
    """``tours`` (unique, n): the distinct ones. The averages over pairs of them are nan where there is one only.

    ``mismatch``: pairs i < j of the n + 1 places of the closed tour at which not both cities agree, of n (n + 1) / 2.
    ``jaccard``: shared edges over all edges of the two.
    """

    tours: np.ndarray
    mismatch: float
    jaccard: float


def tour_diversity(tours: Any, up_to_symmetry: bool = False) -> TourDiversity:
    """Distinct tours and how far they are from each other, on the host.

    The HiSS paper does not define its measures. These follow its public code: tours that begin elsewhere, or run the
    other way round, count as distinct; the mismatch count compares cities place by place, the first place counted again
    at the end; edges have a direction. Since m places in agreement leave ``C(n + 1, 2) - C(m, 2)`` mismatches,
    the paper's 105 for 14 cities means at most one place in agreement.

    Parameters
    ----------
    tours : array, shape (..., n)
        Cities 0 .. n - 1 in order.
    up_to_symmetry : bool
        Turn every tour first to begin at city 0 and to go on to the smaller of its neighbours (`canonical_tours`), and
        take edges without direction.

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
    length = edges[0].sum()  # n, or 1 for two cities without direction
    mismatch = jaccard = 0.0
    for first in range(0, count, _ROWS):
        rows = slice(first, first + _ROWS)
        later = np.arange(count) > np.arange(first, min(first + _ROWS, count))[:, None]
        agree, shared = cities[rows] @ cities.T, edges[rows] @ edges.T
        mismatch += float(np.sum((n * (n + 1) - agree * (agree - 1)) / 2, where=later, dtype=np.float64))
        jaccard += float(np.sum(shared / (2 * length - shared), where=later, dtype=np.float64))
    pairs = count * (count - 1) // 2
    return TourDiversity(distinct, *(total / pairs if pairs else float("nan") for total in (mismatch, jaccard)))


def canonical_tours(tours: Any) -> np.ndarray:
    """Tours (..., n) turned to begin at city 0 and to go on to the smaller of its two neighbours, on the host."""
    host = np.asarray(to_host(tours)).astype(np.int64)
    n = host.shape[-1]
    start = np.argmax(host == 0, axis=-1)[..., None]
    forward = np.take_along_axis(host, (start + np.arange(n)) % n, axis=-1)
    backward = np.take_along_axis(host, (start - np.arange(n)) % n, axis=-1)
    return np.where(forward[..., 1:2] <= backward[..., 1:2], forward, backward)


def _ones(index: np.ndarray, width: int) -> np.ndarray:
    """Rows with a 1 at each place of `index` (rows, k): (rows, width)."""
    table = np.zeros((len(index), width), dtype=np.float32)
    np.put_along_axis(table, index, 1.0, axis=1)
    return table
