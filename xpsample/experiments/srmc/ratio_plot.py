"""Ratios of errors against a strength, for srmc-strength and srmc-sweeps; needs matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLOURS = ("#000000", "#E69F00", "#D55E00", "#0072B2", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P")
LIMITS = (0.01, 100.0)
"""Of the ratios shown; a curve leaves the frame where it is outside."""


def plot(path: Path, panels: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], label: str, title: str) -> None:
    """Draw a panel for each title, with a curve for each name, into a PNG file.

    Parameters
    ----------
    path : path
    panels : mapping of str to mapping of str to sequence of mapping
        Rows with ``x``, ``ratio``, ``low``, ``high``, x ascending.
    label, title : str
        Of the horizontal axis, and of the figure.
    """
    columns = min(3, len(panels)) if len(panels) != 4 else 2
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.8 * columns, 3.8 * lines), layout="constrained")
    FigureCanvasAgg(figure)  # no window system, whatever the user's matplotlib is set up for
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (heading, curves) in zip(grid, panels.items(), strict=False):
        _panel(axes, curves)
        axes.set_title(heading, loc="left", fontsize=11, fontweight="bold")
        axes.set_xlabel(label)
        axes.set_ylabel("MSE over that of the base kernel")
    for axes in grid[len(panels) :]:
        axes.axis("off")
    figure.suptitle(title, fontsize=15, fontweight="bold")
    figure.savefig(path, dpi=100)


def _panel(axes: Axes, curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    axes.axhline(1.0, color="#999999", linewidth=1, linestyle="--")
    for i, (name, rows) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        x = [row["x"] * 1.03 ** (i - len(curves) / 2) for row in rows]  # side by side where they agree
        # Cut well outside the frame, so that no scale overflows.
        values = [[row[key] for row in rows] for key in ("ratio", "low", "high")]
        ratio, low, high = np.clip(values, 0.01 * LIMITS[0], 100 * LIMITS[1])
        spread = (np.maximum(ratio - low, 0.0), np.maximum(high - ratio, 0.0))
        marker = MARKERS[i % len(MARKERS)]
        axes.errorbar(x, ratio, spread, color=colour, marker=marker, markersize=4, linewidth=1.3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(*LIMITS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", color="#e5e5e5", linewidth=0.6)
    axes.legend(frameon=False, fontsize=8)
