"""Curved targets with exact draws: a banana, Neal's funnel, and Rosenbrock's function as a density."""

import math
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.targets.target import Target
from xpsample.zoo.moments import KnownMoments

AnArray = TypeVar("AnArray", bound=Array)


def banana(curvature: float = 0.5, scale: float = 1.0) -> Target:
    """x1 = scale z1, x2 = z2 + curvature (x1^2 - scale^2) with z standard normal; score and hvp given.

    ``banana(0.03, 10)`` is the one of the published comparisons of samplers.

    Parameters
    ----------
    curvature : float
        0 is a normal.
    scale : float
        Standard deviation of x1, positive.

    Returns
    -------
    Target
        Takes positions (*chains, 2) of any library.
    """
    b, variance = curvature, scale * scale

    def log_density(x: Array) -> Array:
        z = unbend(x, b, scale)
        return -0.5 * array_namespace(x).sum(z * z, axis=-1)

    def score(x: Array) -> Array:
        x1, z2 = x[..., 0], x[..., 1] - b * (x[..., 0] ** 2 - variance)
        return array_namespace(x).stack([-x1 / variance + 2 * b * x1 * z2, -z2], axis=-1)

    def hvp(x: Array, v: Array) -> Array:
        x1, v1, v2 = x[..., 0], v[..., 0], v[..., 1]
        z2 = x[..., 1] - b * (x1**2 - variance)
        first = (-1 / variance + 2 * b * z2 - 4 * b * b * x1**2) * v1 + 2 * b * x1 * v2
        return array_namespace(x).stack([first, 2 * b * x1 * v1 - v2], axis=-1)

    return Target(log_density, score=score, hvp=hvp)


def banana_moments(curvature: float = 0.5, scale: float = 1.0) -> KnownMoments:
    """The moments of `banana`, in closed form."""
    bent = curvature * scale**2  # x2 = bent (z1^2 - 1) + z2, and z1^2 - 1 has the moments 0, 2, 8, 60
    square = 1 + 2 * bent**2
    fourth = 60 * bent**4 + 6 * 2 * bent**2 + 3
    return KnownMoments(
        mean=np.zeros(2),
        square=np.array([scale**2, square]),
        square_variance=np.array([2 * scale**4, fourth - square**2]),
    )


def bend(z: AnArray, curvature: float = 0.5, scale: float = 1.0) -> AnArray:
    """Exact draws from standard normals z, (*chains, 2)."""
    x1 = scale * z[..., 0]
    return array_namespace(z).stack([x1, z[..., 1] + curvature * (x1**2 - scale**2)], axis=-1)


def unbend(x: AnArray, curvature: float = 0.5, scale: float = 1.0) -> AnArray:
    """The normals behind draws x, (*chains, 2): the inverse of `bend`."""
    z2 = x[..., 1] - curvature * (x[..., 0] ** 2 - scale**2)
    return array_namespace(x).stack([x[..., 0] / scale, z2], axis=-1)


FUNNEL_SD = 3.0


def funnel(dim: int = 10) -> Target:
    """x_1 ~ N(0, 9) and x_2, ..., x_dim ~ N(0, exp(x_1)), normalized; score and hvp given.

    No step size suits it everywhere: the neck at low x_1 is narrower than any step that crosses the mouth. A warm-up
    that reports no trouble on it has missed the neck.

    Parameters
    ----------
    dim : int
        At least 2.

    Returns
    -------
    Target
        Takes positions (*chains, dim) of any library.
    """
    rest = check_count("dim", dim, 2) - 1
    constant = -0.5 * dim * math.log(2 * math.pi) - math.log(FUNNEL_SD)

    def log_density(x: Array) -> Array:
        xp, v, squares = _parts(x)
        return constant - 0.5 * (v / FUNNEL_SD) ** 2 - 0.5 * rest * v - 0.5 * xp.exp(-v) * squares

    def score(x: Array) -> Array:
        xp, v, squares = _parts(x)
        first = -v / FUNNEL_SD**2 - 0.5 * rest + 0.5 * xp.exp(-v) * squares
        return xp.concat([first[..., None], -xp.exp(-v)[..., None] * x[..., 1:]], axis=-1)

    def hvp(x: Array, w: Array) -> Array:
        xp, v, squares = _parts(x)
        along = xp.sum(x[..., 1:] * w[..., 1:], axis=-1)
        first = -w[..., 0] / FUNNEL_SD**2 + xp.exp(-v) * (along - 0.5 * squares * w[..., 0])
        others = xp.exp(-v)[..., None] * (x[..., 1:] * w[..., :1] - w[..., 1:])
        return xp.concat([first[..., None], others], axis=-1)

    return Target(log_density, score=score, hvp=hvp)


