"""Draw the picture of the README: ``python docs/make_picture.py`` writes ``docs/_static/wells.png``.

The setting is Fig. 1 of the SRMC paper: a two-well mixture, chains started in the narrow well. It needs
matplotlib.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import xpsample as xps
from xpsample.srmc import PowerLaw

WEIGHTS, SCALES = np.array([0.8, 0.2]), np.array([0.18, 1.0])
CENTRES = np.array([[-2.0, 0.0], [2.0, 0.0]])
ALPHA = np.array([[0.0], [1.0], [3.0], [10.0]])  # (4, 1): four strengths in one run
CHAINS, STEPS, ETA = 200, 20_000, 0.01
COLOURS = ("#8a8f98", "#7fb3d5", "#2e7ebb", "#0b3c6f")
OUT = Path(__file__).parent / "_static" / "wells.png"


def parts(x):
    """Score of each component (..., 2, 2), and the log of its density times its weight (..., 2)."""
    away = x[..., None, :] - CENTRES
    return -away / SCALES[:, None] ** 2, np.log(WEIGHTS / SCALES**2) - 0.5 * np.sum(
        away**2, axis=-1
    ) / SCALES**2


def log_density(x):
    """0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I), without its constant."""
    return np.logaddexp(*np.moveaxis(parts(x)[1], -1, 0))


def responsibilities(logs):
    """Probability of each component given the position (..., 2, 1)."""
    return np.exp(logs - np.logaddexp(*np.moveaxis(logs, -1, 0))[..., None])[..., None]


def score(x):
    """Gradient of the log density."""
    scores, logs = parts(x)
    return np.sum(responsibilities(logs) * scores, axis=-2)


def hvp(x, v):
    """Hessian of the log density times v."""
    scores, logs = parts(x)
    weights, v = responsibilities(logs), v[..., None, :]
    mean = np.sum(weights * scores, axis=-2, keepdims=True)
    along = np.sum((scores - mean) * v, axis=-1, keepdims=True)
    return np.sum(weights * (along * scores - v / SCALES[:, None] ** 2), axis=-2)


def run():
    """First coordinates (step, 4, chain)."""
    kernel = xps.SRMC(
        xps.ULA(ETA), alpha=ALPHA, schedule=PowerLaw(rho=0.6, scale=0.1, offset=2.0)
    )
    x0 = np.broadcast_to(CENTRES[0], (len(ALPHA), CHAINS, 2)).copy()
    first = xps.Record("first", lambda state: state.point.x[..., 0])
    target = xps.Target(log_density, score=score, hvp=hvp)
    return xps.sample(target, kernel, x0, STEPS, seed=1, recorders=[first]).recorded[
        "first"
    ]


def draw(first):
    """Four panels: the density, one chain with and one without repellence, and two shares of all chains."""
    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.titlesize": 9.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, (well, path, visited, share) = plt.subplots(
        1,
        4,
        figsize=(12.4, 2.9),
        layout="constrained",
        width_ratios=(1.05, 1.15, 1.05, 1.05),
    )
    steps = np.arange(1, STEPS + 1)

    grid = np.stack(
        np.meshgrid(np.linspace(-3.2, 5, 240), np.linspace(-2.8, 2.8, 160)), axis=-1
    )
    well.contourf(
        grid[..., 0],
        grid[..., 1],
        log_density(grid),
        levels=np.linspace(-8, 4, 13),
        cmap="Blues",
    )
    coarse = np.stack(
        np.meshgrid(np.linspace(-2.9, 4.7, 13), np.linspace(-2.4, 2.4, 8)), axis=-1
    )
    arrows = score(coarse)
    arrows = arrows / (1 + np.linalg.norm(arrows, axis=-1, keepdims=True))
    well.quiver(
        coarse[..., 0],
        coarse[..., 1],
        arrows[..., 0],
        arrows[..., 1],
        color="#444",
        width=0.004,
        scale=16,
    )
    well.plot(*CENTRES[0], "o", color="#c0392b", ms=4)
    well.annotate(
        "start",
        CENTRES[0],
        (-2.9, -2.05),
        color="#c0392b",
        arrowprops={"arrowstyle": "-", "color": "#c0392b"},
    )
    well.set(
        title="log density and score",
        xlabel="x[0]",
        ylabel="x[1]",
        xticks=(-2, 0, 2, 4),
    )

    shown = slice(0, STEPS, 8)
    path.plot(
        steps[shown],
        first[shown, -1, 0],
        lw=0.5,
        color=COLOURS[-1],
        label="SR-ULA, alpha = 10",
    )
    path.plot(steps[shown], first[shown, 0, 0], lw=0.5, color=COLOURS[0], label="ULA")
    path.set(
        title="chain 0 of two",
        xlabel="step",
        ylabel="x[0]",
        ylim=(-4, 8),
        xticks=(0, 10_000, 20_000),
    )
    path.legend(
        frameon=False, loc="upper left", ncols=2, handlelength=1.2, columnspacing=1
    )

    right = first > 0
    for i, (alpha, colour) in enumerate(zip(ALPHA[:, 0], COLOURS, strict=True)):
        label = "ULA" if alpha == 0 else f"alpha = {alpha:g}"
        visited.plot(
            steps,
            np.mean(np.maximum.accumulate(right[:, i], axis=0), axis=-1),
            color=colour,
            label=label,
        )
        share.plot(steps, np.mean(right[:, i], axis=-1), lw=0.7, color=colour)
    for panel, title in (
        (visited, "share of chains that found the wide well"),
        (share, "share of chains in it now"),
    ):
        panel.set(
            title=title, xlabel="step", xscale="log", xlim=(10, STEPS), ylim=(0, 1.02)
        )
    visited.legend(frameon=False, loc="center", bbox_to_anchor=(0.6, 0.68))
    share.axhline(0.2, ls="--", lw=1, color="#c0392b")
    share.text(60, 0.225, "target 0.2", color="#c0392b")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=100, metadata={"Software": ""})
    plt.close(figure)


if __name__ == "__main__":
    draw(run())
