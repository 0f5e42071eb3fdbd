"""Tours as one-hot matrices, the form of the HiSS paper (Section 6.3)."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.categorical import OneHot
from xpsample.targets.target import Target
from xpsample.zoo.tsp import checked_cities, distances_between

RELAXATIONS = ("lengths", "coordinates")


def tsp_one_hot(
    cities: np.ndarray, temperature: float = 1.0, relaxation: str = "lengths", standardized: bool = False
) -> Target:
    """Closed tours as n x n zeros and ones; row k is the one-hot k-th city (HiSS, Section 6.3).

    The log density is ``-length / temperature``, and -inf if a city is missing. Every change of a single row leaves a
    city out, so kernels that change one variable at a time cannot move; DMALA and HiSS change several.

    Parameters
    ----------
    cities, temperature
        As in `xpsample.zoo.tsp.tsp`.
    relaxation : str
        What the score is the gradient of. ``"lengths"``: the sum of ``x_k' D x_(k+1)`` over the stops k, with D the
        distances; it is linear in every row. ``"coordinates"``: the length of the tour through the points
        ``x_k' cities``, as in the public code of the HiSS paper.
    standardized : bool
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
    cities = checked_cities(cities, temperature)
    if relaxation not in RELAXATIONS:
        raise HyperparameterError(f"relaxation must be one of {', '.join(RELAXATIONS)}; got {relaxation!r}")
    n = len(cities)
    data = {"cities": cities, "distances": distances_between(cities)}

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
        if not standardized:
            return slope
        return slope / array_namespace(x).std(slope, axis=-1, keepdims=True)

    plain = relaxation == "lengths" and not standardized
    hvp = (lambda x, v, data: by_lengths(v, data)) if plain else None
    return Target(log_density, score=score, hvp=hvp, data=data, space=OneHot(n), constrained=True)
