"""Diagnosis of a run from its draws and statistics: all findings, causes first."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import (
    ConvergenceWarning,
    DiagnosisWarning,
    DivergenceWarning,
    RepellenceWarning,
    entry,
    warn_caller,
)
from xpsample.core.registry import to_host
from xpsample.diagnostics.advice import Advice
from xpsample.diagnostics.chains import (
    judge_correlation,
    judge_crossings,
    judge_growth,
    judge_modes,
    judge_settling,
    judge_start,
    judge_walk,
    walking,
)
from xpsample.diagnostics.convergence import FEWEST_DRAWS, Mixing
from xpsample.diagnostics.coordinates import CoarsePass, Figures, StoredDraws
from xpsample.diagnostics.findings import (
    Diagnosing,
    Finding,
    causes_first,
    few_draws,
    judge_batches,
    judge_figures,
)
from xpsample.diagnostics.steps import (
    CHANCE,
    LOW_ACCEPTANCE,
    chance_still,
    judge_acceptance,
    judge_depth,
    judge_divergences,
    judge_energy,
    judge_resonance,
    judge_stuck,
    most_by_chance,
    region_of,
)
from xpsample.diagnostics.tails import judge_tails
from xpsample.diagnostics.target import judge_density_precision, judge_position_precision, judge_underflow

UNMIXED = {"rhat", "ess_bulk", "ess_tail"}

WALKED = 6  # ESS of a chain that walks, at most

COPIED = 2**18  # Array elements of a statistic that are judged, at most


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
        Evaluations of ``log_density``, ``score`` and ``hvp`` per step and chain; and ``raised``, the ones that raised
        what `batched` rejects, if any did.
    """

    steps: int
    acceptance_probability: np.ndarray
    moved: np.ndarray
    diverged: np.ndarray
    evaluations: dict[str, float]


def diagnose(
    draws: Array | StoredDraws | None,
    names: Sequence[str],
    run_statistics: RunStatistics,
    statistics: Mapping[str, Array],
    known: Mapping[str, Any],
    figures: Figures | None = None,
    running: tuple[Figures, int, int, int | None] | None = None,
    angles: Sequence[int] = (),
) -> tuple[Finding, ...]:
    """Return all findings of a run, causes first.

    Parameters
    ----------
    draws : array or StoredDraws, shape (draw, *chains, dim), or None
        Draws, if there are any.
    names : sequence of str
        Names of the coordinates.
    run_statistics, statistics : RunStatistics and mapping of str to array
        Sums over all steps, and the statistics of every draw.
    known : mapping
        Facts about the run, by `xpsample.trace.diagnosis.about`, and findings of recorders under ``findings``.
    figures : Figures, optional
        Figures of all columns. Those of the worst columns are computed when not given.
    running : tuple, optional
        For a run without draws, figures, the numbers of draws and chains, and the draws of a batch.
    angles : sequence of int
        Coordinates that are angles.
    """
    found: list[Finding | None] = list(map(Finding.from_json, known.get("findings", ())))
    moved, accepted = np.asarray(run_statistics.moved), np.asarray(run_statistics.acceptance_probability)
    diverged, steps = np.asarray(run_statistics.diverged), run_statistics.steps
    coarse, region = None, ""
    if draws is not None and 0 not in draws.shape:
        coarse = CoarsePass(draws, names, angles, known.get("ensembles", False))
        rows = statistics.get("diverged")
        if np.any(diverged) and rows is not None and tuple(rows.shape) == (coarse.rows, *coarse.shape):
            each = coarse.draws.reshape((*coarse.draws.shape[:2], -1, len(coarse.coordinates)))
            at = to_host(rows[:: coarse.step, ...]).astype(bool).reshape((len(each), -1, coarse.chains))
            region = region_of([names[int(i)] for i in coarse.coordinates], each, at.swapaxes(1, 2))
    advice, optimum = Advice.of(known), known.get("optimal_acceptance")
    found += [judge_divergences(diverged, steps, region, advice), judge_stuck(moved, steps, optimum, advice)]

    mixes: list[Finding] = []
    chains = known.get("chains", True)
    if coarse is not None and chains and coarse.rows < FEWEST_DRAWS:
        mixes.append(few_draws(coarse.rows))
    elif coarse is not None and chains:
        own, mixes = _judge_draws(coarse, figures, run_statistics, known)
        found += own
    elif running is not None and chains:
        (columns, sd, mixed), count, of_chains, batch = running
        mixes = judge_figures(columns, sd, mixed, count, of_chains, advice)
        found.append(None if batch is None else judge_batches(columns, mixed.ess_bulk, count * of_chains, batch))
    slow = np.zeros(accepted.shape[:-1], dtype=bool)  # groups of low ESS
    for finding in mixes:
        if finding.kind == "ess_bulk":
            slow[tuple(np.transpose(finding.groups))] = True
    found.append(judge_acceptance(accepted, optimum, slow, steps, advice))
    kinds = {finding.kind for finding in mixes}
    if known.get("leapfrog_steps") and kinds & UNMIXED and "resonance" not in kinds:
        found.append(judge_resonance(known["leapfrog_steps"], accepted))
    found += _judge_statistics(statistics, known) if chains else []
    told = causes_first((*found, *mixes))
    # Two steps of 4,000 may diverge on average if nothing else is wrong, in no region. The table has them.
    few = most_by_chance(5e-4 * steps * max(1, moved.size))
    alone = len(told) == 1 and told[0].kind == "divergences" and told[0].value <= few
    return () if alone and not region and known.get("adjusted", True) else told


