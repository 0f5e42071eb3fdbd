"""The pictures of score-mh-digits: images over tau for every method, and W1 against tau."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def plot(
    out: Path,
    shown: Mapping[str, np.ndarray],
    taus: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
) -> None:
    """Write ``images.png`` and ``w1.png``.

    Parameters
    ----------
    out : path
        A directory.
    shown : mapping of str to numpy.ndarray
        Images (taus, 10, dim) by method.
    taus : sequence of float
    rows, steps : sequence of mapping
        Of the tables.
    """
    _images(out / "images.png", shown, taus)
    _distances(out / "w1.png", shown, taus, rows, steps)


def _images(path: Path, shown: Mapping[str, np.ndarray], taus: Sequence[float]) -> None:
    figure = Figure(figsize=(11.0, 0.8 * len(shown) + 0.3))
    FigureCanvasAgg(figure)
    across = 4
    for axes, (method, images) in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown.items(), strict=True):
        side = round(images.shape[-1] ** 0.5)
        squares = np.clip(np.nan_to_num(images[:, : 2 * across], nan=1.0), -1, 1).reshape(len(taus), -1, side, side)
        blocks = [
            np.concatenate([np.concatenate(list(half), axis=1) for half in np.split(tau, 2)], axis=0) for tau in squares
        ]
        gap = -np.ones((blocks[0].shape[0], side // 4))
        axes.imshow(np.concatenate([part for block in blocks for part in (block, gap)][:-1], axis=1), cmap="gray_r")
        width = across * side + side // 4
        labels = [f"tau = {tau:g}" if method == list(shown)[-1] else "" for tau in taus]
        axes.set_xticks([width * k + across * side / 2 for k in range(len(taus))], labels)
        axes.set_yticks([])
        axes.tick_params(length=0, labelsize=8)
        axes.set_ylabel(method.replace(", ", "\n"), fontsize=8, rotation=0, ha="right", va="center")
    figure.subplots_adjust(left=0.1, right=0.995, top=0.99, bottom=0.25 / len(shown), hspace=0.08)
    figure.savefig(path, dpi=90)


def _distances(
    path: Path,
    shown: Mapping[str, np.ndarray],
    taus: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
) -> None:
    lengths = sorted({row["levels"] for row in steps})
    figure = Figure(figsize=(11.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 1 + len(lengths), sharey=True, squeeze=False)[0]
    floor = next(row["w1"] for row in rows if row["method"].startswith("the same"))
    for panel, length in zip(panels, [None, *lengths], strict=True):
        table = rows if length is None else [row for row in steps if row["levels"] == length]
        for number, method in enumerate(shown):
            curve = {row["tau"]: row["w1"] for row in table if row["method"] == method}
            dashes = "-" if method.startswith("MALA") else "--"
            panel.plot(taus, [curve[tau] for tau in taus], dashes, color=f"C{number}", marker=".", label=method)
        panel.axhline(floor, color="0.6", lw=1, label="held-out images")
        panel.set(
            xlabel="tau",
            yscale="log",
            ylim=(0.9 * floor, 40 * floor),
            title="ladder and steps after it" if length is None else f"{length} levels alone",
        )
    ticks = [value for value in (5, 10, 15, 20, 30, 50, 100, 200, 400) if 0.9 < value / floor < 40]
    panels[0].set_yticks(ticks, [str(value) for value in ticks])
    panels[0].minorticks_off()
    panels[0].set_ylabel("W1 to held-out images")
    panels[-1].legend(fontsize=7, frameon=False, bbox_to_anchor=(1.02, 1.0), loc="upper left")
    figure.savefig(path, dpi=110)
