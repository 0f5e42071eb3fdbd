"""The figure of the srmc-mse experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLOURS = ("#000000", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
TITLES = {
    "gaussian": "Correlated Gaussian",
    "equicorrelated": "Equicorrelated Gaussian",
    "logistic": "Logistic regression",
}
ABOVE = 30.0
"""Panels end at this many times the largest MSE of alpha = 0; what has run away lies above."""


def plot(path: Path, curves: Sequence[Any], alphas: Sequence[float]) -> None:
    """Draw MSE against evaluations into a PNG file, a panel for each target, kernel and scale of the history.

    Parameters
    ----------
    path : path
    curves : sequence of Curve
        As in `xpsample.experiments.srmc.mse`.
    alphas : sequence of float
    """
    by_target = {t: [c for c in curves if c.target == t] for t in dict.fromkeys(c.target for c in curves)}
    columns = max(map(len, by_target.values()))
    figure = Figure(figsize=(4.2 * columns, 4 * len(by_target)), layout="constrained")
    FigureCanvasAgg(figure)  # no window system, whatever the user's matplotlib is set up for
    grid = figure.subplots(len(by_target), columns, squeeze=False)
    for row, of_target in zip(grid, by_target.values(), strict=True):
        for axes, curve in zip(row, of_target, strict=False):
            _panel(axes, curve, alphas)
        for axes in row[len(of_target) :]:
            axes.axis("off")
    colours = zip(COLOURS, alphas, strict=True)
    handles = [Line2D([], [], color=c, linewidth=2.5, label=rf"$\alpha$ = {a:g}") for c, a in colours]
    heading = "mean over the chains,\n95 % intervals"
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=11, title=heading)
    figure.suptitle("Error of the running mean for the work done", fontsize=15, fontweight="bold")
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, curve: Any, alphas: Sequence[float]) -> None:
    top = ABOVE * curve.mse[:, 0].max()
    gone = []
    for k, (alpha, colour) in enumerate(zip(alphas, COLOURS, strict=True)):
        mse, half = curve.mse[:, k], 1.96 * curve.error[:, k]
        if np.min(mse) > top:
            gone.append(f"{alpha:g}")
            continue
        shown = np.isfinite(mse) & np.isfinite(half)
        work, mse, half = (curve.steps * curve.cost[k])[shown], mse[shown], half[shown]
        low = np.maximum(mse - half, 0.05 * mse)  # a logarithm needs it above 0
        axes.plot(work, mse, color=colour, linewidth=1.7)
        axes.fill_between(work, low, mse + half, color=colour, alpha=0.18, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(top=top)
    if gone:
        note = rf"above the frame: $\alpha$ = {', '.join(gone)}"
        axes.text(0.97, 0.97, note, transform=axes.transAxes, ha="right", va="top", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", color="#e5e5e5", linewidth=0.6)
    axes.set_xlabel("scores + hvps past the burn-in, one chain")
    axes.set_ylabel("MSE")
    title = f"{TITLES[curve.target]}, {curve.kernel}, scale {curve.scale:g}"
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
