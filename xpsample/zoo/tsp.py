"""The travelling salesman problem: closed tours, weighted by their length."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.categorical import OneHot
from xpsample.spaces.permutations import Permutations
from xpsample.targets.target import Target

RELAXATIONS = ("lengths", "coordinates")
LARGEST_DRAWN = 18
"""The most cities for `draw_tours`."""


def tsp(cities: np.ndarray, temperature: float = 1.0) -> Target:
    """Closed tours as permutations: log density ``-length / temperature``.

    Parameters
    ----------
    cities : numpy.ndarray, shape (n, 2)
        Coordinates; lengths are Euclidean, in their unit.
    temperature : float
        Positive, in the unit of lengths.

    Returns
    -------
    Target
        On `Permutations`, without score, for `TwoOpt`: positions (*chains, n), the cities in the order of the tour.

    Raises
    ------
    HyperparameterError
        If the cities are not (n, 2) finite numbers with n of at least 2, or the temperature is not positive.
    """
    cities = _check(cities, temperature)
    distances = np.ravel(_distances(cities))

    def log_density(x: Array, distances: Array) -> Array:
        return -tour_length(x, distances) / temperature

    return Target(log_density, data=distances, space=Permutations())


def tsp_one_hot(
    cities: np.ndarray, temperature: float = 1.0, relaxation: str = "lengths", standardised: bool = False
) -> Target:
    """Closed tours as n x n zeros and ones; row k is the one-hot k-th city (HiSS, Section 6.3).

    The log density is ``-length / temperature``, and -inf if a city is missing. Every change of a single row leaves a
    city out, so kernels that change one variable at a time cannot move; DMALA and HiSS change several.

    Parameters
    ----------
    cities, temperature
        As in `tsp`.
    relaxation : str
        What the score is the gradient of. ``"lengths"``: the sum of ``x_k' D x_(k+1)`` over the stops k, with D the
        distances; it is linear in every row. ``"coordinates"``: the length of the tour through the points
        ``x_k' cities``, as in the public code of the HiSS paper.
    standardised : bool
        Divide the score by its standard deviation over the n^2 coordinates, as that code does with the logits of its
        proposal. The score is then no gradient. A kernel with a Metropolis-Hastings step stays exact, since its
        proposal may be any function of the position.

    Returns
    -------
    Target
        On ``OneHot(n)``, positions (*chains, n * n), with score; with hvp for the plain score of ``"lengths"``.

    Raises
    ------
    HyperparameterError
        As `tsp`, or if the relaxation is not one of these.
    """
    cities = _check(cities, temperature)
    if relaxation not in RELAXATIONS:
        raise HyperparameterError(f"relaxation must be one of {', '.join(RELAXATIONS)}; got {relaxation!r}")
    n = len(cities)
    data = {"cities": cities, "distances": _distances(cities)}

    def rows(x: Array) -> Array:
        return array_namespace(x).reshape(x, (*x.shape[:-1], n, n))

    def log_density(x: Array, data: Any) -> Array:
        xp, x = array_namespace(x), rows(x)
        after = xp.roll(x, -1, axis=-2)
        length = xp.sum(x * xp.matmul(after, data["distances"]), axis=(-2, -1))
        tour = xp.all(xp.sum(x, axis=-2) == 1.0, axis=-1)
        return xp.where(tour, -length / temperature, -math.inf)

    def by_lengths(x: Array, data: Any) -> Array:
        xp, x = array_namespace(x), rows(x)
        beside = xp.roll(x, 1, axis=-2) + xp.roll(x, -1, axis=-2)
        slope = xp.matmul(beside, data["distances"]) / -temperature
        return xp.reshape(slope, (*slope.shape[:-2], n * n))

    def by_coordinates(x: Array, data: Any) -> Array:
        xp, points = array_namespace(x), rows(x) @ data["cities"]
        leg = points - xp.roll(points, -1, axis=-2)
        length = xp.sqrt(xp.sum(leg * leg, axis=-1, keepdims=True))
        unit = leg / xp.where(length > 0.0, length, xp.ones_like(length))  # 0 where a city follows itself
        slope = ((unit - xp.roll(unit, 1, axis=-2)) @ data["cities"].T) / -temperature
        return xp.reshape(slope, (*slope.shape[:-2], n * n))

    gradient = by_lengths if relaxation == "lengths" else by_coordinates

    def score(x: Array, data: Any) -> Array:
        slope = gradient(x, data)
        if not standardised:
            return slope
        return slope / array_namespace(x).std(slope, axis=-1, keepdims=True)

    plain = relaxation == "lengths" and not standardised
    hvp = (lambda x, v, data: by_lengths(v, data)) if plain else None
    return Target(log_density, score=score, hvp=hvp, data=data, space=OneHot(n), constrained=True)


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
    cities = _check(cities, temperature)
    n, others = len(cities), len(cities) - 1
    if n > LARGEST_DRAWN:
        raise HyperparameterError(f"exact draws take 2^n numbers, {LARGEST_DRAWN} cities at most; got {n}")
    legs = -_distances(cities) / temperature
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


def tour_length(order: Array, distances: Array) -> Array:
    """Length of closed tours: order (..., n) of cities and distances (n * n,), row by row, to (...)."""
    xp, n = array_namespace(order, distances), order.shape[-1]
    city = xp.astype(order, xp.int32)
    leg = city * n + xp.roll(city, -1, axis=-1)
    return xp.sum(xp.reshape(xp.take(distances, xp.reshape(leg, (-1,))), leg.shape), axis=-1)


def _distances(cities: np.ndarray) -> np.ndarray:
    return np.linalg.norm(cities[:, None, :] - cities[None, :, :], axis=-1)


def _check(cities: Any, temperature: float) -> np.ndarray:
    cities = np.asarray(cities, dtype=np.float64)
    if cities.ndim != 2 or cities.shape[1] != 2 or len(cities) < 2 or not np.all(np.isfinite(cities)):
        raise HyperparameterError(f"cities must be finite coordinates (n, 2) with n >= 2; got shape {cities.shape}")
    if not temperature > 0:
        raise HyperparameterError(f"temperature must be positive; got {temperature}")
    return cities
