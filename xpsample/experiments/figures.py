"""What the figures of experiments share; matplotlib makes the figure and the axes that are handed in."""

from typing import Any


def tidy(*axes: Any) -> None:
    """Leave out the upper and the right line of the frame."""
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
