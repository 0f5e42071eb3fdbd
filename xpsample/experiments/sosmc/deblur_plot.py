"""The picture of sosmc-deblur: images, and the course of the parameter, the error, the weights' ESS and the step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe-Ito colours, safe for colour-blind readers; without weights broad and pale, since the others lie on top of them.
STYLES: dict[str, dict[str, Any]] = {
    "MYPGD": {"color": "#E69F00", "lw": 5.0, "alpha": 0.45},
    "MYPGD, grown": {"color": "#56B4E9", "lw": 5.0, "alpha": 0.45},
    "SOSMC, grown": {"color": "#00568A", "lw": 1.2},
    "SOSMC": {"color": "#B3440A", "lw": 1.2},
    "SOSMC, by ESS": {"color": "#000000", "lw": 1.2, "ls": "--"},
}
CURVES = {
    "theta": "theta",
    "mse": "MSE of the particles",
    "weight_ess": "ESS of the weights",
    "step": "image step",
}


def plot(path: Path, shown: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw, for each setup, a row of images and a row of curves against iterations.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of str to mapping of str to Any
        By setup and by method; what has no curves is shown as an image only.
    """
    height = max(course.image.shape[0] / course.image.shape[1] for part in shown.values() for course in part.values())
    figure = Figure(figsize=(13, len(shown) * (3.2 + 1.7 * height)), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(2 * len(shown), 1, squeeze=False, height_ratios=[1.7 * height, 3.0] * len(shown)).ravel()
    for i, (setup, courses) in enumerate(shown.items()):
        images = parts[2 * i].subplots(1, len(courses))
        top = float(np.max(courses["truth"].image))
        for axes, (name, course) in zip(images, courses.items(), strict=True):
            axes.imshow(course.image, cmap="gray", vmin=0, vmax=top)
            axes.set_title(name if name != "truth" else f"setup {setup}: truth", fontsize=9)
            axes.axis("off")
        for axes, (key, label) in zip(parts[2 * i + 1].subplots(1, len(CURVES)), CURVES.items(), strict=True):
            runs = ((name, course) for name, course in courses.items() if course.curves)
            for name, course in runs:
                values = course.curves[key]
                rows = np.arange(1, len(values) + 1) / len(values)
                axes.plot(rows, values, label=name, **STYLES[name])
            axes.set(title=label, xlabel="share of the iterations")
            if key in ("mse", "step"):
                axes.set_yscale("log")
            axes.spines[["top", "right"]].set_visible(False)
            if key == "theta":
                axes.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=100, metadata={"Software": ""})
