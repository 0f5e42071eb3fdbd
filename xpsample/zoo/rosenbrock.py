"""Independent pairs on a curved valley, Rosenbrock's function as a density, with exact draws."""

import math

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.targets.target import Target
from xpsample.zoo.moments import KnownMoments

VARIANCE = 0.1


def rosenbrock(pairs: int = 18) -> Target:
    """u_i ~ N(1, 1) and v_i ~ N(u_i^2, 0.1), normalised; positions are all u, then all v. Score and hvp given.

    Parameters
    ----------
    pairs : int
        Half the dimension.

    Returns
    -------
    Target
        Takes positions (*chains, 2 pairs) of any library.
    """
    n = check_count("pairs", pairs, 1)
    constant = -n * (math.log(2 * math.pi) + 0.5 * math.log(VARIANCE))

    def log_density(x: Array) -> Array:
        u, v = x[..., :n], x[..., n:]
        each = (u - 1.0) ** 2 + (v - u * u) ** 2 / VARIANCE
        return constant - 0.5 * array_namespace(x).sum(each, axis=-1)

    def score(x: Array) -> Array:
        u, off = x[..., :n], (x[..., n:] - x[..., :n] ** 2) / VARIANCE
        return array_namespace(x).concat([1.0 - u + 2.0 * u * off, -off], axis=-1)

    def hvp(x: Array, w: Array) -> Array:
        u, off = x[..., :n], (x[..., n:] - x[..., :n] ** 2) / VARIANCE
        along, across = w[..., :n], w[..., n:]
        turn = 2.0 * u / VARIANCE
        first = (2.0 * off - 1.0 - 2.0 * u * turn) * along + turn * across
        return array_namespace(x).concat([first, turn * along - across / VARIANCE], axis=-1)

    return Target(log_density, score=score, hvp=hvp)


def rosenbrock_moments(pairs: int = 18) -> KnownMoments:
    """The moments of `rosenbrock`, from those of N(1, 1): 1, 2, 4, 10, ..., 764."""
    one, two, four, eight = 1.0, 2.0, 10.0, 764.0  # E u, E u^2, E u^4, E u^8
    square = four + VARIANCE  # E v^2
    fourth = eight + 6 * four * VARIANCE + 3 * VARIANCE**2  # E v^4

    def both(u: float, v: float) -> np.ndarray:
        return np.repeat([u, v], pairs)

    return KnownMoments(
        mean=both(one, two),
        square=both(two, square),
        square_variance=both(four - two**2, fourth - square**2),
    )


def rosenbrock_draws(rows: int, rng: np.random.Generator, pairs: int = 18) -> np.ndarray:
    """Exact draws, (rows, 2 pairs), on the host."""
    u = 1.0 + rng.standard_normal((rows, pairs))
    return np.concatenate([u, u * u + math.sqrt(VARIANCE) * rng.standard_normal((rows, pairs))], axis=-1)
