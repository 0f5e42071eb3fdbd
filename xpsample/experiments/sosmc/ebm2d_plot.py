"""The figure of sosmc-ebm2d; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.sosmc.ebm2d_problems import EDGE, optimum

# Okabe-Ito colours, safe for colour-blind readers.
COLOURS = {"ImpDiff": "#6b6b6b", "SOSMC-ULA": "#B3440A", "SOSMC-MALA": "#00568A"}


def plot(path: Path, arrays: Mapping[str, np.ndarray], datasets: Sequence[str]) -> None:
    """Draw, for each data set, the pretrained and tuned densities, and the courses in the (reward, KL) plane.

    Parameters
    ----------
    path : path
        Of the PNG file.
    arrays : mapping of str to numpy.ndarray
        "betas"; by data set "NAME data" and "NAME start"; and by "NAME METHOD" the "reward", "kl" and "end".
    datasets : sequence of str
    """
    betas = arrays["betas"]
    figure = Figure(figsize=(3.0 * (2 + len(betas)), 3.1 * len(datasets)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(datasets), 2 + len(betas), squeeze=False)
    for axes, name in zip(grid, datasets, strict=True):
        _density(axes[0], arrays[f"{name} start"], f"{name}: pretrained")
        data = arrays[f"{name} data"]
        axes[0].plot(data[:, 0], data[:, 1], ".", ms=1.5, color="#E69F00", alpha=0.6)
        _density(axes[1], arrays[f"{name} SOSMC-ULA end"][0], f"SOSMC-ULA, beta = {betas[0]:g}")
        for r, beta in enumerate(betas):
            _plane(axes[2 + r], arrays, name, r, float(beta))
    grid[0, 2].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90, metadata={"Software": ""})


def _density(axes, logs: np.ndarray, title: str) -> None:  # type: ignore[no-untyped-def]
    cells = round(len(logs) ** 0.5)
    axes.imshow(np.exp(logs).reshape(cells, cells).T, origin="lower", extent=(-EDGE, EDGE, -EDGE, EDGE), cmap="Blues")
    axes.axhline(0, color="black", lw=0.6, ls=(0, (1, 3)))
    axes.set_title(title, fontsize=9)


def _plane(axes, arrays: Mapping[str, np.ndarray], name: str, r: int, beta: float) -> None:  # type: ignore[no-untyped-def]
    high = 0.0
    for method, colour in COLOURS.items():
        reward, kl = arrays[f"{name} {method} reward"][:, r], arrays[f"{name} {method} kl"][:, r]
        axes.plot(reward, kl, "-o", ms=2.5, lw=1.0, color=colour, label=method)
        high = max(high, float(np.max(kl)))
    best = optimum(float(arrays[f"{name} SOSMC-ULA reward"][0, r]), beta)
    axes.plot(best.reward, best.kl, "*", ms=11, color="#009E73", label="optimum (Eq. 39)")
    high = 1.15 * max(high, best.kl)
    (left, right), kls = axes.get_xlim(), np.linspace(0, high, 50)
    rewards = np.linspace(left, right, 50)
    axes.contour(rewards, kls, beta * kls[:, None] - rewards, 10, colors="#bbbbbb", linewidths=0.5, linestyles="solid")
    axes.set(xlim=(left, right), ylim=(-0.03 * high, high), xlabel="reward")
    axes.set_title(f"{name}, beta = {beta:g}: KL", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
