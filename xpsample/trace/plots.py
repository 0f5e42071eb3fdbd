"""Plots of a trace, with matplotlib: marginals next to paths, ranks, pairs, and the warm-up."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.trace.conversions import installed, one_chain_axis
from xpsample.trace.stored import StoredColumns

COLUMNS_SHOWN, PAIRS_SHOWN = 8, 5  # Columns that are drawn where none are named

# Most chains with a separate line, and most draws shown of a chain, or of all chains in a pair.
CHAINS_SHOWN, POINTS = 8, 2000

BINS = 20  # Bars of a chain's ranks

DIVERGENT = "#c0392b"


class Plotted(NamedTuple):
    """Plotted values: draws (draw, chain, column) on the host, what columns are called, and which draws diverged."""

    draws: np.ndarray
    names: tuple[str, ...]
    diverged: np.ndarray


def plot(kind: str, columns: Any, labels: Sequence[str], names: Sequence[str] | None, diverged: Any) -> Any:
    """A picture of some columns of draws ``(draw, *chains, column)``; `diverged` may be None."""
    if kind not in PLOTS:
        raise TraceError(f"kind must be one of {', '.join([*PLOTS, 'warmup'])}; got {kind!r}")
    function, most = PLOTS[kind]
    chosen = select(labels, [names] if isinstance(names, str) else names, most)
    rows = slice(None)
    if isinstance(columns, StoredColumns):
        # At most 2^24 values are read from a store.
        rows = slice(None, None, -(-int(np.prod(columns.shape[:-1])) * len(chosen) // 2**24))
        values = columns.read(rows, chosen)
    else:
        values = to_host(columns)[..., chosen]
    draws = one_chain_axis(values, columns.ndim - 2)
    marked = np.zeros(draws.shape[:2], dtype=bool)
    if diverged is not None:
        marked = np.reshape(to_host(diverged[rows, ...]), marked.shape)
    figure = function(Plotted(draws, tuple(labels[i] for i in chosen), marked))
    if names is None and len(chosen) < len(labels):
        figure.suptitle(
            f"the first {len(chosen)} of {len(labels)} coordinates; others by names=[...]", fontsize="small"
        )
    return figure


def select(labels: Sequence[str], names: Sequence[str] | None, most: int) -> list[int]:
    """The columns of the names given; ``theta`` stands for ``theta[0]``, ``theta[1]`` and so on. The first ones of all
    where no names are given.
    """
    if names is None:
        return list(range(min(most, len(labels))))
    found = []
    for name in names:
        own = [i for i, label in enumerate(labels) if label == name or label.startswith(f"{name}[")]
        if not own:
            raise TraceError(f"there is no column {name!r} to plot; there are {', '.join(labels[:20])}")
        found += own
    return found


def plot_trace_dist(shown: Plotted) -> Any:
    """Each column's marginal, a line for each chain, next to the path of the chains. Divergences are ticks below."""
    draws, names, diverged = shown
    figure, axes = _subplots(len(names), 2, 9.0, 1.7 * len(names) + 0.4)
    chains = _spread_out(draws.shape[1], CHAINS_SHOWN)
    every = _spread_out(len(draws), POINTS)
    for row, name in zip(range(len(names)), names, strict=True):
        marginal, path = axes[row]
        values = draws[:, :, row]
        for chain in chains:
            marginal.stairs(*np.histogram(values[:, chain], _bins(values), density=True), lw=1)
            path.plot(every, values[every, chain], lw=0.5)
        if np.any(diverged):
            floor = path.get_ylim()[0]
            steps = np.nonzero(np.any(diverged, axis=1))[0]
            path.plot(steps, np.full(len(steps), floor), "|", color=DIVERGENT, clip_on=False)
        marginal.set(title=name, yticks=())
        path.set(title=name, xlim=(0, max(1, len(draws) - 1)))
    axes[-1][1].set_xlabel(_caption("draw", len(chains), draws.shape[1]))
    return figure


