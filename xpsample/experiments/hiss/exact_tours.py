"""Independent draws of closed tours, by dynamic programming."""

import math

import numpy as np

from xpsample.core.errors import HyperparameterError
from xpsample.zoo.tsp import checked_cities, distances_between

LARGEST_DRAWN = 18
"""The most cities for `draw_tours`."""


def draw_tours(cities: np.ndarray, draws: int, temperature: float = 1.0, seed: int = 0) -> tuple[np.ndarray, float]:
    """Independent draws from the density of `tsp`, by dynamic programming over sets of cities (Held & Karp 1962).

    Time and memory grow as 2^n, so there are at most `LARGEST_DRAWN` cities. A yardstick for samplers.

    Parameters
    ----------
    cities, temperature
        As in `tsp`.
    draws : int
    seed : int

    Returns
    -------
    tours : numpy.ndarray of int64, shape (draws, n)
    log_normalizer : float
        Log of the sum of ``exp(-length / temperature)`` over all n! orders.

    Raises
    ------
    HyperparameterError
        As `tsp`, or if there are more than `LARGEST_DRAWN` cities.
    """
    cities = checked_cities(cities, temperature)
    n, others = len(cities), len(cities) - 1
    if n > LARGEST_DRAWN:
        raise HyperparameterError(f"exact draws need 2^n numbers, for at most {LARGEST_DRAWN} cities; got {n}")
    legs = -distances_between(cities) / temperature
    # paths[set, k]: log sum over the orders in which a path from city 0 visits the set and ends in its city k + 1.
    paths = np.full((2**others, others), -np.inf)
    members = (np.arange(2**others)[:, None] >> np.arange(others)) & 1 == 1
    for k in range(others):
        paths[1 << k, k] = legs[0, k + 1]
    for whole in range(1, 2**others):
        ends = np.flatnonzero(members[whole])
        if len(ends) > 1:
            before = paths[whole ^ (1 << ends)]  # row j: without ends[j]
            paths[whole, ends] = _log_sum(before + legs[ends + 1, 1:])
    rng, rows = np.random.default_rng(seed), np.arange(draws)
    tours, left, last = np.zeros((draws, n), dtype=np.int64), np.full(draws, 2**others - 1), np.zeros(draws, dtype=int)
    for stop in range(n - 1, 0, -1):
        weights = paths[left] + legs[last, 1:]
        cdf = np.cumsum(np.exp(weights - np.max(weights, axis=1, keepdims=True)), axis=1)
        chosen = np.sum(cdf < rng.random((draws, 1)) * cdf[:, -1:], axis=1)
        left, last = left ^ (1 << chosen), chosen + 1
        tours[:, stop] = last
    turned = (np.arange(n) + rng.integers(n, size=(draws, 1))) % n  # the n rotations of a tour are equally likely
    log_normalizer = float(_log_sum(paths[-1:] + legs[:1, 1:])[0]) + math.log(n)
    return tours[rows[:, None], turned], log_normalizer


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """Log of the sum of exp over the last axis, (..., n) to (...); one of the logs is finite."""
    top = np.max(logs, axis=-1)
    return top + np.log(np.sum(np.exp(logs - top[..., None]), axis=-1))
