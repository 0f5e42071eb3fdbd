"""The figures of the score-mh-toys experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

SHOWN = ("data", "ULA", "RW direct", "MALA direct", "MALA ratio", "MALA line", "pCN direct")
COLOURS = {"": "#202020", "direct": "#B3440A", "ratio": "#D98A2B", "line": "#3567A8", "Taylor": "#3B7A57"}


def plot_draws(path: Path, shown: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Draw the chains' last positions, a row for each data set.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of str to mapping
        By data set and sampler, positions (runs, chains, 2); those of the first training are drawn.
    """
    figure = Figure(figsize=(2.1 * len(SHOWN), 2.2 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(shown), len(SHOWN), squeeze=False)
    for axes, (name, draws) in zip(grid, shown.items(), strict=True):
        data = draws["data"].reshape(-1, 2)
        middle, half = 0.5 * (data.max(axis=0) + data.min(axis=0)), 0.6 * np.ptp(data, axis=0)
        for ax, sampler in zip(axes, SHOWN, strict=True):
            if sampler != "data":
                ax.plot(data[:, 0], data[:, 1], ".", color="#d5dfe8", ms=1.5)
            x = draws[sampler][0]
            ax.plot(x[:, 0], x[:, 1], ".", color="#202020", ms=1.5)
            ax.set(xlim=(middle[0] - half[0], middle[0] + half[0]), ylim=(middle[1] - half[1], middle[1] + half[1]))
            ax.set(xticks=[], yticks=[])
            ax.set_title(sampler, fontsize=9)
        axes[0].set_ylabel(name)
    figure.savefig(path, dpi=70, metadata={"Software": ""})


def plot_sweeps(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw W1 against the step size for each data set, and acceptance against lambda.

    Parameters
    ----------
    path : path
        Of the PNG file.
    rows : sequence of mapping
        Of the parts "steps" and "settings"; of these the ones with clipping and global pairs.
    """
    steps = [row for row in rows if row["part"] == "steps"]
    names = list(dict.fromkeys(row["dataset"] for row in steps))
    weights = [r for r in rows if r["part"] == "settings" and r["max_norm"] is not None and r["pairs"] == "global"]
    panels = 2 * len(names) + bool(weights)
    figure = Figure(figsize=(4.2 * panels, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for name in names:
        for start in ("normal", "data"):
            ax = axes.pop(0)
            own = [row for row in steps if row["dataset"] == name]
            for label, colour in COLOURS.items():
                curve = [row for row in own if row["acceptance"] == label]
                _curve(ax, curve, "epsilon", f"w1_{start}", f"MALA {label}" if label else "ULA", colour)
            # What ULA's chains that went far out give is above the axes.
            shown = [row[f"w1_{start}"] for row in own if row["acceptance"]]
            epsilons = sorted({row["epsilon"] for row in own})
            ax.set(xscale="log", yscale="log", xlabel="epsilon", title=f"{name}: W1, starts: {start}")
            ax.set_ylim(0.5 * min(shown), 2.0 * max(shown))
            ax.minorticks_off()
            ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
            ax.legend(frameon=False, fontsize=8)
    if weights:
        for label in ("direct", "ratio"):
            curve = [row for row in weights if row["acceptance"] == label]
            _curve(axes[0], curve, "lambda", "accept", f"chains, {label}", COLOURS[label])
        _curve(
            axes[0], [r for r in weights if r["acceptance"] == "direct"], "lambda", "grid_acceptance", "a on the grid"
        )
        axes[0].set(xlabel="lambda", title="moons, Score-RW: mean acceptance", ylim=(0, 1))
        axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=70, metadata={"Software": ""})


def _curve(axes: Axes, rows: Sequence[Mapping[str, Any]], x: str, y: str, label: str, colour: str = "#606060") -> None:
    axes.plot([row[x] for row in rows], [row[y] for row in rows], "o-", color=colour, ms=4, label=label)
    axes.spines[["top", "right"]].set_visible(False)
