"""The picture of srmc-digits: cumulative KL against steps, and images at the end."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np


def plot(path: Path, curves: dict[str, np.ndarray], images: np.ndarray, steps: int) -> None:
    """Curves (row,) by sampler, and images (row, sampler, 8, 784), of which the last row is shown."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.6), layout="constrained", gridspec_kw={"width_ratios": [1, 1.25]}
    )
    for name, values in curves.items():
        left.plot(steps / len(values) * np.arange(1, len(values) + 1), values, label=name)
    left.set(xlabel="steps", ylabel="cumulative KL(p || uniform)", ylim=(0, None))
    left.legend(fontsize=8, frameon=False)
    last = images[-1].reshape(*images.shape[1:3], 28, 28)
    right.imshow(np.concatenate([np.concatenate(list(row), axis=1) for row in last]), cmap="gray_r")
    right.set(xticks=[], yticks=28 * np.arange(len(curves)) + 14, title=f"8 chains after {steps:,} steps")
    right.set_yticklabels(list(curves), fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
