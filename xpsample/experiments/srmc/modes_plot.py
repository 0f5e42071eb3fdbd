"""The figure of the 1,000-mode experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.srmc.modes import PIXELS, Result, Setting
from xpsample.metrics import modes_discovered

# Okabe-Ito colours, safe for colour-blind readers.
COLOURS = "#B3440A", "#CC79A7", "#6b6b6b", "#00568A", "#000000"


def plot(path: Path, shown: Mapping[tuple[Setting, str], Result], sweep: Mapping[float, int], steps: int) -> None:
    """Draw modes visited against steps, the modes of five chains, and modes visited against alpha.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of (Setting, str) to Result
        By setting and sampler, "ULA" or "SR-ULA".
    sweep : mapping of float to int
        Modes visited after `steps` steps by alpha.
    steps : int
        Those of the sweep.
    """
    figure = Figure(figsize=(12.5, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    curves, paths, strengths = figure.subplots(1, 3, width_ratios=(1.25, 1, 0.9))
    settings = list(dict.fromkeys(setting for setting, _ in shown))
    colours = dict(zip(settings, COLOURS, strict=False))
    for (setting, name), result in shown.items():
        counts = modes_discovered(result.nearest)
        label = f"{PIXELS[setting.scale]}, noise {setting.noise:g}" if name == "ULA" else None
        style = {"lw": 3.5, "alpha": 0.35} if name == "ULA" else {"lw": 1.2, "ls": "--"}
        curves.plot(np.arange(1, len(counts) + 1), counts, color=colours[setting], label=label, **style)
    curves.set(xscale="log", xlabel="step", title="modes visited (nearest centre):\nULA wide, SR-ULA dashed")
    curves.legend(frameon=False, title="pixels, noise")
    for setting in settings[:3:2]:
        nearest = shown[setting, "ULA"].nearest[:, :5]
        n = np.arange(1, len(nearest) + 1)
        for i in range(nearest.shape[1]):
            paths.plot(n, nearest[:, i], ".", ms=1, color=colours[setting])
    paths.set(xlabel="step", title="nearest mode of five chains of ULA,\n[0, 1], noise 1 (orange) and 0.01 (grey)")
    strengths.plot(range(len(sweep)), list(sweep.values()), "o-", color=COLOURS[0])
    strengths.set_xticks(range(len(sweep)), [f"{alpha:g}" for alpha in sweep], rotation=60)
    top = 1.1 * max(sweep.values())
    strengths.set(xlabel="alpha", ylim=(0, top), title=f"modes visited by step {steps},\n[0, 1], noise 1")
    for axes in (curves, paths, strengths):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
