"""Helpers for the figures of experiments; matplotlib makes the figure and the axes that are passed in."""

from typing import Any

import numpy as np


def tidy(*axes: Any) -> None:
    """Leave out the upper and the right line of the frame."""
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)


def band(axes: Any, x: np.ndarray, values: np.ndarray, errors: float, color: str, label: str) -> None:
    """The mean of values (x, repeat) over the repeats, and so many standard errors on both sides."""
    mean, half = np.mean(values, axis=1), errors * np.std(values, axis=1, ddof=1) / np.sqrt(values.shape[1])
    axes.plot(x, mean, color=color, label=label)
    axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.2, lw=0)
    tidy(axes)
