"""Functions that log densities need and the array API standard lacks, for arrays of every library."""

from xpsample.core import elementwise
from xpsample.core.arrays import Array
from xpsample.core.registry import namespace


def softplus(a: Array) -> Array:
    """log(1 + exp(a)), elementwise, accurate to the last digits for `a` of any size.

    The log probability of success is ``-softplus(-a)`` where the logit is `a`, and that of failure ``-softplus(a)``.

    Parameters
    ----------
    a : array
        Of a real floating dtype.

    Returns
    -------
    array, of the shape of `a`

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.targets.functions import softplus
    >>> bool(softplus(np.asarray(1000.0)) == 1000.0)
    True
    """
    return elementwise.softplus(namespace(a), a)


def logsumexp(a: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """log(sum(exp(a))) over `axis`, without overflow: how log probabilities are summed.

    Parameters
    ----------
    a : array
        Of a real floating dtype.
    axis : int or tuple of int
        By default the last one: all others may be chains.

    Returns
    -------
    array, of the shape of `a` without `axis`
        -inf where all entries are -inf.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.targets.functions import logsumexp
    >>> bool(np.isclose(logsumexp(np.log(np.asarray([0.25, 0.5]))), np.log(0.75)))
    True
    """
    xp = namespace(a)
    largest = xp.max(a, axis=axis, keepdims=True)
    largest = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
    total = xp.log(xp.sum(xp.exp(a - largest), axis=axis, keepdims=True)) + largest
    return xp.squeeze(total, axis=axis)


def log_gamma(a: Array) -> Array:
    """log Gamma(a) for a > 0, elementwise.

    Parameters
    ----------
    a : array
        Of a real floating dtype. ``log_gamma(n + 1)`` is the log factorial of n.

    Returns
    -------
    array, of the shape of `a`
        With an absolute error below 1e-13 times the largest of 1 and ``log_gamma(a + 8)`` in float64.

    Notes
    -----
    Stirling's series at a + 8: Abramowitz and Stegun (1964), "Handbook of Mathematical Functions", 6.1.41 and 6.1.15.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.targets.functions import log_gamma
    >>> bool(np.isclose(log_gamma(np.asarray(5.0)), np.log(24.0)))
    True
    """
    return elementwise.log_gamma(namespace(a), a)
