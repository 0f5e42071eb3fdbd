"""The figure of srmc-strength and srmc-sweeps: ratios of errors against a strength."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.table import Row

COLOURS = ("#000000", "#E69F00", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LIMITS = (0.01, 100.0)
"""Of the ratios shown; a curve leaves the frame where it is outside."""


def plot_ratios(
    figure: Any, rows: Sequence[Row], panel: Callable[[Row], str], curve: Callable[[Row], str], x: str, label: str
) -> None:
    """Draw ``ratio`` with ``low`` and ``high`` against `x`, a panel for each title and a curve for each name of rows.

    Of the first place only, and of strengths above 0.
    """
    panels: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row["place"] == rows[0]["place"] and row[x] > 0:
            panels.setdefault(panel(row), {}).setdefault(curve(row), []).append(row)
    columns = min(3, len(panels)) if len(panels) != 4 else 2
    lines = -(-len(panels) // columns)
    figure.set_size_inches(4.8 * columns, 3.8 * lines)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (heading, curves) in zip(grid, panels.items(), strict=False):
        axes.axhline(1.0, color="#999999", linewidth=1, linestyle="--")
        for i, (name, points) in enumerate(curves.items()):
            at = [row[x] * 1.03 ** (i - len(curves) / 2) for row in points]  # side by side where they agree
            # Cut well outside the frame, so that no scale overflows.
            values = [[row[key] for row in points] for key in ("ratio", "low", "high")]
            ratio, low, high = np.clip(values, 0.01 * LIMITS[0], 100 * LIMITS[1])
            spread = (np.maximum(ratio - low, 0.0), np.maximum(high - ratio, 0.0))
            style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
            axes.errorbar(at, ratio, spread, **style, markersize=4, linewidth=1.3, label=name)
        axes.set(xscale="log", yscale="log", ylim=LIMITS, xlabel=label, ylabel="MSE over that of the base kernel")
        axes.set_title(heading, loc="left", fontsize=11, fontweight="bold")
        axes.grid(which="major", color="#e5e5e5", linewidth=0.6)
        axes.legend(frameon=False, fontsize=8)
        tidy(axes)
    for axes in grid[len(panels) :]:
        axes.axis("off")
