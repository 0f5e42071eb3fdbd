"""Multivariate normal targets."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.core.hyperparameters import check_range
from xpsample.targets.target import Target


def gaussian(covariance: np.ndarray, mean: np.ndarray | None = None) -> Target:
    """N(mean, covariance), with its score and hvp.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (dim, dim)
        Symmetric, positive definite.
    mean : numpy.ndarray, shape (dim,), optional
        Zero when not given.

    Returns
    -------
    Target
        Takes positions (*chains, dim) of any library.
    """
    covariance = np.asarray(covariance, dtype=np.float64)
    precision = np.linalg.inv(covariance)
    data = {
        "mean": np.zeros(len(covariance)) if mean is None else np.asarray(mean, dtype=np.float64),
        "precision": 0.5 * (precision + precision.T),
    }
    return Target(
        _log_density,
        score=_score,
        hvp=_hvp,
        log_density_and_score=_log_density_and_score,
        score_plus_hvp=lambda x, v, data: _score(x + v, data),
        data=data,
    )


def conditioned_covariance(dim: int, condition: float, rotation_seed: int | None = None) -> np.ndarray:
    """A covariance matrix, (dim, dim), whose eigenvalues are spaced evenly in the logarithm about 1.

    Parameters
    ----------
    dim : int
        At least 1.
    condition : float
        The largest eigenvalue over the smallest, at least 1; 1 is the identity.
    rotation_seed : int, optional
        Turn the axes by a uniformly random rotation. Without it the matrix is diagonal.
    """
    check_count("dim", dim, 1)
    check_range("condition", condition, 1, closed=True)
    half = 0.5 * math.log10(condition)
    eigenvalues = np.logspace(-half, half, dim)
    if rotation_seed is None:
        return np.diag(eigenvalues)
    q, r = np.linalg.qr(np.random.default_rng(rotation_seed).standard_normal((dim, dim)))
    q = q * np.sign(np.diag(r))
    return (q * eigenvalues) @ q.T


def _score(x: Array, data: Any) -> Array:
    return (data["mean"] - x) @ data["precision"]


def _log_density_and_score(x: Array, data: Any) -> tuple[Array, Array]:
    xp = array_namespace(x)
    offset = data["mean"] - x
    score = offset @ data["precision"]
    return -0.5 * xp.sum(offset * score, axis=-1), score


def _log_density(x: Array, data: Any) -> Array:
    return _log_density_and_score(x, data)[0]


def _hvp(x: Array, v: Array, data: Any) -> Array:
    return -(v @ data["precision"])
