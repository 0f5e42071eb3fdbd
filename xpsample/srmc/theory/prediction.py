"""From a short run to a prediction: which repellence strength would pay, and how to check it later."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.core.registry import to_host
from xpsample.gradients.choices import Evaluations
from xpsample.srmc.schedules import PowerLaw
from xpsample.srmc.theory.clt import AVERAGING, Linearization, average_covariance, iterate_covariance

# Prices in gradients: the density comes free with its gradient, and an hvp costs one (a difference of two).
GRADIENTS = Evaluations(0, 1, 1)


def estimate(values: Array, scores: Array, size: int | None = None) -> Linearization:
    """The linearization, estimated from a run of the base kernel without repellence; its noise by batch means.

    Parameters
    ----------
    values : array, shape (draw, *chains, m)
        f at the draws of a run past its burn-in, not thinned; the draws themselves for f(x) = x.
    scores : array, shape (draw, *chains, d)
        The target's score at the same draws.
    size : int, optional
        Draws per batch. The bias falls as 1 / size, so use many autocorrelation times; the relative standard error
        of a variance is sqrt(2 / batches). By default the longest size that gives 200 batches.

    Returns
    -------
    Linearization

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, or there would be fewer than two batches.
    """
    if values.ndim < 2 or tuple(values.shape[:-1]) != tuple(scores.shape[:-1]):
        raise HyperparameterError(
            "values (draw, *chains, m) and scores (draw, *chains, d) must agree up to the last axis; got "
            f"{tuple(values.shape)} and {tuple(scores.shape)}"
        )
    xp = array_namespace(values, scores)
    draws, chains, d = values.shape[0], math.prod(values.shape[1:-1]), scores.shape[-1]
    size = max(1, min(draws, draws * chains // 200)) if size is None else size
    if size < 1 or draws // size * chains < 2:
        raise HyperparameterError(f"{chains} chains of {draws} draws make no two batches of {size}")
    both = xp.concat([scores, values], axis=-1)
    both = xp.reshape(both, (draws, chains, both.shape[-1]))
    both = both - xp.mean(both, axis=(0, 1))
    rows = xp.reshape(both, (draws * chains, -1))
    covariance = xp.matrix_transpose(rows) @ rows / rows.shape[0]
    batched = xp.reshape(both[: draws // size * size, ...], (draws // size, size, chains, -1))
    means = xp.reshape(xp.mean(batched, axis=1), (-1, both.shape[-1]))
    means = means - xp.mean(means, axis=0)
    noise = xp.matrix_transpose(means) @ means * (size / (means.shape[0] - 1))
    return Linearization(covariance[:d, :d], covariance[d:, :d], noise, means.shape[0])


def cost_per_step(evaluations: Mapping[str, float], prices: Evaluations = GRADIENTS) -> float:
    """The price of a step, from a run's ``trace.run_statistics.evaluations``.

    Parameters
    ----------
    evaluations : mapping of str to float
        Evaluations of ``log_density``, ``score`` and ``hvp`` per step and chain.
    prices : Evaluations
        Price of each, by default `GRADIENTS`.
    """
    return float(sum(evaluations.get(name, 0) * price for name, price in prices._asdict().items()))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Predictions for several alpha, compared with the base kernel; ``str()`` gives a table.

    Attributes
    ----------
    alpha : array, shape (k,)
    variance : array, shape (k, m)
        Asymptotic variance of the estimate of each f: times n for the average, over gamma_n for the weighted mean.
    per_step, per_cost : array, shape (k, m)
        Variance over the base kernel's, after as many steps and at the same cost. Below 1, repellence pays.
    cost_ratio : float
        Cost of a step divided by the cost of a step of the base kernel.
    batches : int
        Batch means behind the prediction, or 0 if it is exact.
    """

    alpha: Array
    variance: Array
    per_step: Array
    per_cost: Array
    cost_ratio: float
    batches: int

    def __str__(self) -> str:
        alpha, *columns = (to_host(a) for a in (self.alpha, self.variance, self.per_step, self.per_cost))
        lines = [f"{'alpha':>8} {'f':>3} {'variance':>10} {'per step':>10} {'per cost':>10}"]
        for i, j in np.ndindex(*columns[0].shape):
            lines.append(f"{alpha[i]:8.4g} {j:3d}" + "".join(f" {column[i, j]:10.4g}" for column in columns))
        lines.append(f"a step costs {self.cost_ratio:.4g} times the base kernel's")
        if self.batches:
            lines.append(f"from {self.batches} batches: each variance to about {(2 / self.batches) ** 0.5:.0%}")
        return "\n".join(lines)


