"""Summaries of a trace: mean, interval, standard error, ESS and R-hat of every coordinate, and their warnings."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import FEWEST_DRAWS, MANY_CHAINS, Mixing, ensemble_means, mcse_mean, mixing
from xpsample.diagnostics.coordinates import Figures, centred, circular_mean, circular_sd, indicators, spread
from xpsample.diagnostics.diagnosis import RunStatistics, diagnose
from xpsample.diagnostics.findings import LARGEST_RHAT, Finding, least_ess
from xpsample.trace.conversions import installed
from xpsample.trace.stored import StoredColumns, column_blocks

INTERVAL = 0.05, 0.95  # Probabilities of the default interval of a table

ROWS_SHOWN, FEWEST_SHOWN = 30, 6  # Rows of a table, and of each group where there are several

OF_PARTICLES = "these are particles, which may have weights or not have arrived: the table counts all draws alike"

COLUMNS = ("mean", "sd", "low", "high", "mcse", "ess_bulk", "ess_tail", "rhat")


@dataclass(frozen=True, eq=False)
class Summary:
    """Per-coordinate summary of a trace; ``str()`` gives a table, and below it what to be wary of.

    The row of an unreliable coordinate ends with the names of its bad figures.

    Attributes
    ----------
    names : tuple of str
        Names of the coordinates. If they are states of a discrete space, of which a variable has more than two, a
        name such as ``x[0]=2`` stands for the indicator of a state, and its mean is the state's probability.
    mean, sd, mcse : numpy.ndarray, shape (*groups, dim)
        Mean, standard deviation and Monte Carlo standard error of the mean, in the unit of the coordinate. Those of an
        angle, a value of the space `Circular`, are circular: the mean is the direction of the mean point of the circle.
    low, high : numpy.ndarray, shape (*groups, dim)
        Ends of the interval: quantiles of the draws. Those of an angle are quantiles of its difference from the mean,
        plus the mean. nan for a run that keeps no draws.
    ess_bulk, ess_tail : numpy.ndarray, shape (*groups, dim)
        Rank-normalized effective sample sizes of the bulk and of the 5 % and 95 % tails (the smaller one), in draws;
        nan for a coordinate in which no chain moves or that is not finite, and for fewer than ten draws. For a run that
        keeps no draws they are from `Moments` and `BatchMeans`: the ESS of the mean, and none of the tails.
    rhat : numpy.ndarray, shape (*groups, dim)
        R-hat; nan for a coordinate that is constant or not finite.
    method : str
        Which R-hat it is: split, or nested for 32 chains or more.
    draws, chains : int
        Draws per chain, and number of chains of each group; or of ensembles, each of which counts as one chain.
    run_statistics : RunStatistics
        Acceptance, divergences and evaluations of the run.
    findings : tuple of Finding
        What is wrong with the run, as `Trace.diagnose` gives it, but from the figures of all coordinates.
    particles : bool
        Whether the draws are of particles, which may have weights or not have arrived: all draws count alike here.
    walkers : int
        Walkers of each ensemble, if chains depend on one another; otherwise 1.
    interval : tuple of float
        Probabilities of the quantiles `low` and `high`.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mcse: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray
    method: str
    draws: int
    chains: int
    run_statistics: RunStatistics
    findings: tuple[Finding, ...] = ()
    particles: bool = False
    walkers: int = 1
    interval: tuple[float, float] = INTERVAL

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [f"{'':{width}}" + "".join(f"{name:>11}" for name in self._titles)]
        groups = self.mean.shape[:-1]
        for group in np.ndindex(*groups):
            if groups:
                lines.append(f"group {group[0] if len(group) == 1 else group}")
            lines += self._rows(group, width, max(FEWEST_SHOWN, ROWS_SHOWN // int(np.prod(groups))))
        run_statistics = self.run_statistics
        acceptance = run_statistics.acceptance_probability
        spread = f" ({np.min(acceptance):.3g} to {np.max(acceptance):.3g})" if np.size(acceptance) > 1 else ""
        divergences, steps = int(np.sum(run_statistics.diverged)), run_statistics.steps * np.size(acceptance)
        evaluations = ", ".join(f"{count:.4g} {name}" for name, count in run_statistics.evaluations.items())
        of_groups = f" in each of {int(np.prod(groups))} groups" if groups else ""
        lines += [
            f"{self.draws} draws of {self._chains}{of_groups}",
            f"ESS and R-hat: {self.method}",
            f"acceptance probability {np.mean(acceptance):.3g}{spread}, moved {np.mean(run_statistics.moved):.3g}",
            f"divergences: {divergences} in {steps} steps",
            f"evaluations per step and chain: {evaluations or 'none counted'}",
        ]
        lines += [f"note: {OF_PARTICLES}"] if self.particles else []
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    def _repr_html_(self) -> str:
        """The table in a notebook, with bad rows in bold and what is wrong below it."""
        groups = self.mean.shape[:-1]
        most = max(FEWEST_SHOWN, ROWS_SHOWN // max(1, int(np.prod(groups))))
        rows = []
        for group in np.ndindex(*groups):
            label = f"group {', '.join(map(str, group))}" if groups else ""
            shown = list(self._figures(group))
            for name, figures, bad in shown[:most]:
                cells = "".join(f"<td>{value:.4g}</td>" for value in figures)
                style = ' style="font-weight: bold"' if bad else ""
                rows.append(f"<tr{style}><th>{escaped(name)}</th>{cells}<td>{', '.join(bad)}</td><td>{label}</td></tr>")
            if len(shown) > most:
                rows.append(f"<tr><td>... {len(shown) - most} more</td></tr>")
        head = "".join(f"<th>{name}</th>" for name in self._titles)
        notes = (OF_PARTICLES, *self.warnings) if self.particles else self.warnings
        below = "".join(f"<li>{escaped(text)}</li>" for text in notes)
        return (
            f"<table><thead><tr><th></th>{head}<th></th><th></th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<p>{self.draws} draws of {self._chains}. ESS and R-hat: {self.method}.</p><ul>{below}</ul>"
        )

    def to_dataframe(self) -> Any:
        """The table as a pandas DataFrame: a row for each coordinate, and for each group where there are several.

        Returns
        -------
        pandas.DataFrame
            Columns ``mean``, ``sd``, ``5%``, ``95%`` (or the other `interval`), ``mcse``, ``ess_bulk``, ``ess_tail``,
            ``rhat``; the index has the groups' numbers and the name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = installed("pandas", "to_dataframe() needs pandas: pip install pandas")
        groups = self.mean.shape[:-1]
        columns: dict[str, Any] = {
            title: np.ravel(getattr(self, name)) for title, name in zip(self._titles, COLUMNS, strict=True)
        }
        if not groups:
            return pandas.DataFrame(columns, index=list(self.names))
        index = pandas.MultiIndex.from_tuples([(*group, name) for group in np.ndindex(*groups) for name in self.names])
        return pandas.DataFrame(columns, index=index)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings, a line each, with what to do about it."""
        return tuple(map(str, self.findings))

    @property
    def _titles(self) -> tuple[str, ...]:
        low, high = (f"{100 * p:.10g}%" for p in self.interval)
        return tuple({"low": low, "high": high}.get(name, name) for name in COLUMNS)

    @property
    def _chains(self) -> str:
        kind, more = ("chain", "") if self.walkers == 1 else ("ensemble", f" of {self.walkers} walkers")
        return f"{self.chains} {kind}{'s' * (self.chains != 1)}{more}"

    def _figures(self, group: tuple[int, ...]) -> Iterator[tuple[str, tuple[float, ...], list[str]]]:
        """Name, figures (in the order of the columns) and problems of each row of a group."""
        columns = zip(*(getattr(self, name)[group] for name in COLUMNS), strict=True)
        for name, figures in zip(self.names, columns, strict=True):
            _, sd, _, _, _, *sizes = figures
            yield name, figures, self._bad(sd, *sizes)

    def _rows(self, group: tuple[int, ...], width: int, most: int) -> list[str]:
        """The lines of one group."""
        few = "too few" if self.draws < FEWEST_DRAWS else "-"
        rows = []
        for name, (mean, sd, low, high, mcse, bulk, tail, rhat), bad in self._figures(group):
            sizes = "".join(f"{few:>11}" if np.isnan(size) else f"{size:11.0f}" for size in (bulk, tail))
            marks = f"  ! {', '.join(bad)}" if bad else ""
            rows.append(
                f"{name:{width}}{mean:11.4g}{sd:11.4g}{low:11.4g}{high:11.4g}{mcse:11.3g}{sizes}{rhat:11.3f}{marks}"
            )
        if len(rows) > most:
            rows[most - 2 : -2] = [f"... {len(rows) - most} more coordinates"]
        return rows

    def _bad(self, sd: float, bulk: float, tail: float, rhat: float) -> list[str]:
        """Problems of a row."""
        least = least_ess(self.chains)
        if self.draws < FEWEST_DRAWS:
            return []
        cases = {
            "not finite": not np.isfinite(sd),
            "constant": np.isfinite(sd) and np.isnan(bulk) and (sd == 0 or np.isinf(rhat)),
            "rhat": rhat > LARGEST_RHAT,
            "ess_bulk": bulk < least,
            "ess_tail": tail < least,
        }
        return [name for name, case in cases.items() if case]


def side_by_side(tables: Sequence[Summary]) -> Summary:
    """The coordinates of several tables of a run in one; without findings."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(table, name) for table in tables], axis=-1) for name in COLUMNS
    }
    return replace(tables[0], names=tuple(name for table in tables for name in table.names), **columns)


def summarize(
    draws: np.ndarray,
    names: Sequence[str],
    run_statistics: RunStatistics,
    angles: Sequence[int] = (),
    walkers: int = 1,
    interval: tuple[float, float] = INTERVAL,
) -> Summary:
    """Summarize host draws, ``(draw, *groups, chain, dim)``, of which some columns are `angles`; without findings.

    Each `walkers` consecutive chains are an ensemble. The `interval` is a pair of probabilities.
    """
    n, *groups, chains, dim = draws.shape
    values = np.reshape(np.moveaxis(draws, -2, 1), (n, chains, -1))

    def of_groups(column: np.ndarray) -> np.ndarray:
        return np.reshape(column, (*groups, dim))

    count = n * chains
    with np.errstate(all="ignore"):  # coordinates that are not finite get nan
        mean = np.mean(values, axis=(0, 1))
        sd = spread(values) * np.sqrt(count / (count - 1 if count > 1 else np.nan))
    around = np.isin(np.arange(values.shape[-1]) % dim, angles) & np.isfinite(sd)
    if np.any(around):
        mean[around], sd[around] = circular_mean(values[..., around]), circular_sd(values[..., around])
        values = np.where(around, centred(values, np.where(around, mean, 0.0)), values)
    low, high = np.where(around, mean, 0.0) + _quantiles(np.reshape(values, (count, -1)), interval)
    mcse = np.asarray(mcse_mean(ensemble_means(values, walkers)))
    bulk, tail, rhat = mixing(values, walkers=walkers)
    no_ess = np.isnan(mcse)
    stuck = no_ess & np.isfinite(rhat) & (n >= FEWEST_DRAWS)
    chains = chains // walkers
    kind = "nested" if chains >= MANY_CHAINS else "split"
    return Summary(
        names=tuple(names),
        mean=of_groups(mean),
        sd=of_groups(sd),
        low=of_groups(low),
        high=of_groups(high),
        mcse=of_groups(mcse),
        ess_bulk=of_groups(np.where(no_ess, np.nan, bulk)),
        ess_tail=of_groups(np.where(no_ess, np.nan, tail)),
        rhat=of_groups(np.where(stuck, np.inf, rhat)),
        method=f"rank-normalized, {kind} R-hat{', each ensemble as one chain' if walkers > 1 else ''}",
        draws=n,
        chains=chains,
        run_statistics=run_statistics,
        walkers=walkers,
        interval=interval,
    )


def _quantiles(values: np.ndarray, probabilities: Sequence[float]) -> np.ndarray:
    """Quantiles of each column, (probability, column), interpolated as by NumPy; nan if a value is not finite."""
    at = np.asarray(probabilities) * (len(values) - 1)
    below = np.floor(at).astype(int)
    above = np.minimum(below + 1, len(values) - 1)
    rows = np.partition(np.ascontiguousarray(values.T), np.unique([below, above]), axis=-1)
    found = rows[:, below] + (at - below) * (rows[:, above] - rows[:, below])
    return np.where(np.all(np.isfinite(values), axis=0), found.T, np.nan)


def checked_interval(interval: Sequence[float]) -> tuple[float, float]:
    """Two increasing probabilities; a TraceError otherwise."""
    try:
        low, high = map(float, interval)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not 0.0 <= low < high <= 1.0:
        raise TraceError(f"interval must be two increasing probabilities, such as (0.05, 0.95); got {interval!r}")
    return low, high


def escaped(text: str) -> str:
    """Text as HTML shows it."""
    from html import escape  # for notebooks alone

    return escape(text)


class _Groups:
    """Chain axes of which some are groups, and all others are pooled; but for the last one, if it is of walkers."""

    def __init__(self, by: int | Sequence[int] | None, axes: int, ensembles: bool) -> None:
        self.axes, self.walkers, self.usual = axes, ensembles, tuple(range(axes - 2 if ensembles else axes - 1))
        self.groups = self.usual if by is None else tuple(by) if isinstance(by, Sequence) else (by,)
        known = all(isinstance(i, int) and 0 <= i < axes for i in self.groups)
        if not known or len(set(self.groups)) < len(self.groups):
            raise TraceError(f"by must name chain axes, of which there are {axes}; got {by!r}")
        if ensembles and axes - 1 in self.groups:
            raise TraceError(f"by names the walkers of an ensemble, axis {axes - 1}, which are one chain; got {by!r}")

    def first(self, values: np.ndarray, before: int) -> np.ndarray:
        """The groups' axes first, and one axis of the chains that are pooled; `before` axes are in front of them.

        An axis of walkers stays behind that.
        """
        others = [i for i in range(self.axes) if i not in self.groups]
        order = [*self.groups, *others]
        values = np.moveaxis(values, [i + before for i in order], range(before, before + self.axes))
        kept, end = values.shape[: before + len(self.groups)], before + self.axes - self.walkers
        return np.reshape(values, (*kept, -1, *values.shape[end:]))

    def of_run(self, run_statistics: RunStatistics, chains: tuple[int, ...]) -> RunStatistics:
        """Run statistics of the chains, arranged; unchanged if they have other axes."""
        if np.shape(run_statistics.moved) != chains:
            return run_statistics
        return replace(
            run_statistics,
            acceptance_probability=self.first(run_statistics.acceptance_probability, 0),
            moved=self.first(run_statistics.moved, 0),
            diverged=self.first(run_statistics.diverged, 0),
        )


def tabulate(
    columns: Array | StoredColumns,
    labels: Sequence[str],
    run_statistics: RunStatistics,
    statistics: Mapping[str, Array],
    known: Mapping[str, Any],
    angles: Sequence[int],
    by: int | Sequence[int] | None,
    interval: tuple[float, float],
) -> Summary:
    """The table of all columns, (draw, *chains, column), with findings from its figures.

    Columns have labels, and some are angles. The statistics are of every draw, and `known` is the result of
    `xpsample.trace.diagnosis.about`. `by` are the chain axes that are groups: all but the last when not given.
    """
    shape = tuple(columns.shape[:-1])
    ensembles = known.get("ensembles", False)
    chains = _Groups(by, len(shape) - 1, ensembles)
    judged: Array | StoredColumns
    parts: Iterable[np.ndarray]
    if isinstance(columns, StoredColumns):
        if chains.groups != chains.usual:
            raise TraceError("the table of draws in a store has the groups of the run: omit by, or use to_arviz()")
        judged, parts = columns, (chains.first(part, 1) for part in columns.blocks())
    else:
        judged = host = chains.first(to_host(columns), 1)
        parts = column_blocks(host)
    tables, seen = [], 0
    for rows in (part.astype(np.float64) for part in parts):
        start, seen = seen, seen + rows.shape[-1]
        around = [i - start for i in angles if start <= i < seen]
        names = labels[start:seen]
        if known.get("categorical"):  # columns of names of states become columns of indicators
            states, flat, _ = indicators([((), name) for name in names], np.reshape(rows, (-1, 1, rows.shape[-1])))
            names, rows = [name for _, name in states], np.reshape(flat, (*rows.shape[:-1], len(states)))
        walkers = rows.shape[-2] if ensembles else 1
        rows = np.reshape(rows, (*rows.shape[:-3], -1, rows.shape[-1])) if ensembles else rows
        tables.append(summarize(rows, names, run_statistics, around, walkers, interval))
    summary = side_by_side(tables)
    every = [(group, name) for group in np.ndindex(*summary.mean.shape[:-1]) for name in summary.names]
    mixing = Mixing(*(np.ravel(values) for values in (summary.ess_bulk, summary.ess_tail, summary.rhat)))
    by_step: dict[str, Any] = {
        name: values if judged is columns else chains.first(to_host(values), 1)
        for name, values in statistics.items()
        if tuple(values.shape) == shape
    }
    own = chains.of_run(run_statistics, shape[1:])
    figures = Figures(every, np.ravel(summary.sd), mixing)
    return replace(summary, findings=diagnose(judged, labels, own, by_step, known, figures, angles=angles))
