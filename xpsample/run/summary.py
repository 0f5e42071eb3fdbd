"""Summaries of a trace: mean, standard error, ESS and R-hat of every coordinate, and what they warn of."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from xpsample.metrics.convergence import FEWEST_DRAWS, chain_ess, mcse_mean, split_rhat

Diagnostics = Callable[[np.ndarray], tuple[np.ndarray, ...]]  # (draw, chain, dim) to several (dim,)

ROWS_SHOWN = 30

LARGEST_RHAT, SMALLEST_ESS = 1.01, 400
"""Vehtari et al. (2021), section 4: beyond these an estimate is not to be relied on."""


@dataclass(frozen=True, eq=False)
class RunStatistics:
    """Sums over all steps after burn-in, thinned or not; host arrays.

    Attributes
    ----------
    steps : int
        Steps after burn-in of each chain.
    acceptance_probability : numpy.ndarray, shape (*chains)
        Mean acceptance probability.
    moved : numpy.ndarray, shape (*chains)
        Fraction of the steps that changed the position.
    diverged : numpy.ndarray, shape (*chains)
        Number of divergent steps.
    evaluations : dict of str to float
        Evaluations of ``log_density``, ``score`` and ``hvp`` per step and chain.
    """

    steps: int
    acceptance_probability: np.ndarray
    moved: np.ndarray
    diverged: np.ndarray
    evaluations: dict[str, float]


@dataclass(frozen=True, eq=False)
class Summary:
    """Per-coordinate summary of a trace; ``str()`` gives a table, and below it what to be wary of.

    Attributes
    ----------
    names : tuple of str
        Names of the coordinates.
    mean, sd, mcse : numpy.ndarray, shape (dim,)
        Mean, standard deviation and Monte Carlo standard error of the mean, in the unit of the coordinate.
    ess_bulk, ess_tail : numpy.ndarray, shape (dim,)
        Effective sample sizes of the bulk and of the 5 % and 95 % tails (the smaller one), in draws; nan for
        a coordinate in which no chain moves or that is not finite, and for fewer than ten draws.
    rhat : numpy.ndarray, shape (dim,)
        R-hat; nan for a coordinate that is constant or not finite. The rank-normalised one needs two chains.
    method : str
        Which estimators gave the ESS and R-hat.
    draws, chains : int
        Draws per chain, and number of chains.
    run_statistics : RunStatistics
        Acceptance, divergences and evaluations of the run.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray
    method: str
    draws: int
    chains: int
    run_statistics: RunStatistics

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [f"{'':{width}}" + "".join(f"{h:>11}" for h in ("mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"))]
        columns = (self.names, self.mean, self.sd, self.mcse, self.ess_bulk, self.ess_tail, self.rhat)
        rows = [
            f"{name:{width}}{mean:11.4g}{sd:11.4g}{mcse:11.3g}{bulk:11.0f}{tail:11.0f}{rhat:11.3f}"
            for name, mean, sd, mcse, bulk, tail, rhat in zip(*columns, strict=True)
        ]
        if len(rows) > ROWS_SHOWN:
            rows[ROWS_SHOWN - 2 : -2] = [f"... {len(rows) - ROWS_SHOWN} more coordinates"]
        lines += rows
        run_statistics = self.run_statistics
        acceptance = run_statistics.acceptance_probability
        spread = f" ({np.min(acceptance):.3g} to {np.max(acceptance):.3g})" if np.size(acceptance) > 1 else ""
        divergences, steps = int(np.sum(run_statistics.diverged)), run_statistics.steps * np.size(acceptance)
        evaluations = ", ".join(f"{count:.4g} {name}" for name, count in run_statistics.evaluations.items())
        lines += [
            f"{self.draws} draws of {self.chains} chain{'s' * (self.chains != 1)}",
            f"ESS and R-hat: {self.method}",
            f"acceptance probability {np.mean(acceptance):.3g}{spread}, moved {np.mean(run_statistics.moved):.3g}",
            f"divergences: {divergences} in {steps} steps",
            f"evaluations per step and chain: {evaluations or 'none counted'}",
        ]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the draws as far as these figures show it, a line each, with what to do about it."""
        if self.draws < FEWEST_DRAWS:
            return (f"{self.draws} draws are too few for an ESS; {FEWEST_DRAWS} or more are needed",)
        total = self.draws * self.chains
        still = np.isfinite(self.sd) & np.isnan(self.ess_bulk)
        swinging = (self.ess_bulk > total) & (self.ess_tail < 0.1 * self.ess_bulk)
        found = [
            (~np.isfinite(self.sd), "draws that are not finite", "use a smaller step size"),
            (still, "no chain moves", "use a smaller step size, unless the coordinate is fixed"),
            (self.rhat > LARGEST_RHAT, f"R-hat above {LARGEST_RHAT}", "the chains have not mixed: run longer"),
            (self.ess_bulk < SMALLEST_ESS, f"ess_bulk below {SMALLEST_ESS}", "the mean is uncertain: run longer"),
            (self.ess_tail < SMALLEST_ESS, f"ess_tail below {SMALLEST_ESS}", "the spread is uncertain: run longer"),
            (
                swinging,
                f"ess_bulk above the {total} draws and ess_tail below a tenth of it",
                "the chains swing from side to side and the spread may be wrong: "
                "change the step size or the number of leapfrog steps",
            ),
        ]
        return tuple(f"{what} in {self._where(cases)}: {advice}" for cases, what, advice in found if np.any(cases))

    def _where(self, cases: np.ndarray) -> str:
        """The first names and how many more."""
        names = [self.names[i] for i in np.flatnonzero(cases)]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def summarize(draws: np.ndarray, names: tuple[str, ...], run_statistics: RunStatistics) -> Summary:
    """Summarize host draws, ``(draw, chain, dim)``."""
    diagnostics: Diagnostics
    try:
        from arviz_stats.base import array_stats
    except ImportError:
        method = "plain split-chain"
        diagnostics = _plain_diagnostics
    else:
        method = "rank-normalised (arviz-stats)"
        diagnostics = partial(_rank_normalised_diagnostics, array_stats)

    with np.errstate(invalid="ignore"):  # coordinates that are not finite get nan
        mean = np.mean(draws, axis=(0, 1))
        count = draws.shape[0] * draws.shape[1]
        variance = np.sum((draws - mean) ** 2, axis=(0, 1)) / (count - 1 if count > 1 else np.nan)
    mcse = mcse_mean(draws)
    bulk, tail, rhat = _where_varying(diagnostics, draws)
    no_ess = np.isnan(mcse)
    stuck = no_ess & np.isfinite(rhat) & (draws.shape[0] >= FEWEST_DRAWS)
    return Summary(
        names=names,
        mean=mean,
        sd=np.sqrt(variance),
        mcse=mcse,
        ess_bulk=np.where(no_ess, np.nan, bulk),
        ess_tail=np.where(no_ess, np.nan, tail),
        rhat=np.where(stuck, np.inf, rhat),
        method=method,
        draws=draws.shape[0],
        chains=draws.shape[1],
        run_statistics=run_statistics,
    )


def _rank_normalised_diagnostics(array_stats: Any, draws: np.ndarray) -> tuple[np.ndarray, ...]:
    """Bulk ESS, tail ESS and R-hat by arviz-stats."""
    axes = {"chain_axis": 1, "draw_axis": 0}
    return (
        array_stats.ess(draws, method="bulk", **axes),
        array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes),
        array_stats.rhat(draws, method="rank", **axes),
    )


def _plain_diagnostics(draws: np.ndarray) -> tuple[np.ndarray, ...]:
    """Bulk ESS, tail ESS and R-hat, without ranks."""
    low, high = np.quantile(draws, (0.05, 0.95), axis=(0, 1))
    # An indicator that is the same for all draws (few distinct values) has no ESS: the other tail decides.
    tail = np.fmin(
        chain_ess((draws <= low).astype(np.float64)),
        chain_ess((draws >= high).astype(np.float64)),
    )
    return chain_ess(draws), tail, split_rhat(draws)


def _where_varying(diagnostics: Diagnostics, draws: np.ndarray) -> tuple[np.ndarray, ...]:
    """Diagnostics of the coordinates that are finite and not constant; nan for the others."""
    varying = np.all(np.isfinite(draws), axis=(0, 1)) & np.any(draws != draws[:1, :1], axis=(0, 1))
    results = tuple(np.full(draws.shape[-1], np.nan) for _ in range(3))
    if np.any(varying):
        for result, values in zip(results, diagnostics(draws[..., varying]), strict=True):
            result[varying] = values
    return results
