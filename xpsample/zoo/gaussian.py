"""Multivariate normal targets."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
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
