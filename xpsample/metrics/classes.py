"""How evenly the classes of samples are covered: the measures of Appendices D.2.2 and D.3.1 of the SRMC paper.

All take shares p (..., C) of C classes, such as those of `class_shares`, and compare them with the uniform
distribution u = (1/C, ..., 1/C).
"""

import math
from typing import Any

from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array


def class_shares(labels: Array, classes: int, like: Array) -> Array:
    """Share of every class among labels.

    Parameters
    ----------
    labels : array of int, shape (..., sample)
        Classes from 0. A label outside 0 ... classes - 1 is a sample of no class.
    classes : int
        C.
    like : array
        Gives the floating dtype of the result.

    Returns
    -------
    array, shape (..., classes)
        Sums to 1 over the last axis if every label is a class.

    Raises
    ------
    ValueError
        If there is no sample, or no class.
    """
    xp = array_namespace(labels)
    if labels.ndim < 1 or not labels.shape[-1] or classes < 1:
        raise ValueError(
            f"labels must have shape (..., sample) with a sample, and classes be positive; got shape "
            f"{tuple(labels.shape)} and {classes} classes"
        )
    return xp.mean(xp.astype(_hits(xp, labels, classes), like.dtype), axis=-2)


def cumulative_class_shares(labels: Array, classes: int, like: Array) -> Array:
    """Shares p_n over all chains and all rows up to n (Eq. 92 of the SRMC paper).

    Parameters
    ----------
    labels : array of int, shape (draw, *groups, chain)
        As in `class_shares`; the chains of a group are pooled.
    classes : int
        C.
    like : array
        Gives the floating dtype of the result.

    Returns
    -------
    array, shape (draw, *groups, classes)
        `kl_to_uniform` of them is the cumulative KL divergence.
    """
    shares = class_shares(labels, classes, like)
    xp = array_namespace(shares)
    rows = xp.cumulative_sum(xp.ones_like(shares), axis=0)
    return xp.cumulative_sum(shares, axis=0) / rows


def classes_covered(shares: Array) -> Array:
    """Number of classes with a share above 0, (..., C) to (...)."""
    xp = array_namespace(shares)
    return xp.count_nonzero(shares > 0, axis=-1)


def kl_to_uniform(shares: Array) -> Array:
    """KL(p || u) = sum_c p_c log(C p_c), with 0 log 0 = 0 (Eq. 89 of the SRMC paper), (..., C) to (...), in nats.

    At most log C, where one class has all samples. Some codes report KL(u || p) instead, which is infinite as soon as
    one class is missing.
    """
    xp, classes = array_namespace(shares), shares.shape[-1]
    return math.log(classes) - entropy(xp, shares)


def tv_to_uniform(shares: Array) -> Array:
    """Total variation distance ``sum_c |p_c - 1/C| / 2`` (Eq. 90 of the SRMC paper), (..., C) to (...)."""
    xp = array_namespace(shares)
    return 0.5 * xp.sum(xp.abs(shares - 1.0 / shares.shape[-1]), axis=-1)


def normalised_entropy(shares: Array) -> Array:
    """H(p) / log C (Eq. 91 of the SRMC paper), from 0 to 1, (..., C) to (...); needs two classes or more."""
    xp, classes = array_namespace(shares), shares.shape[-1]
    return entropy(xp, shares) / math.log(classes)


def entropy(xp: Any, shares: Array) -> Array:
    """``-sum p log p`` in nats, (..., C) to (...); a share that is not positive adds nothing."""
    positive = xp.where(shares > 0, shares, xp.ones_like(shares))
    return -xp.sum(positive * xp.log(positive), axis=-1)


def _hits(xp: Any, labels: Array, classes: int) -> Array:
    return labels[..., None] == xp.arange(classes, dtype=labels.dtype, device=device_of(labels))
