"""How hot chains or particles are, beside their target: what must be 1 on average for draws. All arrays are the host's.

Source: Wenzel et al., "How good is the Bayes posterior in deep neural networks really?" (2020), Appendix I: kinetic and
configurational temperatures. Both need nothing of the target but its score.
"""

import math

import numpy as np

from xpsample.metrics.findings import Finding

WARM = 1.2
"""Times as hot as the target: what fewer than some hundred numbers cannot tell from chance."""


def hottest(count: int) -> float:
    """What a mean of `count` squares of standard normals exceeds with a probability below 1e-5, or `WARM`."""
    return max(WARM, 1.0 + 4.5 * math.sqrt(2.0 / count) + 14.0 / count)


def judge_heat(heat: np.ndarray, dim: int) -> list[Finding]:
    """The kinetic temperature at the end of a run, the mean of ``heat``, p M^{-1} p (*chains), over the dimension."""
    temperature = float(np.mean(heat)) / dim
    if not temperature > hottest(heat.size * dim):
        return []
    return [
        Finding(
            "heat",
            f"momenta are {temperature:.3g} times as hot as those of the target, and variances about as much too large",
            temperature,
            "noisy scores heat them by step_size * variance of the noise / (2 friction): take a smaller step size, a "
            "larger friction, or larger batches",
        )
    ]


def judge_langevin(heat: np.ndarray, dim: int) -> list[Finding]:
    """By how much unadjusted Langevin steps heat their chains, by ``eta s C s / 2``, (*chains), at the end.

    A step from x to ``x + eta C s + sqrt(2 eta) A xi`` keeps ``E x C^{-1} x`` only where the configurational
    temperature, ``-E x . s / dim``, is ``1 + eta E s C s / (2 dim)``: 1 for draws of the target. On a Gaussian that is
    the variance over the target's. Noisy scores s count, as they heat the chains, too.
    """
    known = heat[np.isfinite(heat)]
    if not known.size:
        return []
    excess = float(np.mean(known)) / dim
    if not excess > (WARM - 1.0) * hottest(known.size * dim):
        return []
    return [
        Finding(
            "heat",
            f"the steps keep chains {1.0 + excess:.3g} times as hot as draws of the target, and variances about as "
            "much too large",
            1.0 + excess,
            "take a smaller step size, larger batches where the scores are noisy, or MALA, which accepts or rejects",
        )
    ]


def judge_particles(x: np.ndarray, score: np.ndarray) -> list[Finding]:
    """The configurational temperature, minus the mean of (x - mean) . score over the dimension, of sets of particles.

    It is 1 for draws of any smooth target, since E x . score = -dim; below it for sets, (*sets, particles, dim), that
    are too narrow.
    """
    particles, dim = x.shape[-2:]
    sets = math.prod(x.shape[:-2])
    if particles < 2:
        return []
    with np.errstate(all="ignore"):
        away = x.astype(np.float64) - np.mean(x.astype(np.float64), axis=-2, keepdims=True)
        each = -np.sum(away * score.astype(np.float64), axis=(-2, -1)) / ((particles - 1) * dim)
    # A set that has run away is not to hide behind others that are well.
    worst = float(np.max(np.where(np.isnan(each), math.inf, each)))
    if not worst > 5.0 * hottest((particles - 1) * dim):
        return []
    where = "" if sets == 1 else f", in the worst of {sets} sets"
    return [
        Finding(
            "heat",
            f"particles are {worst:.3g} times as hot as draws of the target{where}: they have not come to rest",
            worst,
            "take a smaller step_size (AdaGrad() scales it by the forces), or, where they are still on their way, more "
            "steps",
        )
    ]
