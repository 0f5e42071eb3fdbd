"""A curved target with exact draws: the twisted normal of Haario, Saksman & Tamminen (1999), in two dimensions."""

from typing import TypeVar

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.targets.target import Target

AnArray = TypeVar("AnArray", bound=Array)


def banana(curvature: float = 0.5) -> Target:
    """x1 = z1, x2 = z2 + curvature (z1^2 - 1) with z standard normal; score and hvp given.

    Parameters
    ----------
    curvature : float
        0 is the standard normal.

    Returns
    -------
    Target
        Takes positions (*chains, 2) of any library.
    """
    b = curvature

    def log_density(x: Array) -> Array:
        z = unbend(x, b)
        return -0.5 * array_namespace(x).sum(z * z, axis=-1)

    def score(x: Array) -> Array:
        z1, z2 = x[..., 0], x[..., 1] - b * (x[..., 0] ** 2 - 1)
        return array_namespace(x).stack([-z1 + 2 * b * z1 * z2, -z2], axis=-1)

    def hvp(x: Array, v: Array) -> Array:
        x1, v1, v2 = x[..., 0], v[..., 0], v[..., 1]
        z2 = x[..., 1] - b * (x1**2 - 1)
        first = (-1 + 2 * b * z2 - 4 * b * b * x1**2) * v1 + 2 * b * x1 * v2
        return array_namespace(x).stack([first, 2 * b * x1 * v1 - v2], axis=-1)

    return Target(log_density, score=score, hvp=hvp)


def bend(z: AnArray, curvature: float = 0.5) -> AnArray:
    """Exact draws from standard normals z, (*chains, 2)."""
    return array_namespace(z).stack([z[..., 0], z[..., 1] + curvature * (z[..., 0] ** 2 - 1)], axis=-1)


def unbend(x: AnArray, curvature: float = 0.5) -> AnArray:
    """The normals behind draws x, (*chains, 2): the inverse of `bend`."""
    return array_namespace(x).stack([x[..., 0], x[..., 1] - curvature * (x[..., 0] ** 2 - 1)], axis=-1)
