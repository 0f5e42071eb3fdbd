"""SRLD paper, Section 6.1: Langevin dynamics and SRLD on a correlated density in the plane, with the same noise.

All repeats of a sampler are one batched run. Langevin's step is scaled, repeat by repeat, so that the root mean square
of its drift is SRLD's, as in the authors' code.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.srld import matched
from xpsample.experiments.table import Row, columns, means_and_errors
from xpsample.experiments.transport import marginal_wasserstein
from xpsample.kernels import MALA
from xpsample.targets import Target

ETA, ALPHA, DROPPED = 0.01, 10.0, 100
W1_EVERY = 4
"""Every which draw the exact distance takes."""
PATH = 150
"""Positions of a trajectory that are drawn."""
LAGS = 200
"""Number of lags of the autocorrelations."""
COLOURS = {"LD": "#6b6b6b", "SRLD": "#B3440A"}

COLUMNS = columns("backend | setting | sampler | eta .4f") | matched.measure_columns(
    "mmd2 .4f MMD^2 | marginal_w1 .3f marg W1 | w1 .3f W1 | ess .1f ESS | acf10 .3f acf 10"
)
LEGEND = """\
MMD^2   unbiased, with k = exp(-0.1 d^2), against draws of the target; the paper's "MMD"
marg W1 sum of the Wasserstein-1 distances of the two marginals; the paper's "W1"
W1      the Wasserstein-1 distance itself, from every fourth draw; it needs POT, pip install "xpsample[metrics]"
ESS     of a chain's mean, averaged over coordinates
All but eta are means over repeats +- the standard error. SRLD - LD is paired, with a 95 % interval"""
PAPER = "SRLD has significantly smaller MMD and W1, a larger ESS, and a negative autocorrelation (Fig. 2)"


class Size(NamedTuple):
    """Repeats, steps of each, M, and draws of the target to compare with."""

    repeats: int
    steps: int
    past: int
    exact: int


FULL = Size(repeats=20, steps=2000, past=100, exact=2000)
QUICK = Size(repeats=3, steps=300, past=10, exact=200)


def correlated() -> Target:
    """log density -x1^4 / 10 - (4 (x2 + 1.2) - x1^2)^2 / 2."""

    def log_density(x: Array) -> Array:
        z = _residual(x)
        return -(x[..., 0] ** 4) / 10 - 0.5 * z * z

    def score(x: Array) -> Array:
        z = _residual(x)
        return array_namespace(x).stack([-0.4 * x[..., 0] ** 3 + 2 * z * x[..., 0], -4 * z], axis=-1)

    return Target(log_density, score=score)


def _residual(x: Array) -> Array:
    return 4 * (x[..., 1] + 1.2) - x[..., 0] ** 2


def exact_draws(count: int, rng: np.random.Generator) -> np.ndarray:
    """x1^4 / 10 is Gamma(1/4), and 4 (x2 + 1.2) - x1^2 is standard normal whatever x1; (count, 2)."""
    x1 = (10 * rng.gamma(0.25, size=count)) ** 0.25 * rng.choice([-1.0, 1.0], count)
    return np.stack([x1, (x1**2 + rng.standard_normal(count)) / 4 - 1.2], axis=-1)


def measure(run: Run[Size]) -> Iterator[Row]:
    """LD, SRLD and their difference in both settings; draws (draw, repeat, 2) are left for the figure."""
    repeats, steps, past, exact = run.size
    run.say(
        f"{repeats} repeats of {steps} steps, the first {DROPPED} dropped; eta = {ETA}, alpha = {ALPHA:g}, "
        f"M = {past}, c = 1"
    )
    rng = np.random.default_rng(run.seed)
    x0, truth = matched.starts(repeats, rng), exact_draws(exact, rng)
    run.shown |= {"truth": truth, "draws": {}}
    for device in run.devices:
        for setting in matched.SETTINGS:
            how = {"eta": ETA, "alphas": (ALPHA,), "past": past, "every": 1, "dropped": DROPPED}
            with run.step(f"{device}, {setting}"):
                pair = matched.sample(run, correlated(), device, setting, x0, draws=steps - DROPPED, **how)
                ld, srld = pair.ld[:, 0], pair.srld[:, 0]
                found = {"LD": _measures(ld, truth), "SRLD": _measures(srld, truth)}
            found["SRLD - LD"] = matched.difference(found["SRLD"], found["LD"])
            etas = {"LD": np.mean(ETA * pair.ratio), "SRLD": ETA}
            for sampler, values in found.items():
                labels = {"backend": device.backend.name, "setting": setting, "sampler": sampler}
                yield labels | {"eta": etas.get(sampler)} | means_and_errors(values)
            run.shown["draws"].setdefault(setting, {"LD": ld, "SRLD": srld})


def _measures(draws: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Measures of each repeat, (repeat,)."""
    runs = np.moveaxis(draws, 0, 1)
    return {
        "mmd2": matched.mmd2(runs, truth),
        "marginal_w1": marginal_wasserstein(runs, truth),
        "ess": matched.ess(runs),
        "acf10": np.mean(matched.autocorrelation(draws, 10)[10], axis=-1),
    } | matched.exact_w1(runs[:, ::W1_EVERY], truth)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Check if SRLD is better, in both settings."""
    return "\n".join(f"{row['backend']}, {row['setting']}: SRLD is {matched.verdict(row)}" for row in rows[2::3])


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Draw quality against the number of draws, the autocorrelation, and a trajectory, a row for each setting."""
    draws = run.shown["draws"]
    figure.set_size_inches(15, 3.3 * len(draws))
    grid = figure.subplots(len(draws), 6, squeeze=False)
    for axes, (name, of_setting) in zip(grid, draws.items(), strict=True):
        for (sampler, x), path in zip(of_setting.items(), axes[4:], strict=True):
            matched.plot_quality(axes[:4], x, run.shown["truth"], LAGS, COLOURS[sampler], sampler)
            _trajectory(path, sampler, x[:PATH, 0])
        axes[0].set_ylabel(name)
        axes[0].legend(frameon=False)


def _trajectory(axes: Any, sampler: str, x: np.ndarray) -> None:
    fine = np.stack(np.meshgrid(np.linspace(-3, 3, 120), np.linspace(-2.2, 1.6, 120)), axis=-1)
    density = np.exp(correlated().prepare(fine, MALA(1.0).requires).evaluate(fine).log_density)
    axes.contourf(fine[..., 0], fine[..., 1], density, levels=8, cmap="Blues")
    axes.plot(x[:, 0], x[:, 1], "o-", color=COLOURS[sampler], ms=2, lw=0.6)
    axes.set(title=f"{sampler}, first {len(x)} kept", xlim=(-3, 3), ylim=(-2.2, 1.6))


EXPERIMENT = Experiment(
    name="srld-banana",
    title="Correlated density in the plane; SRLD paper, Section 6.1",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
)
