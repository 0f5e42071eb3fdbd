"""Figures of sosmc-ebm2d: densities and courses of the tuning, and how new chains move under the tuned models."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Run
from xpsample.experiments.sosmc.ebm2d_problems import DATASETS, EDGE, REWARDS, optimum
from xpsample.experiments.sosmc.methods import COLOURS
from xpsample.experiments.table import Row

Drawing = Callable[[Any, Run[Any], list[Row]], None]
METHODS_SHOWN = ("ImpDiff", "SOSMC-ULA", "SOSMC-MALA")
SNAPSHOTS = (0.05, 0.25, 1.0)
"""Shares of the new chains' steps."""
ALONG = 5
"""Times of the tuning at which new chains are run, the last of them its end."""


def rows_along(kept: int) -> np.ndarray:
    """Select, among so many kept rows, the rows at which new chains are run."""
    return (1 + np.arange(ALONG)) * kept // ALONG - 1


def networks(run: Run[Any]) -> list[str]:
    """Data sets of the run for which a network is trained."""
    return [name for name in run.size.datasets if name in DATASETS]


def of_networks(draw: Drawing) -> Drawing:
    """Decorator of a figure's function: without trained networks the figure stays empty."""

    def drawn(figure: Any, run: Run[Any], rows: list[Row]) -> None:
        if networks(run):
            draw(figure, run, rows)

    return drawn