def _parts(x: Array) -> tuple[Any, Array, Array]:
    """Namespace, log variance, sum of the other coordinates' squares."""
    xp = array_namespace(x)
    return xp, x[..., 0], xp.sum(x[..., 1:] * x[..., 1:], axis=-1)


def funnel_moments(dim: int = 10) -> KnownMoments:
    """The moments of `funnel`: E x_i^2 = exp(9 / 2) and Var x_i^2 = 3 exp(18) - exp(9) for i > 1."""
    first, one = np.array([FUNNEL_SD**2]), np.ones(dim - 1)
    return KnownMoments(
        mean=np.zeros(dim),
        square=np.concatenate([first, math.exp(FUNNEL_SD**2 / 2) * one]),
        square_variance=np.concatenate([2 * first**2, (3 * math.exp(2 * FUNNEL_SD**2) - math.exp(FUNNEL_SD**2)) * one]),
    )


def funnel_draws(rows: int, rng: np.random.Generator, dim: int = 10) -> np.ndarray:
    """Exact draws, (rows, dim), on the host."""
    z = rng.standard_normal((rows, dim))
    z[:, 0] *= FUNNEL_SD
    z[:, 1:] *= np.exp(0.5 * z[:, :1])
    return z


ROSENBROCK_VARIANCE = 0.1


def rosenbrock(pairs: int = 18) -> Target:
    """u_i ~ N(1, 1) and v_i ~ N(u_i^2, 0.1), normalized; positions are all u, then all v. Score and hvp given.

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
    constant = -n * (math.log(2 * math.pi) + 0.5 * math.log(ROSENBROCK_VARIANCE))

    def log_density(x: Array) -> Array:
        u, v = x[..., :n], x[..., n:]
        each = (u - 1.0) ** 2 + (v - u * u) ** 2 / ROSENBROCK_VARIANCE
        return constant - 0.5 * array_namespace(x).sum(each, axis=-1)

    def score(x: Array) -> Array:
        u, off = x[..., :n], (x[..., n:] - x[..., :n] ** 2) / ROSENBROCK_VARIANCE
        return array_namespace(x).concat([1.0 - u + 2.0 * u * off, -off], axis=-1)

    def hvp(x: Array, w: Array) -> Array:
        u, off = x[..., :n], (x[..., n:] - x[..., :n] ** 2) / ROSENBROCK_VARIANCE
        along, across = w[..., :n], w[..., n:]
        turn = 2.0 * u / ROSENBROCK_VARIANCE
        first = (2.0 * off - 1.0 - 2.0 * u * turn) * along + turn * across
        return array_namespace(x).concat([first, turn * along - across / ROSENBROCK_VARIANCE], axis=-1)

    return Target(log_density, score=score, hvp=hvp)


def rosenbrock_moments(pairs: int = 18) -> KnownMoments:
    """The moments of `rosenbrock`, from the moments of N(1, 1): 1, 2, 4, 10, ..., 764."""
    one, two, four, eight = 1.0, 2.0, 10.0, 764.0  # E u, E u^2, E u^4, E u^8
    square = four + ROSENBROCK_VARIANCE  # E v^2
    fourth = eight + 6 * four * ROSENBROCK_VARIANCE + 3 * ROSENBROCK_VARIANCE**2  # E v^4

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
    return np.concatenate([u, u * u + math.sqrt(ROSENBROCK_VARIANCE) * rng.standard_normal((rows, pairs))], axis=-1)
