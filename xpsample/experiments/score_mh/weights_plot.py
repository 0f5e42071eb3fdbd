"""The figure of the score-mh-weights experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

LOOKS = (("#B3440A", "o"), ("#3567A8", "s"), ("#202020", "^"), ("#3B7A57", "D"))
PAPERS = {"ULA": 0.52, "RW": 0.79, "MALA": 0.79}


def plot(path: Path, rows: Sequence[Mapping[str, Any]], starts: Sequence[str], weight: float) -> None:
    """Draw the weight of the heavy mode by sampler and start, with the paper's figures where it has them.

    Parameters
    ----------
    path : path
        Of the PNG file.
    rows : sequence of mapping
        The rows of the table.
    starts : sequence of str
    weight : float
        Of the heavy mode.
    """
    figure = Figure(figsize=(8.5, 0.34 * len(rows) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.axvline(weight, color="#909090", lw=1)
    for start, (colour, marker) in zip(starts, LOOKS, strict=True):
        axes.errorbar(
            [row[start] for row in rows],
            range(len(rows)),
            xerr=[2 * row[f"{start}_se"] for row in rows],
            fmt=marker,
            color=colour,
            ms=5,
            lw=1,
            mfc="none",
            label=f"start: {start}",
        )
    papers = [(PAPERS[row["sampler"].split(",")[0]], i) for i, row in enumerate(rows) if _as_in_paper(row["sampler"])]
    axes.plot(*zip(*papers, strict=True), "x", color="#C7A008", ms=8, mew=2, label="paper")
    axes.set(yticks=range(len(rows)), xlabel="weight of the heavy mode, 0.8 in truth", xlim=(0.45, 1.03))
    axes.set_yticklabels([row["sampler"] for row in rows])
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90, metadata={"Software": ""})


def _as_in_paper(sampler: str) -> bool:
    return sampler.startswith("ULA") or (sampler.endswith("density") and "wide" not in sampler)
