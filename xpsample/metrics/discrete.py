"""How well draws match a distribution on few states: counts, distances, coverage.

States are numbered as the rows of `Discrete.states`. Distributions are arrays (..., states) that sum to 1.
"""

import math

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array, Mask, Same
from xpsample.spaces.discrete import Discrete
from xpsample.targets.target import Target


def exact_probabilities(target: Target, dim: int) -> np.ndarray:
    """Probabilities of all states of a target on a discrete space, host array (states,), by enumeration.

    Parameters
    ----------
    target : Target
        With a log density, and no data but NumPy arrays.
    dim : int
        Of its positions.

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
