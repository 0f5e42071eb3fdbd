"""Diagnosis of a run from its draws and statistics: all findings, causes first."""

import inspect
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import ConvergenceWarning, DiagnosisWarning, DivergenceWarning, RepellenceWarning, entry
from xpsample.core.registry import to_host
from xpsample.diagnostics.chains import (
    judge_acceptance,
    judge_depth,
    judge_divergences,
    judge_energy,
    judge_resonance,
    judge_stuck,
)
from xpsample.diagnostics.convergence import FEWEST_DRAWS, Mixing
from xpsample.diagnostics.coordinates import Figures, Screen, StoredDraws
from xpsample.diagnostics.findings import (
    Diagnosing,
    Finding,
    causes_first,
    few_draws,
    judge_batches,
    judge_figures,
)
from xpsample.diagnostics.target import judge_density_precision


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
        Evaluations of ``log_density``, ``score`` and ``hvp`` per step and chain; and ``raised``, those that raised what
        `batched` rejects, if any did.
    """

    steps: int
    acceptance_probability: np.ndarray
    moved: np.ndarray
    diverged: np.ndarray
    evaluations: dict[str, float]


COPIED = 2**18
"""Values of a statistic that are looked at, at most."""

FEW_DIVERGENCES = 5e-4
"""Share of the steps that may diverge where nothing else is wrong, in no region: two of 4,000. The table has them."""

UNMIXED = ("rhat", "ess_bulk", "ess_tail")


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
    """What is wrong with a run, causes first.

    Known are its draws (draw, *chains, dim), if there are any, with the names of the coordinates, and which of these
    are angles; the statistics of every draw; and what `about` gave, with what recorders found under ``findings``. Of
    some runs the `figures` of all columns are there already. Of one without draws `running` has figures, of how many
    draws and chains they are, and the draws of a batch.
    """
    found: list[Finding | None] = [Finding.from_json(fields) for fields in known.get("findings", ())]
    moved, accepted = (np.asarray(a) for a in (run_statistics.moved, run_statistics.acceptance_probability))
    screen = None
    if draws is not None and 0 not in draws.shape:
        screen = Screen(draws, names, angles, known.get("ensembles", False))
    diverged = np.asarray(run_statistics.diverged)
    region = _region(diverged, statistics, screen)
    found += [judge_divergences(diverged, run_statistics.steps, region), judge_stuck(moved, run_statistics.steps)]

    mixes: list[Finding] = []
    chains = known.get("chains", True)
    if screen is not None and chains and screen.rows < FEWEST_DRAWS:
        mixes.append(few_draws(screen.rows))
    elif screen is not None and chains:
        own, mixes = _of_draws(screen, figures, moved, accepted, known, bool(np.any(diverged)))
        found += own
    elif running is not None and chains:
        (columns, sd, mixed), rows, count, batch = running
        mixes += judge_figures(columns, sd, mixed, rows, count)
        found.append(None if batch is None else judge_batches(columns, mixed.ess_bulk, rows * count, batch))
    slow = _slow(mixes, accepted.shape[:-1])
    found.append(judge_acceptance(accepted, known.get("optimal_acceptance"), slow))
    kinds = {finding.kind for finding in mixes}
    if known.get("leapfrog_steps") and kinds & set(UNMIXED) and "resonance" not in kinds:
        found.append(judge_resonance(known["leapfrog_steps"], accepted))
    found += _of_statistics(statistics, known) if chains else []
    told = causes_first(finding for finding in (*found, *mixes) if finding is not None)
    steps = run_statistics.steps * max(1, moved.size)
    few = len(told) == 1 and told[0].kind == "divergences" and told[0].value <= FEW_DIVERGENCES * steps
    return () if few and not region and known.get("adjusted", True) else told


def _of_draws(
    screen: Screen,
    figures: Figures | None,
    moved: np.ndarray,
    accepted: np.ndarray,
    known: Mapping[str, Any],
    diverged: bool,
) -> tuple[list[Finding | None], list[Finding]]:
    """What draws show of places and numbers, and what their figures show."""
    stuck = moved == 0 if moved.shape == screen.shape else np.zeros(screen.shape, dtype=bool)
    still = screen.groups_of(stuck)
    if figures is None:
        figures = screen.figures(known.get("categorical", False))
    keep = [i for i, (group, _) in enumerate(figures.columns) if not still[group]]
    kept = Mixing(*(values[keep] for values in figures.mixing))
    rows, chains = screen.rows * screen.walkers, screen.chains // screen.walkers
    mixes = judge_figures([figures.columns[i] for i in keep], figures.sd[keep], kept, rows, chains)
    optimum = known.get("optimal_acceptance")
    high = optimum is not None and bool(accepted.size) and float(np.mean(accepted)) > optimum
    unmixed = {kind: f.coordinates for f in mixes if (kind := f.kind) in UNMIXED}
    numbers = screen.judge_numbers(known.get("categorical", False), diverged)
    found = [*screen.judge_places(stuck, unmixed, high, known), *numbers]
    if any(finding is not None and finding.kind == "growth" for finding in found):
        # All else that the figures show is what growing chains look like.
        mixes = [finding for finding in mixes if finding.kind in ("not_finite", "rhat")]
    return found, mixes


def _of_statistics(statistics: Mapping[str, Array], known: Mapping[str, Any]) -> Iterator[Finding | None]:
    """What the statistics of every draw show."""
    if "energy" in statistics:
        yield judge_energy(to_host(_last(statistics["energy"])).astype(np.float64))
    if "depth" in statistics and known.get("deepest"):
        yield judge_depth(to_host(_some(statistics["depth"])), known["deepest"])
    if "log_density" in statistics:
        density = to_host(_some(statistics["log_density"]))
        yield judge_density_precision(density, computed_in=known.get("computed_in"))


def own_findings(recorders: Sequence[Any], results: Mapping[str, Any], state: Any) -> list[dict[str, Any]]:
    """What recorders found, from their results by name, and what the kernel's last state says: as JSON values."""
    pairs = [(recorder, results[recorder.name]) for recorder in recorders]
    found = [f for own, result in pairs if isinstance(own, Diagnosing) for f in own.findings(result)]
    return [f.to_json() for f in (*found, *_findings_of(state))]


