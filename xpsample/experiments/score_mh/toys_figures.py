"""Figures of the planar data sets of the Score-MH paper."""

from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row

STARTS = ("data", "normal")
SHOWN = ("data", "ULA", "RW direct", "MALA direct", "MALA ratio", "MALA line", "pCN direct")
GRID = ((-1.5, 2.25), (-1.0, 1.5))
"""Where the paper evaluates an acceptance, in each coordinate of x'."""
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
    """W1 against the step size for each data set, and acceptance against lambda, with clipping and global pairs."""
    steps = [row for row in rows if row["part"] == "steps"]
    weights = [row for row in rows if row.get("pairs") == "global" and row["max_norm"] is not None]
    panels = [(name, start) for name in dict.fromkeys(row["dataset"] for row in steps) for start in STARTS[::-1]]
    if not panels and not weights:
        return
    figure.set_size_inches(4.2 * (len(panels) + bool(weights)), 3.6)
    grid = figure.subplots(1, len(panels) + bool(weights), squeeze=False)[0]
    for axes, (name, start) in zip(grid, panels, strict=False):
        own = [row for row in steps if row["dataset"] == name]
        for label, colour in COLOURS.items():
            curve(axes, own, label, "epsilon", f"w1_{start}", f"MALA {label}" if label else "ULA", colour)
        # What ULA's chains that went far out give is above the axes.
        inside = [row[f"w1_{start}"] for row in own if row["acceptance"]]
        axes.set(xscale="log", yscale="log", xlabel="epsilon", title=f"{name}: W1, starts: {start}")
        axes.set_ylim(0.5 * min(inside), 2.0 * max(inside))
        axes.minorticks_off()
        epsilons = sorted({row["epsilon"] for row in own})
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    if weights:
        for label in ("direct", "ratio"):
            curve(grid[-1], weights, label, "lambda", "accept", f"chains, {label}", COLOURS[label])
        curve(grid[-1], weights, "direct", "lambda", "grid_acceptance", "a on the grid", "#606060")
        grid[-1].set(xlabel="lambda", title="moons, Score-RW: mean acceptance", ylim=(0, 1))
    for axes in grid:
        axes.legend(frameon=False, fontsize=8)
    tidy(*grid)


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
