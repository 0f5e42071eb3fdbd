"""Draw ``_static/by-hand.png``: a step divided by code by hand, from ``measurements/by_hand.json``.

``python docs/make_ratios.py`` writes the picture.
"""

import json
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOCS = Path(__file__).parent
COLOURS = {"NumPy": "#00568A", "torch": "#B3440A", "JAX": "#2F7D32"}


def main() -> None:
    """Write the picture."""
    numbers = json.loads((DOCS / "measurements" / "by_hand.json").read_text(encoding="utf-8"))
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, ratios in numbers["ratios"].items():
        library, kernel = name.split(", ")
        style = "-" if kernel == "MALA" else "--"
        axes.plot(numbers["chains"], ratios, style, marker="o", color=COLOURS[library], label=name)
    axes.axhline(1.0, color="#6b6b6b", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_ylim(0.35, 1.7)
    axes.set_xlabel("chains")
    axes.set_ylabel("time of a step / code by hand")
    axes.legend(ncols=3, frameon=False, fontsize="small", loc="lower center")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "_static" / "by-hand.png", dpi=130)


if __name__ == "__main__":
    main()
