"""Findings about the steps of a run: acceptance, trajectories, energies, divergences. All arrays are the host's."""

import math
from collections.abc import Sequence

import numpy as np

from xpsample.diagnostics.advice import OF_HMC, Advice
from xpsample.diagnostics.convergence import FEWEST_DRAWS
from xpsample.diagnostics.findings import Finding

# Below it the momentum does not carry chains over the energies of the target: Betancourt (2016), arXiv:1604.00695.
SMALLEST_BFMI = 0.3

CHANCE = 0.005  # The largest probability with which chance alone makes a finding of the worst of many chains

# Fewest steps of fixed-length trajectories that may return, and the least mean acceptance of returning ones.
FEWEST_LEAPFROG_STEPS, LEAST_ACCEPTED = 4, 0.4

# Factors on the optimal acceptance and rejection that count as far from the optimum; and the fewest steps.
LOW_ACCEPTANCE, HIGH_ACCEPTANCE, FEWEST_STEPS = 0.25, 0.1, 50


def chance_still(moved: np.ndarray, steps: int, optimum: float | None) -> float:
    """Probability that a chain that moves half as often as the moving ones, or as it should, never moves."""
    rate = np.mean(moved[moved > 0]) if np.any(moved > 0) else (optimum or 0.5)
    return float((1 - rate / 2) ** steps)


def judge_stuck(moved: np.ndarray, steps: int, optimum: float | None = None, advice: Advice = OF_HMC) -> Finding | None:
    """Chains that never moved, from the share (*chains) of each chain's steps that did: more of them than by chance."""
    count = int(np.sum(moved == 0))
    if steps < FEWEST_DRAWS or not count:
        return None
    still = chance_still(moved, steps, optimum)
    expected = moved.size * (still if count < moved.size else still**moved.size)
    if (expected > CHANCE and count <= 1 + expected + 4 * math.sqrt(expected)) or expected > 0.5 * moved.size:
        return None
    way = "elsewhere" if not advice.discrete else "in other states"
    return Finding(
        "stuck",
        f"{count} of {moved.size} chains never moved",
        count,
        f"no proposal was accepted; {advice.smaller}, or start {way}",
        chains=_indices(moved == 0),
    )


def judge_acceptance(
    acceptance: np.ndarray, optimum: float | None, slow: np.ndarray, steps: int = FEWEST_STEPS, advice: Advice = OF_HMC
) -> Finding | None:
    """Check whether a group's mean acceptance probability is far from the kernel's optimum, if there is one.

    Too high is a finding only where a group is `slow`, (*groups), of low ESS: in few dimensions a good run may accept
    nearly everything. None at all is the finding of chains that never moved.
    """
    chains = acceptance.shape[-1] if acceptance.ndim else 1
    if optimum is None or not acceptance.size or steps * chains < FEWEST_STEPS:
        return None
    means = np.mean(acceptance, axis=-1) if acceptance.ndim else acceptance
    low, high = (means > 0) & (means < LOW_ACCEPTANCE * optimum), slow & (1 - means < HIGH_ACCEPTANCE * (1 - optimum))
    larger = f"use a larger {(advice.step or 'step size').replace('_', ' ')}"
    for far, text, worst in ((low, advice.accepted_more, np.min), (high, larger, np.max)):
        if np.any(far):
            value = float(worst(means[far]))
            what = f"acceptance probability {value:.3g} is far from the optimum, {optimum:.3g}"
            groups = tuple(tuple(int(i) for i in group) for group in np.argwhere(far)) if far.ndim else ()
            return Finding("acceptance", what, value, text, groups=groups)
    return None


def judge_resonance(steps: int, acceptance: np.ndarray) -> Finding | None:
    """Check whether unmixed chains have accepted trajectories with a fixed number of leapfrog steps."""
    if steps < FEWEST_LEAPFROG_STEPS or not acceptance.size or np.mean(acceptance) < LEAST_ACCEPTED:
        return None
    return Finding(
        "resonance",
        f"chains have not mixed: trajectories of {steps} steps each may end where they began",
        float(steps),
        "set a length of HMC instead of steps, or set neither, so that trajectories have different lengths",
    )


