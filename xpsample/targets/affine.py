"""A target in other coordinates: x = center + factor z."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.targets.shaped import shape_of
from xpsample.targets.target import Target


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

    own: Any = target  # each function below is taken where the target has the one that it calls

    def inner(data: dict[str, Any]) -> tuple[Any, ...]:
        return () if target.data is None else (data["target"],)

    def place(z: Array, data: dict[str, Any]) -> Array:
        return data["center"] + z @ data["factor"].T

    def log_density(z: Array, data: dict[str, Any]) -> Array:
        return own.log_density(place(z, data), *inner(data))

    def score(z: Array, data: dict[str, Any]) -> Array:
        return own.score(place(z, data), *inner(data)) @ data["factor"]

    def hvp(z: Array, v: Array, data: dict[str, Any]) -> Array:
        along = v @ data["factor"].T
        return own.hvp(place(z, data), along, *inner(data)) @ data["factor"]

    def score_plus_hvp(z: Array, v: Array, data: dict[str, Any]) -> Array:
        along = v @ data["factor"].T
        return own.score_plus_hvp(place(z, data), along, *inner(data)) @ data["factor"]

    def both(z: Array, data: dict[str, Any]) -> tuple[Array, Array]:
        value, gradient = own.log_density_and_score(place(z, data), *inner(data))
        return value, gradient @ data["factor"]

    def given(function: Callable[..., Any], original: Any) -> Callable[..., Any] | None:
        return None if original is None else function

    data = {"center": center, "factor": factor} | ({} if target.data is None else {"target": target.data})
    return replace(
        target,
        log_density=given(log_density, target.log_density),
        score=given(score, target.score),
        hvp=given(hvp, target.hvp),
        log_density_and_score=given(both, target.log_density_and_score),
        score_plus_hvp=given(score_plus_hvp, target.score_plus_hvp),
        data=data,
    )
