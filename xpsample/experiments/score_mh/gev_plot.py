"""The figure of the score-mh-gev experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLOURS = {
    "floor": "#B0B0B0",
    "ULA": "#202020",
    "MALA": "#7A4E9F",
    "MALA direct": "#B3440A",
    "MALA ratio": "#D98A2B",
    "MALA line": "#3567A8",
    "MALA Taylor": "#3B7A57",
}


def plot(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw W1 and MMD^2 against the shape, a column for each step size and score.

    Parameters
    ----------
    path : path
        Of the PNG file.
    rows : sequence of mapping
        The rows of the table.
    """
    panels = [(eta, score) for eta in sorted({row["eta"] for row in rows}) for score in ("true", "learned")]
    figure = Figure(figsize=(4 * len(panels), 6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(panels), squeeze=False)
    for j, (eta, score) in enumerate(panels):
        for i, (key, title) in enumerate((("w1", "W$_1$"), ("mmd2", "MMD$^2$"))):
            ax = grid[i, j]
            for sampler, colour in COLOURS.items():
                own = [r for r in rows if r["eta"] == eta and r["sampler"] == sampler and r["score"] in (score, "")]
                x, y = [row["shape"] for row in own], [row[key] for row in own]
                error = [row[f"{key}_se"] for row in own]
                ax.errorbar(x, y, yerr=error, fmt="o-", color=colour, ms=3, lw=1, label=sampler)
            ax.set(xlabel="xi", title=f"{title}: eta = {eta:g}, {score} score")
            ax.set_yscale("log" if key == "w1" else "symlog", **({} if key == "w1" else {"linthresh": 1e-3}))
            ax.spines[["top", "right"]].set_visible(False)
    for ax in grid[0]:
        ax.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=70, metadata={"Software": ""})
