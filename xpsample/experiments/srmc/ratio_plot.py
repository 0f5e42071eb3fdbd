"""The figures of srmc-strength, srmc-sweeps and srmc-tilts: ratios of errors against a strength."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.table import Row

COLOURS = ("#000000", "#E69F00", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#999933", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
LIMITS = (0.01, 100.0)
"""Limits of the ratios shown; a curve beyond them leaves the frame."""


def plot_ratios(
    figure: Any,
    rows: Sequence[Row],
    panel: Callable[[Row], str | None],
    curve: Callable[[Row], str],
    x: str,
    label: str,
) -> None:
    """Draw ``ratio`` with ``low`` and ``high`` against `x`, a panel for each title and a curve for each name of rows.

    It shows only the first place, strengths above 0, and rows whose title is not None. A name has one color in all
    figures of the same rows, and one legend serves all panels.
    """
    styles = {name: i % len(COLOURS) for i, name in enumerate(dict.fromkeys(map(curve, rows)))}
    panels: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        title = panel(row)
        if title is not None and row["place"] == rows[0]["place"] and row[x] > 0:
            panels.setdefault(title, {}).setdefault(curve(row), []).append(row)
    lines = -(-len(panels) // 2)
    figure.set_size_inches(8.4, 2.8 * lines + 1.0)
    grid = figure.subplots(lines, 2, squeeze=False, sharey=True).ravel()
    handles: dict[str, Any] = {}
    for axes, (heading, curves) in zip(grid, panels.items(), strict=False):
        axes.axhline(1.0, color="#777777", linewidth=1, linestyle="--")
        for i, (name, points) in enumerate(curves.items()):
            at = [row[x] * 1.03 ** (i - len(curves) / 2) for row in points]  # side by side where they agree
            # Cut well outside the frame, so that no scale overflows.
            values = [[row[key] for row in points] for key in ("ratio", "low", "high")]
            ratio, low, high = np.clip(values, 0.01 * LIMITS[0], 100 * LIMITS[1])
            spread = (np.maximum(ratio - low, 0.0), np.maximum(high - ratio, 0.0))
            style = {"color": COLOURS[styles[name]], "marker": MARKERS[styles[name]]}
            handles[name] = axes.errorbar(at, ratio, spread, **style, markersize=5, linewidth=1.4, elinewidth=0.8)
        axes.set(xscale="log", yscale="log", ylim=LIMITS)
        axes.set_title(heading, loc="left", fontsize=11)
        strengths = sorted({row[x] for points in curves.values() for row in points})
        axes.set_xticks(strengths, [f"{value:g}" for value in strengths], minor=False)
        axes.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
        axes.minorticks_off()
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        tidy(axes)
    for axes in grid[len(panels) :]:
        axes.axis("off")
    figure.supxlabel(label, fontsize=12)
    figure.supylabel("MSE / the base kernel's MSE", fontsize=11)
    order = sorted(handles, key=lambda name: list(styles).index(name))
    columns = -(-len(order) // 2) if len(order) > 5 else len(order)
    figure.legend(
        [handles[name] for name in order], order, loc="outside upper center", ncols=columns, frameon=False, fontsize=11
    )