def judge_depth(depth: np.ndarray, deepest: int) -> Finding | None:
    """Check whether NUTS often reaches its greatest depth before a U-turn, by the doublings of its draws."""
    share = float(np.mean(depth >= deepest)) if depth.size else 0.0
    if share < 0.05:
        return None
    return Finding(
        "depth",
        f"{share:.0%} of the NUTS trajectories (limit 5%) reached the maximum depth, {deepest} doublings",
        share,
        "they cost the most and are cut short. Rescale the parameters, or use mass=DenseMetric(), a longer warm-up or "
        "a larger max_depth",
    )


def judge_energy(energy: np.ndarray) -> Finding | None:
    """The energy's Bayesian fraction of missing information, E-BFMI, of all chains and of each: (draw, *chains).

    The logarithm of the E-BFMI of n independent draws has a standard deviation of 2 / sqrt(n) for a normal target, and
    of up to 3 / sqrt(n) for Student's t with 5 degrees of freedom. One excursion into a tail makes a chain's E-BFMI
    small, too, but not the E-BFMI of the ranks of its energies, by which single chains are judged.
    """
    if energy.shape[0] < FEWEST_DRAWS:
        return None
    with np.errstate(all="ignore"):
        change, spread = np.mean(np.diff(energy, axis=0) ** 2, axis=0), np.var(energy, axis=0)
        fraction, pooled = change / spread, np.mean(change) / np.mean(spread)
    away = 3 * math.sqrt(2 * math.log(max(1, fraction.size) / CHANCE) / energy.shape[0])
    limit = min(SMALLEST_BFMI, math.exp(-6 / math.sqrt(energy.size)))
    all_low = pooled < limit and np.median(fraction) < limit  # not by one excursion
    low = fraction < SMALLEST_BFMI
    if not all_low:
        ranks = np.argsort(np.argsort(energy, axis=0), axis=0)
        of_ranks = np.mean(np.diff(ranks, axis=0) ** 2, axis=0) / np.var(ranks, axis=0)
        low = np.fmax(fraction, of_ranks) < min(SMALLEST_BFMI, math.exp(-away))
    if not np.any(low):
        return None
    worst = float(np.min(fraction[low]))
    return Finding(
        "energy",
        f"E-BFMI is {worst:.2g} at worst (minimum {SMALLEST_BFMI}), and too low in {np.sum(low)} of {low.size} chains",
        worst,
        "new momenta do not carry chains across heavy tails or a funnel. Reparametrize the model",
        chains=_indices(low),
    )


def most_by_chance(expected: float) -> float:
    """A count that a Poisson variable of some mean exceeds by `CHANCE`: Cornish & Fisher (1938), to second order."""
    return expected + 2.58 * math.sqrt(expected) + 0.94


def judge_divergences(diverged: np.ndarray, steps: int, region: str = "", advice: Advice = OF_HMC) -> Finding | None:
    """Divergent steps, counts (*chains) of `steps` each, and the `region` where they are, if it is known."""
    count = int(np.sum(diverged))
    if not count:
        return None
    chains = int(np.sum(diverged > 0))
    return Finding(
        "divergences",
        f"{count} of {steps * diverged.size} steps diverged, in {chains} of {diverged.size} chains{region} "
        "(non-finite proposals, energy errors, or chains frozen by a non-finite value)",
        count,
        f"{advice.smaller}. If a log density of -inf is intended, set constrained=True in the target or model. The "
        "counts are in trace.run_statistics.diverged",
        chains=_indices(diverged > 0),
    )


def region_of(names: Sequence[str], draws: np.ndarray, diverged: np.ndarray) -> str:
    """Region of divergent steps in words: the coordinate in which they are farthest from other draws, if far."""
    draws = draws.astype(np.float64)
    there = draws[diverged]
    if len(there) < 5 or len(there) == np.size(diverged):
        return ""
    with np.errstate(all="ignore"):
        axes = tuple(range(draws.ndim - 1))
        center, sd = np.mean(draws, axis=axes), np.std(draws, axis=axes)
        away = (np.mean(there, axis=0) - center) / sd
    size = np.where(np.isfinite(away), np.abs(away), 0.0)
    i = int(np.argmax(size))
    if size[i] < max(0.5, math.sqrt(2 * math.log(2 * len(size) / CHANCE) / len(there))):
        return ""
    return f", near {names[i]} = {center[i] + away[i] * sd[i]:.3g}, {away[i]:+.2g} sds from its mean,"


def _indices(mask: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Indices of the chains of a mask (*chains); none if it holds for all, or there is one."""
    if np.all(mask):
        return ()
    return tuple(tuple(int(i) for i in chain) for chain in np.argwhere(mask))
