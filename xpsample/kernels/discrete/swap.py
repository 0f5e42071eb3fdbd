"""Swap Metropolis: permutations by exchanging two items (Burkard & Rendl 1984, at a fixed temperature)."""

from typing import Any

from xpsample.core.arrays import Array
from xpsample.kernels.discrete.common import TwoPlaces


class Swap(TwoPlaces):
    """Exchange the items at two places, both drawn uniformly, and accept by Metropolis.

    For rankings, assignments and matchings, in which the place of each item counts. Targets on `Permutations`.

    See Also
    --------
    Permutations : The space.
    TwoOpt : Reverses segments, for tours, in which the neighbors of each item count.

    References
    ----------
    .. [1] Burkard & Rendl (1984), "A thermodynamically motivated simulation procedure for combinatorial optimization
       problems", European Journal of Operational Research 17.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> cost = np.random.default_rng(0).random((6, 6))  # of item x[i] at place i
    >>> def log_density(x):
    ...     return -np.sum(cost[np.arange(6), x.astype(int)], axis=-1) / 0.2
    >>> target = xps.Target(log_density, space=xps.Permutations())
    >>> x0 = np.array([np.random.default_rng(k).permutation(6) for k in range(20)])
    >>> trace = xps.sample(target, xps.Swap(), x0, 2000, seed=1)
    >>> trace.draws.shape
    (2000, 20, 6)
    """

    def sources(self, xp: Any, place: Array, low: Array, high: Array) -> Array:
        return xp.where(place == low, high, xp.where(place == high, low, place))
