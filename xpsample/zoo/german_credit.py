"""Sparse logistic regression on the German credit data: 51 parameters, of scales that differ by orders of magnitude."""

from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.elementwise import softplus, softplus_and_sigmoid
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.targets.target import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.moments import KnownMoments, long_run_moments

NAME = "targets/german_credit"


def german_credit(features: np.ndarray | None = None, labels: np.ndarray | None = None) -> Target:
    """The posterior of a logistic regression with a sparse prior, ``GermanCreditNumericSparseLogisticRegression``.

    ``w_i ~ N(0, 1)``, ``local_i ~ Gamma(1/2, 1/2)``, ``global ~ Gamma(1/2, 1/2)`` (shape, rate) and
    ``p(label = 1) = sigmoid(sum_i feature_i w_i local_i global)``. With n columns, positions (*chains, 1 + 2 n) are
    ``log global``, the ``log local_i``, then the w_i; see `german_credit_parameters`.

    Parameters
    ----------
    features : numpy.ndarray, shape (rows, n), optional
        With a column of ones for the intercept. By default those of the German credit data, each standardised to mean
        0 and standard deviation 1, the ones last.
    labels : numpy.ndarray, shape (rows,), optional
        0 or 1; by default 1 for bad credit.

    Returns
    -------
    Target
        With its score. Takes positions of any library.

    Raises
    ------
    HyperparameterError
        If one of the two is given without the other, or the shapes do not fit.
    """
    if (features is None) != (labels is None):
        raise HyperparameterError("pass both features and labels, or neither")
    if features is None or labels is None:
        features, labels = german_credit_rows()
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise HyperparameterError(
            f"features have shape (rows, n) and labels (rows,); got {features.shape} and {labels.shape}"
        )
    n = features.shape[1]
    # With b_i = -a_i for label 1 and a_i for label 0, p(y_i | w) = sigmoid(-b_i . w); the b_i are columns.
    signed = np.ascontiguousarray((features * (1.0 - 2.0 * labels[:, None])).T)

    def parts(x: Array) -> tuple[Any, Array, Array, Array]:
        """Namespace; the scales (*chains, 1 + n); what w is multiplied by; the coefficients, both (*chains, n)."""
        xp = namespace(x)
        scales = xp.exp(x[..., : n + 1])
        factors = scales[..., :1] * scales[..., 1:]
        return xp, scales, factors, factors * x[..., n + 1 :]

    def prior(xp: Any, x: Array, scales: Array) -> Array:
        w = x[..., n + 1 :]
        return 0.5 * xp.sum(x[..., : n + 1] - scales, axis=-1) - 0.5 * xp.sum(w * w, axis=-1)

    def log_density(x: Array, columns: Array) -> Array:
        xp, scales, _, coefficients = parts(x)
        return prior(xp, x, scales) - xp.sum(softplus(xp, coefficients @ columns), axis=-1)

    def both(x: Array, columns: Array) -> tuple[Array, Array]:
        xp, scales, factors, coefficients = parts(x)
        losses, slopes = softplus_and_sigmoid(xp, coefficients @ columns)
        slope = -(slopes @ columns.T)  # of the log likelihood in the coefficients
        along = slope * coefficients
        in_logs = xp.concat([xp.sum(along, axis=-1, keepdims=True), along], axis=-1) + 0.5 - 0.5 * scales
        score = xp.concat([in_logs, slope * factors - x[..., n + 1 :]], axis=-1)
        return prior(xp, x, scales) - xp.sum(losses, axis=-1), score

    return Target(log_density, score=lambda x, data: both(x, data)[1], log_density_and_score=both, data=signed)


def german_credit_rows() -> tuple[np.ndarray, np.ndarray]:
    """The standardised features with a last column of ones, (1000, 25), and labels (1000,), 1 for bad credit."""
    found = load_dataset(NAME)
    raw = found["features"]
    standard = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    return np.concatenate([standard, np.ones((len(raw), 1))], axis=1), found["bad"]


def german_credit_parameters(x: Array) -> Array:
    """From positions (*chains, 1 + 2 n) to the global scale, the local scales and the unscaled weights."""
    xp, scales = namespace(x), (x.shape[-1] + 1) // 2
    return xp.concat([xp.exp(x[..., :scales]), x[..., scales:]], axis=-1)


def german_credit_moments() -> KnownMoments:
    """Of `german_credit_parameters` for the default data, from a long run."""
    return long_run_moments("german-credit")
