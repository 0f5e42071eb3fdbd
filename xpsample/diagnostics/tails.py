"""Tails of draws and of weights: the index of a generalized Pareto distribution. All arrays are the host's.

Source: Zhang & Stephens (2009), for the fit.
"""

import math
from collections.abc import Sequence

import numpy as np

from xpsample.diagnostics.convergence import normal_quantile
from xpsample.diagnostics.findings import Column, Finding, of_worst

LOOKED_AT = 2**14  # draws of all chains: the index of their 1,638 outermost ones has an error of 0.04

# Index from which on the variance is infinite; draws of a tail, a tenth of all, and the probability that a run whose
# tails have that index is found.
INFINITE_VARIANCE, FEWEST_IN_TAIL, BY_CHANCE = 0.5, 100, 0.01


def tail_index(beyond: np.ndarray) -> float:
    """Index k of the generalized Pareto distribution of m sorted positive values, by how much they exceed a threshold.

    A posterior mean over a grid of scales, with a weak prior at k = 0.5. Moments of order 1 / k and above are infinite.
    """
    m = len(beyond)
    grid = 30 + int(math.sqrt(m))
    quartile = beyond[int(m / 4 + 0.5) - 1]
    theta = (1 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3 * quartile) + 1 / beyond[-1]
    theta = theta[theta != 0]
    k = np.mean(np.log1p(-theta[:, None] * beyond), axis=1)
    with np.errstate(all="ignore"):
        profile = m * (np.log(-theta / k) - k - 1)
    profile = np.where(np.isfinite(profile), profile, -np.inf)
    shares = np.exp(profile - np.max(profile))
    mean = np.sum(shares * theta) / np.sum(shares)
    return float((m * np.mean(np.log1p(-mean * beyond)) + 5.0) / (m + 10.0))


def judge_tails(columns: Sequence[Column], draws: np.ndarray) -> Finding | None:
    """Check whether tails of draws (draw, chain, column) are so heavy that no variance, or no mean, is finite.

    A tail counts as often as chains enter it, and is found where its index is beyond the limit by more than its error.
    """
    draws = draws[:: math.ceil(draws.shape[0] * draws.shape[1] / LOOKED_AT), :: math.ceil(draws.shape[1] / LOOKED_AT)]
    m = draws.shape[0] * draws.shape[1] // 10
    if m < FEWEST_IN_TAIL or not columns:
        return None
    index, sure = np.full((2, len(columns)), -np.inf)
    sds = float(normal_quantile(np.asarray([1 - BY_CHANCE / (2 * len(columns))]))[0])
    for i in range(len(columns)):
        for sign in (1.0, -1.0):
            values = sign * draws[..., i]
            ordered = np.sort(values, axis=None)
            beyond = ordered[-m:] - ordered[-m - 1]
            if not (np.isfinite(beyond[-1]) and beyond[m // 4] > 1e-10 * beyond[-1]):
                continue
            out = values > ordered[-m - 1]
            entered = np.sum(out[0]) + np.sum(out[1:] & ~out[:-1])
            k = tail_index(beyond)
            error = max(0.5, 1 + k) / math.sqrt(entered)
            if k - sds * error > sure[i]:
                index[i], sure[i] = k, k - sds * error
    what = (
        "tails are as heavy as those of a distribution with infinite variance: tail index {worst:.2g} "
        f"(limit {INFINITE_VARIANCE})"
    )
    advice = (
        "the mean and its error are unreliable. Use medians and quantiles, a prior with a lighter tail, or the "
        "logarithm as the parameter"
    )
    return of_worst("tails", what, advice, columns, sure > INFINITE_VARIANCE, index)
