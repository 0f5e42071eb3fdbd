"""The figures of the srld-banana experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.srld.problems import MMD, correlated
from xpsample.kernels import MALA
from xpsample.metrics import autocorrelation, chain_ess, marginal_wasserstein, squared_mmd

COLOURS = {"LD": "#6b6b6b", "SRLD": "#B3440A"}
PATH = 150
"""Positions of a trajectory that are drawn."""
LAGS = 200
"""Of the autocorrelations."""


def plot(path: Path, shown: Mapping[str, tuple[np.ndarray, np.ndarray]], truth: np.ndarray) -> None:
    """Draw quality against the number of draws, the autocorrelation, and a trajectory, a row for each setting.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of str to (numpy.ndarray, numpy.ndarray)
        By setting, the draws of LD and of SRLD, (draw, repeat, 2).
    truth : numpy.ndarray, shape (draws, 2)
        Draws of the target.
    """
    figure = Figure(figsize=(15, 3.3 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(shown), 6, squeeze=False)
    for axes, (name, runs) in zip(grid, shown.items(), strict=True):
        for sampler, draws in zip(COLOURS, runs, strict=True):
            _quality(axes[:4], sampler, draws, truth)
        axes[0].set_ylabel(name)
        axes[0].legend(frameon=False)
        for sampler, draws, one in zip(COLOURS, runs, axes[4:], strict=True):
            _trajectory(one, sampler, draws[:PATH, 0])
    figure.savefig(path, dpi=100, metadata={"Software": ""})


def _quality(axes: np.ndarray, sampler: str, draws: np.ndarray, truth: np.ndarray) -> None:
    counts = np.linspace(len(draws) // 6, len(draws), 6).astype(int)
    runs = np.moveaxis(draws, 0, 1)
    curves = {
        "MMD$^2$, unbiased": [squared_mmd(runs[:, :n], truth, MMD) for n in counts],
        "sum of marginal W$_1$": [marginal_wasserstein(runs[:, :n], truth) for n in counts],
        "ESS": [[chain_ess(x[:n, None]).mean() for x in runs] for n in counts],
    }
    for one, (title, values) in zip(axes, curves.items(), strict=False):
        _band(one, counts, np.asarray(values), sampler)
        one.set(title=title, xlabel="draws")
    lags = min(LAGS, len(draws) - 1)
    _band(axes[3], np.arange(lags + 1), autocorrelation(draws, lags).mean(axis=-1), sampler)
    axes[3].axhline(0, color="black", lw=0.6)
    axes[3].set(title="autocorrelation", xlabel="lag")


def _band(axes: Axes, x: np.ndarray, values: np.ndarray, sampler: str) -> None:
    """Mean over repeats and two standard errors; values (x, repeat)."""
    mean, se = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    axes.plot(x, mean, color=COLOURS[sampler], label=sampler)
    axes.fill_between(x, mean - 2 * se, mean + 2 * se, color=COLOURS[sampler], alpha=0.2, lw=0)
    axes.spines[["top", "right"]].set_visible(False)


def _trajectory(axes: Axes, sampler: str, x: np.ndarray) -> None:
    fine = np.stack(np.meshgrid(np.linspace(-3, 3, 120), np.linspace(-2.2, 1.6, 120)), axis=-1)
    density = np.exp(correlated().prepare(fine, MALA(1.0).requires).evaluate(fine).log_density)
    axes.contourf(fine[..., 0], fine[..., 1], density, levels=8, cmap="Blues")
    axes.plot(x[:, 0], x[:, 1], "o-", color=COLOURS[sampler], ms=2, lw=0.6)
    axes.set(title=f"{sampler}, first {len(x)} kept", xlim=(-3, 3), ylim=(-2.2, 1.6))
