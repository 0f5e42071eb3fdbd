"""A curved target with exact draws: the twisted normal of Haario, Saksman & Tamminen (1999), in two dimensions."""

from typing import TypeVar

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
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
