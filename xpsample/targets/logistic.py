"""Bayesian logistic regression with a Gaussian prior, all derivatives analytic."""

import numpy as np
from array_api_compat import array_namespace

from xpsample.backend import Array
from xpsample.errors import HyperparameterError
from xpsample.targets.target import Target


def logistic_regression(features: np.ndarray, labels: np.ndarray, prior_scale: float = 1.0) -> Target:
    """The posterior of the coefficients w of a logistic regression.

    ``p(y_i = 1 | w) = 1 / (1 + exp(-a_i . w))`` and ``w ~ N(0, prior_scale^2 I)``, as in Appendix D.1.1 of the SRMC
    paper; constants are dropped. Positions are the coefficients, shape ``(*chains, dim)``.

    Parameters
    ----------
    features : numpy.ndarray, shape (rows, dim)
        The rows a_i; put a column of ones there for an intercept.
    labels : numpy.ndarray, shape (rows,)
        0 or 1.
    prior_scale : float
        Standard deviation of the prior, in units of the coefficients.

    Returns
    -------
    Target
        With score and Hessian-vector product. Its data are placed into the library, the dtype and onto the device of
        the positions.

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, a label is neither 0 nor 1, or the prior scale is not positive.
    """
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise HyperparameterError(
            f"features have shape (rows, dim) and labels (rows,); got {features.shape} and {labels.shape}"
        )
    if not np.all((labels == 0) | (labels == 1)):
        raise HyperparameterError(f"labels must be 0 or 1; got {np.unique(labels)[:5]}")
    if not prior_scale > 0:
        raise HyperparameterError(f"prior_scale must be positive; got {prior_scale}")
    precision = 1.0 / float(prior_scale) ** 2
    # With the sign of the label in the row, p(y_i | w) = sigmoid(b_i . w).
    signed = features * (2.0 * labels[:, None] - 1.0)

    def both(x: Array, rows: Array) -> tuple[Array, Array]:
        xp = array_namespace(x)
        margin = x @ rows.T
        small = xp.exp(-xp.abs(margin))  # never overflows
        log_sigmoid = xp.where(margin < 0.0, margin, 0.0) - xp.log1p(small)
        sigmoid_of_minus = xp.where(margin < 0.0, 1.0, small) / (1.0 + small)
        log_density = xp.sum(log_sigmoid, axis=-1) - 0.5 * precision * xp.sum(x * x, axis=-1)
        return log_density, sigmoid_of_minus @ rows - precision * x

    def log_density(x: Array, rows: Array) -> Array:
        return both(x, rows)[0]

    def score(x: Array, rows: Array) -> Array:
        return both(x, rows)[1]

    def hvp(x: Array, v: Array, rows: Array) -> Array:
        small = array_namespace(x).exp(-array_namespace(x).abs(x @ rows.T))
        weight = small / (1.0 + small) ** 2
        return -((weight * (v @ rows.T)) @ rows) - precision * v

    return Target(log_density, score=score, hvp=hvp, log_density_and_score=both, data=signed)
