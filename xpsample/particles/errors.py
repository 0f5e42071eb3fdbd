"""When weights tell their own error: tail indices, and errors that hold or are not stated. All arrays are the host's.

Sources: Vehtari, Simpson, Gelman, Yao & Gabry, "Pareto smoothed importance sampling" (2024), for the tail's size and
the largest index; Lee & Whiteley (2018), for the variance from lineages.
"""

import math

import numpy as np

from xpsample.diagnostics import tails
from xpsample.diagnostics.findings import Finding

FEWEST_IN_TAIL = 5  # Weights that a tail index is fitted to, at least: a fifth of 25

# Tail index of a finite fourth moment, and the largest for which a practical number of weights gives the mean.
LIGHT, LARGEST_INDEX = 0.25, 0.7

FEWEST_FAMILIES = 10  # Start particles that the weighted ones descend from, in effect, for lineages to tell a variance

# Fraction of the share of same-family pairs below which a variance is noise; this bound is then reported.
NOISE_OF_LINEAGES = 1 / 8

MORE = "use more temperatures, longer moves or more of them, or TemperedSMC, which resamples"


def ess_of(logs: np.ndarray) -> float:
    """``(sum w)^2 / sum w^2`` of log weights (n,), one of them finite."""
    weights = np.exp(logs - np.max(logs))
    return float(np.sum(weights) ** 2 / np.sum(weights**2))


def tail_index(logs: np.ndarray) -> float:
    """The index k of the Pareto distribution of the largest of n weights; their variance is finite where k < 0.5.

    Takes log weights (n,), with n at least 25. If fewer than five are larger than the others, nothing is known, and the
    largest acceptable index is returned.
    """
    n = len(logs)
    m = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    ordered = np.sort(np.exp(logs - np.max(logs)))
    beyond = ordered[-m:] - ordered[-m - 1]
    if beyond[-1] < 1e-10:  # of a largest weight of 1: all are alike
        return -math.inf
    beyond = beyond[beyond > 1e-10 * beyond[-1]]  # the tail is what is above the others, and not what is like them
    if len(beyond) < FEWEST_IN_TAIL:
        return LARGEST_INDEX
    return tails.tail_index(beyond)


def error_holds(logs: np.ndarray) -> bool:
    """Return whether the scatter of n weights determines the error of their mean, from logarithms (n,), one finite.

    It does if the weights are even (an ESS of half their number), or their tail is light (an index of at most 0.25).
    Otherwise the tail must have an index of at most 0.7, and the logarithms spread by a mean square of at most log(n) /
    2 above their median: with normal logarithms of sd s, the weights that make the sum of squares are 2 s^2 above the
    mean, where some of n lie if ``n > exp(2 s^2)``.
    """
    n = len(logs)
    if ess_of(logs) >= 0.5 * n:
        return True
    index = tail_index(logs) if n >= 5 * FEWEST_IN_TAIL else LARGEST_INDEX
    above = logs - np.median(logs[logs > -math.inf])
    above = above[above >= 0]
    few = np.mean(above**2) > 0.5 * math.log(n)
    return index <= (LIGHT if few else LARGEST_INDEX)


def error_of_lineages(families: np.ndarray, resamplings: int) -> float:
    """The relative standard error of a product of mean weights, from the weight of each start particle's descendants.

    The weights, (particles,), sum to 1, and there was at least one resampling.
    """
    particles, together = len(families), float(np.sum(families**2))
    if together * FEWEST_FAMILIES > 1:
        return math.inf
    variance = 1.0 - (particles / (particles - 1)) ** (resamplings + 1) * (np.sum(families) ** 2 - together)
    return math.sqrt(max(float(variance), NOISE_OF_LINEAGES * together))


def judge_weights(logs: np.ndarray) -> list[Finding]:
    """Check if log weights (*groups, n) of particles at the target support an estimate, in the worst group."""
    n = logs.shape[-1]
    if n < 2 or np.any(np.isnan(logs)):
        return []
    rows = logs.reshape(-1, n)
    lost = int(np.sum(np.all(rows == -np.inf, axis=-1)))
    if lost:
        return [judge_lost(lost, len(rows), n)]
    bad = [ess_of(row) for row in rows if not error_holds(row)]
    if not bad:
        return []
    where = "" if len(rows) == 1 else f" in {len(bad)} of {len(rows)} groups"
    what = f"a few particles dominate{where}: weights have an ESS of {min(bad):.3g} of {n}, so their errors do not hold"
    return [Finding("weights", what, min(bad), MORE)]


def judge_lost(lost: int, runs: int, particles: int) -> Finding:
    """Finding that in some runs no particle has a weight."""
    where = "" if runs == 1 else f" in {lost} of {runs} runs"
    return Finding(
        "weights",
        f"none of {particles} particles has a positive density under the target{where}: all weights are 0",
        0.0,
        "use an initial distribution that reaches the target's support, or more particles. More steps do not help",
    )
