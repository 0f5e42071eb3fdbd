"""Distributions over the states of a small discrete space: shares from draws, and how far they are from the truth."""

import math

import numpy as np
from array_api_compat import array_namespace

from xpsample.backend import Array, Backend, backend_of
from xpsample.targets.discrete import Discrete, place_values


def state_numbers(space: Discrete, x: Array) -> Array:
    """The row of each position in ``space.states(dim)``.

    Parameters
    ----------
    space : Discrete
    x : array, shape (..., dim)
        Positions of that space.

    Returns
    -------
    array of int32, shape (...)

    Raises
    ------
    PositionError
        If the space has too many states to enumerate.
    """
    backend = backend_of(x)
    weights = backend.from_host(place_values(space, x.shape[-1]), x)
    bound = space.bind(backend, x)
    assert isinstance(bound, Discrete)
    return backend.xp.sum(bound.index(backend.xp, x) * weights, axis=-1, dtype=backend.xp.int32)


def state_counts(space: Discrete, draws: Array) -> Array:
    """How often each chain was in each state.

    Parameters
    ----------
    space : Discrete
    draws : array, shape (draw, *chains, dim)

    Returns
    -------
    array of int32, shape (*chains, states)
        As `StateCounts` records them without keeping draws.
    """
    backend = backend_of(draws)
    xp = backend.xp
    numbers = state_numbers(space, draws)
    states = math.prod(space.sizes(draws.shape[-1]))
    draw, chains = numbers.shape[0], math.prod(numbers.shape[1:])
    flat = xp.reshape(numbers, (draw, chains)) + states * _count_up(backend, chains, draws)
    edges = xp.searchsorted(xp.sort(xp.reshape(flat, (-1,))), _count_up(backend, states * chains + 1, draws))
    counts = xp.astype(edges[1:] - edges[:-1], xp.int32)
    return xp.reshape(counts, (*numbers.shape[1:], states))


def total_variation(p: Array, q: Array) -> Array:
    """Total variation distance ``sum |p - q| / 2`` of shares (..., states), to (...)."""
    xp = array_namespace(p, q)
    return 0.5 * xp.sum(xp.abs(p - q), axis=-1)


def kl_divergence(p: Array, q: Array) -> Array:
    """KL(p || q) = sum p log(p / q) of shares (..., states), to (...), in nats.

    0 log 0 is 0; infinite where q is 0 and p is not. There is no floor.
    """
    xp = array_namespace(p, q)
    inside = (p > 0) & (q > 0)
    ratio = xp.where(inside, p, 1.0) / xp.where(inside, q, 1.0)
    terms = xp.where((p > 0) & (q <= 0), math.inf, xp.where(inside, p, 0.0) * xp.log(ratio))
    return xp.sum(terms, axis=-1)


def log_mean_absolute_error(p: Array, q: Array, floor: float = 1e-12) -> Array:
    """The mean over the chains of log(mean over the states of |p - q|) (HiSS, Section 6.1).

    Parameters
    ----------
    p : array, shape (*chains, states)
        Shares of each chain.
    q : array, shape (states,)
        The truth.
    floor : float
        Least mean absolute error that is told from 0.

    Returns
    -------
    array, 0-d
    """
    xp = array_namespace(p, q)
    error = xp.mean(xp.abs(p - q), axis=-1)
    return xp.mean(xp.log(xp.where(error > floor, error, floor)))


def coverage(counts: Array) -> Array:
    """Share of the states that were visited at all (HiSS, Appendix D), counts (..., states) to (...) floating."""
    xp = array_namespace(counts)
    floating = xp.__array_namespace_info__().default_dtypes()["real floating"]
    return xp.mean(xp.astype(counts > 0, floating), axis=-1)


def _count_up(backend: Backend, n: int, like: Array) -> Array:
    return backend.from_host(np.arange(n, dtype=np.int32), like)
