"""The figure of the two-wells experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.srmc.wells import ALPHAS, THINNING, escaped, responsibility, wells
from xpsample.kernels import MALA
from xpsample.srmc import SRMC
from xpsample.targets import Exact, Shift, Tilted

# Okabe-Ito colours, safe for colour-blind readers.
COLOURS = {"ULA": "#6b6b6b", "SR-ULA Exact": "#B3440A", "SR-ULA Shift": "#00568A"}
SAMPLERS = ("SR-ULA Exact", "SR-ULA Shift")


def plot(path: Path, shown: Mapping[str, tuple[np.ndarray, np.ndarray]], marks: Sequence[int]) -> None:
    """Draw the score and the surrogate's score of chain 0 at the marks, and shares of chains against steps.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of str to (numpy.ndarray, numpy.ndarray)
        By sampler, positions (row, chain, 2) and theta of chain 0 (row, 2).
    marks : sequence of int
        Steps at which arrows are drawn.
    """
    figure = Figure(figsize=(3.1 * len(marks), 8.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(3, 2 * len(marks))
    for i, name in enumerate(SAMPLERS):
        for j, n in enumerate(marks):
            axes = figure.add_subplot(grid[i, 2 * j : 2 * j + 2])
            _arrows(axes, name, *shown[name], n)
    curves = figure.add_subplot(grid[2, : len(marks)]), figure.add_subplot(grid[2, len(marks) :])
    for name, (x, _) in shown.items():
        steps = THINNING * np.arange(1, len(x) + 1)
        ever = np.logical_or.accumulate(escaped(x), axis=0)
        curves[0].plot(steps, np.mean(ever, axis=1), color=COLOURS[name], label=name)
        curves[1].plot(steps, np.mean(responsibility(x) > 0.5, axis=1), color=COLOURS[name], lw=0.8)
    curves[1].axhline(0.2, color="black", ls="--", lw=1, label="target")
    curves[1].legend(frameon=False, loc="upper left")
    curves[0].legend(frameon=False, loc="upper left")
    curves[0].set_title("share of chains that have been in the wide well")
    curves[1].set_title("share of chains in the wide well now")
    for axes in curves:
        axes.set(xscale="log", xlabel="step", ylim=(0, 1.03))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": ""})


def _arrows(axes: Axes, name: str, x: np.ndarray, theta: np.ndarray, n: int) -> None:
    """The score in grey, the surrogate's in red, both shortened; the path of chain 0 until n and where it is."""
    fine = np.stack(np.meshgrid(np.linspace(-3.4, 4.6, 160), np.linspace(-2.6, 2.6, 100)), axis=-1)
    coarse = np.stack(np.meshgrid(np.linspace(-3.2, 4.4, 16), np.linspace(-2.4, 2.4, 9)), axis=-1)
    tilt = Exact() if name.endswith("Exact") else Shift()
    bound = wells().prepare(coarse, SRMC(MALA(1.0), alpha=1.0).requires)
    history = np.broadcast_to(theta[n // THINNING - 1], coarse.shape)
    own = bound.score(coarse)
    tilted = Tilted(bound, history, ALPHAS[1], tilt, bound.requires).score(coarse)
    axes.contourf(
        fine[..., 0], fine[..., 1], bound.evaluate(fine).log_density, levels=np.linspace(-10, 2, 13), cmap="Blues"
    )
    for arrows, colour, width in ((own, "#8a8a8a", 0.006), (tilted, "#c0392b", 0.004)):
        short = arrows / (1.0 + np.linalg.norm(arrows, axis=-1, keepdims=True))
        axes.quiver(
            coarse[..., 0], coarse[..., 1], short[..., 0], short[..., 1], color=colour, width=width, scale=18, zorder=3
        )
    path = x[: n // THINNING, 0]
    axes.plot(path[:, 0], path[:, 1], color="black", lw=0.4, alpha=0.6)
    axes.plot(*path[-1], "o", color="#00d0d8", mec="black", ms=6, zorder=4)
    axes.set(xlim=(-3.4, 4.6), ylim=(-2.6, 2.6), aspect="equal")
    axes.set_title(f"{name}, n = {n:,}", fontsize=9)