def _judge_draws(
    coarse: CoarsePass, figures: Figures | None, run_statistics: RunStatistics, known: Mapping[str, Any]
) -> tuple[list[Finding | None], list[Finding]]:
    """Findings of the coarse pass, and of the figures.

    Chains that never moved are in no mode, nor are chains whose set step size has nearly nothing accepted. Groups
    of chains that never moved are omitted.
    """
    categorical, tilted, advice = known.get("categorical", False), known.get("tilted", False), Advice.of(known)
    optimum = known.get("optimal_acceptance")
    figures = figures or coarse.figures(categorical)
    moved, accepted = np.asarray(run_statistics.moved), np.asarray(run_statistics.acceptance_probability)
    stuck = moved == 0 if moved.shape == coarse.shape else np.zeros(coarse.shape, dtype=bool)
    stuck = stuck.reshape((*coarse.groups, coarse.chains))
    still = np.all(stuck, axis=-1)
    keep = [i for i, (group, _) in enumerate(figures.columns) if not still[group]]
    kept = Mixing(*np.asarray(figures.mixing)[:, keep])
    rows, chains = coarse.rows * coarse.walkers, coarse.chains // coarse.walkers
    by_chance = chance_still(moved, rows * chains, optimum) > CHANCE
    mixes = judge_figures([figures.columns[i] for i in keep], figures.sd[keep], kept, rows, chains, advice, by_chance)

    keep = [i for i, (group, _) in enumerate(coarse.columns) if not still[group]]
    columns, first, values = [coarse.columns[i] for i in keep], coarse.first[..., keep], coarse.values[..., keep]
    if moved.shape == coarse.shape:
        least = FEWEST_DRAWS  # moves; on a discrete space a single one shows a mode, and none if that may be chance
        if advice.discrete:
            least = int(judge_stuck(moved, run_statistics.steps, optimum, advice) is not None)
        still = (moved * run_statistics.steps < least).reshape(stuck.shape)
    else:
        still = stuck
    if optimum is not None and accepted.shape == coarse.shape and not (advice.unset or advice.learned):
        still = still | (np.mean(accepted.reshape(still.shape), axis=-1, keepdims=True) < LOW_ACCEPTANCE * optimum)
    moving = np.repeat(~still.reshape((-1, coarse.chains)).T, len(coarse.coordinates), axis=1)[:, keep]
    second = values[len(values) // 2 :]
    names = dict.fromkeys(name for finding in mixes if finding.kind in UNMIXED for name in finding.coordinates)
    bad = [i for name in names for i, (_, own) in enumerate(columns) if own == name]
    # Walking chains have an ESS of a few each; others may drift by chance.
    ess = zip(figures.columns, figures.mixing.ess_bulk, strict=True)
    lame = {column for column, of_column in ess if of_column < WALKED * chains}
    walks, ratio = walking(second, [i for i in bad if columns[i] in lame])
    high = optimum is not None and bool(accepted.size) and float(np.mean(accepted)) > optimum
    found = [
        judge_modes(columns, values, walks, moving, advice, known.get("one_mode", False)),
        None
        if advice.discrete or known.get("one_mode", False)
        else judge_crossings(columns, values, [i for i in bad if not walks[i]][:4], moving, advice),
        judge_walk(columns, walks, ratio, high, advice),
        judge_correlation(columns, second, np.asarray(bad, dtype=int), advice),
        None if known.get("adjusted", True) else judge_growth(columns, values, advice),
        judge_start(columns, first, second, tilted, coarse.step),
        None if tilted or coarse.walkers > 1 else judge_settling(columns, values),
    ]
    if any(finding is not None and finding.kind == "growth" for finding in found):
        # All else that the figures show is what growing chains look like.
        mixes = [finding for finding in mixes if finding.kind in ("not_finite", "rhat")]
    if not (categorical or advice.discrete):
        found.append(judge_tails(columns, values))
    if not categorical:
        dtype, second = coarse.draws.dtype, coarse.values[len(values) // 2 :]
        found.append(judge_position_precision(coarse.columns, second, dtype))
        found.append(judge_underflow(coarse.columns, second, dtype, bool(np.any(run_statistics.diverged))))
    return found, mixes


def _judge_statistics(statistics: Mapping[str, Array], known: Mapping[str, Any]) -> Iterator[Finding | None]:
    """Findings of the statistics of every draw: of all of most runs, and otherwise of the last ones."""
    last = {}
    # Not a set of names: processes that hold the chains together fetch in one order, and hashes of strings differ.
    for name in ("energy", "depth", "log_density"):
        if name not in statistics:
            continue
        rows = statistics[name]
        most = max(FEWEST_DRAWS, COPIED // math.prod(rows.shape[1:]))
        last[name] = to_host(rows[max(0, rows.shape[0] - most) :, ...])  # brackets of stored rows return an array
    if "energy" in last:
        yield judge_energy(last["energy"].astype(np.float64))
    if "depth" in last and known.get("deepest"):
        yield judge_depth(last["depth"], known["deepest"])
    if "log_density" in last:
        yield judge_density_precision(last["log_density"], computed_in=known.get("computed_in"))


def own_findings(recorders: Sequence[Any], results: Mapping[str, Any], state: Any) -> list[dict[str, Any]]:
    """Findings of recorders, from their results by name, and of the kernel's last state, as JSON values."""
    pairs = [(recorder, results[recorder.name]) for recorder in recorders]
    found = [f for own, result in pairs if isinstance(own, Diagnosing) for f in own.findings(result)]
    return [f.to_json() for f in (*found, *findings_of(state))]


def findings_of(state: Any) -> Iterator[Finding]:
    """Yield the findings of a kernel's state, a wrapper's before its base's."""
    if hasattr(state, "findings"):
        yield from state.findings()
    if isinstance(state, (tuple, list)):
        for part in state:
            yield from findings_of(part)


def warn(findings: Iterable[Finding | None]) -> None:
    """Warn of each finding with a line, at the caller's line; neighbors of one class are one warning."""
    told = [finding for finding in findings if finding is not None and finding.kind != "few_draws"]
    for category, same in groupby(told, _category):
        lines = [f"{finding} [{entry(finding.kind, 'diagnosis')}]" for finding in same]
        warn_caller("\n".join(lines), category)


def _category(finding: Finding) -> type[DiagnosisWarning]:
    """The class of the warning that tells of a finding."""
    if finding.kind in ("divergences", "bound"):
        return DivergenceWarning
    return RepellenceWarning if finding.kind.startswith("tilt") else ConvergenceWarning
