"""The diagnosis of a run: which part of its draws is looked at, and what the rules of `metrics.findings` say of it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import ConvergenceWarning, DiagnosisWarning, DivergenceWarning, RepellenceWarning
from xpsample.core.registry import to_host
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.metrics.convergence import FEWEST_DRAWS
from xpsample.metrics.findings import (
    Column,
    Diagnosing,
    Finding,
    few_draws,
    judge_acceptance,
    judge_batches,
    judge_divergences,
    judge_energy,
    judge_figures,
    judge_growth,
    judge_modes,
    judge_start,
    judge_stuck,
    region_of,
    spread,
)
from xpsample.metrics.ranks import MANY_CHAINS, Mixing, mixing
from xpsample.run.stored import StoredColumns, StoredRows
from xpsample.run.summary import RunStatistics
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.permutations import Permutations
from xpsample.spaces.space import Space

SCREENED, FEWEST_ROWS, FIRST_ROWS = 2**18, 32, 64
"""Values at which all coordinates are looked at, to find the worst ones; of how many draws, and how many first ones.

Where 32 draws of all coordinates are more values than that, not all coordinates are looked at.
"""

MEASURED = 2**17
"""Values of which ESS and R-hat are computed, of the worst coordinates; four of these at least."""

LONGEST, MOST_CHAINS = 2**13, 32
"""Draws of a chain, and chains, that the ESS of one coordinate is taken from; the ESS of the chains is added up."""

MOST_STATES = 64
"""Of a variable, up to which each has an indicator of its own."""

COPIED = 2**23
"""Values up to which draws are copied to the host as a whole."""

OF_ANOTHER_TARGET = Trait.TAKES_ESTIMATES | Trait.SEPARATE
"""Of chains that sample another density than the target that they are given, as those of MYULA do."""


class Figures(NamedTuple):
    """Columns, the standard deviation of each, and how they mixed."""

    columns: Sequence[Column]
    sd: np.ndarray
    mixing: Mixing


def about(kernel: Kernel, space: Space, dim: int) -> dict[str, Any]:
    """What a diagnosis needs to know of a run beside its results, as JSON values."""
    return {
        "chains": bool(kernel.traits & Trait.SAMPLES) or OF_ANOTHER_TARGET in kernel.traits,
        "adjusted": bool(kernel.traits & Trait.INVARIANT),
        "tilted": bool(kernel.traits & Trait.SAMPLES) and not kernel.traits & Trait.UNTILTED,
        "optimal_acceptance": kernel.optimal_acceptance,
        "categorical": _is_categorical(space, dim),
    }


def diagnose(
    draws: Array | StoredColumns | None,
    names: Sequence[str],
    run_statistics: RunStatistics,
    statistics: Mapping[str, Array],
    known: Mapping[str, Any],
    figures: Figures | None = None,
    running: tuple[Figures, int, int, int | None] | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with a run.

    Parameters
    ----------
    draws : array or StoredColumns, shape (draw, *chains, dim), or None
    names : sequence of str
        Of the coordinates.
    run_statistics : RunStatistics
    statistics : mapping
        Of every draw.
    known : mapping
        What `about` gave, and under ``findings`` what the recorders found.
    figures : Figures, optional
        Of all columns, where they are there already.
    running : (Figures, int, int, int or None), optional
        Figures of a run without draws, how many draws and chains they are of, and the draws of a batch.
    """
    found: list[Finding | None] = [Finding.from_json(fields) for fields in known.get("findings", ())]
    moved, accepted = (np.asarray(a) for a in (run_statistics.moved, run_statistics.acceptance_probability))
    screen = None
    if draws is not None and 0 not in draws.shape:
        screen = Screen(draws, names)
    found.append(_divergences(run_statistics, statistics, screen))
    found.append(judge_stuck(moved, run_statistics.steps))

    mixes: list[Finding] = []
    if screen is not None and known.get("chains", True):
        rows, chains = screen.rows, screen.chains
        still = screen.groups_of(moved == 0) if moved.shape == screen.shape else np.asarray(False)
        if rows < FEWEST_DRAWS:
            mixes.append(few_draws(rows))
        else:
            if figures is None:
                figures = screen.figures(known.get("categorical", False))
            keep = [i for i, (group, _) in enumerate(figures.columns) if not (still[group] if still.ndim else still)]
            kept = Mixing(*(values[keep] for values in figures.mixing))
            mixes += judge_figures([figures.columns[i] for i in keep], figures.sd[keep], kept, rows, chains)
            found += screen.judge(still, known)
            if any(finding is not None and finding.kind == "growth" for finding in found):
                # All else that the figures show is what growing chains look like.
                mixes = [finding for finding in mixes if finding.kind in ("not_finite", "rhat")]
    elif running is not None and known.get("chains", True):
        (columns, sd, mixed), rows, chains, batch = running
        mixes += judge_figures(columns, sd, mixed, rows, chains)
        found.append(None if batch is None else judge_batches(columns, mixed.ess_bulk, rows * chains, batch))
    found.append(judge_acceptance(accepted, known.get("optimal_acceptance"), _slow(mixes, accepted.shape[:-1])))
    if "energy" in statistics:
        found.append(judge_energy(to_host(_last(statistics["energy"])).astype(np.float64)))

    one_of_a_kind: dict[str, Finding] = {}
    for finding in (*found, *mixes):
        if finding is not None:
            one_of_a_kind.setdefault(finding.kind, finding)
    return tuple(one_of_a_kind.values())


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


