"""The figure of sosmc-mnist; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe-Ito colours, safe for colour-blind readers.
COLOURS = {"ImpDiff": "#6b6b6b", "SOSMC-ULA": "#B3440A"}
COLUMNS, SIDE = 8, 28


def plot(path: Path, arrays: Mapping[str, np.ndarray], rewards: Sequence[str], beta: float, every: int) -> None:
    """Draw images before and after, the particles' rewards and the effective sample sizes, a row for each reward.

    Parameters
    ----------
    path : path
        Of the PNG file.
    arrays : mapping of str to numpy.ndarray
        "pretrained" images (count, 784), and by "REWARD BETA METHOD" the "images", and "reward" and "ess" (row,).
    rewards : sequence of str
    beta : float
    every : int
        Iterations per row.
    """
    figure = Figure(figsize=(13.0, 2.6 * len(rewards)), layout="constrained")
    FigureCanvasAgg(figure)
    ratios = [2.4, 1.0, 1.0]
    for row, reward in zip(figure.subplots(len(rewards), 3, squeeze=False, width_ratios=ratios), rewards, strict=True):
        grids = {"pretrained": arrays["pretrained"]}
        grids |= {method: arrays[f"{reward} {beta:g} {method} images"] for method in COLOURS}
        strips = [_strip(images) for images in grids.values()]
        row[0].imshow(np.concatenate(strips), cmap="gray", vmin=-1, vmax=1)
        row[0].set_yticks([SIDE * (k + 0.5) for k in range(len(grids))], list(grids))
        row[0].set_xticks([])
        row[0].set_title(f"{reward}, beta = {beta:g}: new images", fontsize=9)
        for method, colour in COLOURS.items():
            for axes, key in zip(row[1:], ("reward", "ess"), strict=True):
                values = arrays[f"{reward} {beta:g} {method} {key}"]
                axes.plot(every * np.arange(1, len(values) + 1), values, color=colour, lw=1.2, label=method)
        row[1].set_title("mean reward of the particles", fontsize=9)
        row[2].set_title("ESS of the weights over particles", fontsize=9)
        row[2].set_ylim(0, 1.05)
        for axes in row[1:]:
            axes.set_xlabel("iteration")
            axes.spines[["top", "right"]].set_visible(False)
        row[1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90, metadata={"Software": ""})


def _strip(images: np.ndarray) -> np.ndarray:
    return np.concatenate(list(images[:COLUMNS].reshape(-1, SIDE, SIDE)), axis=1)
