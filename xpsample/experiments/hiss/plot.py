"""The figure of the HiSS experiments on few states; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def plot(
    path: Path, curves: Mapping[str, Mapping[str, np.ndarray]], marks: np.ndarray, quantities: Mapping[str, str]
) -> None:
    """Means over chains against the number of draws, one panel for each quantity.

    Parameters
    ----------
    path : path
        Of the PNG file.
    curves : mapping of str to mapping
        By sampler and quantity, (mark, chain).
    marks : numpy.ndarray, shape (mark,)
        Numbers of draws.
    quantities : mapping of str to str
        Of the curves, to the panel's title.
    """
    figure = Figure(figsize=(5.2 * len(quantities) + 1.8, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(quantities), squeeze=False)[0]
    for axes, (quantity, title) in zip(panels, quantities.items(), strict=True):
        for i, (name, curve) in enumerate(curves.items()):
            colour, style = f"C{i % 10}", "-" if i < 6 else "--"
            if i == len(curves) - 1:
                colour, style = "black", ":"
            axes.plot(marks, np.mean(curve[quantity], axis=-1), color=colour, ls=style, label=name)
        axes.set(xscale="log", xlabel="kept draws", title=title)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
