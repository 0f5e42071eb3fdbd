"""The figure of sosmc-langevin; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.sosmc.problems import FLOOR, PROBLEMS

# Okabe-Ito colours, safe for colour-blind readers.
COLOURS = {
    "ImpDiff": "#6b6b6b",
    "SOUL": "#E69F00",
    "SOSMC-ULA": "#B3440A",
    "SOSMC-MALA": "#00568A",
    "SOSMC-RWM": "#009E73",
    "SOSMC-HMC": "#CC79A7",
}
STYLES = {"ImpDiff": "-", "SOUL": "-", "SOSMC-ULA": "-", "SOSMC-MALA": "-", "SOSMC-RWM": "--", "SOSMC-HMC": ":"}


def plot(path: Path, curves: Mapping[str, np.ndarray]) -> None:
    """Draw the particles' mean reward against the iteration: mean over the runs, and the range of them all.

    Parameters
    ----------
    path : path
        Of the PNG file.
    curves : mapping of str to numpy.ndarray
        By "table optimiser problem floor method", rewards (iteration, run).
    """
    cases = [c for c in ("1 SGD", "1 Adam", "2 Adam") if any(name.startswith(c) for name in curves)]
    figure = Figure(figsize=(14.0, 3.2 * len(cases)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(cases), len(PROBLEMS), squeeze=False)
    for axes_row, case in zip(grid, cases, strict=True):
        for axes, problem in zip(axes_row, PROBLEMS, strict=True):
            for method, colour in COLOURS.items():
                rewards = curves.get(f"{case} {problem.name} {FLOOR:g} {method}")
                if rewards is None:
                    continue
                steps = np.arange(1, len(rewards) + 1)
                axes.plot(steps, np.mean(rewards, axis=1), color=colour, ls=STYLES[method], label=method, lw=1.4)
                low, high = np.min(rewards, axis=1), np.max(rewards, axis=1)
                axes.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
            axes.axhline(np.max(problem.component_rewards), color="black", lw=0.8, ls=(0, (1, 3)))
            axes.set(xscale="log", ylim=(0, None))
            axes.set_title(f"{problem.name}, {case[2:]}" + (f", beta = {problem.beta:g}" if case[0] == "2" else ""))
            axes.spines[["top", "right"]].set_visible(False)
        axes_row[0].set_ylabel("mean reward of the particles")
    for axes in grid[-1]:
        axes.set_xlabel("iteration")
    grid[0, 0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90, metadata={"Software": ""})
