"""Draw the charts of the pages on performance from the numbers in ``measurements/``.

``python docs/make_charts.py`` writes ``_static/by-hand.png``, ``_static/libraries.png`` and ``_static/samplers.png``.
"""

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOCS = Path(__file__).parent
GREY = "#8a8f98"  # on light and on dark pages
SAMPLERS = {
    "HMC": "#2e7ebb",
    "NUTS": "#d1495b",
    "MAMS": "#3f9b6c",
    "MALA": "#b07d2b",
    "MCLMC": "#8d6bb8",
}
COLOURS = {"NumPy": "#00568A", "torch": "#B3440A", "JAX": "#2F7D32"}


def read(name: str) -> dict[str, Any]:
    """Numbers of a measurement."""
    return json.loads((DOCS / "measurements" / name).read_text(encoding="utf-8"))


def set_up(axes: Axes, chains: list[int]) -> None:
    """An axis of chains, in powers of ten."""
    axes.set_xscale("log")
    axes.set_xticks(chains, [f"{n:,}" for n in chains], minor=False)
    axes.minorticks_off()
    axes.set_xlabel("chains")
    axes.spines[["top", "right"]].set_visible(False)


def by_hand() -> None:
    """A step over the same step in code by hand, for 1 to 1,000 chains."""
    numbers = read("by_hand.json")
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, ratios in numbers["ratios"].items():
        library, kernel = name.split(", ")
        style = "-" if kernel == "MALA" else "--"
        axes.plot(
            numbers["chains"],
            ratios,
            style,
            marker="o",
            color=COLOURS[library],
            label=name,
        )
    axes.axhline(1.0, color="#6b6b6b", linewidth=0.8)
    set_up(axes, numbers["chains"])
    axes.set_ylim(0.0, 1.7)
    axes.set_ylabel("time of a step / code by hand")
    axes.legend(
        ncols=3, frameon=False, fontsize="small", loc="lower center", handlelength=3.0
    )
    figure.savefig(DOCS / "_static" / "by-hand.png", dpi=130)


def libraries() -> None:
    """Time of a step for each chain, for 1 to 10,000 chains of 10 coordinates."""
    numbers = read("libraries.json")
    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kernel in zip(panels, ("MALA", "HMC"), strict=True):
        for library, colour in COLOURS.items():
            microseconds = [
                ns / 1000 for ns in numbers["nanoseconds"][f"{kernel}, 10, {library}"]
            ]
            axes.plot(
                numbers["chains"], microseconds, marker="o", color=colour, label=library
            )
        set_up(axes, numbers["chains"])
        axes.set_yscale("log")
        axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axes.set_title(
            kernel if kernel == "MALA" else "HMC, 10 leapfrog steps", fontsize="medium"
        )
    panels[0].set_ylabel("microseconds of a step\nfor each chain")
    panels[1].legend(frameon=False)
    figure.savefig(DOCS / "_static" / "libraries.png", dpi=130)


def samplers() -> None:
    """Gradients of the samplers of this library, divided by those published for BlackJAX."""
    targets = read("samplers.json")["gradients"]
    figure = Figure(figsize=(7.0, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    for place, (sampler, colour) in enumerate(SAMPLERS.items()):
        for row, numbers in enumerate(targets.values()):
            if sampler in numbers:
                median, least, largest, published = numbers[sampler]
                height = row + 0.14 * (place - 2)
                ends = [least / published, largest / published]
                axes.plot(ends, [height, height], color=colour, linewidth=1.2)
                axes.plot(median / published, height, "o", color=colour, markersize=5)
        axes.plot([], [], "o-", color=colour, label=sampler)
    axes.set_yticks(range(len(targets)), targets)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    axes.minorticks_off()
    axes.set_xlabel("gradients, ours divided by the published")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(ncols=5, frameon=False, loc="outside upper center", labelcolor=GREY)
    axes.tick_params(colors=GREY)
    axes.xaxis.label.set_color(GREY)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    figure.savefig(DOCS / "_static" / "samplers.png", dpi=130, transparent=True)


if __name__ == "__main__":
    by_hand()
    libraries()
    samplers()
