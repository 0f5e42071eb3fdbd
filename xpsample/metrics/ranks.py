"""Rank-normalised ESS and R-hat, and nested R-hat for many chains, of host arrays (draw, chain, dim).

Sources: Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and localization: an improved
R-hat for assessing convergence of MCMC", Bayesian Analysis 16 (2021) 667-718; Margossian, Hoffman, Sountsov,
Riou-Durand, Vehtari and Gelman, "Nested R-hat: assessing the convergence of Markov chain Monte Carlo when running many
short chains", Bayesian Analysis (2024).
"""

from typing import NamedTuple

import numpy as np

from xpsample.metrics.convergence import chain_ess, split_rhat

MANY_CHAINS, SUPERCHAINS = 32, 8
"""From how many chains on R-hat is the nested one, and of how many superchains."""

CHANCE = (4.27, 15.1)
"""By how much chance alone makes a variance of 8, and of 2, means larger than expected: in one case of 10,000.

Where each mean is of M chains, whose own variance is not exact, F quantiles are larger by about 1 + 2.5 / M."""

BLOCK = 2**17
"""Values that are worked on at once, about."""


class Mixing(NamedTuple):
    """Bulk and tail ESS, in draws, and R-hat; each (dim,), nan for a coordinate that is constant or not finite."""

    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray


