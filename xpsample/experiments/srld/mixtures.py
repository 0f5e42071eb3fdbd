"""SRLD paper, Appendix B: a mixture in the plane, a Gaussian in 100 dimensions, a mixture in 20, against alpha.

All repeats at all strengths of a problem are one batched run, in which every strength sees the same noise. A second run
is Langevin dynamics with its step scaled, for each strength and repeat, so that the root mean square of its drift is
SRLD's, as in the authors' toy code.
"""

import argparse
import math
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.srld import matched
from xpsample.experiments.table import Row, columns, means_and_errors
from xpsample.experiments.transport import marginal_wasserstein
from xpsample.metrics import median_bandwidth
from xpsample.metrics.stein import RBF
from xpsample.targets import Target
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.mixture import gaussian_mixture

W1_EVERY, W1_EXACT = 2, 500
"""Every which draw the exact distance takes, and how many draws of the target."""
PATH = 250
"""Positions of a trajectory that are drawn, as in the paper's Fig. 5."""
LAGS = 100
"""Number of lags of the autocorrelations."""
GREYS = {"LD": "#202020", "LD scaled": "#909090"}
COLOURS = ("#B3440A", "#D98A2B", "#3B7A57", "#3567A8")


class Problem(NamedTuple):
    """A target of Appendix B: what it is made of, how it is run, and the strengths, which end with 0."""

    dim: int
    means: tuple[float, ...]
    variance: float
    eta: float
    every: int
    draws: int
    alphas: tuple[float, ...]

    def target(self) -> Target:
        """The mixture of N(m 1, variance I), with equal weights, over its means m."""
        if self.means == (0.0,):
            return gaussian(self.variance * np.eye(self.dim))
        means = np.asarray(self.means)[:, None] * np.ones(self.dim)
        return gaussian_mixture(np.ones(len(means)), means, math.sqrt(self.variance))

    @property
    def square(self) -> float:
        """The mean square of a coordinate."""
        return self.variance + float(np.mean(np.square(self.means)))

    def exact(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, (count, dim)."""
        centres = rng.choice(self.means, size=count)
        return centres[:, None] + math.sqrt(self.variance) * rng.standard_normal((count, self.dim))


PROBLEMS = {
    "mixture, d = 2": Problem(2, (1.0, -1.0), 1.0, 1e-3, 100, 1000, (10.0, 0.0)),
    "Gaussian, d = 100": Problem(100, (0.0,), 0.5, 1e-2, 10, 1000, (100.0, 50.0, 20.0, 10.0, 0.0)),
    "mixture, d = 20": Problem(20, (0.1**0.5, -(0.1**0.5)), 1.0, 1e-3, 100, 1000, (20.0, 10.0, 5.0, 0.0)),
}
"""The paper gives dimensions, means, strengths and thinning; step sizes and draws are from the authors' toy code,
the Gaussian's step size from its other unimodal target."""
OPTION = {name.replace(", d = ", "-"): name for name in PROBLEMS}


class Size(NamedTuple):
    """Repeats, the share of a problem's draws that is made, M, draws dropped, draws to compare with."""

    repeats: int
    share: float
    past: int
    dropped: int
    exact: int
    settings: tuple[str, ...] = tuple(matched.SETTINGS)


PAPERS = Size(repeats=20, share=1.0, past=100, dropped=100, exact=2000)
# The other setting's bandwidth sorts all pairs of the past in every step.
FULL = PAPERS._replace(settings=("authors' code",))
QUICK = Size(repeats=3, share=0.06, past=10, dropped=10, exact=200)

COLUMNS = columns("sampler | alpha g | eta .2e") | matched.measure_columns(
    "mmd2 .4f MMD^2 | mmd2_median .4f MMD^2 med | marginal_w1 .4f marg W1/d | w1 .3f W1 | square .3f x^2 | "
    "ess .0f ESS | acf1 .3f acf 1 | acf10 .3f acf 10"
)
LEGEND = f"""\
exact     independent draws of the target, as many
LD        alpha = 0 at the same step size; LD scaled: at the one whose drift is, in the root mean square, SRLD's
MMD^2     unbiased, with k = exp(-0.1 d^2), against draws of the target; the paper's "MMD"
MMD^2 med the same with k = exp(-d^2 / sigma), sigma the median squared distance of draws of the target
marg W1/d Wasserstein-1 distance of the marginals, averaged over coordinates; d times it is the paper's "W1"
W1        the Wasserstein-1 distance itself, from every second draw, against {W1_EXACT} draws; it needs POT,
          pip install "xpsample[metrics]"
x^2       mean square of a coordinate, over the target's: below 1 the draws are too narrow
ESS, acf  of a chain's mean, and autocorrelation at lags 1 and 10 in kept draws, averaged over coordinates
Means over repeats +- the standard error. Differences are paired, with 95 % intervals"""
PAPER = """\
In 100 dimensions alpha = 100 has the largest ESS, and a worse MMD and W1 than smaller ones (Fig. 6); in 20 a larger
alpha explores better (Fig. 7). Of the width of the draws, x^2, it says nothing"""


def options(parser: argparse.ArgumentParser) -> None:
    """Which problems."""
    parser.add_argument(
        "--problem", action="append", choices=tuple(OPTION), help="may be given several times (default: all)"
    )


def measure(run: Run[Size]) -> Iterator[Row]:
    """All problems in all settings; draws by sampler, and the target's, are left for the figure."""
    run.say(f"the first {run.size.dropped} draws dropped; M = {run.size.past}")
    for device in run.devices:
        for name in PROBLEMS:
            if run.args.problem and name not in map(OPTION.get, run.args.problem):
                continue
            for setting in run.size.settings:
                with run.step(f"{device}, {name}, {setting}"):
                    yield from _problem(run, device, name, setting)


def _problem(run: Run[Size], device: DeviceDtype, name: str, setting: str) -> Iterator[Row]:
    size, problem, seed = run.size, PROBLEMS[name], run.seed + 1000 * list(PROBLEMS).index(name)
    repeats, kept = size.repeats, round(problem.draws * size.share) - size.dropped
    rng = np.random.default_rng(seed)
    x0, truth = matched.starts(repeats, rng, problem.dim), problem.exact(size.exact, rng)
    how = {"eta": problem.eta, "alphas": problem.alphas, "past": size.past, "every": problem.every}
    how |= {"dropped": size.dropped, "draws": kept, "seed": seed}
    pair = matched.sample(run, problem.target(), device, setting, x0, **how)
    exact = np.stack([problem.exact(kept, rng) for _ in range(repeats)], axis=1)
    measures = partial(_measures, truth=truth, square=problem.square)

    def row(sampler: str, alpha: float | None, eta: float | None, values: dict[str, np.ndarray]) -> Row:
        labels = {"backend": device.backend.name, "problem": name, "setting": setting, "draws": kept}
        return labels | {"sampler": sampler, "alpha": alpha, "eta": eta} | means_and_errors(values)

    ld, shown = measures(pair.srld[:, -1]), {"LD": pair.srld[:, -1]}
    yield row("exact", None, None, measures(exact))
    yield row("LD", 0.0, problem.eta, ld)
    for i, alpha in enumerate(problem.alphas[:-1]):
        srld, scaled = measures(pair.srld[:, i]), measures(pair.ld[:, i])
        yield row("SRLD", alpha, problem.eta, srld)
        yield row("LD scaled", alpha, problem.eta * np.mean(pair.ratio[i]), scaled)
        yield row("SRLD - LD", alpha, None, matched.difference(srld, ld))
        yield row("SRLD - LD scaled", alpha, None, matched.difference(srld, scaled))
        shown[f"SRLD, alpha = {alpha:g}"] = pair.srld[:, i]
    if len(problem.alphas) == 2:
        shown["LD scaled"] = pair.ld[:, 0]
    run.shown.setdefault(f"{name}\n{setting}", (shown, truth))


def _measures(draws: np.ndarray, truth: np.ndarray, square: float) -> dict[str, np.ndarray]:
    """Measures of each repeat, (repeat,)."""
    runs, lags = np.moveaxis(draws, 0, 1), min(10, len(draws) - 1)
    acf = np.mean(matched.autocorrelation(draws, lags), axis=-1)
    return {
        "mmd2": matched.mmd2(runs, truth),
        "mmd2_median": matched.mmd2(runs, truth, RBF(float(median_bandwidth(truth)))),
        "marginal_w1": marginal_wasserstein(runs, truth) / truth.shape[-1],
        "square": np.mean(draws**2, axis=(0, 2)) / square,
        "ess": matched.ess(runs),
        "acf1": acf[1],
        "acf10": acf[lags],
    } | matched.exact_w1(runs[:, ::W1_EVERY], truth[:W1_EXACT])


def _parts(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Problem and setting, and their rows."""
    for parts, of_part in groupby(rows, key=lambda row: (row["backend"], row["problem"], row["setting"])):
        yield ", ".join(parts), list(of_part)


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A table for each problem and setting."""
    for title, own in _parts(rows):
        problem = PROBLEMS[own[0]["problem"]]
        kept = f"{run.size.repeats} repeats of {own[0]['draws']} draws"
        run.table(own, COLUMNS, ("sampler", "alpha"), title=f"{title}: {kept}, one in {problem.every} steps")
    run.say("\n" + LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """The strength with the smallest median MMD, with LD with its step scaled."""
    lines = []
    for title, own in _parts(rows):
        best = min((row for row in own if row["sampler"] == "SRLD"), key=lambda row: row["mmd2_median"])
        gain = next(r for r in own if r["sampler"] == "SRLD - LD scaled" and r["alpha"] == best["alpha"])
        lines.append(
            f"{title}: smallest MMD^2 med with alpha = {best['alpha']:g}, x^2 {best['square']:.2f}; "
            f"beside LD scaled {matched.verdict(gain)}"
        )
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Draw quality against the number of draws and the autocorrelation, a row for each problem; plane trajectories."""
    figure.set_size_inches(16, 3.4 * len(run.shown))
    grid = figure.subplots(len(run.shown), 6, squeeze=False)
    for axes, (name, (shown, truth)) in zip(grid, run.shown.items(), strict=True):
        coloured = iter(COLOURS)
        for sampler, draws in shown.items():
            colour = GREYS.get(sampler) or next(coloured)
            matched.plot_quality(axes[:4], draws, truth, LAGS, colour, sampler, average=True)
        axes[0].set_ylabel(name)
        axes[3].legend(frameon=False, fontsize=8)
        for one, (sampler, draws) in zip(axes[4:], shown.items(), strict=False):
            if truth.shape[-1] == 2:
                _trajectory(one, sampler, draws[:PATH, 0], truth)
            else:
                one.axis("off")


def _trajectory(axes: Any, sampler: str, x: np.ndarray, truth: np.ndarray) -> None:
    axes.plot(truth[:, 0], truth[:, 1], ".", color="#bcd3ea", ms=2)
    axes.plot(x[:, 0], x[:, 1], "o-", color=GREYS.get(sampler, COLOURS[0]), ms=2, lw=0.5)
    axes.set_title(f"{sampler}: first {len(x)}", fontsize=10)
    axes.set(xlim=(-4.5, 4.5), ylim=(-4.5, 4.5))


EXPERIMENT = Experiment(
    name="srld-mixtures",
    title="Mixtures and a Gaussian, against alpha; SRLD paper, Appendix B",
    settings={"full": FULL, "quick": QUICK, "paper": PAPERS},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
    options=options,
)