def plot_rank(shown: Plotted) -> Any:
    """The ranks of each chain's draws among the draws of all chains: even bars where the chains agree.

    Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Analysis 16 (2021) 667-718, section 4.3.
    """
    draws, names, _ = shown
    rows = (len(names) + 1) // 2
    figure, axes = _subplots(rows, 2, 9.0, 2.0 * rows + 0.4)
    chains = _spread_out(draws.shape[1], CHAINS_SHOWN)
    for panel, name, values in zip(axes.flat, names, np.moveaxis(draws, -1, 0), strict=False):
        shares = np.argsort(np.argsort(values, axis=None), axis=None).reshape(values.shape) / values.size
        for chain in chains:
            counts, edges = np.histogram(shares[:, chain], BINS, (0.0, 1.0))
            panel.stairs(counts * BINS / len(values), edges, lw=1)
        panel.axhline(1.0, color="0.5", lw=1, ls="--")
        panel.set(title=name, xlim=(0, 1), ylim=(0, None))
    for panel in axes.flat[len(names) :]:
        panel.set_visible(False)
    axes.flat[max(0, len(names) - 1)].set_xlabel(_caption("rank / number of draws", len(chains), draws.shape[1]))
    return figure


def plot_pair(shown: Plotted) -> Any:
    """The draws of each two columns, with divergent ones in red, and each column's marginal."""
    draws, names, diverged = shown
    n = len(names)
    figure, axes = _subplots(n, n, 1.7 * n + 0.6, 1.7 * n + 0.4)
    flat, bad = draws.reshape(-1, n), np.nonzero(diverged.reshape(-1))[0]
    some = _spread_out(len(flat), POINTS)
    for i in range(n):
        for j in range(n):
            panel = axes[i][j]
            if j > i:
                panel.set_visible(False)
                continue
            if i == j:
                panel.stairs(*np.histogram(flat[:, i], _bins(flat[:, i]), density=True), color="C0")
                panel.set_yticks(())
            else:
                panel.plot(flat[some, j], flat[some, i], ".", ms=2, alpha=0.4, color="C0", rasterized=True)
                panel.plot(flat[bad, j], flat[bad, i], ".", ms=4, color=DIVERGENT)
            if i == n - 1:
                panel.set_xlabel(names[j])
            if j == 0 and i:
                panel.set_ylabel(names[i])
    return figure


def plot_warmup(path: Mapping[str, np.ndarray]) -> Any:
    """Each tuned value, a line for each group of chains, and the mean acceptance probability, by step."""
    tuned = {name: values for name, values in path.items() if "." in name}
    rows = len(tuned) + 1
    figure, axes = _subplots(rows, 1, 7.0, 1.7 * rows + 0.4)
    for panel, (name, values) in zip(axes.flat, tuned.items(), strict=False):
        lines = values.reshape(len(values), -1)
        panel.plot(lines[:, _spread_out(lines.shape[1], POINTS // 100)], lw=1)
        panel.set(title=name, yscale="log" if np.all(lines > 0) else "linear")
    accepted = path["acceptance_probability"]
    groups = np.mean(accepted, axis=-1) if accepted.ndim > 1 else accepted
    last = axes.flat[-1]
    last.plot(groups.reshape(len(groups), -1), lw=1)
    last.set(title="acceptance probability", xlabel="step of the warm-up", ylim=(0, 1.02))
    return figure


PLOTS: Mapping[str, tuple[Callable[[Plotted], Any], int]] = {
    "trace_dist": (plot_trace_dist, COLUMNS_SHOWN),
    "rank": (plot_rank, COLUMNS_SHOWN),
    "pair": (plot_pair, PAIRS_SHOWN),
}
"""By ArviZ's names; and how many columns each shows where none are named."""


def _leave_open_figure(number: int) -> None:
    """Show nothing of a figure that is open: a notebook shows it at the end of the cell, and would show it twice."""
    pyplot = installed("matplotlib.pyplot", "")
    if not pyplot.fignum_exists(number):
        raise NotImplementedError  # by which IPython shows it in its usual way


def _subplots(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    pyplot = installed("matplotlib.pyplot", 'plot() needs matplotlib: pip install "xpsample[plot]"')
    figure, axes = pyplot.subplots(rows, columns, figsize=(width, height), layout="constrained", squeeze=False)
    figure._ipython_display_ = partial(_leave_open_figure, figure.number)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _spread_out(n: int, most: int) -> np.ndarray:
    """Indices of `most` of `n` things, evenly spread; all where there are no more."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _bins(values: np.ndarray) -> np.ndarray:
    """Edges for a histogram; between whole numbers where there are few of them."""
    finite = values[np.isfinite(values)]
    low, high = (np.min(finite), np.max(finite)) if finite.size else (0.0, 1.0)
    if high - low < 50 and np.all(finite == np.round(finite)):
        return np.arange(low - 0.5, high + 1.0)
    return np.linspace(low, high, 41)


def _caption(what: str, shown: int, chains: int) -> str:
    return what if shown == chains else f"{what} ({shown} of {chains} chains)"