@of_networks
def plot(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """For each data set the pretrained and tuned densities, and the courses in the plane of reward and KL."""
    arrays, betas, datasets = run.shown, run.size.betas, networks(run)
    figure.set_size_inches(3.0 * (2 + len(betas)), 3.1 * len(datasets))
    grid = figure.subplots(len(datasets), 2 + len(betas), squeeze=False)
    for axes, name in zip(grid, datasets, strict=True):
        _density(axes[0], arrays[f"{name} start"], f"{name}: pretrained")
        data = arrays[f"{name} data"]
        axes[0].plot(data[:, 0], data[:, 1], ".", ms=1.5, color="#E69F00", alpha=0.6)
        _density(axes[1], arrays[f"{name} SOSMC-ULA end"][0], f"SOSMC-ULA, beta = {betas[0]:g}")
        for r, beta in enumerate(betas):
            _plane(axes[2 + r], arrays, name, r, beta)
    grid[0, 2].legend(frameon=False, fontsize=8)


@of_networks
def plot_densities(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """Figs. 2 and A.8: for each data set the pretrained density, and those tuned by SOSMC-ULA over beta."""
    arrays, betas, datasets = run.shown, run.size.betas, networks(run)
    figure.set_size_inches(2.4 * (1 + len(betas)), 2.6 * len(datasets))
    for axes, name in zip(figure.subplots(len(datasets), 1 + len(betas), squeeze=False), datasets, strict=True):
        _density(axes[0], arrays[f"{name} start"], f"{name}: pretrained")
        for one, beta, logs in zip(axes[1:], betas, arrays[f"{name} SOSMC-ULA end"], strict=True):
            _density(one, logs, f"beta = {beta:g}")


def _density(axes: Any, logs: np.ndarray, title: str) -> None:
    cells = round(len(logs) ** 0.5)
    axes.imshow(np.exp(logs).reshape(cells, cells).T, origin="lower", extent=(-EDGE, EDGE, -EDGE, EDGE), cmap="Blues")
    axes.axhline(0, color="black", lw=0.6, ls=(0, (1, 3)))
    axes.set_title(title, fontsize=9)


def _plane(axes: Any, arrays: Mapping[str, np.ndarray], name: str, r: int, beta: float) -> None:
    high = 0.0
    for method in METHODS_SHOWN:
        reward, kl = arrays[f"{name} {method} reward"][:, r], arrays[f"{name} {method} kl"][:, r]
        axes.plot(reward, kl, "-o", ms=2.5, lw=1.0, color=COLOURS[method], label=method)
        high = max(high, float(np.max(kl)))
    best = optimum(float(arrays[f"{name} SOSMC-ULA reward"][0, r]), beta)
    axes.plot(best.reward, best.kl, "*", ms=11, color="#009E73", label="optimum (Eq. 39)")
    high = 1.15 * max(high, best.kl)
    (left, right), kls = axes.get_xlim(), np.linspace(0, high, 50)
    rewards = np.linspace(left, right, 50)
    axes.contour(rewards, kls, beta * kls[:, None] - rewards, 10, colors="#bbbbbb", linewidths=0.5, linestyles="solid")
    axes.set(xlim=(left, right), ylim=(-0.03 * high, high), xlabel="reward")
    axes.set_title(f"{name}, beta = {beta:g}: KL", fontsize=9)
    tidy(axes)


@of_networks
def plot_mixing(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """For each data set and the least beta: the share of new chains in the half-plane, where they are, five paths."""
    arrays, size = run.shown, run.size
    shown, inside = METHODS_SHOWN[:2], REWARDS[run.args.reward]
    panels = 1 + len(shown) * (len(SNAPSHOTS) + 1)
    figure.set_size_inches(2.1 * panels + 1.0, 2.4 * len(networks(run)))
    widths = [1.5] + [1.0] * (panels - 1)
    grid = figure.subplots(len(networks(run)), panels, squeeze=False, width_ratios=widths)
    for line, name in zip(grid, networks(run), strict=True):
        for method in METHODS_SHOWN:
            paths = arrays[f"{name} {method} paths"]
            steps = (1 + np.arange(len(paths))) * ((size.burn_in + size.fresh) // len(paths))
            line[0].plot(steps, np.mean(inside(paths), axis=-1), color=COLOURS[method], label=method)
            line[0].axhline(arrays[f"{name} {method} reward"][-1, 0], color=COLOURS[method], lw=0.8, ls=":")
        line[0].set(xscale="log", xlabel="step", title=f"{name}: share in the half-plane")
        tidy(line[0])
        for k, method in enumerate(shown):
            own = line[1 + k * (len(SNAPSHOTS) + 1) :]
            paths = arrays[f"{name} {method} paths"]
            for axes, share in zip(own, SNAPSHOTS, strict=False):
                at = round(share * len(paths)) - 1
                axes.plot(*paths[at].T, ".", ms=2, color=COLOURS[method])
                axes.set_title(f"{method}, {(at + 1) * (size.burn_in + size.fresh) // len(paths):,}", fontsize=8)
            for path in range(min(5, paths.shape[1])):
                own[len(SNAPSHOTS)].plot(*paths[:, path].T, lw=0.7)
            own[len(SNAPSHOTS)].set_title("five paths", fontsize=8)
        for axes in line[1:]:
            axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE), xticks=[], yticks=[], aspect="equal")
    grid[0, 0].legend(frameon=False, fontsize=8)


@of_networks
def plot_short(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """Fig. A.14: for each data set and beta, rewards along the tuning by new chains and (dotted) by quadrature."""
    arrays, betas, datasets = run.shown, run.size.betas, networks(run)
    figure.set_size_inches(3.2 * len(betas), 2.8 * len(datasets))
    grid = figure.subplots(len(datasets), len(betas), squeeze=False)
    for line, name in zip(grid, datasets, strict=True):
        for r, axes in enumerate(line):
            for method in METHODS_SHOWN[:2]:
                reward, kl = arrays[f"{name} {method} reward"][:, r], arrays[f"{name} {method} kl"][:, r]
                short = arrays[f"{name} {method} short"][:, r]
                axes.plot(reward, kl, lw=0.8, ls=":", color=COLOURS[method])
                axes.plot(short, kl[1 + rows_along(len(kl) - 1)], "-o", ms=4, color=COLOURS[method], label=method)
            axes.set(xlabel="reward", title=f"{name}, beta = {betas[r]:g}: KL")
            tidy(axes)
    grid[0, 0].legend(frameon=False, fontsize=8)
