"""The travelling salesman problem: closed tours, weighted by their length."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.discrete import Permutations
from xpsample.targets.target import Target


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
    cities = checked_cities(cities, temperature)
    distances = np.ravel(distances_between(cities))

    def log_density(x: Array, distances: Array) -> Array:
        return -tour_length(x, distances) / temperature

    return Target(log_density, data=distances, space=Permutations())


def tour_length(order: Array, distances: Array) -> Array:
    """Length of closed tours: order (..., n) of cities and distances (n * n,), row by row, to (...)."""
    xp, n = array_namespace(order, distances), order.shape[-1]
    city = xp.astype(order, xp.int32)
    leg = city * n + xp.roll(city, -1, axis=-1)
    return xp.sum(xp.reshape(xp.take(distances, xp.reshape(leg, (-1,))), leg.shape), axis=-1)


def distances_between(cities: np.ndarray) -> np.ndarray:
    """Euclidean lengths, (n, n), between cities (n, 2)."""
    return np.linalg.norm(cities[:, None, :] - cities[None, :, :], axis=-1)


def checked_cities(cities: Any, temperature: float) -> np.ndarray:
    """The cities in float64; HyperparameterError as `tsp` says."""
    cities = np.asarray(cities, dtype=np.float64)
    if cities.ndim != 2 or cities.shape[1] != 2 or len(cities) < 2 or not np.all(np.isfinite(cities)):
        raise HyperparameterError(f"cities must be finite coordinates (n, 2) with n >= 2; got shape {cities.shape}")
    if not temperature > 0:
        raise HyperparameterError(f"temperature must be positive; got {temperature}")
    return cities
