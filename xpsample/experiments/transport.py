"""Wasserstein distances between samples of equal weights, on the host: exact by POT, in one dimension by sorting."""

import numpy as np


def wasserstein(x: np.ndarray, y: np.ndarray, p: int = 1) -> np.ndarray:
    """W_1 or W_2, (...), with the Euclidean distance, of samples (..., n, dim) and (..., m, dim).

    By linear programming, which takes memory n m and about cubic time: seconds for 2,000 points against 2,000.
    ImportError without POT.
    """
    try:
        import ot
    except ImportError as error:
        raise ImportError('wasserstein() needs POT: pip install "xpsample[metrics]"') from error
    x, y, out = x.astype(np.float64), y.astype(np.float64), np.empty(x.shape[:-2])
    for at in np.ndindex(out.shape):
        cost = ot.dist(x[at], y[at], metric="euclidean" if p == 1 else "sqeuclidean")
        out[at] = max(ot.emd2([], [], cost, numItermax=10_000_000), 0.0) ** (1 / p)
    return out


def wasserstein_1d(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """W_1, (...), of samples of numbers (..., n) and (..., m), as the distance of their quantile functions."""
    n, m = x.shape[-1], y.shape[-1]
    # Both functions are constant between the levels i / n and j / m, integers in units of 1 / (n m).
    levels = np.union1d(np.arange(0, n * m + 1, m), np.arange(0, n * m + 1, n))
    apart = np.sort(x, axis=-1)[..., levels[:-1] // m] - np.sort(y, axis=-1)[..., levels[:-1] // n]
    return np.sum(np.diff(levels) / (n * m) * np.abs(apart), axis=-1)


def marginal_wasserstein(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The sum over coordinates of W_1 between the marginals of samples (..., n, dim) and (..., m, dim), (...).

    It ignores how the coordinates depend. The authors of SRLD report it as "W1"; it is at most sqrt(dim) times that.
    """
    return np.sum(wasserstein_1d(np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2)), axis=-1)
