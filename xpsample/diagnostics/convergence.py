"""ESS, R-hat and Monte Carlo standard errors of Markov chains.

The estimators `chain_ess`, `split_rhat` and `mcse_mean` follow Stan, without the rank normalization. They are pure
functions of arrays with no branch on a value, so they can be traced. All other functions use host arrays (draw, chain,
dim): `mixing` has the rank-normalized ESS and R-hat, and nested R-hat for many chains.

Sources: Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and localization: an improved
R-hat for assessing convergence of MCMC", Bayesian Analysis 16 (2021) 667-718; Margossian, Hoffman, Sountsov,
Riou-Durand, Vehtari and Gelman, "Nested R-hat: assessing the convergence of Markov chain Monte Carlo when running many
short chains", Bayesian Analysis (2024).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.hyperparameters import check_reals
from xpsample.core.registry import whole

FEWEST_DRAWS = 10  # For an ESS: a half chain of fewer has no lag that Geyer's sequence could end at


@whole
def chain_ess(draws: Array) -> Array:
    """Effective sample size (ESS) of the mean, over all chains together.

    Chains are split into halves, autocovariances are computed by FFT, and autocorrelations are summed over Geyer's
    initial positive and monotone sequence. As in Stan, the ESS of N draws is at most ``N log10(N)``.

    Parameters
    ----------
    draws : array, shape (draw, *chains, dim)
        Draws of a real floating dtype. Any number of chain axes; none is one chain.

    Returns
    -------
    array, shape (dim,)
        A number of draws, in the dtype of `draws`. nan for a coordinate in which no half chain moves or that is not
        finite, and for all coordinates of fewer than ten draws.

    Raises
    ------
    TypeError
        If `draws` is not of a real floating dtype.
    ValueError
        If `draws` has fewer than two axes.

    Notes
    -----
    Section 3.2 of Vehtari et al. (2021); the sequences follow Geyer, "Practical Markov chain
    Monte Carlo", Statistical Science 7 (1992) 473-483, section 3.3.
    """
    xp = array_namespace(check_reals("draws", draws, "an array (draw, *chains, dim)"))
    scaled = _scaled(xp, draws)
    means, deviations = _halves(xp, scaled.values)
    n, chains, _ = deviations.shape
    if n < FEWEST_DRAWS // 2 or 0 in deviations.shape:
        return scaled.nan

    acov = _mean_autocovariance(xp, deviations)
    within = acov[:1, :] * (n / (n - 1))
    var_plus = acov[:1, :] + xp.var(means, axis=0, keepdims=True, correction=1)
    rho = 1.0 - (within - acov) / _or_one(xp, var_plus)

    # Pairs P_k = rho_2k + rho_2k+1 up to the last lag that Stan looks at; rho_0 is 1 by definition.
    last = (n - 3) // 2
    even = xp.concat([xp.ones_like(rho[:1, :]), rho[2 : 2 * last + 1 : 2, :]])
    pairs = even + rho[1 : 2 * last + 2 : 2, :]
    # The sequence ends before the first pair that is not positive, and before the last pair at the latest.
    stop = xp.concat([~(pairs[:last, :] > 0), xp.ones_like(pairs[last:, :], dtype=xp.bool)])
    stops = xp.cumulative_sum(xp.astype(stop, xp.int32), axis=0)
    zero = xp.zeros_like(pairs)
    total = xp.sum(xp.where(stops == 0, _running_minimum(xp, pairs), zero), axis=0)
    # As in Stan, the even half of the pair that ends it still counts: antithetic chains need it.
    remainder = xp.where(pairs >= 0, even, xp.maximum(even, zero))
    remainder = xp.sum(xp.where(stop & (stops == 1), remainder, zero), axis=0)

    tau = -1.0 + 2.0 * total + remainder
    tau = xp.maximum(tau, xp.full_like(tau, 1.0 / math.log10(n * chains)))
    moves = xp.any(deviations != 0, axis=(0, 1))
    return xp.where(scaled.valid & moves, n * chains / tau, scaled.nan)


@whole
def split_rhat(draws: Array) -> Array:
    """Split R-hat, not rank-normalized: the factor by which a longer run might still narrow the draws.

    Parameters
    ----------
    draws : array, shape (draw, *chains, dim)
        Draws of a real floating dtype. Any number of chain axes; none is one chain, compared by halves.

    Returns
    -------
    array, shape (dim,)
        Near 1 at convergence, without unit, in the dtype of `draws`. nan for a coordinate that is constant or not
        finite, and for all coordinates of fewer than four draws; inf if the half chains are constant and differ.

    Raises
    ------
    TypeError
        If `draws` is not of a real floating dtype.
    ValueError
        If `draws` has fewer than two axes.

    Notes
    -----
    The traditional split R-hat of Vehtari et al. (2021), and of Gelman et al., "Bayesian Data Analysis",
    3rd edition (2013), section 11.4.
    """
    xp = array_namespace(check_reals("draws", draws, "an array (draw, *chains, dim)"))
    scaled = _scaled(xp, draws)
    means, deviations = _halves(xp, scaled.values)
    n, chains, _ = deviations.shape
    if n < 2 or 0 in deviations.shape:
        return scaled.nan

    within = xp.sum(deviations * deviations, axis=(0, 1)) / (chains * (n - 1))
    between = xp.var(means, axis=0, correction=1)  # B / n
    rhat = xp.sqrt(between / _or_one(xp, within) + (n - 1) / n)
    rhat = xp.where(within > 0, rhat, xp.full_like(rhat, math.inf))
    return xp.where(scaled.valid, rhat, scaled.nan)


@whole
def mcse_mean(draws: Array) -> Array:
    """Monte Carlo standard error of the mean over all chains: the standard deviation over the root of the ESS.

    Parameters
    ----------
    draws : array, shape (draw, *chains, dim)
        Draws of a real floating dtype. Any number of chain axes; none is one chain.

    Returns
    -------
    array, shape (dim,)
        In the unit of the draws; nan where `chain_ess` is nan.

    Raises
    ------
    TypeError
        If `draws` is not of a real floating dtype.
    ValueError
        If `draws` has fewer than two axes.

    Notes
    -----
    Vehtari et al. (2021). As in Stan, the ESS refers to the mean, not rank-normalized.
    """
    xp = array_namespace(check_reals("draws", draws, "an array (draw, *chains, dim)"))
    scaled = _scaled(xp, draws)
    n = scaled.values.shape[0]
    if n < 4 or 0 in scaled.values.shape:
        return scaled.nan
    sd = xp.std(scaled.values, axis=(0, 1), correction=1) * scaled.unit
    return sd / xp.sqrt(chain_ess(draws))


class _Scaled(NamedTuple):
    values: Array  # (draw, chain, dim): centered, in units of the range; 0 where not valid
    unit: Array  # (dim,): the range
    valid: Array  # (dim,): finite and not constant
    nan: Array  # (dim,): the answer where not valid


def _scaled(xp: Any, draws: Array) -> _Scaled:
    """Draws with one chain axis, centered and scaled, so that sums keep their digits and no square overflows."""
    if not xp.isdtype(draws.dtype, "real floating"):
        raise TypeError(f"draws must be of a real floating dtype, not {draws.dtype}")
    if draws.ndim < 2:
        raise ValueError(f"draws must have shape (draw, *chains, dim), not {tuple(draws.shape)}")
    n, *chains, dim = draws.shape
    values = xp.reshape(draws, (n, math.prod(chains), dim))
    nan = xp.sum(xp.zeros_like(values), axis=(0, 1)) + math.nan
    if 0 in values.shape:
        return _Scaled(values, nan, xp.isfinite(nan), nan)
    finite = xp.all(xp.isfinite(values), axis=(0, 1))
    values = xp.where(finite, values, xp.zeros_like(values))
    low, high = xp.min(values, axis=(0, 1)), xp.max(values, axis=(0, 1))
    valid, unit = high > low, _or_one(xp, high - low)
    values = (values - xp.mean(values, axis=(0, 1))) / unit
    return _Scaled(xp.where(valid, values, xp.zeros_like(values)), unit, valid, nan)


def _halves(xp: Any, values: Array) -> tuple[Array, Array]:
    """Means (2 chain, dim) of the half chains and deviations (draw // 2, 2 chain, dim) from them."""
    half = values.shape[0] // 2
    values = xp.concat([values[:half, ...], values[values.shape[0] - half :, ...]], axis=1)
    if 0 in values.shape:
        return values, values
    # The deviation of a constant half is exactly 0, not the rounding error of its mean.
    constant = xp.all(values == values[:1, ...], axis=0)
    means = xp.where(constant, values[0, ...], xp.mean(values, axis=0))
    return means, values - means


def _mean_autocovariance(xp: Any, deviations: Array) -> Array:
    """Autocovariances (lag, dim) averaged over the chains, each divided by n rather than n - lag."""
    n = deviations.shape[0]
    size = 1 << (2 * n - 1).bit_length()  # padded with zeros against wrapping round, to a fast length
    transform = xp.fft.rfft(deviations, n=size, axis=0)
    # Averaging the spectra first leaves one inverse transform to make.
    power = xp.mean(xp.real(transform) ** 2 + xp.imag(transform) ** 2, axis=1)
    return xp.fft.irfft(xp.astype(power, transform.dtype), n=size, axis=0)[:n, ...] / n


def _running_minimum(xp: Any, values: Array) -> Array:
    """Cumulative minimum along axis 0, in log2(n) rounds of minima with shifted copies."""
    shift = 1
    while shift < values.shape[0]:
        values = xp.concat([values[:shift, ...], xp.minimum(values[shift:, ...], values[:-shift, ...])])
        shift *= 2
    return values


def _or_one(xp: Any, values: Array) -> Array:
    """`values`, with 1 where they are not positive: a divisor, where the quotient is masked later."""
    return xp.where(values > 0, values, xp.ones_like(values))


MANY_CHAINS, SUPERCHAINS = 32, 8  # From how many chains on R-hat is the nested one, and of how many superchains

# By how much chance alone makes a variance of 8, and of 2, means larger than expected: in one case of 10,000.
# If each mean is over M chains with an estimated variance, F quantiles are larger by about 1 + 2.5 / M.
CHANCE = (4.27, 15.1)


class Mixing(NamedTuple):
    """Bulk and tail ESS, in draws, and R-hat; each (dim,), nan for a coordinate that is constant or not finite."""

    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray


def mixing(draws: np.ndarray, of_all_chains: np.ndarray | None = None, walkers: int = 1) -> Mixing:
    """Mixing of chains, from draws (draw, chain, dim) or, for R-hat, from some draws `of_all_chains`.

    R-hat is the rank-normalized split R-hat, the larger one of the draws' and of their distances from the median, or
    `nested_rhat` of both with 32 chains or more. Each `walkers` consecutive chains are an ensemble, which counts
    as one chain: see `ensemble_ess`.
    """
    rhat_draws = draws if of_all_chains is None else of_all_chains
    found = Mixing(*np.full((3, draws.shape[-1]), np.nan))
    varying = np.all(np.isfinite(draws), axis=(0, 1)) & np.all(np.isfinite(rhat_draws), axis=(0, 1))
    varying &= np.any(rhat_draws != rhat_draws[:1, :1], axis=(0, 1))
    columns = np.flatnonzero(varying)
    # Columns of about 2^17 values at once.
    each = max(1, 2**17 // max(1, draws[..., 0].size + rhat_draws[..., 0].size))
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
    """`chain_ess` of ensembles, (dim,): the variance of a draw over the variance of the mean of all draws.

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

    They are the quantiles of ``(rank - 3/8) / (S + 1/4)`` (Equation 14 of Vehtari et al. 2021), with the rank over all
    draws of a coordinate, from 1 to S; draws that are equal share the mean of their ranks. One sort serves all: in its
    order the distances fall up to the median, and rise from there on.
    """
    n, chains, dim = draws.shape
    size, half = n * chains, n * chains // 2
    columns = np.ascontiguousarray(np.reshape(draws, (size, dim)).T)
    lower = normal_quantile((np.arange(size) / 2 + 0.625) / (size + 0.25))
    table = np.concatenate([lower, -lower[-2::-1]])  # of the ranks 1, 1.5, 2, ..., S; the upper half mirrors the lower
    scores, folded, ordered = np.empty((3, dim, size))
    for values, out, out_folded, out_ordered in zip(columns, scores, folded, ordered, strict=True):
        order = np.argsort(values)
        out_ordered[:] = values[order]
        _score(out, order, out_ordered, table)
        median = np.median(out_ordered[max(0, half - 1 + size % 2) : half + 1])
        distances = np.concatenate([np.abs(out_ordered[half:] - median), np.abs(out_ordered[:half] - median)[::-1]])
        inwards = np.concatenate([order[half:], order[:half][::-1]])
        merged = np.argsort(distances, kind="stable")  # of two rising runs: they are merged
        _score(out_folded, inwards[merged], distances[merged], table)
    return np.reshape(scores.T, (n, chains, dim)), np.reshape(folded.T, (n, chains, dim)), ordered


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
    last = ordered.shape[-1] - 1
    lower = ensemble_ess((draws <= ordered[:, int(0.05 * last)]).astype(np.float64), walkers)
    upper = ensemble_ess((draws <= ordered[:, int(0.95 * last)]).astype(np.float64), walkers)
    return np.fmin(lower, upper)


def nested_rhat(draws: np.ndarray) -> np.ndarray:
    """Nested R-hat, (dim,), of 16 chains or more: near 1 also where they are short, if each forgets where it was.

    Chains that begin alike make a superchain: each coordinate's chains are sorted by their first draw and cut into
    eight. Over the second half of the draws, the means of the superchains are compared as in Margossian et al. (2024).
    They differ as long as chains remember. A second comparison, of all chains' first half with their second half,
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
    """A ratio of two polynomials, with coefficients in ascending powers of x."""
    return np.polyval(above[::-1], x) / np.polyval(below[::-1], x)


def _even(draws: np.ndarray) -> np.ndarray:
    """An even number of draws: without the one in the middle, which belongs to neither half."""
    n = draws.shape[0]
    return np.delete(draws, n // 2, axis=0) if n % 2 and n > 1 else draws
