"""The picture of hiss-tsp: length of the tours against inner steps."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np


def plot(path: Path, curves: dict[str, np.ndarray], inner: int) -> None:
    """Mean over the chains with the range of their lengths; `curves` has (sample, chain) for each sampler."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for i, (name, lengths) in enumerate(curves.items()):
        colour = f"C{i}"
        steps = inner * np.arange(1, len(lengths) + 1)
        axes.plot(steps, np.mean(lengths, axis=1), label=name, color=colour, lw=1.4)
        axes.fill_between(steps, lengths.min(axis=1), lengths.max(axis=1), color=colour, alpha=0.1, lw=0)
    axes.set(xscale="log", xlabel="inner steps", ylabel="length of the tour")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=130)
    plt.close(figure)
