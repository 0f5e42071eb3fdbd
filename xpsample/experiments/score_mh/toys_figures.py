"""Figures of the planar data sets of the Score-MH paper."""

from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row

STARTS = ("data", "normal")
SHOWN = ("data", "ULA", "RW direct", "MALA direct", "MALA ratio", "MALA line", "pCN direct")
GRID = ((-1.5, 2.25), (-1.0, 1.5))
"""Range of the paper's evaluations of an acceptance, in each coordinate of x'."""
SWEPT = {"w1_normal": "W1, starts: normal", "w1_data": "W1, starts: data", "mmd2_normal": "MMD$^2$, starts: normal"}
COLOURS = {"": "#202020", "direct": "#B3440A", "ratio": "#D98A2B", "line": "#3567A8", "Taylor": "#3B7A57"}


def plot_draws(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """The chains' last positions on the first training, a row for each data set."""
    shown = {name: draws for name, draws in run.shown.items() if name != "maps"}
    if not shown:
        return
    figure.set_size_inches(2.1 * len(SHOWN), 2.2 * len(shown))
    grid = figure.subplots(len(shown), len(SHOWN), squeeze=False)
    for line, (name, draws) in zip(grid, shown.items(), strict=True):
        data = draws["data"].reshape(-1, 2)
        middle, half = 0.5 * (data.max(axis=0) + data.min(axis=0)), 0.6 * np.ptp(data, axis=0)
        (left, bottom), (right, top) = middle - half, middle + half
        for axes, sampler in zip(line, SHOWN, strict=True):
            if sampler != "data":
                axes.plot(*data.T, ".", color="#d5dfe8", ms=1.5)
            axes.plot(*draws[sampler][0].T, ".", color="#202020", ms=1.5)
            axes.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
            axes.set_title(sampler, fontsize=9)
        line[0].set_ylabel(name)


def plot_sweeps(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """W1 from both starts and MMD^2 against the step size, a row for each data set."""
    steps = [row for row in rows if row["part"] == "steps"]
    names = list(dict.fromkeys(row["dataset"] for row in steps))
    if not names:
        return
    figure.set_size_inches(4.2 * len(SWEPT), 3.4 * len(names))
    for line, name in zip(figure.subplots(len(names), len(SWEPT), squeeze=False), names, strict=True):
        own = [row for row in steps if row["dataset"] == name]
        epsilons = sorted({row["epsilon"] for row in own})
        for axes, (key, title) in zip(line, SWEPT.items(), strict=True):
            for label, colour in COLOURS.items():
                curve(axes, own, label, "epsilon", key, f"MALA {label}" if label else "ULA", colour)
            # Values of diverged chains, of ULA and of the learned ratio, are above the axes.
            inside = [row[key] for row in own if row["acceptance"] not in ("", "ratio")]
            axes.set(xscale="log", xlabel="epsilon", title=f"{name}: {title}", ylim=(0.0, 1.4 * max(inside)))
            axes.minorticks_off()
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.legend(frameon=False, fontsize=8)
            tidy(axes)


def plot_weights(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """Acceptance against lambda, with clipping and global pairs."""
    weights = [row for row in rows if row.get("pairs") == "global" and row["max_norm"] is not None]
    if not weights:
        return
    axes = figure.subplots()
    for label in ("direct", "ratio"):
        curve(axes, weights, label, "lambda", "accept", f"chains, {label}", COLOURS[label])
    curve(axes, weights, "direct", "lambda", "grid_acceptance", "a on the grid", "#606060")
    axes.set(xlabel="lambda", title="Score-RW: mean acceptance", ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8)
    tidy(axes)


def plot_maps(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """The first training's a(x', 0) over the grid of x', for each lambda."""
    maps = run.shown.get("maps", {})
    if not maps:
        return
    figure.set_size_inches(3.1 * len(maps) + 0.8, 2.6)
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    for axes, (name, accepted) in zip(panels, maps.items(), strict=True):
        image = axes.imshow(
            accepted.reshape(40, 40).T, origin="lower", extent=(*GRID[0], *GRID[1]), vmin=0, vmax=1, cmap="viridis"
        )
        axes.plot(0, 0, "+", color="white")
        axes.set_title(f"{name}: a(x', 0)", fontsize=9)
    figure.colorbar(image, ax=panels, shrink=0.8)


def curve(axes: Any, rows: list[Row], acceptance: str, x: str, y: str, label: str, colour: str) -> None:
    """A column of the rows of one acceptance against another."""
    own = [row for row in rows if row["acceptance"] == acceptance]
    axes.plot([row[x] for row in own], [row[y] for row in own], "o-", color=colour, ms=4, label=label)
