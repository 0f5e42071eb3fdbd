"""Log densities of vectors and matrices, whose last axes are summed over."""

import math
from typing import Any

from xpsample.core.special import HALF_LOG_TWO_PI, log_gamma, logsumexp
from xpsample.densities.arguments import ArrayLike, arrays, counts, only


def dirichlet(x: ArrayLike, concentration: ArrayLike) -> Any:
    """Log density of the Dirichlet distribution.

    ``sum((concentration - 1) log(x)) + log Gamma(sum(concentration)) - sum(log Gamma(concentration))``

    Parameters
    ----------
    x : array, shape (..., k)
        Entries that sum to 1.
    concentration : array, shape (..., k)
        Positive.

    Returns
    -------
    array
        Shape of the arguments without the last axis; -inf if an entry of x is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.dirichlet(np.full(3, 1 / 3), np.ones(3)), np.log(2)))
    True
    """
    xp, x, concentration = arrays(x, concentration)
    inside = x > 0.0
    log_x = xp.log(xp.where(inside, x, 1.0))
    constant = log_gamma(xp.sum(concentration, axis=-1)) - xp.sum(log_gamma(concentration), axis=-1)
    return only(xp, xp.all(inside, axis=-1), xp.sum((concentration - 1.0) * log_x, axis=-1) + constant)


def multinomial(x: ArrayLike, logits: ArrayLike) -> Any:
    """Log probability of the multinomial distribution.

    ``log((sum(x))!) - sum(log(x!)) + sum(x (logits - log(sum(exp(logits)))))``

    Parameters
    ----------
    x : array, shape (..., k)
        Counts, in any real dtype; their sum is the number of trials.
    logits : array, shape (..., k)
        Log probabilities, up to a constant.

    Returns
    -------
    array
        Shape of the arguments without the last axis; -inf if an entry of x is none of 0, 1, 2, ...

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.multinomial(np.asarray([1, 1]), np.zeros(2)), np.log(0.5)))
    True
    """
    xp, x, logits = arrays(x, logits)
    inside = counts(xp, x)
    x = xp.where(inside, x, 0.0)
    gaps = xp.where(x > 0.0, logits - logsumexp(logits)[..., None], 0.0)
    ways = log_gamma(xp.sum(x, axis=-1) + 1.0) - xp.sum(log_gamma(x + 1.0), axis=-1)
    return only(xp, xp.all(inside, axis=-1), xp.sum(x * gaps, axis=-1) + ways)


def multivariate_normal(x: ArrayLike, mean: ArrayLike, cholesky: ArrayLike) -> Any:
    """Log density of the multivariate normal distribution, by the Cholesky factor of its covariance.

    ``-|z|^2 / 2 - sum(log(diag(L))) - k log(2 pi) / 2``, where z solves ``L z = x - mean``

    Parameters
    ----------
    x : array, shape (..., k)
    mean : array, shape (..., k), or number
    cholesky : array, shape (..., k, k)
        Lower triangular L with a positive diagonal; the covariance is L L^T.

    Returns
    -------
    array
        Shape to which the first axes of the arguments broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.multivariate_normal(np.zeros(2), 0.0, np.eye(2)), -np.log(2 * np.pi)))
    True
    """
    xp, x, mean, cholesky = arrays(x, mean, cholesky)
    gap = x - mean
    if gap.ndim > 1 and (cholesky.ndim == 2 or cholesky.shape[-3] == 1):  # one solve for all vectors of a chain
        factor = cholesky if cholesky.ndim == 2 else cholesky[..., 0, :, :]
        z = xp.matrix_transpose(xp.linalg.solve(factor, xp.matrix_transpose(gap)))
    else:
        z = xp.linalg.solve(cholesky, gap[..., None])[..., 0]
    log_diagonal = xp.sum(xp.log(xp.linalg.diagonal(cholesky)), axis=-1)
    return -0.5 * xp.sum(z * z, axis=-1) - log_diagonal - x.shape[-1] * HALF_LOG_TWO_PI


def lkj(cholesky: ArrayLike, eta: ArrayLike) -> Any:
    """Log density of the LKJ distribution of correlation matrices, by the Cholesky factor.

    ``sum over i of (k - 1 - i + 2 (eta - 1)) log(L[i, i])``, i = 1, ..., k - 1, minus the log of its integral
    (Lewandowski, Kurowicka and Joe 2009). It is the density of the factor, a value of the space `CorrelationCholesky`:
    the Jacobian is included.

    Parameters
    ----------
    cholesky : array, shape (..., k, k)
        Lower triangular, with rows of length 1 and a positive diagonal.
    eta : array or number
        Positive. All correlation matrices are equally probable with 1, and those near the identity preferred above.

    Returns
    -------
    array
        Shape to which the first axes of `cholesky` and `eta` broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.lkj(np.eye(2), 1.0), np.log(0.5)))
    True
    """
    xp, cholesky, eta = arrays(cholesky, eta)
    k = cholesky.shape[-1]
    log_diagonal = xp.log(xp.linalg.diagonal(cholesky))
    value, constant = xp.zeros_like(eta + log_diagonal[..., 0]), (k - 1) * log_gamma(eta + 0.5 * (k - 1))
    for i in range(1, k):
        value = value + (k - 1 - i + 2.0 * (eta - 1.0)) * log_diagonal[..., i]
        constant = constant - log_gamma(eta + 0.5 * (k - 1 - i)) - 0.5 * i * math.log(math.pi)
    return value + constant
