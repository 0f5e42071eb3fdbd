"""2-opt Metropolis: permutations by reversing segments (Croes, 1958, as a Markov chain)."""

from typing import Any

from xpsample.core.arrays import Array
from xpsample.kernels.discrete.common import TwoPlaces


class TwoOpt(TwoPlaces):
    """Reverse the segment between two places, both drawn uniformly, and accept by Metropolis.

    On closed tours such a move replaces two edges (Lin, 1965). Reversing the same places again undoes it, so
    the proposal is symmetric. Targets on `Permutations`.

    See Also
    --------
    Permutations : The space.
    Swap : Exchanges two items, for rankings and assignments.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.zoo.tsp import tsp
    >>> cities = np.random.default_rng(0).random((8, 2))
    >>> x0 = np.array([np.random.default_rng(k).permutation(8) for k in range(20)])
    >>> trace = xps.sample(tsp(cities, 0.5), xps.TwoOpt(), x0, 2000, seed=1)
    >>> trace.draws.shape
    (2000, 20, 8)
    """

    def sources(self, xp: Any, place: Array, low: Array, high: Array) -> Array:
        return xp.where((place >= low) & (place <= high), low + high - place, place)
