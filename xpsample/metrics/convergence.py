"""Convergence diagnostics of Markov chains: effective sample size, split R-hat, Monte Carlo standard error.

The estimators are those of Stan (Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16 (2021) 667-718), without the
rank normalisation. They are pure functions of arrays with no branch on a value, so they can be traced.
"""

import math
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.hyperparameters import check_reals
from xpsample.core.registry import whole

FEWEST_DRAWS = 10
"""For an ESS: a half chain of fewer has no lag that Geyer's sequence could end at."""


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
    Section 3.2 of Vehtari et al. (2021); the sequences are those of Geyer, "Practical Markov chain
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
    """Split R-hat, not rank-normalised: the factor by which a longer run might still narrow the draws.

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
    Vehtari et al. (2021). As in Stan, the ESS is that of the mean, not rank-normalised.
    """
    xp = array_namespace(check_reals("draws", draws, "an array (draw, *chains, dim)"))
    scaled = _scaled(xp, draws)
    n = scaled.values.shape[0]
    if n < 4 or 0 in scaled.values.shape:
        return scaled.nan
    sd = xp.std(scaled.values, axis=(0, 1), correction=1) * scaled.unit
    return sd / xp.sqrt(chain_ess(draws))


class _Scaled(NamedTuple):
    values: Array  # (draw, chain, dim): centred, in units of the range; 0 where not valid
    unit: Array  # (dim,): the range
    valid: Array  # (dim,): finite and not constant
    nan: Array  # (dim,): the answer where not valid


def _scaled(xp: Any, draws: Array) -> _Scaled:
    """Draws with one chain axis, centred and scaled, so that sums keep their digits and no square overflows."""
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
