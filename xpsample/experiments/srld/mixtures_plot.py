"""The figures of the srld-mixtures experiment; needs matplotlib, and nothing else here does."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xpsample.experiments.srld.problems import MMD, Shown
from xpsample.metrics import autocorrelation, chain_ess, marginal_wasserstein, squared_mmd

GREYS = {"LD": "#202020", "LD scaled": "#909090"}
COLOURS = ("#B3440A", "#D98A2B", "#3B7A57", "#3567A8")
PATH = 250
"""Positions of a trajectory that are drawn, as in the paper's Fig. 5."""
LAGS = 100
"""Of the autocorrelations."""


def plot(path: Path, shown: Mapping[str, Shown]) -> None:
    """Draw quality against the number of draws and the autocorrelation, a row for each problem; plane trajectories.

    Parameters
    ----------
    path : path
        Of the PNG file.
    shown : mapping of str to Shown
        By problem and setting.
    """
    figure = Figure(figsize=(16, 3.4 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(shown), 6, squeeze=False)
    for axes, (name, one) in zip(grid, shown.items(), strict=True):
        coloured = iter(COLOURS)
        for sampler, draws in one.draws.items():
            _quality(axes[:4], sampler, GREYS.get(sampler) or next(coloured), draws, one.truth)
        axes[0].set_ylabel(name)
        axes[3].legend(frameon=False, fontsize=8)
        if one.truth.shape[-1] == 2:
            for ax, (sampler, draws) in zip(axes[4:], list(one.draws.items())[:2], strict=False):
                _trajectory(ax, sampler, draws[:PATH, 0], one.truth)
        else:
            for ax in axes[4:]:
                ax.axis("off")
    figure.savefig(path, dpi=90, metadata={"Software": ""})


def _quality(axes: np.ndarray, sampler: str, colour: str, draws: np.ndarray, truth: np.ndarray) -> None:
    counts = np.linspace(len(draws) // 6, len(draws), 6).astype(int)
    runs, dim = np.moveaxis(draws, 0, 1), truth.shape[-1]
    curves = {
        "MMD$^2$, unbiased": [squared_mmd(runs[:, :n], truth, MMD) for n in counts],
        "marginal W$_1$ / d": [marginal_wasserstein(runs[:, :n], truth) / dim for n in counts],
        "ESS": [[chain_ess(x[:n, None]).mean() for x in runs] for n in counts],
    }
    for ax, (title, values) in zip(axes, curves.items(), strict=False):
        _band(ax, counts, np.asarray(values), sampler, colour)
        ax.set(title=title, xlabel="draws")
    lags = min(LAGS, len(draws) - 1)
    _band(axes[3], np.arange(lags + 1), autocorrelation(draws, lags).mean(axis=-1), sampler, colour)
    axes[3].axhline(0, color="black", lw=0.6)
    axes[3].set(title="autocorrelation", xlabel="lag in draws")


def _band(axes: Axes, x: np.ndarray, values: np.ndarray, sampler: str, colour: str) -> None:
    """Mean over repeats and two standard errors; values (x, repeat)."""
    mean, se = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    axes.plot(x, mean, color=colour, label=sampler)
    axes.fill_between(x, mean - 2 * se, mean + 2 * se, color=colour, alpha=0.2, lw=0)
    axes.spines[["top", "right"]].set_visible(False)


def _trajectory(axes: Axes, sampler: str, x: np.ndarray, truth: np.ndarray) -> None:
    axes.plot(truth[:, 0], truth[:, 1], ".", color="#bcd3ea", ms=2)
    axes.plot(x[:, 0], x[:, 1], "o-", color="#B3440A" if "SRLD" in sampler else "#202020", ms=2, lw=0.5)
    axes.set_title(f"{sampler}: first {len(x)}", fontsize=10)
    axes.set(xlim=(-4.5, 4.5), ylim=(-4.5, 4.5))
