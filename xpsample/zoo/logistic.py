"""Bayesian logistic regression with a Gaussian prior, all derivatives analytic."""

from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.elementwise import sigmoid, softplus, softplus_and_sigmoid
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.targets.target import Target


def logistic_regression(features: np.ndarray, labels: np.ndarray, prior_scale: float = 1.0) -> Target:
    """The posterior of the coefficients w of a logistic regression.

    ``p(y_i = 1 | w) = 1 / (1 + exp(-a_i . w))`` and ``w ~ N(0, prior_scale^2 I)``, as in Appendix D.1.1 of the SRMC
    paper; constants are dropped. Positions (*chains, dim) are the coefficients.

    Parameters
    ----------
    features : numpy.ndarray, shape (rows, dim) or (*data, rows, dim)
        The rows a_i; for an intercept, add a column of ones. With axes in front every element of them is a data set of
        its own, and positions are (*data, chains, dim): many posteriors in one run.
    labels : numpy.ndarray, shape (rows,) or (*data, rows)
        0 or 1.
    prior_scale : float
        Standard deviation of the prior, in units of the coefficients.

    Returns
    -------
    Target
        With score and Hessian-vector product.

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, a label is neither 0 nor 1, or the prior scale is not positive.
    """
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if features.ndim < 2 or labels.shape != features.shape[:-1]:
        raise HyperparameterError(
            f"features have shape (*data, rows, dim) and labels (*data, rows); got {features.shape} and {labels.shape}"
        )
    if not np.all((labels == 0) | (labels == 1)):
        raise HyperparameterError(f"labels must be 0 or 1; got {np.unique(labels)[:5]}")
    if not prior_scale > 0:
        raise HyperparameterError(f"prior_scale must be positive; got {prior_scale}")
    precision = 1.0 / float(prior_scale) ** 2
    # With b_i = -a_i for label 1 and a_i for label 0, p(y_i | w) = sigmoid(-b_i . w): one formula for both labels. The
    # b_i are columns: then both products run along rows of the array, which is faster with few chains.
    signed = np.ascontiguousarray(np.swapaxes(features * (1.0 - 2.0 * labels[..., None]), -1, -2))

    # Arrays of chains times rows are most of the cost, so no formula makes more of them than it must.

    def log_density(x: Array, columns: Array) -> Array:
        xp = namespace(x)
        return _log_density(xp, x, softplus(xp, x @ columns))

    def _log_density(xp: Any, x: Array, losses: Array) -> Array:
        return -0.5 * precision * xp.sum(x * x, axis=-1) - xp.sum(losses, axis=-1)

    def both(x: Array, columns: Array) -> tuple[Array, Array]:
        xp = namespace(x)
        losses, slopes = softplus_and_sigmoid(xp, x @ columns)
        return _log_density(xp, x, losses), -precision * x - slopes @ xp.matrix_transpose(columns)

    def score(x: Array, columns: Array) -> Array:
        xp = namespace(x)
        return -precision * x - sigmoid(xp, x @ columns) @ xp.matrix_transpose(columns)

    def hvp(x: Array, v: Array, columns: Array) -> Array:
        xp = namespace(x)
        p = sigmoid(xp, x @ columns)
        return -precision * v - (p * (1.0 - p) * (v @ columns)) @ xp.matrix_transpose(columns)

    def score_plus_hvp(x: Array, v: Array, columns: Array) -> Array:
        xp = namespace(x)
        p = sigmoid(xp, x @ columns)
        return -precision * (x + v) - (p + p * (1.0 - p) * (v @ columns)) @ xp.matrix_transpose(columns)

    return Target(
        log_density, score=score, hvp=hvp, log_density_and_score=both, score_plus_hvp=score_plus_hvp, data=signed
    )
