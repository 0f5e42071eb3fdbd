"""Neal's funnel: normals whose scale is a coordinate (Neal, "Slice sampling", Annals of Statistics 31 (2003))."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.targets.target import Target
from xpsample.zoo.moments import KnownMoments

SD = 3.0


def funnel(dim: int = 10) -> Target:
    """x_1 ~ N(0, 9) and x_2, ..., x_dim ~ N(0, exp(x_1)), normalised; score and hvp given.

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
    constant = -0.5 * dim * math.log(2 * math.pi) - math.log(SD)

    def log_density(x: Array) -> Array:
        xp, v, squares = _parts(x)
        return constant - 0.5 * (v / SD) ** 2 - 0.5 * rest * v - 0.5 * xp.exp(-v) * squares

    def score(x: Array) -> Array:
        xp, v, squares = _parts(x)
        first = -v / SD**2 - 0.5 * rest + 0.5 * xp.exp(-v) * squares
        return xp.concat([first[..., None], -xp.exp(-v)[..., None] * x[..., 1:]], axis=-1)

    def hvp(x: Array, w: Array) -> Array:
        xp, v, squares = _parts(x)
        along = xp.sum(x[..., 1:] * w[..., 1:], axis=-1)
        first = -w[..., 0] / SD**2 + xp.exp(-v) * (along - 0.5 * squares * w[..., 0])
        others = xp.exp(-v)[..., None] * (x[..., 1:] * w[..., :1] - w[..., 1:])
        return xp.concat([first[..., None], others], axis=-1)

    return Target(log_density, score=score, hvp=hvp)


def _parts(x: Array) -> tuple[Any, Array, Array]:
    """Namespace, log variance, sum of the other coordinates' squares."""
    xp = array_namespace(x)
    return xp, x[..., 0], xp.sum(x[..., 1:] * x[..., 1:], axis=-1)


def funnel_moments(dim: int = 10) -> KnownMoments:
    """The moments of `funnel`: E x_i^2 = exp(9 / 2) and Var x_i^2 = 3 exp(18) - exp(9) for i > 1."""
    first, one = np.array([SD**2]), np.ones(dim - 1)
    return KnownMoments(
        mean=np.zeros(dim),
        square=np.concatenate([first, math.exp(SD**2 / 2) * one]),
        square_variance=np.concatenate([2 * first**2, (3 * math.exp(2 * SD**2) - math.exp(SD**2)) * one]),
    )


def funnel_draws(rows: int, rng: np.random.Generator, dim: int = 10) -> np.ndarray:
    """Exact draws, (rows, dim), on the host."""
    z = rng.standard_normal((rows, dim))
    z[:, 0] *= SD
    z[:, 1:] *= np.exp(0.5 * z[:, :1])
    return z
