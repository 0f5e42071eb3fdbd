"""Coverage and evenness of known classes and modes: Appendices D.2 and D.3.1 of the SRMC paper, on the host.

Most measures use shares p (..., C) of C classes, and compare them with the uniform distribution u = (1/C, ..., 1/C).
"""

import math

import numpy as np


def class_shares(labels: np.ndarray, classes: int) -> np.ndarray:
    """Shares (..., classes) of classes from 0 among labels (..., sample); any other label is a sample of no class."""
    return np.mean(labels[..., None] == np.arange(classes), axis=-2)


def cumulative_class_shares(labels: np.ndarray, classes: int) -> np.ndarray:
    """Shares over all chains and all rows up to each (Eq. 92): (row, *groups, chain) to (row, *groups, classes)."""
    shares = class_shares(labels, classes)
    return np.cumsum(shares, axis=0) / np.cumsum(np.ones_like(shares), axis=0)


def classes_covered(shares: np.ndarray) -> np.ndarray:
    """Number of classes with a share above 0, (...)."""
    return np.count_nonzero(shares > 0, axis=-1)


def kl_to_uniform(shares: np.ndarray) -> np.ndarray:
    """KL(p || u) = sum_c p_c log(C p_c), with 0 log 0 = 0 (Eq. 89), (...), in nats.

    At most log C, where one class has all samples. Some codes report KL(u || p) instead, which is infinite as soon as
    one class is missing.
    """
    return math.log(shares.shape[-1]) - entropy(shares)


def tv_to_uniform(shares: np.ndarray) -> np.ndarray:
    """Total variation distance ``sum_c |p_c - 1/C| / 2`` (Eq. 90), (...)."""
    return 0.5 * np.sum(np.abs(shares - 1.0 / shares.shape[-1]), axis=-1)


def normalized_entropy(shares: np.ndarray) -> np.ndarray:
    """H(p) / log C (Eq. 91), (...), from 0 to 1; of two classes or more."""
    return entropy(shares) / math.log(shares.shape[-1])


def entropy(shares: np.ndarray) -> np.ndarray:
    """``-sum p log p`` in nats, (...); a share that is not positive adds nothing."""
    positive = np.where(shares > 0, shares, 1.0)
    return -np.sum(positive * np.log(positive), axis=-1)


def modes_discovered(modes: np.ndarray) -> np.ndarray:
    """Number of distinct modes a group of chains has visited up to and including each row: the curve of Fig. 7.

    The mode of every chain at every row, (row, *groups, chain), is negative for none; gives (row, *groups).
    """
    rows, *groups, chains = modes.shape
    found = np.zeros((rows, *groups), dtype=int)
    for group in np.ndindex(*groups):
        at = (slice(None), *group)
        mode, first = np.unique(modes[at], return_index=True)
        found[at] = np.cumsum(np.bincount(first[mode >= 0] // chains, minlength=rows))
    return found


def vendi_score(features: np.ndarray) -> np.ndarray:
    """The effective number of different samples among n, (...), by their features (..., n, k), from 1 to n.

    It is exp of the entropy of the eigenvalues of K / n, with K the cosines between all pairs (Friedman & Dieng 2023).
    A sample without features is like no other.
    """
    norms = np.linalg.norm(features, axis=-1, keepdims=True)
    units = features / np.where(norms > 0, norms, 1.0)
    n = features.shape[-2]
    cosines = np.where(np.eye(n, dtype=bool), 1.0, units @ np.swapaxes(units, -1, -2))
    return np.exp(entropy(np.linalg.eigvalsh(cosines) / n))  # rounding may make an eigenvalue of zero negative