def category(finding: Finding) -> type[DiagnosisWarning]:
    """The class of the warning that tells of a finding."""
    if finding.kind == "divergences":
        return DivergenceWarning
    return RepellenceWarning if finding.kind.startswith("tilt") else ConvergenceWarning


def _last(rows: Array | StoredRows) -> Array:
    """All rows, or of those in a store as many of the last ones as are copied as a whole."""
    return rows[-max(2, COPIED // math.prod(rows.shape[1:])) :, ...] if isinstance(rows, StoredRows) else rows


def worst(draws: Array | StoredColumns, categorical: bool = False) -> tuple[float, float]:
    """The least ESS (bulk or tail) of the columns that look worst, and the largest R-hat; nan if there is none.

    Parameters
    ----------
    draws : array or StoredColumns, shape (draw, *chains, dim)
    categorical : bool
        Whether coordinates are names of states: each state then has a column, of its indicator.
    """
    screen = Screen(draws, [""] * draws.shape[-1])
    if screen.rows < FEWEST_DRAWS:
        return math.nan, math.nan
    found = screen.figures(categorical, longest=screen.rows).mixing
    with np.errstate(all="ignore"):
        least = np.fmin(found.ess_bulk, found.ess_tail)
    return (
        float(np.min(least)) if least.size and not np.any(np.isnan(least)) else math.nan,
        float(np.max(found.rhat)) if found.rhat.size else math.nan,
    )


class Screen:
    """All columns of a run at some draws, from which those are chosen that are looked at closely.

    Parameters
    ----------
    draws : array or StoredColumns, shape (draw, *chains, dim)
    names : sequence of str
        Of the coordinates.
    """

    def __init__(self, draws: Array | StoredColumns, names: Sequence[str]) -> None:
        size = math.prod(draws.shape)
        self._draws = draws if size > COPIED else _part(draws, slice(None), slice(None))
        self._names, self.rows, self.shape = names, draws.shape[0], draws.shape[1:-1]
        *self.groups, self.chains = draws.shape[1:-1] or (1,)
        row = size // self.rows
        most_rows = max(FEWEST_ROWS, SCREENED // row)
        self.step = -(-self.rows // most_rows)
        shown = -(-self.rows // self.step)
        self._each = -(-row * shown // SCREENED) if row * shown > SCREENED else 1  # coordinates, where rows are long
        self._each = min(self._each, draws.shape[-1])
        self._shown = _part(self._draws, slice(None, None, self.step), slice(None, None, self._each))
        self.values = self._columns(self._shown.astype(np.float64))
        first = min(self.rows // 4, FIRST_ROWS, most_rows)
        self.first = self._columns(_part(self._draws, slice(first), slice(None, None, self._each)).astype(np.float64))
        self.coordinates = range(0, draws.shape[-1], self._each)

    @property
    def columns(self) -> list[Column]:
        """Of `values`."""
        return self._named(self._names[i] for i in self.coordinates)

    def region(self, diverged: Array) -> str:
        """Where divergent steps, (draw, *chains), are; see `region_of`."""
        names = [self._names[i] for i in self.coordinates]
        return region_of(names, self._shown.astype(np.float64), to_host(diverged[:: self.step, ...]).astype(bool))

    def groups_of(self, mask: np.ndarray) -> np.ndarray:
        """Whether a mask (*chains) holds for all chains of a group, (*groups)."""
        return np.all(mask, axis=-1) if mask.ndim else mask

    def judge(self, still: np.ndarray, known: Mapping[str, Any]) -> list[Finding | None]:
        """The rules that compare chains and parts of the run, for groups that are not `still` (*groups)."""
        columns = self.columns
        keep = [i for i, (group, _) in enumerate(columns) if not (still[group] if still.ndim else still)]
        columns, first, values = [columns[i] for i in keep], self.first[..., keep], self.values[..., keep]
        with np.errstate(all="ignore"):
            means, sds = np.mean(values, axis=0), np.std(values, axis=0)
        return [
            judge_modes(columns, means, sds),
            None if known.get("adjusted", True) else judge_growth(columns, values),
            judge_start(columns, first, values[len(values) // 2 :], known.get("tilted", False)),
        ]

    def figures(self, categorical: bool = False, longest: int = LONGEST) -> Figures:
        """Figures of the columns that look worst: as many as `MEASURED` values allow, four at least.

        A column looks bad where the means of half chains differ much for the variance in these, which they do the more
        the higher the autocorrelation, and where it is constant or not finite.
        """
        columns, half = self.columns, len(self.values) // 2
        with np.errstate(all="ignore"):
            halves = self.values[:half], self.values[half:]
            means, within = (np.concatenate([f(part, axis=0) for part in halves]) for f in (np.mean, np.var))
            looks = np.var(means, axis=0) / np.mean(within, axis=0)
        order = np.argsort(-np.where(np.isnan(looks), np.inf, looks), kind="stable")
        chains = min(self.chains, MOST_CHAINS)
        each = min(self.rows, longest) * chains
        order = np.sort(order[: max(4, MEASURED // each)])
        some, every = self._chosen(order, chains, longest)
        names = [columns[i] for i in order]
        if categorical:
            names, some, every = indicators(names, some, every)
        found = mixing(some, every)
        scale = self.chains / chains
        found = found._replace(ess_bulk=scale * found.ess_bulk, ess_tail=scale * found.ess_tail)
        sd = spread(some if every is None else every)
        return Figures(names, sd, found)

    def _chosen(self, columns: np.ndarray, chains: int, longest: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Draws of some columns, (draw, chain, column): of some chains, and with many also some draws of all chains."""
        groups = math.prod(self.groups)
        at = [divmod(int(i), len(self.coordinates)) for i in columns]
        wanted = sorted({int(self.coordinates[j]) for _, j in at})
        step = -(-self.rows // longest)

        def of(step: int, chosen: np.ndarray | None = None) -> np.ndarray:
            part = _part(self._draws, slice(None, None, step), wanted, chosen)
            host = np.reshape(part, (part.shape[0], groups, -1, len(wanted)))
            picked = [host[:, group, :, wanted.index(int(self.coordinates[j]))] for group, j in at]
            return np.stack(picked, axis=-1).astype(np.float64)

        if self.chains < MANY_CHAINS:
            return of(step), None
        few = np.linspace(0, self.chains - 1, chains).round().astype(int)
        most, seen = max(32, 2**14 // self.chains), len(range(0, self.rows, step))
        return of(step, few), of(step * -(-seen // most))

    def _named(self, names: Any) -> list[Column]:
        names = list(names)
        return [(group if self.groups else (), name) for group in np.ndindex(*self.groups) for name in names]

    def _columns(self, host: np.ndarray) -> np.ndarray:
        """Draws as (draw, chain, group and coordinate)."""
        host = np.reshape(host, (host.shape[0], math.prod(self.groups), self.chains, host.shape[-1]))
        return np.reshape(np.swapaxes(host, 1, 2), (host.shape[0], self.chains, host.shape[1] * host.shape[-1]))


def _part(
    draws: Array | StoredColumns, rows: slice, columns: slice | Sequence[int], chains: np.ndarray | None = None
) -> np.ndarray:
    """Some rows of some columns, on the host; of the last chain axis all, or those given."""
    if isinstance(draws, StoredColumns):
        return draws.read(rows, columns, chains)
    if isinstance(columns, slice) or len(columns) == draws.shape[-1]:
        part = to_host(draws[rows, ..., columns if isinstance(columns, slice) else slice(None)])
    elif isinstance(draws, np.ndarray):
        part = draws[rows, ..., columns]
    else:
        part = draws[rows, ...]
        part = to_host(array_namespace(draws).stack([part[..., i] for i in columns], axis=-1))
    return part if chains is None else part[..., chains, :]


def indicators(
    columns: Sequence[Column], some: np.ndarray, every: np.ndarray | None = None
) -> tuple[list[Column], np.ndarray, np.ndarray | None]:
    """Columns of states as columns of indicators, one for each state that occurs: ``x[0]=2`` is 1 where x[0] is 2.

    Parameters
    ----------
    columns : sequence of (group, name)
    some, every : numpy.ndarray, shape (draw, chain, column)
        Draws of the same columns, and perhaps more of them. A column of more than 64 states stays as it is.
    """
    names: list[Column] = []
    parts = [some] if every is None else [some, every]
    built: list[list[np.ndarray]] = [[] for _ in parts]
    for i, (group, name) in enumerate(columns):
        states = np.unique(np.concatenate([np.unique(part[..., i]) for part in parts]))
        many = len(states) > MOST_STATES
        for state in [None] if many else states:
            names.append((group, name if many else f"{name}={state:g}"))
            for part, into in zip(parts, built, strict=True):
                into.append(part[..., i] if many else (part[..., i] == state).astype(np.float64))
    first, *more = (np.stack(into, axis=-1) for into in built)
    return names, first, more[0] if more else None


def _is_categorical(space: Space, dim: int) -> bool:
    """Whether coordinates are names of states, whose order and distances mean nothing."""
    if isinstance(space, Permutations):
        return True
    return isinstance(space, Discrete) and space.choices > 2 and space.variables(dim) == dim


def _slow(findings: Sequence[Finding], groups: tuple[int, ...]) -> np.ndarray:
    """Which groups have a low ESS, (*groups)."""
    slow = np.zeros(groups, dtype=bool)
    for finding in findings:
        if finding.kind == "ess_bulk":
            for group in finding.groups or [()]:
                slow[group] = True
    return slow


def _divergences(
    run_statistics: RunStatistics, statistics: Mapping[str, Array], screen: Screen | None
) -> Finding | None:
    diverged, region = np.asarray(run_statistics.diverged), ""
    rows = statistics.get("diverged")
    if (
        screen is not None
        and rows is not None
        and tuple(rows.shape) == (screen.rows, *screen.shape)
        and np.any(diverged)
    ):
        region = screen.region(rows)
    return judge_divergences(diverged, run_statistics.steps, region)
