"""Findings about steps, and about the density that they meet. All arrays are the host's."""

import math
from collections.abc import Sequence

import numpy as np

from xpsample.metrics.convergence import FEWEST_DRAWS
from xpsample.metrics.findings import Finding

SMALLEST_BFMI = 0.3
"""Below it the momentum does not carry chains over the energies of the target: Betancourt (2016), arXiv:1604.00695."""

OFTEN_DEEPEST = 0.05
"""Share of the trajectories of NUTS at the greatest depth."""

FEWEST_LEAPFROG_STEPS, LEAST_ACCEPTED = 4, 0.4
"""Of trajectories of a fixed length that may come back, and the least mean acceptance of those that do."""

OFTEN_OUTSIDE, OFTEN_BEYOND = 0.02, 0.2
"""Share of the places around the draws at which a log density is not finite; and of a bound that is declared."""

FALLS = 0.9
"""How fast a log density must fall with the logarithm of the distance; 1 is just too slow for a finite integral."""

LOW_ACCEPTANCE, HIGH_ACCEPTANCE = 0.25, 0.1
"""Far from the optimum: a quarter of it accepted, or a tenth of what it rejects rejected."""


def judge_stuck(moved: np.ndarray, steps: int) -> Finding | None:
    """Chains that never moved, from the share (*chains) of each chain's steps that did."""
    if steps < FEWEST_DRAWS or not np.any(moved == 0):
        return None
    chains = _indices(moved == 0)
    return Finding(
        "stuck",
        f"{np.sum(moved == 0)} of {moved.size} chains never moved",
        int(np.sum(moved == 0)),
        "no proposal was accepted: use a smaller step size, or start elsewhere",
        chains=chains,
    )


def judge_acceptance(acceptance: np.ndarray, optimum: float | None, slow: np.ndarray) -> Finding | None:
    """Whether a group's mean acceptance probability is far from the kernel's optimum, if there is one.

    Too high is a finding only where a group is `slow`, (*groups), of low ESS: in few dimensions a good run may accept
    nearly everything. None at all is the finding of chains that never moved.
    """
    if optimum is None or not acceptance.size:
        return None
    means = np.mean(acceptance, axis=-1) if acceptance.ndim else acceptance
    low, high = (means > 0) & (means < LOW_ACCEPTANCE * optimum), slow & (1 - means < HIGH_ACCEPTANCE * (1 - optimum))
    for far, advice, worst in (
        (low, "use a smaller step size", np.min),
        (high, "use a larger step size", np.max),
    ):
        if np.any(far):
            value = float(worst(means[far]))
            what = f"acceptance probability {value:.3g}, where {optimum:.3g} is best"
            groups = tuple(tuple(int(i) for i in group) for group in np.argwhere(far)) if far.ndim else ()
            return Finding("acceptance", what, value, advice, groups=groups)
    return None


def judge_resonance(steps: int, acceptance: np.ndarray) -> Finding | None:
    """Whether chains that have not mixed have trajectories of a fixed number of leapfrog steps that are accepted."""
    if steps < FEWEST_LEAPFROG_STEPS or not acceptance.size or np.mean(acceptance) < LEAST_ACCEPTED:
        return None
    return Finding(
        "resonance",
        f"trajectories of {steps} steps each, which may end where they began, of chains that have not mixed",
        float(steps),
        "give HMC a length in place of steps, or leave both out, so that trajectories have different lengths",
    )


def judge_depth(depth: np.ndarray, deepest: int) -> Finding | None:
    """Whether NUTS often ends at its greatest depth, before its trajectories turn, by the doublings of its draws."""
    share = float(np.mean(depth >= deepest)) if depth.size else 0.0
    if share < OFTEN_DEEPEST:
        return None
    return Finding(
        "depth",
        f"{share:.0%} of the trajectories of NUTS ended at the greatest depth, {deepest} doublings",
        share,
        "each costs the most and is cut short: rescale the parameters or take mass=DenseMetric(), give a longer "
        "warm-up, or a larger max_depth",
    )


