"""Isokinetic dynamics: positions move at a speed that never changes, along a velocity that the score turns.

With unit velocity u and d coordinates, ``dx = u dt`` and ``du = (I - u u^T) s(x) dt / (d - 1)`` leave the density times
the uniform distribution of u on the unit sphere invariant (Robnik, De Luca, Silverstein & Seljak 2023).
"""

import math
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.covariance import Covariance
from xpsample.core.errors import HyperparameterError


def unit(xp: Any, v: Array) -> Array:
    """Vectors (*chains, dim) divided by their lengths; zeros stay zeros."""
    return v / _length(xp, v)[..., None]


def kick(xp: Any, u: Array, score: Array, time: Any) -> tuple[Array, Array]:
    """Turn unit velocities u, (*chains, dim), towards the score, exactly, for a time in which the score stays the same.

    With e the direction of the score s and delta = time |s| / (d - 1), the new velocity is ``(u + e (sinh(delta) +
    (e.u) (cosh(delta) - 1))) / c`` with ``c = cosh(delta) + (e.u) sinh(delta)``. Beside it the kinetic energy that is
    gained, (*chains): (d - 1) log c, minus the log Jacobian of this map of the sphere.
    """
    most = u.shape[-1] - 1
    length = _length(xp, score)
    e, delta = score / length[..., None], time * length[..., None] / most
    shrunk = xp.exp(-delta)  # all is divided by exp(delta), which may overflow
    near = 0.5 * xp.sum((e + u) ** 2, axis=-1)[..., None]  # 1 + e.u, with all its digits where u is against e
    u = 2 * shrunk * u + e * ((1 - shrunk) * (2 * shrunk + near * (1 - shrunk)))
    growth = xp.log(near + (2 - near) * shrunk**2) - math.log(2)
    return unit(xp, u), most * (delta + growth)[..., 0]


def _length(xp: Any, v: Array) -> Array:
    length = xp.sqrt(xp.sum(v * v, axis=-1))
    return xp.where(length > 0, length, 1.0)


def along(mass: Covariance, u: Array) -> Array:
    """dx/dt of a unit velocity, A^{-T} u with M = A A^T."""
    return mass.solve(mass.root(u))


def check_dim(name: str, x: Array) -> None:
    """Raise HyperparameterError for positions of one coordinate."""
    if x.shape[-1] < 2:
        raise HyperparameterError(
            f"{name} needs positions with at least 2 coordinates, since a velocity of fixed length can otherwise "
            f"only turn around; got {tuple(x.shape)}. Use HMC or NUTS."
        )
