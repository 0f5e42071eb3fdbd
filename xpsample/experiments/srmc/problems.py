"""The targets of the SRMC paper's Appendix D.1 with exact starts and reference means, and errors of running means."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Run
from xpsample.experiments.table import columns
from xpsample.kernels import HMC, Kernel
from xpsample.targets import Target
from xpsample.trace.recorders import Moments
from xpsample.trace.trace import Trace
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import logistic_regression

DIM = 10
BURN_IN = 0.3
"""Fraction of the steps discarded from the running mean."""
COLLINEARITY = 0.5
"""V_ij = 0.5^|i-j| for the rows of the design; the paper says "moderate" and no more."""
STUCK = 0.01
"""A chain whose mean acceptance probability is below this counts as stuck."""
HUGE = 1e300
"""Squared errors are cut off here, so that their means stay finite."""


class Problem(NamedTuple):
    """A target, start positions (chains, dim) drawn from it, its mean (dim,), and the trace of its covariance."""

    target: Target
    start: np.ndarray
    mean: np.ndarray
    trace: float


def decaying(base: float) -> np.ndarray:
    """The matrix base^|i-j|, (DIM, DIM)."""
    i = np.arange(DIM)
    return base ** np.abs(i[:, None] - i)


def decaying_gaussian(chains: int, seed: int) -> Problem:
    """N(0, S) with S_ij = 0.9^|i-j| in ten dimensions: the paper's text (Eq. 83)."""
    return _gaussian(decaying(0.9), chains, seed)


def equicorrelated_gaussian(chains: int, seed: int) -> Problem:
    """Unit variances and every correlation 0.9 in 20 dimensions; the correlation is chosen here."""
    return _gaussian(np.full((20, 20), 0.9) + 0.1 * np.eye(20), chains, seed)


def _gaussian(covariance: np.ndarray, chains: int, seed: int) -> Problem:
    dim = len(covariance)
    start = np.random.default_rng(seed).standard_normal((chains, dim)) @ np.linalg.cholesky(covariance).T
    return Problem(gaussian(covariance), start, np.zeros(dim), float(np.trace(covariance)))