def judge_energy(energy: np.ndarray) -> Finding | None:
    """The energy's Bayesian fraction of missing information, E-BFMI, of every chain, from energies (draw, *chains)."""
    if energy.shape[0] < FEWEST_DRAWS:
        return None
    with np.errstate(all="ignore"):
        fraction = np.mean(np.diff(energy, axis=0) ** 2, axis=0) / np.var(energy, axis=0)
        low = fraction < SMALLEST_BFMI
    if not np.any(low):
        return None
    worst = float(np.min(fraction[low]))
    return Finding(
        "energy",
        f"E-BFMI below {SMALLEST_BFMI}, {worst:.2g} at worst, of {np.sum(low)} of {low.size} chains",
        worst,
        "heavy tails or a funnel, which fresh momenta do not cross: reparametrise the model",
        chains=_indices(low),
    )


def judge_divergences(diverged: np.ndarray, steps: int, region: str = "") -> Finding | None:
    """Divergent steps, counts (*chains) of `steps` each, and the `region` where they are, if it is known."""
    count = int(np.sum(diverged))
    if not count:
        return None
    chains = int(np.sum(diverged > 0))
    return Finding(
        "divergences",
        f"{count} of {steps * diverged.size} steps diverged, in {chains} of {diverged.size} chains{region} "
        "(non-finite proposals, energy errors, or chains frozen where they left the finite numbers)",
        count,
        "take a smaller step size, or constrained=True of the target or model where a log density of -inf is meant; "
        "trace.run_statistics.diverged has the counts",
        chains=_indices(diverged > 0),
    )


def region_of(names: Sequence[str], draws: np.ndarray, diverged: np.ndarray) -> str:
    """Where divergent steps are, in words: the coordinate in which they are farthest from other draws, if far."""
    there = draws[diverged]
    if len(there) < 5 or len(there) == np.size(diverged):
        return ""
    with np.errstate(all="ignore"):
        axes = tuple(range(draws.ndim - 1))
        center, sd = np.mean(draws, axis=axes), np.std(draws, axis=axes)
        away = (np.mean(there, axis=0) - center) / sd
    size = np.where(np.isfinite(away), np.abs(away), 0.0)
    i = int(np.argmax(size))
    if size[i] < max(0.5, 4 / math.sqrt(len(there))):
        return ""
    return f", near {names[i]} = {center[i] + away[i] * sd[i]:.3g}, {away[i]:+.2g} sds from its mean,"


def judge_bound(around: np.ndarray, declared: bool = False) -> Finding | None:
    """Whether there is a hard bound, or the end of what a density can compute, among the draws.

    By log densities (place, *chains) at places as far from the draws as these are from one another. Of a bound that is
    `declared`, only one that is often met is found.
    """
    outside, unknown = float(np.mean(around == -np.inf)), float(np.mean(np.isnan(around)))
    better = "sample a parameter that has no bound, as Model(..., x=Positive()) does"
    if declared:
        what = f"the log density is -inf at {outside:.0%} of the places around the draws, beyond the bound"
        advice = f"moves that end there are rejected: {better}"
        return Finding("bound", what, outside, advice) if outside >= OFTEN_BEYOND else None
    if max(outside, unknown) < OFTEN_OUTSIDE:
        return None
    better = f"say so: constrained=True of the target or model, or better {better}"
    if outside >= unknown:
        what = f"the log density is -inf at {outside:.0%} of the places around the draws, and no bound is declared"
        advice = f"if a hard bound is meant, {better}; else the density underflows there"
        return Finding("bound", what, outside, advice)
    what = f"the log density is nan, or fails, at {unknown:.0%} of the places around the draws"
    return Finding("bound", what, unknown, f"if a hard bound is meant, return -inf beyond it and {better}")


def judge_improper(rays: Sequence[np.ndarray]) -> Finding | None:
    """Whether the log density does not fall far out, as it must to have a finite integral: faster than -log |x|.

    Each of the rays has log densities (sign, distance, *chains) at distances that are ten times the one before.
    """
    least = math.log(10)
    for values in rays:
        with np.errstate(invalid="ignore"):
            falls = values[:, :-1] - values[:, 1:]
            flat = np.all((falls < FALLS * least) & (values[:, 1:] > -np.inf), axis=1)
        share = np.mean(np.reshape(flat, (len(flat), -1)), axis=-1)
        if np.max(share) > 0.5:
            return Finding(
                "improper",
                "the log density does not fall far out, along the way that the chains go: it has no finite integral",
                float(np.max(share)),
                "give every parameter a proper prior, or fix what the data say nothing of; no kernel samples this",
            )
    return None


def _indices(mask: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Of the chains of a mask (*chains); none where it holds for all, or there is one."""
    if np.all(mask):
        return ()
    return tuple(tuple(int(i) for i in chain) for chain in np.argwhere(mask))
