"""Mixing of chains without stored draws: figures of running moments and batch means."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import Mixing
from xpsample.diagnostics.coordinates import Figures
from xpsample.diagnostics.diagnosis import RunStatistics
from xpsample.diagnostics.findings import judge_batches
from xpsample.trace.recorders import BatchMeans, BatchStatistics, Moments, Recorder, RunningMoments
from xpsample.trace.summary import Summary


class Running(NamedTuple):
    """Figures, of how many draws and chains, and in batches of how many draws; None where they have no ESS.

    ``mean``, ``sd`` and ``mcse`` are of all chains of a group, (*groups, dim); the figures' own sd is within chains.
    An ensemble is one chain, with the draws of all its walkers. The ESS refers to the
    mean, and there is none of the tails. R-hat compares whole chains, neither split nor rank-normalized: Gelman and
    Rubin, Statistical Science 7 (1992) 457-472.
    """

    figures: Figures
    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray
    draws: int
    chains: int
    batch: int | None
    walkers: int = 1

    def summary(self, names: Sequence[str], run_statistics: RunStatistics) -> Summary:
        """The table of these figures; without findings."""
        shape = self.mean.shape
        _, _, (ess, _, rhat) = self.figures
        return Summary(
            names=tuple(names),
            mean=self.mean,
            sd=self.sd,
            low=np.full(shape, np.nan),
            high=np.full(shape, np.nan),
            mcse=self.mcse,
            ess_bulk=np.reshape(ess, shape) if self.batch is not None else np.full(shape, np.nan),
            ess_tail=np.full(shape, np.nan),
            rhat=np.reshape(rhat, shape),
            method="of running moments: the mean's ESS by batch means, R-hat of whole chains",
            draws=self.draws // self.walkers,
            chains=self.chains,
            run_statistics=run_statistics,
            walkers=self.walkers,
        )

    def worst(self) -> tuple[float, float]:
        """The least ESS and the largest R-hat; nan if there is none, or the batches are too short to tell."""
        columns, _, (ess, _, rhat) = self.figures
        known = self.batch is not None and not judge_batches(columns, ess, self.draws * self.chains, self.batch)
        return (float(np.min(ess)) if known else math.nan), float(np.max(rhat))


def running(
    results: Iterable[Any], names: Callable[[int], Sequence[str]] | None = None, ensembles: bool = False
) -> Running | None:
    """The figures from `Moments` and `BatchMeans`; None without moments, or without draws.

    With m chains of mean variance W, whose means have the mean square error V by batch means, the ESS is m W / V.
    ``names(dim)`` are what the coordinates are called. In `ensembles` the chains of the last axis are walkers, and
    count as one chain; batches of single walkers do not tell its ESS.
    """
    found = {getattr(result, "_fields", ()): result for result in results}  # loaded results have other classes
    moments, batches = found.get(RunningMoments._fields), found.get(BatchStatistics._fields)
    if moments is None or not int(moments.count):
        return None
    mean, variance = (_pooled(to_host(values)) for values in (moments.mean, moments.variance))
    draws, walkers = int(moments.count), 1
    if ensembles:
        walkers, batches = mean.shape[-2], None
        mean, variance = _pooled(np.mean(mean, axis=-2)), _pooled(_of_all(mean, variance, draws))
        draws = walkers * draws
    *groups, chains, dim = mean.shape
    if batches is not None and int(batches.batches) < 10:  # too few for an ESS
        batches = None
    batch = None if batches is None else draws // int(batches.batches)
    with np.errstate(all="ignore"):
        within = np.mean(variance, axis=-2)
        between = np.var(mean, axis=-2, ddof=1) if chains > 1 else np.full_like(within, np.nan)
        rhat = np.sqrt((draws - 1) / draws + between / within)
        sd = np.sqrt(_of_all(mean, variance, draws))
        ess, mcse = np.full(within.shape, np.inf), np.full(within.shape, np.nan)
        if batches is not None:
            error = np.mean(_pooled(to_host(batches.mcse)) ** 2, axis=-2)
            ess, mcse = chains * within / error, np.sqrt(np.where(error > 0, error, np.nan) / chains)
    unknown = np.full(ess.size, np.nan)
    called = names(dim) if names else [""] * dim
    columns = [(group, name) for group in product(*map(range, groups)) for name in called]
    mixing = Mixing(np.ravel(ess), unknown, np.ravel(rhat))
    figures = Figures(columns, np.ravel(np.sqrt(within)), mixing)
    return Running(figures, np.mean(mean, axis=-2), sd, mcse, draws, chains, batch, walkers)


def can_tell(recorders: Sequence[Recorder], ess: bool) -> bool:
    """Return whether these recorders yield an R-hat, and with `ess` an ESS, too."""
    needed = (Moments, BatchMeans) if ess else (Moments,)
    return all(any(isinstance(recorder, kind) for recorder in recorders) for kind in needed)


def _of_all(mean: np.ndarray, variance: np.ndarray, draws: int) -> np.ndarray:
    """Variance of the draws of all chains, (*groups, dim), from each chain's moments, (*groups, chain, dim)."""
    total = draws * mean.shape[-2]
    return ((draws - 1) * np.sum(variance, axis=-2) + total * np.var(mean, axis=-2)) / (total - 1)


def _pooled(values: np.ndarray) -> np.ndarray:
    """(*groups, chain, dim) in float64; one chain has an axis, too."""
    values = values.astype(np.float64)
    return values[None, :] if values.ndim == 1 else values