def logistic_data(draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (100, DIM) and labels (100,) of Eqs. 84-85, coefficients and all else drawn anew for each `draw`."""
    rng = np.random.default_rng(draw)
    features = rng.standard_normal((100, DIM)) @ np.linalg.cholesky(decaying(COLLINEARITY)).T
    labels = (rng.random(100) < 1.0 / (1.0 + np.exp(-features @ rng.standard_normal(DIM)))).astype(np.int64)
    return features, labels


def logistic(run: Run[Any], chains: int, steps: int, draw: int = 0) -> Problem:
    """Bayesian logistic regression (Eqs. 84-85), its mean from `steps` well tuned HMC steps of each chain.

    The data do not depend on the seed. The reference's last states, exact draws but for HMC's memory, are the starts.
    """
    features, labels = logistic_data(draw)
    target = logistic_regression(features, labels)

    mode, precision = np.zeros(DIM), np.eye(DIM)
    for _ in range(20):  # Newton
        p = 1.0 / (1.0 + np.exp(-features @ mode))
        precision = (features.T * (p * (1.0 - p))) @ features + np.eye(DIM)
        mode = mode + np.linalg.solve(precision, features.T @ (labels - p) - mode)
    # A trajectory of 0.8 half periods: successive draws are anticorrelated, and their mean is better than of as many
    # independent ones. Another seed than the runs', whose error against the same noise would look too small.
    x0 = mode + np.linalg.solve(
        np.linalg.cholesky(precision).T, np.random.default_rng(run.seed).standard_normal((DIM, chains))
    ).T.reshape(chains, DIM)
    with run.doing(f"logistic reference: {steps} HMC steps of {chains} chains"):
        long = run.sample(
            target,
            HMC(0.42, steps=6, mass=precision),
            x0,
            steps,
            seed=run.seed + 10**6,
            burn_in=max(100, steps // 20),
            recorders=(Moments(),),
        )
    moments = long.recorded["moments"]
    mean = np.mean(moments.mean, axis=0)
    squared = float(np.sum(np.var(moments.mean, axis=0, ddof=1))) / chains
    trace = float(np.sum(np.mean(moments.variance, axis=0)))
    run.say(
        f"logistic reference: {steps} HMC steps of {chains} chains in {long.metadata['seconds']:.1f} s, acceptance "
        f"{np.mean(long.run_statistics.acceptance_probability):.2f}; its own squared error (MCSE^2, summed over the "
        f"coordinates) is {squared:.1e}, the posterior's trace {trace:.2f}"
    )
    return Problem(target, long.state.point.x, mean, trace)


def gradients(evaluations: dict[str, float]) -> float:
    """Scores and Hessian-vector products of a step."""
    return evaluations["score"] + evaluations["hvp"]


class Errors(NamedTuple):
    """Results of one batched run: (*sweep, chain) squared errors of the chains' means, mean acceptance probabilities,
    and whether a step diverged; seconds; scores and Hessian-vector products per step; and the last state.
    """

    squared: np.ndarray
    acceptance: np.ndarray
    diverged: np.ndarray
    seconds: float
    cost: float
    state: Any


def squared_errors(trace: Trace, truth: np.ndarray) -> np.ndarray:
    """Squared errors of the chains' means, (*chains); means that are not finite count as `HUGE`."""
    mean = to_host(trace.recorded["moments"].mean).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = np.sum((mean - truth) ** 2, axis=-1)
        return np.where(squared < HUGE, squared, HUGE)  # nan as well


def errors(
    run: Run[Any],
    problem: Problem,
    kernel: Kernel,
    device: DeviceDtype,
    sweep: tuple[int, ...],
    steps: int,
    label: str = "",
) -> Errors:
    """Run all chains of all values of a sweep at once, and measure the mean of each past the burn-in."""
    x0 = device.array(np.broadcast_to(problem.start, (*sweep, *problem.start.shape)))
    burn_in = round(BURN_IN * steps)
    trace = run.sample(
        problem.target,
        kernel,
        x0,
        steps - burn_in,
        burn_in=burn_in,
        recorders=(Moments(),),
        label=label,
        quiet=True,
    )
    run_statistics = trace.run_statistics
    return Errors(
        squared_errors(trace, problem.mean),
        to_host(run_statistics.acceptance_probability),
        to_host(run_statistics.diverged) > 0,
        trace.metadata["seconds"],
        gradients(run_statistics.evaluations),
        trace.state,
    )


def compared(squared: np.ndarray, base: np.ndarray, resamples: int = 2000) -> dict[str, float]:
    """Mean of squared errors divided by a base kernel's, with a 95 % bootstrap interval, and the ratio of medians.

    Chains are resampled, independently in both: (chain,) and (chain,) share starts and no noise.
    """
    ratio = float(np.mean(squared) / np.mean(base))
    rng = np.random.default_rng(0)
    ours = squared[rng.integers(0, len(squared), (resamples, len(squared)))].mean(axis=1)
    theirs = base[rng.integers(0, len(base), (resamples, len(base)))].mean(axis=1)
    low, high = np.quantile(ours / theirs, [0.025, 0.975])
    return {
        "mse": float(np.mean(squared)),
        "ratio": ratio,
        "low": float(low),
        "high": float(high),
        "ratio_median": float(np.median(squared) / np.median(base)),
    }


def counted(found: Errors, at: tuple[int, ...], trace: float) -> dict[str, Any]:
    """Chains whose mean is worse than one exact draw, that are stuck, either of both (broken), or diverged."""
    far, stuck = found.squared[at] > trace, found.acceptance[at] < STUCK
    return {
        "acceptance": float(np.mean(found.acceptance[at])),
        "far": int(np.sum(far)),
        "stuck": int(np.sum(stuck)),
        "broken": int(np.sum(far | stuck)),
        "diverged": int(np.sum(found.diverged[at])),
    }


RATIO_COLUMNS = columns(
    "mse .2e MSE | ratio .3g | low .3g | high .3g | ratio_median .3g median | acceptance .2f accept | broken d "
    "| far d | stuck d | diverged d div | cost .3g evals"
)

RATIO_LEGEND = """\
ratio    MSE of the running mean divided by that of the same kernel with alpha = 0 after the same steps; low, high its
         95 % interval (bootstrap of chains); median: of the medians of the chains
broken   chains that are far (mean worse than one exact draw would be on average) or stuck (mean acceptance below 0.01)
div      chains with a divergent step; evals: scores + Hessian-vector products per step"""
