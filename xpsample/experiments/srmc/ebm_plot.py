"""The figure of the energy-model experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path as FilePath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.digits import CLASSES
from xpsample.experiments.srmc.ebm import ALPHAS, EVERY, Path
from xpsample.metrics import cumulative_class_shares, kl_to_uniform
from xpsample.zoo.mnist_ebm import SIDE

# Okabe-Ito colours, safe for colour-blind readers.
COLOURS = "#6b6b6b", "#00568A", "#B3440A", "#CC79A7"


def plot(path: FilePath, shown: Mapping[str, Path]) -> None:
    """Draw final images, classes of final states, and the cumulative KL divergence against steps.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of str to Path
        The runs "parallel", from noise, and "seven", from an image of a 7.
    """
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.15, 1)).ravel()
    pictures = upper.subplots(2, 2)
    for i, (alpha, axes) in enumerate(zip(ALPHAS, pictures.ravel(), strict=True)):
        _images(axes, shown["parallel"].images[i], shown["seven"].images[i])
        axes.set_title(f"alpha = {alpha:g}: last states from noise (upper row), from a 7 (lower)", fontsize=9)
    classes, curves = lower.subplots(1, 2)
    for i, (alpha, colour) in enumerate(zip(ALPHAS, COLOURS, strict=True)):
        name = "alpha = 0, no repellence" if alpha == 0 else f"alpha = {alpha:g}"
        counts = np.bincount(shown["parallel"].last.labels[i], minlength=CLASSES)
        classes.bar(np.arange(CLASSES) + 0.2 * (i - 1.5), counts, 0.2, color=colour, label=name)
        for part, style in (("parallel", "-"), ("seven", "--")):
            labels = shown[part].labels[:, i]
            kl = kl_to_uniform(cumulative_class_shares(labels, CLASSES, np.zeros(1)))
            curves.plot(EVERY * np.arange(1, len(kl) + 1), kl, style, color=colour, lw=1.2)
    classes.axhline(shown["parallel"].labels.shape[-1] / CLASSES, color="black", lw=0.8, ls=":")
    classes.set(xticks=range(CLASSES), xlabel="class", title="classes of the last states from noise")
    classes.legend(frameon=False)
    curves.set(xlabel="step", title="cumulative KL (Eq. 92): from noise, and from a 7 dashed", ylim=(0, 2.5))
    for axes in (classes, curves):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": ""})


def _images(axes: Axes, upper: np.ndarray, lower: np.ndarray, count: int = 10) -> None:
    """Two rows of images."""
    rows = [np.concatenate([image.reshape(SIDE, SIDE) for image in part[:count]], axis=1) for part in (upper, lower)]
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1])), constant_values=-1) for row in rows]
    axes.imshow(np.concatenate(padded), cmap="gray", vmin=-1, vmax=1)
    axes.axis("off")