def mixing(draws: np.ndarray, of_all_chains: np.ndarray | None = None, walkers: int = 1) -> Mixing:
    """How well chains have mixed, by draws (draw, chain, dim) or, for R-hat, by some draws `of_all_chains`.

    R-hat is the rank-normalised split R-hat, the larger one of the draws' and of their distances from the median, or
    `nested_rhat` of both with 32 chains or more. So many `walkers` that follow each other are an ensemble, which counts
    as one chain: see `ensemble_ess`.
    """
    rhat_draws = draws if of_all_chains is None else of_all_chains
    found = Mixing(*(np.full(draws.shape[-1], np.nan) for _ in Mixing._fields))
    varying = np.all(np.isfinite(draws), axis=(0, 1)) & np.all(np.isfinite(rhat_draws), axis=(0, 1))
    varying &= np.any(rhat_draws != rhat_draws[:1, :1], axis=(0, 1))
    columns = np.flatnonzero(varying)
    each = max(1, BLOCK // max(1, draws[..., 0].size + rhat_draws[..., 0].size))
    rhat = nested_rhat if rhat_draws.shape[1] >= walkers * MANY_CHAINS else split_rhat
    for start in range(0, len(columns), each):
        block = columns[start : start + each]
        z, folded, ordered = normal_scores(_even(draws[..., block]))
        found.ess_bulk[block] = ensemble_ess(z, walkers)
        found.ess_tail[block] = tail_ess(draws[..., block], None if draws.shape[0] % 2 else ordered, walkers)
        if of_all_chains is not None:
            z, folded, _ = normal_scores(_even(of_all_chains[..., block]))
        found.rhat[block] = np.fmax(rhat(as_one_chain(z, walkers)), rhat(as_one_chain(folded, walkers)))
    return found


def ensemble_means(draws: np.ndarray, walkers: int) -> np.ndarray:
    """The means of ensembles of walkers that follow each other, (draw, ensemble, dim), of (draw, chain, dim)."""
    n, chains, dim = draws.shape
    return draws if walkers == 1 else np.mean(np.reshape(draws, (n, chains // walkers, walkers, dim)), axis=2)


def as_one_chain(draws: np.ndarray, walkers: int) -> np.ndarray:
    """The walkers of each ensemble one after another, step by step: (draw times walker, ensemble, dim)."""
    n, chains, dim = draws.shape
    each = np.reshape(draws, (n, chains // walkers, walkers, dim))
    return np.reshape(np.swapaxes(each, 1, 2), (n * walkers, chains // walkers, dim))


def ensemble_ess(draws: np.ndarray, walkers: int) -> np.ndarray:
    """`chain_ess` of ensembles, (dim,): the variance of a draw over that of the mean of all draws.

    The latter is the squared standard error of the ensembles' means, each a chain: Goodman & Weare (2010), Section 3.
    The autocorrelation of single walkers says nothing of how they depend on one another.
    """
    if walkers == 1:
        return chain_ess(draws)
    means = ensemble_means(draws, walkers)
    with np.errstate(divide="ignore", invalid="ignore"):
        return chain_ess(means) * np.var(draws, axis=(0, 1)) / np.var(means, axis=(0, 1))


def normal_scores(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal scores of draws and of their distances from the median, both (draw, chain, dim), and what is sorted.

    They are those of ``(rank - 3/8) / (S + 1/4)`` (Equation 14 of Vehtari et al. 2021), with the rank over all draws of
    a coordinate, from 1 to S; draws that are equal share the mean of their ranks. One sort serves all: in its order the
    distances fall up to the median, and rise from there on.
    """
    n, chains, dim = draws.shape
    size, half = n * chains, n * chains // 2
    columns = np.ascontiguousarray(np.reshape(draws, (size, dim)).T)
    table = _table(size)
    scores, folded, ordered = (np.empty_like(columns, dtype=np.float64) for _ in range(3))
    for values, out, out_folded, out_ordered in zip(columns, scores, folded, ordered, strict=True):
        order = np.argsort(values)
        out_ordered[:] = values[order]
        _score(out, order, out_ordered, table)
        median = np.median(out_ordered[max(0, half - 1 + size % 2) : half + 1])
        distances = np.concatenate([np.abs(out_ordered[half:] - median), np.abs(out_ordered[:half] - median)[::-1]])
        inwards = np.concatenate([order[half:], order[:half][::-1]])
        merged = np.argsort(distances, kind="stable")  # of two rising runs: they are merged
        _score(out_folded, inwards[merged], distances[merged], table)
    of_draws, of_distances = (np.reshape(a.T, (n, chains, dim)) for a in (scores, folded))
    return of_draws, of_distances, ordered


def _table(size: int) -> np.ndarray:
    """The normal scores of the ranks 1, 1.5, 2, ..., S. The upper half mirrors the lower one."""
    lower = normal_quantile((np.arange(size) / 2 + 0.625) / (size + 0.25))
    return np.concatenate([lower, -lower[-2::-1]])


def _score(out: np.ndarray, order: np.ndarray, ordered: np.ndarray, table: np.ndarray) -> None:
    """Put the scores of one coordinate into `out`, from its order and its sorted values."""
    steps = ordered[1:] != ordered[:-1]
    if np.all(steps):
        out[order] = table[::2]
        return
    first = np.flatnonzero(np.concatenate([[True], steps]))
    counts = np.diff(first, append=len(ordered))
    out[order] = np.repeat(table[2 * first + counts - 1], counts)


def tail_ess(draws: np.ndarray, ordered: np.ndarray | None = None, walkers: int = 1) -> np.ndarray:
    """ESS of the indicators of being below the 5 % and the 95 % quantile, the smaller one, (dim,).

    An indicator that is the same for all draws (few distinct values) has no ESS: the other tail decides. `ordered` are
    the same draws, (draw, chain, dim), sorted as (dim, draw times chain); `walkers` as in `mixing`.
    """
    if ordered is None:
        ordered = np.sort(np.reshape(draws, (-1, draws.shape[-1])).T, axis=-1)
    # A quantile lies between two draws, and is never the upper one.
    low, high = (ordered[:, int(share * (ordered.shape[-1] - 1))] for share in (0.05, 0.95))
    below = ((draws <= limit).astype(np.float64) for limit in (low, high))
    return np.fmin(*(ensemble_ess(tail, walkers) for tail in below))


def nested_rhat(draws: np.ndarray) -> np.ndarray:
    """Nested R-hat, (dim,), of 16 chains or more: near 1 also where they are short, if each forgets where it was.

    Chains that begin alike make a superchain: each coordinate's chains are sorted by their first draw and cut into
    eight. Over the second half of the draws, the means of the superchains are compared as in Margossian et al. (2024).
    They differ as long as chains remember. A second comparison, that of all chains' first half with their second half,
    sees chains that drift together; the larger one counts. What chance gives to such variances of a few means, even
    where chains are independent, is taken off first: a good run of many coordinates has an R-hat of 1 in each. It is
    nan for fewer than four draws.
    """
    n, chains, dim = draws.shape
    if n < 4:
        return np.full(dim, np.nan)
    half, size = n // 2, chains // SUPERCHAINS
    means = np.stack([np.mean(draws[:half], axis=0), np.mean(draws[n - half :], axis=0)])
    variances = np.stack([np.var(draws[:half], axis=0, ddof=1), np.var(draws[n - half :], axis=0, ddof=1)])

    order = np.argsort(draws[0], axis=0, kind="stable")
    left_over = (chains - SUPERCHAINS * size) // 2
    order = order[left_over : left_over + SUPERCHAINS * size]
    shape = (SUPERCHAINS, size, dim)
    alike = np.reshape(np.take_along_axis(means[1], order, axis=0), shape)
    within = np.reshape(np.take_along_axis(variances[1], order, axis=0), shape)
    memory = _between_over_within(np.swapaxes(alike, 0, 1), np.swapaxes(within, 0, 1), CHANCE[0])
    drift = _between_over_within(np.swapaxes(means, 0, 1), np.swapaxes(variances, 0, 1), CHANCE[1])
    return np.sqrt(1 + np.fmax(memory, drift))


def _between_over_within(means: np.ndarray, variances: np.ndarray, chance: float) -> np.ndarray:
    """B / W of the paper, from means and variances (chain, superchain, dim), B without what is chance."""
    spread = np.mean(np.var(means, axis=0, ddof=1), axis=0)
    count = means.shape[0]
    between = np.var(np.mean(means, axis=0), axis=0, ddof=1) - chance * (1 + 2.5 / count) * spread / count
    within = spread + np.mean(variances, axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(between > 0, between / within, 0.0 * within)


def normal_quantile(p: np.ndarray) -> np.ndarray:
    """The inverse of the standard normal distribution function, to seven digits, for 0 < p < 1.

    Algorithm AS 241 (PPND7) of Wichura, "The percentage points of the normal distribution", Applied Statistics 37
    (1988) 477-484.
    """
    q = p - 0.5
    r = 0.180625 - q * q
    central = q * _ratio(
        r,
        (3.3871327179, 50.434271938, 159.29113202, 59.109374720),
        (1.0, 17.895169469, 78.757757664, 67.187563600),
    )
    s = np.sqrt(-np.log(np.minimum(p, 1 - p)))
    near = _ratio(
        s - 1.6, (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103), (1.0, 0.73700164250, 0.12021132975)
    )
    far = _ratio(
        s - 5.0, (6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997), (1.0, 0.24197894225, 0.012258202635)
    )
    return np.where(r >= 0, central, np.copysign(np.where(s <= 5, near, far), q))


def _ratio(x: np.ndarray, above: tuple[float, ...], below: tuple[float, ...]) -> np.ndarray:
    """A ratio of two polynomials, whose coefficients begin with that of x to the power 0."""
    return np.polyval(above[::-1], x) / np.polyval(below[::-1], x)


def _even(draws: np.ndarray) -> np.ndarray:
    """An even number of draws: without the one in the middle, which belongs to neither half."""
    n = draws.shape[0]
    return np.delete(draws, n // 2, axis=0) if n % 2 and n > 1 else draws
