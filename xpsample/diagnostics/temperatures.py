"""Findings about temperatures of chains and particles, compared with their target, and about ladders.

Kinetic and configurational temperatures need nothing of the target but its score: Wenzel et al., "How good is the Bayes
posterior in deep neural networks really?" (2020), Appendix I. They are 1 on average for draws. All arrays are the
host's.
"""

import math

import numpy as np

from xpsample.diagnostics.findings import Finding

# Most rejected swaps between neighbors: 0.5 is best; round trips take 2.5 times as long at 0.8 (Syed et al. 2021).
MOST_REJECTED, STEPS_PER_RUNG = 0.8, 20


# ---- of ladders ----------------------------------------------------------------------------------------------------


def judge_ladder(barrier: np.ndarray, round_trips: np.ndarray, steps: int) -> list[Finding]:
    """Check whether a ladder of temperatures has too few rungs, and whether positions travel along it.

    By the communication barrier from the first rung to each, (rungs,), sums of mean rejection probabilities, and the
    round trips, (*chains). Fewer than 20 steps for each rung say nothing.
    """
    rungs, found = len(barrier), []
    if steps < STEPS_PER_RUNG * rungs:
        return []
    total, worst = float(barrier[-1]), float(np.max(np.diff(barrier)))
    if worst > MOST_REJECTED:
        advice = "leave betas unset, or pass Ladder(...), so that they are tuned"
        if total > MOST_REJECTED * (rungs - 1):  # the barrier may be far above what so few rungs can show
            advice = f"use at least {2 * rungs} rungs, such as Ladder(rungs={2 * rungs})"
        what = (
            f"neighbors on the ladder of {rungs} temperatures reject {worst:.0%} of their swaps at worst "
            f"(limit {MOST_REJECTED:.0%})"
        )
        found.append(Finding("ladder", what, worst, advice))
    if (trips := float(np.mean(round_trips))) < 1:
        what = f"chains made only {trips:.2g} round trips of the ladder on average (minimum 1) in {steps} steps"
        advice = "modes hardly mix. Run longer, or use a base kernel that moves further or a better ladder"
        found.append(Finding("round_trips", what, trips, advice))
    return found


def judge_annealing(name: str, at: float, end: float, left: int | None = None) -> list[Finding]:
    """Check whether particles had not reached the end of a ladder of `name` when the run ended.

    `left` is the number of steps still to be made, where that is known.
    """
    if at == end or left == 0:
        return []
    what = f"the run ended at {name} {at:.3g}, before {end:.3g}, so none of its results refer to the target yet"
    more = "more steps" if left is None else f"{left} more step{'s' * (left != 1)}"
    return [Finding("annealing", what, at, f"make {more}; increase draws or burn_in")]


FEWEST_UNEVEN = 16  # chains by which coordinates are compared
WARM = 1.2  # Times as hot as the target: what fewer than some hundred numbers cannot tell from chance


def hottest(count: int) -> float:
    """Bound that a mean of `count` squared standard normals exceeds with probability below 1e-5, or `WARM`."""
    return max(WARM, 1.0 + 4.5 * math.sqrt(2.0 / count) + 14.0 / count)


def judge_heat(heat: np.ndarray, dim: int) -> list[Finding]:
    """The kinetic temperature at the end of a run, the mean of ``heat``, p M^{-1} p (*chains), over the dimension."""
    temperature = float(np.mean(heat)) / dim
    if not temperature > hottest(heat.size * dim):
        return []
    return [
        Finding(
            "heat",
            f"momenta are {temperature:.3g} times as hot as the target's, so variances are too large by about "
            "that factor",
            temperature,
            "noisy scores heat them by step_size * variance of the noise / (2 friction). Use a smaller step size, a "
            "larger friction, or larger batches",
        )
    ]


def judge_uneven_heat(momentum: np.ndarray) -> list[Finding]:
    """Check whether some coordinates are hotter than others at the end of a run, by momenta (*chains, dim), mass 1.

    The variances are between chains: noise of a batch that all chains share moves them together, and would seem to heat
    some coordinates. The log of a variance of n normals has a standard deviation of about sqrt(2 / (n - 5)), so the
    largest of the dim^2 ratios of two exceeds the bound with probability below 1e-5.
    """
    chains = momentum.reshape(-1, momentum.shape[-1])
    n, dim = chains.shape
    each = np.var(chains, axis=0, ddof=1)
    hot, cold = int(np.argmax(each)), int(np.argmin(each))
    bound = math.exp(math.sqrt(2.0 * math.log(2e5 * dim * dim) * 4.0 / (n - 5))) if n >= FEWEST_UNEVEN else math.inf
    if not each[hot] > max(2.0, bound) * each[cold] > 0:
        return []
    return [
        Finding(
            "heat",
            f"momenta of coordinate {hot} are {each[hot]:.2g} times as hot as the target's, and of coordinate {cold} "
            f"{each[cold]:.2g} times, so variances are off by about these factors",
            float(each[hot] / each[cold]),
            "the noise of the scores differs between coordinates, and one friction cannot correct it. Rescale the "
            "coordinates, such as by standardized covariates, or use larger batches",
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
            f"unadjusted steps keep chains {1.0 + excess:.3g} times as hot as draws of the target, so variances are "
            "too large by about that factor",
            1.0 + excess,
            "use a smaller step size, larger batches if the scores are noisy, or MALA, which accepts or rejects",
        )
    ]


# Share of moves that an accept step would reject; exactly for Ising models of 3 to 8 spins, at any step size, the total
# variation between the draws and the target is 0.9 to 3 times as large.
MOST_UNADJUSTED = 0.1


def judge_rejections(rejected: np.ndarray) -> list[Finding]:
    """Check how many moves of an unadjusted kernel on a discrete space an accept step would reject, (*chains)."""
    known = rejected[np.isfinite(rejected)]
    if not known.size or not np.mean(known) > MOST_UNADJUSTED:
        return []
    share = float(np.mean(known))
    what = (
        f"an accept step would reject {share:.0%} of the moves (limit {MOST_UNADJUSTED:.0%}), so probabilities are off "
        "by about as much"
    )
    return [Finding("heat", what, share, "use a smaller step size, or DMALA, which accepts or rejects")]


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
            f"particles have not come to rest: they are {worst:.3g} times as hot as draws of the target{where}",
            worst,
            "use a smaller step_size (AdaGrad() scales it by the forces), or, if they have not converged, run more "
            "steps",
        )
    ]