def _findings_of(state: Any) -> Iterator[Finding]:
    if hasattr(state, "findings"):
        yield from state.findings()
    if isinstance(state, (tuple, list)):
        for part in state:
            yield from _findings_of(part)


def warn(findings: Iterable[Finding | None]) -> None:
    """Warn of each finding with a line, at the caller's line; neighbors of one class are one warning."""
    told = [finding for finding in findings if finding is not None and finding.kind != "few_draws"]
    for category, same in groupby(told, _category):
        lines = [f"{finding} [{entry(finding.kind, 'diagnosis')}]" for finding in same]
        stacklevel, frame = 1, inspect.currentframe()
        while frame is not None and frame.f_globals.get("__name__", "").startswith("xpsample."):
            stacklevel, frame = stacklevel + 1, frame.f_back
        warnings.warn("\n".join(lines), category, stacklevel=stacklevel)


def _category(finding: Finding) -> type[DiagnosisWarning]:
    """The class of the warning that tells of a finding."""
    if finding.kind in ("divergences", "bound"):
        return DivergenceWarning
    return RepellenceWarning if finding.kind.startswith("tilt") else ConvergenceWarning


def _last(rows: Any) -> Array:
    """As many of the last rows as are looked at: all of most runs."""
    most = max(FEWEST_DRAWS, COPIED // math.prod(rows.shape[1:]))
    return rows[max(0, rows.shape[0] - most) :, ...]  # of those in a store an array, too


def _some(rows: Array) -> Array:
    """As many rows as are looked at: the last ones in a store, and else evenly spread."""
    step = -(-math.prod(rows.shape) // COPIED)
    return _last(rows) if isinstance(rows, StoredDraws) or step <= 1 else rows[::step, ...]


def _slow(findings: Sequence[Finding], groups: tuple[int, ...]) -> np.ndarray:
    """Which groups have a low ESS, (*groups)."""
    slow = np.zeros(groups, dtype=bool)
    for finding in findings:
        if finding.kind == "ess_bulk":
            for group in finding.groups or [()]:
                slow[group] = True
    return slow


def _region(diverged: np.ndarray, statistics: Mapping[str, Array], screen: Screen | None) -> str:
    """Where divergent steps are, in words, if that is plain."""
    rows = statistics.get("diverged")
    if screen is None or rows is None or tuple(rows.shape) != (screen.rows, *screen.shape) or not np.any(diverged):
        return ""
    return screen.region(rows)
