"""Log probabilities of counts and categories."""

from typing import Any

from xpsample.core.special import log1mexp, log_beta, log_poisson_gamma, logsumexp, softplus
from xpsample.densities.arguments import ArrayLike, arrays, at_states, counts, only


def bernoulli(x: ArrayLike, logits: ArrayLike) -> Any:
    """Log probability of the Bernoulli distribution.

    ``-log(1 + exp(-logits))`` for x = 1, and ``-log(1 + exp(logits))`` for x = 0

    Parameters
    ----------
    x : array or number
        Whole number, in any real dtype.
    logits : array or number
        log(p / (1 - p)) of the probability p of x = 1.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x is neither 0 nor 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.bernoulli(1, 0.0), -np.log(2)))
    True
    """
    xp, x, logits = arrays(x, logits)
    return only(xp, counts(xp, x, xp.ones_like(x)), -softplus(xp.where(x == 1.0, -logits, logits)))


def binomial(x: ArrayLike, n: ArrayLike, logits: ArrayLike) -> Any:
    """Log probability of the binomial distribution.

    ``log C(n, x) - x log(1 + exp(-logits)) - (n - x) log(1 + exp(logits))``

    Parameters
    ----------
    x : array or number
        Whole number, in any real dtype.
    n : array or number
        Number of trials.
    logits : array or number
        log(p / (1 - p)) of the probability p of success in a trial.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x is none of 0, 1, ..., n.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.binomial(1, 2, 0.0), np.log(0.5)))
    True
    """
    xp, x, n, logits = arrays(x, n, logits)
    inside, none = counts(xp, x, n), xp.zeros_like(x + n)
    x, n = xp.where(inside, x + none, none), xp.where(inside, n + none, none)
    between = (x > 0.0) & (x < n)
    some, others = xp.where(between, x, 1.0), xp.where(between, n - x, 1.0)
    # C(n, x) = n / (x (n - x) B(x, n - x))
    ways = xp.log((some + others) / (some * others)) - log_beta(some, others)
    value = xp.where(between, ways, none) - x * softplus(-logits) - (n - x) * softplus(logits)
    return only(xp, inside, value)


def poisson(x: ArrayLike, log_rate: ArrayLike) -> Any:
    """Log probability of the Poisson distribution.

    ``x log_rate - exp(log_rate) - log(x!)``

    Parameters
    ----------
    x : array or number
        Whole number, in any real dtype.
    log_rate : array or number
        Logarithm of the mean.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x is none of 0, 1, 2, ....

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> float(densities.poisson(0, 0.0))
    -1.0
    """
    xp, x, log_rate = arrays(x, log_rate)
    positive = counts(xp, x) & (x > 0.0)
    some = xp.where(positive, x, 1.0)
    log_x = xp.log(some)
    # x! = x Gamma(x)
    value = log_poisson_gamma(some, xp.where(positive, log_rate - log_x, 0.0)) - log_x
    return only(xp, counts(xp, x), xp.where(positive, value, -xp.exp(xp.where(positive, 0.0, log_rate))))


def negative_binomial(x: ArrayLike, mean: ArrayLike, dispersion: ArrayLike) -> Any:
    """Log probability of the negative binomial distribution, by mean and dispersion.

    ``log Gamma(x + d) - log Gamma(d) - log(x!) + d log(d / (mean + d)) + x log(mean / (mean + d))``, where d is the
    dispersion: the variance is ``mean + mean^2 / dispersion``

    Parameters
    ----------
    x : array or number
        Whole number, in any real dtype.
    mean : array or number
        Positive.
    dispersion : array or number
        Positive. It tends to the Poisson distribution as the dispersion grows.

    Returns
    -------
    array
        Elementwise, of the shape to which the arguments broadcast; -inf if x is none of 0, 1, 2, ....

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.negative_binomial(0, 1.0, 1.0), np.log(0.5)))
    True
    """
    xp, x, mean, dispersion = arrays(x, mean, dispersion)
    positive = counts(xp, x) & (x > 0.0)
    some = xp.where(positive, x, 1.0)
    none = -dispersion * xp.log1p(mean / dispersion)
    # Gamma(x + d) / (x! Gamma(d)) = 1 / (x B(x, d))
    value = none - some * xp.log1p(dispersion / mean) - log_beta(some, dispersion) - xp.log(some)
    return only(xp, counts(xp, x), xp.where(positive, value, none))


def categorical(x: ArrayLike, logits: ArrayLike) -> Any:
    """Log probability of the categorical distribution.

    ``logits[x] - log(sum(exp(logits)))``

    Parameters
    ----------
    x : array or number
        Category, a whole number in any real dtype.
    logits : array, shape (..., k)
        Log probabilities, up to a constant.

    Returns
    -------
    array
        Shape to which x and the first axes of `logits` broadcast; -inf if x is none of 0, ..., k - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.categorical(2, np.zeros(4)), np.log(0.25)))
    True
    """
    xp, x, logits = arrays(x, logits)
    value = at_states(xp, logits, x) - logsumexp(logits)
    return only(xp, counts(xp, x) & (x < logits.shape[-1]), value)


def ordered_logistic(x: ArrayLike, location: ArrayLike, cutpoints: ArrayLike) -> Any:
    """Log probability of ordered categories: which cutpoints a logistic variable exceeds.

    ``log(sigmoid(location - cutpoints[x - 1]) - sigmoid(location - cutpoints[x]))``, with infinite outer cutpoints

    Parameters
    ----------
    x : array or number
        Category, a whole number in any real dtype.
    location : array or number
    cutpoints : array, shape (..., k - 1)
        Increasing.

    Returns
    -------
    array
        Shape to which x, `location` and the first axes of `cutpoints` broadcast; -inf if x is none of
        0, ..., k - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample import densities
    >>> bool(np.isclose(densities.ordered_logistic(0, 0.0, np.asarray([0.0, 1.0])), np.log(0.5)))
    True
    """
    xp, x, location, cutpoints = arrays(x, location, cutpoints)
    last = cutpoints.shape[-1]
    low, high = at_states(xp, cutpoints, x - 1.0), at_states(xp, cutpoints, x)
    above, below = x > 0.0, x < last
    value = -xp.where(above, softplus(low - location), 0.0) - xp.where(below, softplus(location - high), 0.0)
    value = value + xp.where(above & below, log1mexp(xp.where(above & below, high - low, 1.0)), 0.0)
    return only(xp, counts(xp, x) & (x <= last), value)
