"""Mixtures of isotropic normals, all derivatives analytic."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.targets.target import Target


def gaussian_mixture(weights: Sequence[float] | np.ndarray, means: np.ndarray, sds: float | np.ndarray) -> Target:
    """sum_k weights_k N(means_k, sds_k^2 I), normalized, with its score and hvp.

    Parameters
    ----------
    weights : numpy.ndarray, shape (components,)
        Positive; divided by their sum.
    means : numpy.ndarray, shape (components, dim)
    sds : numpy.ndarray, shape (components,), or float
        Positive standard deviations, in units of x.

    Returns
    -------
    Target
        Takes positions (*chains, dim) of any library. No array is larger than ``(*chains, components)`` or the means.

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, or a weight or standard deviation is not positive and finite.
    """
    weights, means = np.asarray(weights, dtype=np.float64), np.asarray(means, dtype=np.float64)
    if weights.ndim != 1 or means.ndim != 2 or len(weights) != len(means) or not len(means):
        raise HyperparameterError(
            f"weights have shape (components,) and means (components, dim); got {weights.shape} and {means.shape}"
        )
    sds = np.asarray(sds, dtype=np.float64)
    if sds.shape not in ((), weights.shape):
        raise HyperparameterError(f"sds must be a number or have shape {weights.shape}; got {sds.shape}")
    for name, values in (("weights", weights), ("sds", sds)):
        if not np.all((values > 0) & np.isfinite(values)):
            raise HyperparameterError(f"{name} must be positive and finite; got {values}")
    if not np.all(np.isfinite(means)):
        raise HyperparameterError("means must be finite")
    sds = np.broadcast_to(sds, weights.shape)
    data = {
        "means": means,
        "squares": np.sum(means * means, axis=-1),
        "precisions": sds**-2.0,
        "log_weights": np.log(weights / np.sum(weights)) - means.shape[1] * (np.log(sds) + 0.5 * math.log(2 * math.pi)),
    }
    return Target(
        _log_density,
        score=_score,
        hvp=_hvp,
        log_density_and_score=_log_density_and_score,
        score_plus_hvp=_score_plus_hvp,
        data=data,
    )


def smoothed_mixture(
    weights: Sequence[float] | np.ndarray, means: np.ndarray, sds: float | np.ndarray, sigma: float
) -> Target:
    """A `gaussian_mixture` plus independent noise N(0, sigma^2 I): sum_k weights_k N(means_k, (sds_k^2 + sigma^2) I).

    Parameters
    ----------
    weights, means, sds
        As for `gaussian_mixture`.
    sigma : float
        Noise level, at least 0, in units of x. It is the entry ``"sigma"`` of the target's `data`, which `Annealed`
        sets.

    Returns
    -------
    Target
        With its score and hvp.

    Raises
    ------
    HyperparameterError
        As for `gaussian_mixture`, or if sigma is negative or not finite.
    """
    check_range("sigma", sigma, 0, closed=True)
    plain: Any = gaussian_mixture(weights, means, sds).data
    data = {
        "sigma": np.asarray(sigma, dtype=np.float64),
        "means": plain["means"],
        "squares": plain["squares"],
        "variances": 1.0 / plain["precisions"],
        # The power of the variances is omitted: the noise changes it.
        "log_weights": plain["log_weights"] - 0.5 * plain["means"].shape[1] * np.log(plain["precisions"]),
    }
    return Target(
        lambda x, data: _log_density(x, _smoothed(x, data)),
        score=lambda x, data: _score(x, _smoothed(x, data)),
        hvp=lambda x, v, data: _hvp(x, v, _smoothed(x, data)),
        log_density_and_score=lambda x, data: _log_density_and_score(x, _smoothed(x, data)),
        score_plus_hvp=lambda x, v, data: _score_plus_hvp(x, v, _smoothed(x, data)),
        data=data,
    )


def _smoothed(x: Array, data: Any) -> dict[str, Array]:
    """The data of the `gaussian_mixture` with noise."""
    variances = data["variances"] + data["sigma"] ** 2
    log_weights = data["log_weights"] - 0.5 * x.shape[-1] * array_namespace(x).log(variances)
    return {**data, "precisions": 1.0 / variances, "log_weights": log_weights}


def _responsibilities(x: Array, data: Any) -> tuple[Any, Array, Array]:
    """Namespace, log density (*chains), probability of each component given the position (*chains, components)."""
    xp, means = array_namespace(x), data["means"]
    squared = xp.sum(x * x, axis=-1, keepdims=True) - 2.0 * (x @ means.T) + data["squares"]
    logs = data["log_weights"] - 0.5 * data["precisions"] * squared
    largest = xp.max(logs, axis=-1, keepdims=True)
    shares = xp.exp(logs - largest)
    total = xp.sum(shares, axis=-1, keepdims=True)
    return xp, (largest + xp.log(total))[..., 0], shares / total


def _log_density_and_score(x: Array, data: Any) -> tuple[Array, Array]:
    xp, density, shares = _responsibilities(x, data)
    pull = shares * data["precisions"]
    return density, pull @ data["means"] - xp.sum(pull, axis=-1, keepdims=True) * x


def _log_density(x: Array, data: Any) -> Array:
    return _responsibilities(x, data)[1]


def _score(x: Array, data: Any) -> Array:
    return _log_density_and_score(x, data)[1]


def _hvp(x: Array, v: Array, data: Any) -> Array:
    xp, pull, turned = _pulls(x, v, data)
    bent = turned @ data["means"] - xp.sum(turned, axis=-1, keepdims=True) * x
    return bent - xp.sum(pull, axis=-1, keepdims=True) * v


def _score_plus_hvp(x: Array, v: Array, data: Any) -> Array:
    xp, pull, turned = _pulls(x, v, data)
    both = pull + turned
    bent = both @ data["means"] - xp.sum(both, axis=-1, keepdims=True) * x
    return bent - xp.sum(pull, axis=-1, keepdims=True) * v


def _pulls(x: Array, v: Array, data: Any) -> tuple[Any, Array, Array]:
    """Namespace; precision times responsibility of each component; and its derivative along v."""
    # The Hessian is the covariance of the components' scores under the responsibilities, minus the mean precision.
    xp, _, shares = _responsibilities(x, data)
    precisions, means = data["precisions"], data["means"]
    along = precisions * (v @ means.T - xp.sum(x * v, axis=-1, keepdims=True))
    along = along - xp.sum(shares * along, axis=-1, keepdims=True)
    pull = shares * precisions
    return xp, pull, pull * along
