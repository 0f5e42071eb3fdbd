"""Bayesian regression by a two-layer tanh network with noise of unknown size (SRLD, Section 6.2 and Appendix C)."""

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.experiments import two_layer
from xpsample.targets.rows import posterior
from xpsample.targets.target import Target

INNER_90 = 1.6448536269514722
"""A normal variable is within so many standard deviations of its mean with probability 0.9."""


def dimension(inputs: int, hidden: int = 50) -> int:
    """Number of weights and biases and the log precision, ``(inputs + 2) * hidden + 2``."""
    return two_layer.dimension(inputs, hidden) + 1


def regression_network(
    inputs: np.ndarray,
    outputs: np.ndarray,
    hidden: int = 50,
    prior_variance: float = 1.0,
    shape: float = 1.0,
    rate: float = 0.1,
) -> Target:
    """The posterior of ``y ~ N(f(x), 1 / gamma)``, with f a network with one hidden layer of tanh units.

    Weights and biases are N(0, prior_variance), gamma is Gamma(shape, rate). A position is the weights
    (features, hidden) of the first layer with the hidden axis changing fastest, its biases (hidden,), the weights
    (hidden,) and the bias of the second, then log gamma, whose density has the Jacobian factor gamma.

    Parameters
    ----------
    inputs : numpy.ndarray, shape (*sets, rows, features)
        Usually standardized. The set axes broadcast against the chain axes, so that each chain may have its rows:
        ``(splits, 1, rows, features)`` for positions ``(splits, chains, dim)``.
    outputs : numpy.ndarray, shape (*sets, rows)
    hidden : int
        Hidden units; dim = ``dimension(features, hidden)``.
    prior_variance : float
        Prior variance of each weight and bias. The SRLD paper does not state it; its public code uses 1, without a bias
        at the output.
    shape, rate : float
        Parameters of gamma's prior.

    Returns
    -------
    Target
        A `posterior`, which can be run on minibatches, with its score. Constants are dropped.

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, or a hyperparameter is not positive.
    """
    inputs, outputs = np.asarray(inputs, dtype=np.float64), np.asarray(outputs, dtype=np.float64)
    if inputs.ndim < 2 or outputs.shape != inputs.shape[:-1]:
        raise HyperparameterError(
            f"inputs have shape (*sets, rows, features) and outputs (*sets, rows); got {inputs.shape} and "
            f"{outputs.shape}"
        )
    for name, value in (("hidden", hidden), ("prior_variance", prior_variance), ("shape", shape), ("rate", rate)):
        check_range(name, value, 0)

    def log_prior(x: Array) -> Array:
        xp, weights, log_precision = _split(x)
        spread = xp.sum(weights * weights, axis=-1) / (2.0 * prior_variance)
        return shape * log_precision - rate * xp.exp(log_precision) - spread

    def prior_score(x: Array) -> Array:
        xp, weights, log_precision = _split(x)
        of_precision = shape - rate * xp.exp(log_precision)
        return xp.concat([weights / -prior_variance, of_precision[..., None]], axis=-1)

    def log_likelihood(x: Array, rows: Any) -> Array:
        xp, weights, log_precision = _split(x)
        error = rows["outputs"] - two_layer.forward(weights, rows["inputs"], hidden)[1]
        squares = xp.sum(error * error, axis=-1)
        return 0.5 * (error.shape[-1] * log_precision - xp.exp(log_precision) * squares)

    def likelihood_score(x: Array, rows: Any) -> Array:
        xp, weights, log_precision = _split(x)
        activity, output = two_layer.forward(weights, rows["inputs"], hidden)
        error = rows["outputs"] - output
        pull = xp.exp(log_precision)[..., None] * error
        of_precision = 0.5 * (error.shape[-1] - xp.sum(pull * error, axis=-1))
        of_weights = two_layer.backward(weights, rows["inputs"], hidden, activity, pull)
        return xp.concat([of_weights, of_precision[..., None]], axis=-1)

    rows = {"inputs": inputs, "outputs": outputs}
    return posterior(log_prior, log_likelihood, rows, prior_score, likelihood_score, sets=inputs.ndim - 2)


def predict(x: Array, inputs: Array, hidden: int = 50) -> Array:
    """f for positions x (*chains, dim) at inputs (*sets, rows, features) of the same library: (*chains, rows)."""
    return two_layer.forward(x[..., :-1], inputs, hidden)[1]


class Predictive(NamedTuple):
    """Quality of predictions of rows from draws, in the units of the outputs, each (*chains).

    ``rmse`` is the root mean square error of the mean of f over the draws. ``log_likelihood`` is the mean over rows of
    the log of the mean density over the draws. ``coverage`` is the share of rows within 1.645 standard deviations of
    the predictive mean: near 0.9 if the predictive distribution is right and near normal. ``spread`` is the root mean
    square over rows of the standard deviation of f over the draws.
    """

    rmse: Array
    log_likelihood: Array
    coverage: Array
    spread: Array


def predictive(
    draws: Array,
    inputs: Array,
    outputs: Array,
    location: float | Array = 0.0,
    scale: float | Array = 1.0,
    hidden: int = 50,
) -> Predictive:
    """Compare the posterior predictive distribution with rows that it has not seen.

    Parameters
    ----------
    draws : array, shape (draw, *chains, dim)
    inputs : array, shape (*sets, rows, features)
        Standardized as the rows of the posterior were; the set axes broadcast against the chain axes.
    outputs : array, shape (*sets, rows)
        In their own units.
    location, scale : float or array, shape (*sets, 1)
        ``y = location + scale * f``: the mean and standard deviation by which the training outputs were standardized.
    hidden : int

    Notes
    -----
    Needs memory for ``draw * chains * rows * hidden`` numbers.
    """
    xp = array_namespace(draws)
    f = predict(draws, inputs, hidden)
    log_precision = draws[..., -1:]
    mean = xp.mean(f, axis=0)
    y = (outputs - location) / scale
    error = scale * (mean - y)
    squares = xp.exp(log_precision) * (y - f) ** 2
    log_density = 0.5 * (log_precision - math.log(2.0 * math.pi) - squares) - _log(xp, scale)
    most = xp.max(log_density, axis=0)
    log_mean = most + xp.log(xp.mean(xp.exp(log_density - most), axis=0))
    spread = xp.mean((f - mean) ** 2, axis=0)
    variance = spread + xp.mean(xp.exp(-log_precision), axis=0)
    inside = (mean - y) ** 2 < INNER_90**2 * variance
    return Predictive(
        xp.sqrt(xp.mean(error * error, axis=-1)),
        xp.mean(log_mean, axis=-1),
        xp.mean(xp.astype(inside, draws.dtype), axis=-1),
        xp.sqrt(xp.mean(scale**2 * spread, axis=-1)),
    )


def _split(x: Array) -> tuple[Any, Array, Array]:
    """The namespace, the weights (*chains, dim - 1) and the log precisions (*chains)."""
    return array_namespace(x), x[..., :-1], x[..., -1]


def _log(xp: Any, value: float | Array) -> float | Array:
    return xp.log(value) if hasattr(value, "ndim") else math.log(value)