def compare(
    linearization: Linearization,
    alpha: Sequence[float] | Array,
    *,
    base_cost: float = 1.0,
    srmc_cost: float = 3.0,
    schedule: PowerLaw = AVERAGING,
    estimator: Literal["average", "weighted"] = "average",
    n: int | None = None,
) -> Comparison:
    """Predicted variances for several alpha relative to the base kernel's, per step and per cost (App. C.11).

    Parameters
    ----------
    linearization : Linearization
        Exact, or from `estimate`.
    alpha : sequence of float, or array of shape (k,)
    base_cost, srmc_cost : float
        Cost of a step in one unit, see `cost_per_step`; the paper counts 1 and 3.
    schedule : PowerLaw
        The history's.
    estimator : str
        The plain average of f, or the weighted mean mu_n of Eq. 7, whose variance falls as n^-rho only. The base kernel
        is given the same estimator.
    n : int, optional
        Steps of the run; the limit of many steps when not given. For rho < 1 and a large alpha the two differ much.

    Raises
    ------
    HyperparameterError
        As in `average_covariance` and `iterate_covariance`; if a cost is not positive or the estimator not known.

    Notes
    -----
    A budget B buys B / cost steps. Therefore the cost multiplies the variance of the average (Theorem 14), and its
    power rho the variance of mu_n: the paper's remark that the argument extends verbatim to rho < 1 leaves the power
    out. In its Eq. 81, Sigma has to be taken at alpha = 0 for the base kernel.
    """
    check_range("base_cost", base_cost, 0)
    check_range("srmc_cost", srmc_cost, 0)
    s = linearization.score_covariance
    xp, d = array_namespace(s), s.shape[0]
    strengths = xp.asarray(alpha, dtype=s.dtype, device=device_of(s))
    if strengths.ndim != 1:
        raise HyperparameterError(f"alpha must be a sequence of strengths; got shape {tuple(strengths.shape)}")
    if estimator == "average":
        # Not average_covariance at alpha = 0, which may have no CLT where the history's scale is small.
        power, base = 1.0, linearization.noise[d:, d:]
        covariance = average_covariance(linearization, strengths, schedule, n)
    elif estimator == "weighted":
        power, base = float(to_host(schedule.rho)), iterate_covariance(linearization, 0.0, schedule, n)[d:, d:]
        covariance = iterate_covariance(linearization, strengths, schedule, n)[:, d:, d:]
    else:
        raise HyperparameterError(f"estimator must be 'average' or 'weighted'; got {estimator!r}")
    variance = xp.linalg.diagonal(covariance)
    per_step, ratio = variance / xp.linalg.diagonal(base), srmc_cost / base_cost
    return Comparison(strengths, variance, per_step, per_step * ratio**power, ratio, linearization.batches)


class MeasuredCovariance(NamedTuple):
    """A covariance measured over chains, and the Monte Carlo standard error of its entries, both (*sweep, m, m)."""

    covariance: Array
    error: Array


def measured_covariance(estimates: Array, gamma: float) -> MeasuredCovariance:
    """Cov(estimate) / gamma over independent chains, to compare with a prediction.

    Parameters
    ----------
    estimates : array, shape (*sweep, chain, m)
        Each chain's estimate at the end of its run.
    gamma : float
        The last step size, for theta_n or mu_n; 1 / n for an average over n steps.

    Returns
    -------
    MeasuredCovariance

    Raises
    ------
    HyperparameterError
        If there are not two chains.
    """
    if estimates.ndim < 2 or estimates.shape[-2] < 2:
        raise HyperparameterError(f"estimates (*sweep, chain, m) need two chains; got {tuple(estimates.shape)}")
    xp, chains = array_namespace(estimates), estimates.shape[-2]
    centred = estimates - xp.mean(estimates, axis=-2, keepdims=True)
    products = centred[..., :, None] * centred[..., None, :] * (chains / (chains - 1) / gamma)
    return MeasuredCovariance(xp.mean(products, axis=-3), xp.std(products, axis=-3, correction=1) / math.sqrt(chains))
