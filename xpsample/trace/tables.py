"""The table of a run's draws: which chain axes are groups, the figures of all coordinates, and what is wrong."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import Mixing
from xpsample.diagnostics.coordinates import Figures, indicators
from xpsample.diagnostics.diagnosis import RunStatistics, diagnose
from xpsample.trace.stored import StoredColumns, column_blocks
from xpsample.trace.summary import Summary, side_by_side, summarize


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
        """Those of the chains, arranged; as they are where they have other axes."""
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
) -> Summary:
    """The table of all columns, (draw, *chains, column), with findings from its figures.

    Columns have labels, and some are angles. The statistics are those of every draw, and `known` is what
    `xpsample.trace.diagnosis.about` gave. `by` are the chain axes that are groups: all but the last when not given.
    """
    shape = tuple(columns.shape[:-1])
    ensembles = known.get("ensembles", False)
    chains = _Groups(by, len(shape) - 1, ensembles)
    judged: Array | StoredColumns
    parts: Iterable[np.ndarray]
    if isinstance(columns, StoredColumns):
        if chains.groups != chains.usual:
            raise TraceError("the table of draws in a store has the groups of the run: leave out by, or use to_arviz()")
        judged, parts = columns, (chains.first(part, 1) for part in columns.blocks())
    else:
        judged = host = chains.first(to_host(columns), 1)
        parts = column_blocks(host)
    tables, seen = [], 0
    for rows in (part.astype(np.float64) for part in parts):
        start, seen = seen, seen + rows.shape[-1]
        around = [i - start for i in angles if start <= i < seen]
        names, rows = _states(labels[start:seen], rows) if known.get("categorical") else (labels[start:seen], rows)
        walkers = rows.shape[-2] if ensembles else 1
        rows = np.reshape(rows, (*rows.shape[:-3], -1, rows.shape[-1])) if ensembles else rows
        tables.append(summarize(rows, names, run_statistics, around, walkers))
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


def _states(names: Sequence[str], rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Columns of names of states as columns of indicators, with what these are called."""
    states, flat, _ = indicators([((), name) for name in names], np.reshape(rows, (-1, 1, rows.shape[-1])))
    return [name for _, name in states], np.reshape(flat, (*rows.shape[:-1], len(states)))
