"""A picture for each algorithm: one look tells what it does. The docs build calls `draw_all`, which takes about 20 s.

``python docs/pictures.py`` writes the picture of the README.

Colors and a transparent ground suit light and dark pages.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from flow_chart import choose_figure

import xpsample as xps
from xpsample.core.errors import DiagnosisWarning
from xpsample.optimize.optimizers import SGD, Adam
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.sosmc import LangevinMove, RewardReverseKL, SOSMCHistory
from xpsample.targets import LineIntegral
from xpsample.zoo.curved import banana
from xpsample.zoo.ising import ising_lattice
from xpsample.zoo.logistic import breast_cancer, load_breast_cancer
from xpsample.zoo.mixture import gaussian_mixture, smoothed_mixture
from xpsample.zoo.tsp import tsp

BLUE, RED, GREY, GREEN = "#2e7ebb", "#d1495b", "#8a8f98", "#3f9b6c"
BANANA = banana(0.5, 1.2)
START = np.array([[-2.4, 3.4]])
MODES = np.array([[-2.2, 0.0], [2.2, 0.0]])
TWO_MODES = gaussian_mixture([0.5, 0.5], MODES, 0.7)


def two_modes_score(x: np.ndarray) -> np.ndarray:
    """The gradient of the log density of `TWO_MODES`."""
    return TWO_MODES.prepare(x, xps.MALA(0.1).requires).evaluate(x).score


Panel = Any
PICTURES: dict[str, Callable[[Panel], None]] = {}


def picture(name: str) -> Callable[[Callable[[Panel], None]], Callable[[Panel], None]]:
    """Register the picture of an algorithm by the name of its page."""

    def register(function: Callable[[Panel], None]) -> Callable[[Panel], None]:
        PICTURES[name] = function
        return function

    return register


def contours(
    panel: Panel, target: Any, x: tuple[float, float], y: tuple[float, float]
) -> None:
    """Lines of equal density."""
    grid = np.stack(np.meshgrid(np.linspace(*x, 150), np.linspace(*y, 150)), axis=-1)
    density = target.prepare(grid, xps.MALA(0.1).requires).evaluate(grid).log_density
    levels = np.max(density) - np.array([6.0, 4.0, 2.5, 1.3, 0.5, 0.1])
    panel.contour(
        grid[..., 0],
        grid[..., 1],
        density,
        levels=levels,
        colors=GREY,
        linewidths=0.7,
        alpha=0.8,
    )
    panel.set(xlim=x, ylim=y)


def path(panel: Panel, draws: np.ndarray, colour: str = BLUE, **line: Any) -> None:
    """Positions (step, 2), joined."""
    panel.plot(draws[:, 0], draws[:, 1], marker="o", color=colour, ms=3, lw=0.8, **line)
    panel.plot(*draws[0], "o", color=RED, ms=5)


def chain(
    kernel: Any,
    steps: int,
    target: Any = BANANA,
    start: np.ndarray = START,
    seed: int = 3,
) -> np.ndarray:
    """One chain with its start, (step, 2)."""
    trace = xps.sample(target, kernel, start, steps, seed=seed)
    return np.concatenate([start, trace.draws[:, 0]])


def on_banana(panel: Panel, kernel: Any, steps: int = 60, seed: int = 3) -> None:
    """The path of a chain on a curved density."""
    contours(panel, BANANA, (-4.0, 4.0), (-3.0, 6.0))
    path(panel, chain(kernel, steps, seed=seed))


def bars(
    panel: Panel,
    draws: np.ndarray,
    density: Callable[[np.ndarray], np.ndarray],
    colour: str = BLUE,
) -> None:
    """A histogram of numbers, and the density that they should have."""
    low, high = np.min(draws), np.max(draws)
    x = np.linspace(low, high, 400)
    p = density(x)
    panel.hist(draws, 60, density=True, color=colour, alpha=0.45)
    panel.plot(x, p / np.sum(p * (x[1] - x[0])), color=GREY, lw=1.5)


def lattices(panel: Panel, kernel: Any, steps: tuple[int, ...]) -> None:
    """Spins on a lattice after some numbers of steps, side by side."""
    side, target = 24, ising_lattice((24, 24), 0.42)
    x0 = np.where(np.random.default_rng(0).random((1, side * side)) < 0.5, -1.0, 1.0)
    draws = xps.sample(target, kernel, x0, steps[-1], seed=1).draws[:, 0]
    images = [x0[0], *(draws[n - 1] for n in steps)]
    gap = np.full((side, 2), np.nan)
    rows = [part for image in images for part in (image.reshape(side, side), gap)][:-1]
    panel.imshow(
        np.concatenate(rows, axis=1),
        cmap=matplotlib.colors.ListedColormap([BLUE, "#e8edf2"]),
    )
    panel.set_title(f"steps 0, {', '.join(map(str, steps))}", color=GREY, fontsize=8)


@picture("rwm")
def _rwm(panel: Panel) -> None:
    on_banana(panel, xps.RWM(0.8))


@picture("pcn")
def _pcn(panel: Panel) -> None:
    on_banana(panel, xps.PCN(0.4, covariance=np.array([1.5, 3.0])))


@picture("independent")
def _independent(panel: Panel) -> None:
    on_banana(panel, xps.IndependentMH(np.array([0.0, 0.5]), np.array([2.0, 4.0])), 150)


@picture("ensemble")
def _ensemble(panel: Panel) -> None:
    contours(panel, BANANA, (-4.0, 4.0), (-3.0, 6.0))
    x0 = START + np.random.default_rng(0).normal(size=(10, 2)) / 3
    draws = xps.sample(BANANA, xps.Ensemble(), x0, 40, seed=3).draws
    for k in range(10):
        path(panel, np.concatenate([x0[k : k + 1], draws[::4, k]]), alpha=0.5)


@picture("elliptical")
def _elliptical(panel: Panel) -> None:
    kernel = xps.EllipticalSlice(covariance=np.array([1.5, 3.0]))
    on_banana(panel, kernel)


@picture("slice")
def _slice(panel: Panel) -> None:
    on_banana(panel, xps.Slice(2.0))


@picture("ula")
def _ula(panel: Panel) -> None:
    on_banana(panel, xps.ULA(0.08), 80)


@picture("mala")
def _mala(panel: Panel) -> None:
    on_banana(panel, xps.MALA(0.15), 80)


@picture("hmc")
def _hmc(panel: Panel) -> None:
    contours(panel, BANANA, (-4.0, 4.0), (-3.0, 6.0))
    rng, step_size, leaps, steps = np.random.default_rng(7), 0.1, 25, 10
    noise = {
        "momentum": rng.standard_normal((steps, 1, 2)),
        "accept": rng.random((steps, 1)),
    }
    draws = xps.sample(
        BANANA, xps.HMC(step_size, leaps), START, steps, seed=xps.Replay(noise)
    ).draws
    starts = np.concatenate([START[None], draws])
    for x, p in zip(
        starts, noise["momentum"], strict=False
    ):  # the same leapfrog steps, one by one
        points = [x]
        for _ in range(leaps):
            p = p + 0.5 * step_size * BANANA.score(x)
            x = x + step_size * p
            p = p + 0.5 * step_size * BANANA.score(x)
            points.append(x)
        trajectory = np.concatenate(points)
        panel.plot(trajectory[:, 0], trajectory[:, 1], color=GREEN, lw=0.9, alpha=0.8)
    path(panel, starts[:, 0], linestyle="none")


@picture("nuts")
def _nuts(panel: Panel) -> None:
    on_banana(panel, xps.NUTS(0.3), 25)


@picture("mams")
def _mams(panel: Panel) -> None:
    on_banana(panel, xps.MAMS(0.4, 2.5), 25)


@picture("mclmc")
def _mclmc(panel: Panel) -> None:
    on_banana(panel, xps.MCLMC(0.25, 3.0), 150)


@picture("underdamped")
def _underdamped(panel: Panel) -> None:
    on_banana(panel, xps.UnderdampedLangevin(0.15, friction=0.5), 150)


@picture("sgnht")
def _sgnht(panel: Panel) -> None:
    on_banana(panel, xps.SGNHT(0.15, friction=0.5), 150)


@picture("delayed")
def _delayed(panel: Panel) -> None:
    cheap = xps.Target(lambda x: -0.4 * np.sum(x**2 / np.array([1.5, 6.0]), axis=-1))
    kernel = xps.DelayedAcceptance(xps.RWM(0.8), moves=4)
    draws = xps.sample(xps.Bridge(cheap, BANANA), kernel, START, 60, seed=1).draws
    contours(panel, BANANA, (-4.0, 4.0), (-3.0, 6.0))
    path(panel, draws[:, 0])


@picture("myula")
def _myula(panel: Panel) -> None:
    target = xps.Target(None, score=lambda x: 1.0 - x)
    kernel = xps.MYULA(0.02, regularizer=xps.L1(), smoothing=0.02)
    draws = xps.sample(
        target, kernel, np.zeros((500, 1)), 300, seed=1, burn_in=100
    ).draws
    bars(panel, draws.ravel(), lambda x: np.exp(-0.5 * (x - 1) ** 2 - np.abs(x)))


@picture("acceptance")
def _acceptance(panel: Panel) -> None:
    target = xps.Target(None, score=two_modes_score, acceptance=LineIntegral())
    contours(panel, TWO_MODES, (-4.5, 4.5), (-2.6, 2.6))
    grid = np.stack(
        np.meshgrid(np.linspace(-4, 4, 14), np.linspace(-2.2, 2.2, 9)), axis=-1
    )
    arrows = two_modes_score(grid)
    arrows = arrows / (1 + np.linalg.norm(arrows, axis=-1, keepdims=True))
    panel.quiver(
        grid[..., 0],
        grid[..., 1],
        arrows[..., 0],
        arrows[..., 1],
        color=GREEN,
        width=0.004,
        scale=20,
    )
    path(panel, chain(xps.RWM(1.2), 60, target, MODES[:1], seed=5))


@picture("score-mh")
def _score_mh(panel: Panel) -> None:
    density = lambda x: np.exp(-(x**4))  # noqa: E731
    score = lambda x: -4 * x**3  # noqa: E731
    x0 = np.zeros((2000, 1))
    plain = xps.sample(
        xps.Target(None, score=score), xps.ULA(0.06), x0, 30, seed=1, burn_in=50
    ).draws
    target = xps.Target(None, score=score, acceptance=LineIntegral())
    adjusted = xps.sample(target, xps.MALA(0.06), x0, 30, seed=1, burn_in=50).draws
    bars(panel, adjusted.ravel(), density)
    counts, edges = np.histogram(plain.ravel(), 60, density=True)
    panel.stairs(counts, edges, color=RED, lw=1)
    panel.set_title("red: without the acceptance", color=GREY, fontsize=8)


@picture("gibbs")
def _gibbs(panel: Panel) -> None:
    lattices(panel, xps.Gibbs(), (500, 5000))


@picture("balanced")
def _balanced(panel: Panel) -> None:
    lattices(panel, xps.LocallyBalanced(), (200, 2000))


@picture("gwg")
def _gwg(panel: Panel) -> None:
    lattices(panel, xps.GWG(), (200, 2000))


@picture("dlp")
def _dlp(panel: Panel) -> None:
    lattices(panel, xps.DMALA(0.4), (20, 200))


@picture("acs")
def _acs(panel: Panel) -> None:
    from xpsample.kernels import Cosine

    lattices(panel, xps.ACS(Cosine(3.0, 10)), (20, 200))


@picture("hiss")
def _hiss(panel: Panel) -> None:
    lattices(panel, xps.HiSS(xps.DMALA(0.4)), (5, 50))


@picture("two-opt")
def _two_opt(panel: Panel) -> None:
    cities = np.random.default_rng(4).random((24, 2))
    start = np.random.default_rng(1).permutation(24)[None]
    tour = xps.sample(
        tsp(cities, 0.02), xps.TwoOpt(), start, 4000, seed=1, recorders=()
    ).state.point.x[0]
    for order, shift, colour in ((start[0], 0.0, GREY), (tour, 1.2, BLUE)):
        points = cities[np.append(order, order[0])] + np.array([shift, 0.0])
        panel.plot(points[:, 0], points[:, 1], "-o", color=colour, ms=3, lw=0.9)
    panel.set_title("a tour, and the same after 4,000 steps", color=GREY, fontsize=8)


def running_means(panel: Panel, base: Any, repelled: Any, title: str) -> None:
    """The mean of all draws so far, of 15 chains with and 15 without repellence."""
    target = xps.Target(
        lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x, hvp=lambda x, v: -v
    )
    n = np.arange(1, 401)[:, None]
    for kernel, colour in ((base, RED), (repelled, BLUE)):
        draws = xps.sample(
            target, kernel, np.random.default_rng(0).normal(size=(15, 1)), 400, seed=1
        ).draws[..., 0]
        panel.plot(n, np.cumsum(draws, axis=0) / n, color=colour, lw=0.7, alpha=0.8)
    panel.axhline(0, color=GREY, lw=1, ls="--")
    panel.set(ylim=(-1.2, 1.2))
    panel.set_xlabel("step", color=GREY)
    panel.set_title(title, color=GREY, fontsize=8)


@picture("srmc")
def _srmc(panel: Panel) -> None:
    repelled = xps.SRMC(
        xps.ULA(0.1), 5.0, xps.PowerLaw(1.0, offset=10.0), tilt=xps.Exact()
    )
    running_means(panel, xps.ULA(0.1), repelled, "running means; red: ULA, blue: SRMC")


@picture("srmc-theory")
def _srmc_theory(panel: Panel) -> None:
    alpha = np.linspace(0, 10, 200)
    for precision, colour in (
        (0.5, GREY),
        (1.0, GREEN),
        (2.0, BLUE),
    ):  # of a normal; the mean of x, rho = 1 (Eq. 16)
        panel.plot(alpha, 1 / (1 + 2 * alpha * precision), color=colour, lw=1.5)
    panel.set_xlabel("alpha", color=GREY)
    panel.set_title("variance of a mean / the base kernel's", color=GREY, fontsize=8)


@picture("srld")
def _srld(panel: Panel) -> None:
    repelled = xps.SRLD(xps.ULA(0.1), 5.0, xps.Rolling(10, 10))
    running_means(panel, xps.ULA(0.1), repelled, "running means; red: ULA, blue: SRLD")


@picture("svgd")
def _svgd(panel: Panel) -> None:
    contours(panel, BANANA, (-4.0, 4.0), (-3.0, 6.0))
    x0 = np.random.default_rng(0).normal(size=(40, 2)) * 0.5 + np.array([2.5, 5.0])
    draws = xps.sample(BANANA, xps.SVGD(0.1), x0, 500, seed=1).draws
    for i in range(40):
        panel.plot(draws[::5, i, 0], draws[::5, i, 1], color=GREY, lw=0.4)
    panel.plot(*x0.T, "o", color=RED, ms=2.5)
    panel.plot(*draws[-1].T, "o", color=BLUE, ms=3.5)


@picture("tempering")
def _tempering(panel: Panel) -> None:
    target = gaussian_mixture(
        [0.5, 0.3, 0.2], np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0]]), 0.7
    )
    contours(panel, target, (-7, 7), (-4, 8))
    kernel = xps.ParallelTempering(xps.MALA(0.5), xps.geometric_ladder(6, 0.03))
    draws = chain(kernel, 400, target, np.array([[-4.0, 0.0]]), seed=2)
    path(panel, draws[::2])


@picture("annealed")
def _annealed(panel: Panel) -> None:
    mixture = smoothed_mixture([0.7, 0.3], np.array([[-3.0], [3.0]]), 0.4, sigma=1.0)
    target = xps.Target(None, score=mixture.score, data=mixture.data)
    sigmas = [6.0 * s for s in xps.geometric_ladder(24, 0.02)]
    x0 = 7.0 * np.random.default_rng(0).standard_normal((60, 1))
    draws = xps.sample(
        target, xps.Annealed(xps.ULA(0.15), sigmas, steps=5), x0, len(sigmas), seed=1
    ).draws
    panel.plot(np.concatenate([x0[None], draws])[..., 0], color=BLUE, lw=0.5, alpha=0.7)
    panel.set_xlabel("noise level, from high to low", color=GREY)


def _wide_to_two(kernel: Any, draws: int) -> np.ndarray:
    wide = xps.Target(
        lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9
    )
    two = gaussian_mixture([0.5, 0.5], np.array([[-2.5], [2.5]]), 0.4)
    x0 = 3 * np.random.default_rng(0).standard_normal((60, 1))
    return np.concatenate(
        [x0[None], xps.sample(xps.Bridge(wide, two), kernel, x0, draws, seed=1).draws]
    )[..., 0]


@picture("ais")
def _ais(panel: Panel) -> None:
    betas = np.linspace(0, 1, 30) ** 2
    panel.plot(
        _wide_to_two(xps.AIS(xps.RWM(0.6), betas), 29), color=BLUE, lw=0.5, alpha=0.7
    )
    panel.set_xlabel("step, from the prior to the target", color=GREY)


@picture("smc")
def _smc(panel: Panel) -> None:
    paths = _wide_to_two(
        xps.TemperedSMC(xps.RWM(0.6), np.linspace(0, 1, 30) ** 2, moves=1), 29
    )
    panel.plot(
        np.arange(30)[:, None] + 0 * paths, paths, ".", color=BLUE, ms=3, alpha=0.6
    )
    panel.set_xlabel("step, from the prior to the target", color=GREY)


@picture("sosmc")
def _sosmc(panel: Panel) -> None:
    reward = lambda x: np.where(x[..., 1] < 0, 1.0, 0.0)  # noqa: E731
    family = xps.Parametric(
        lambda x, theta: theta[..., 0] * reward(x) - 0.5 * np.sum(x**2, axis=-1),
        np.zeros((8, 1, 1)),
        score=lambda x, theta: -x,
        gradient=xps.FiniteDifference(1e-3),
    )
    x0 = np.random.default_rng(0).standard_normal((8, 200, 2))
    kernel = xps.SOSMC(RewardReverseKL(reward, beta=0.5), LangevinMove(0.3), Adam(0.1))
    trace = xps.sample(
        family, kernel, x0, 80, seed=1, recorders=[SOSMCHistory({"reward": reward})]
    )
    panel.plot(trace.recorded["history"]["reward"].reshape(80, 8), color=BLUE, lw=0.8)
    panel.axhline(np.exp(2) / (1 + np.exp(2)), color=GREY, ls="--", lw=1)
    panel.set_xlabel("iteration", color=GREY)
    panel.set_title("mean reward, and its optimum", color=GREY, fontsize=8)


@picture("pcd")
def _pcd(panel: Panel) -> None:
    data = np.random.default_rng(0).standard_normal((500, 1)) + 2.0
    family = xps.Parametric(
        lambda x, theta: -0.5 * np.sum((x - theta) ** 2, axis=-1),
        np.full(1, -2.0),
        score=lambda x, theta: theta - x,
        gradient=xps.FiniteDifference(1e-3),
    )
    buffer = np.random.default_rng(1).normal(-2, 1, (200, 1))
    kernel = PCD(RowBatches(data), SGD(0.1), step_size=0.1, steps=5, blocks=2)
    draws = xps.sample(family, kernel, buffer, 60, seed=2).draws[..., 0]
    panel.plot(draws[:, :50], color=BLUE, lw=0.4, alpha=0.6)
    panel.plot(np.full(500, 62.0), data[:, 0], "_", color=RED, ms=8, alpha=0.3)
    panel.set_xlabel("update; red: the data", color=GREY)


def breast_cancer_figure() -> Any:
    """Draw the landing page's picture: a posterior, its chains, and predictions for held-out patients."""
    data = load_breast_cancer()
    target = breast_cancer()
    x0 = xps.start(target, like=np.zeros(31), chains=8, seed=0)
    draws = xps.sample(target, xps.HMC(), x0, 1000, seed=1).draws
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(8.4, 3.3), layout="constrained", width_ratios=(1.2, 1.1, 1.1)
    )
    flat = draws.reshape(-1, 31)
    order = np.argsort(np.abs(flat.mean(axis=0)))[-9:]
    low, quarter, half, three_quarters, high = np.quantile(
        flat[:, order], (0.05, 0.25, 0.5, 0.75, 0.95), axis=0
    )
    rows = np.arange(len(order))
    left.hlines(rows, low, high, color=BLUE, lw=1.2)
    left.hlines(rows, quarter, three_quarters, color=BLUE, lw=4)
    left.plot(half, rows, "o", color="white", ms=3, mec=BLUE)
    left.axvline(0, color=GREY, lw=0.8, ls=":")
    left.set_yticks(rows, [data.names[i] for i in order], color=GREY)
    left.set_title("what tells a malignant mass", color=GREY)
    first, second = order[-1], order[-2]
    for chain, colour in zip(
        np.moveaxis(draws, 1, 0)[:3], (BLUE, RED, GREEN), strict=True
    ):
        middle.plot(
            chain[:25, first],
            chain[:25, second],
            "-o",
            color=colour,
            ms=3,
            lw=0.8,
            alpha=0.9,
        )
    middle.plot(
        flat[::10, first],
        flat[::10, second],
        ".",
        color=GREY,
        ms=2,
        alpha=0.5,
        mew=0,
        zorder=0,
    )
    middle.set_xlabel(data.names[first], color=GREY)
    middle.set_ylabel(data.names[second], color=GREY)
    middle.set_title("25 steps of three chains", color=GREY)
    risk = 1 / (1 + np.exp(-flat[::4] @ data.test_features.T))  # (draw, patient)
    low, half, high = np.quantile(risk, (0.05, 0.5, 0.95), axis=0)
    rank = np.argsort(half)
    for label, colour in ((0, BLUE), (1, RED)):
        own = np.nonzero(data.test_labels[rank] == label)[0]
        right.vlines(own, low[rank][own], high[rank][own], color=colour, lw=1)
        right.plot(
            own,
            half[rank][own],
            "o",
            color=colour,
            ms=3,
            label=("benign", "malignant")[label],
        )
    right.legend(frameon=False, labelcolor=GREY, loc="upper left")
    right.set_xlabel("114 patients who were held out", color=GREY)
    right.set_title("risk, and how sure it is (90 %)", color=GREY)
    for panel in (left, middle, right):
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color(GREY)
        panel.tick_params(colors=GREY)
    return figure


