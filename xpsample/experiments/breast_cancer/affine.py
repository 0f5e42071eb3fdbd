"""A target in other coordinates: x = center + factor z."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.targets.shaped import shape_of
from xpsample.targets.target import Target

FUNCTIONS = ("log_density", "score", "hvp", "log_density_and_score", "score_plus_hvp")
"""Functions of a target that are transformed to other coordinates."""


def affine(target: Target, center: np.ndarray, factor: np.ndarray) -> Target:
    """The distribution of z when ``x = center + factor z`` has the distribution `target`.

    With `center` the mean and ``factor factor^T`` the covariance of x, or estimates of them, z is near a standard
    normal: no kernel needs a preconditioner or a mass, and one repellence strength of SRMC acts alike in all directions
    (its tilt moves the mean of N(m, C) by ``alpha theta`` with theta growing as ``C^{-1} (m - average)``, so in other
    coordinates it is as uneven as ``C^{-1}``).

    Parameters
    ----------
    target : Target
        The distribution of x.
    center : numpy.ndarray, shape (dim,)
    factor : numpy.ndarray, shape (dim, dim)
        Invertible.

    Returns
    -------
    Target
        Positions z, shape ``(*chains, dim)``; what `target` gives analytically, it gives. The constant log-determinant
        is dropped.

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, or the target's positions are no vectors.
    """
    if shape_of(target.space):
        raise HyperparameterError(f"affine takes targets of vectors; this one is on {target.space!r}")
    center, factor = np.asarray(center), np.asarray(factor)
    if center.ndim != 1 or factor.shape != 2 * center.shape:
        raise HyperparameterError(f"center (dim,) and factor (dim, dim) do not fit: {center.shape} and {factor.shape}")

    moved = _Moved(target)
    given = {name: getattr(moved, name) for name in FUNCTIONS if getattr(target, name) is not None}
    data = {"center": center, "factor": factor} | ({} if target.data is None else {"target": target.data})
    return replace(target, **given, data=data)


@dataclass(frozen=True, eq=False)
class _Moved:
    """The functions of a target, of z. Those that it has not are not taken."""

    target: Any

    def log_density(self, z: Array, data: dict[str, Any]) -> Array:
        return self.target.log_density(*self._at(z, data))

    def score(self, z: Array, data: dict[str, Any]) -> Array:
        return self.target.score(*self._at(z, data)) @ data["factor"]

    def hvp(self, z: Array, v: Array, data: dict[str, Any]) -> Array:
        return self.target.hvp(*self._at(z, data, v)) @ data["factor"]

    def score_plus_hvp(self, z: Array, v: Array, data: dict[str, Any]) -> Array:
        return self.target.score_plus_hvp(*self._at(z, data, v)) @ data["factor"]

    def log_density_and_score(self, z: Array, data: dict[str, Any]) -> tuple[Array, Array]:
        value, score = self.target.log_density_and_score(*self._at(z, data))
        return value, score @ data["factor"]

    def _at(self, z: Array, data: dict[str, Any], *vectors: Array) -> tuple[Any, ...]:
        """The arguments of the target's function: x, vectors at it, and its own data where it has some."""
        along = (v @ data["factor"].T for v in vectors)
        own = () if self.target.data is None else (data["target"],)
        return data["center"] + z @ data["factor"].T, *along, *own
