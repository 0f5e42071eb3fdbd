"""The figure of the srld-bandits experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLOURS = {
    "uniform": "#b0b0b0",
    "linear greedy": "#8fb4d9",
    "linear Thompson": "#3567A8",
    "LD": "#202020",
    "SRLD": "#B3440A",
    "SVGD": "#3B7A57",
    "attracting": "#D98A2B",
}


def plot(path: Path, curves: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Draw cumulative regret against the contexts seen, a panel for each bandit.

    Parameters
    ----------
    path : path
        Of the PNG file.
    curves : mapping of str to mapping of str to numpy.ndarray
        By bandit and policy, (contexts, trials), in per cent of what the uniform policy loses over the whole game.
    """
    figure = Figure(figsize=(6 * len(curves), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (bandit, of) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for policy, values in of.items():
            mean, se = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
            x = np.arange(1, len(mean) + 1)
            axes.plot(x, mean, color=COLOURS[policy], label=policy)
            axes.fill_between(x, mean - se, mean + se, color=COLOURS[policy], alpha=0.2, lw=0)
        axes.set(title=bandit, xlabel="contexts", ylabel="cumulative regret, % of uniform's")
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100, metadata={"Software": ""})