FIGURES = {"breast-cancer": breast_cancer_figure, "choose": choose_figure}


def draw_all(folder: Path) -> None:
    """Draw those pictures that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 8})
    for name, draw in FIGURES.items():
        if _is_older(folder / f"{name}.png"):
            figure = draw()
            figure.savefig(folder / f"{name}.png", dpi=160, transparent=True)
            plt.close(figure)
    for name, function in PICTURES.items():
        file = folder / f"{name}.png"
        if not _is_older(file):
            continue
        figure, panel = plt.subplots(figsize=(3.2, 2.4), layout="constrained")
        panel.set(xticks=(), yticks=())
        panel.spines[:].set_color(GREY)
        panel.spines[:].set_alpha(0.4)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DiagnosisWarning
            )  # these runs are for a picture
            function(panel)
        panel.set(xticks=(), yticks=())
        figure.savefig(file, dpi=110, transparent=True)
        plt.close(figure)


def _is_older(file: Path) -> bool:
    """Return whether a picture is missing or was drawn by an older version of this file."""
    return not file.exists() or file.stat().st_mtime < Path(__file__).stat().st_mtime


if __name__ == "__main__":  # the picture of the README
    plt.rcParams.update({"font.size": 8})
    breast_cancer_figure().savefig(
        Path(__file__).parent / "_static" / "breast-cancer.png",
        dpi=110,
        metadata={"Software": ""},
    )
