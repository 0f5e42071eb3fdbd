"""Score-MH paper, Appendix B: ULA, MALA and Score-MALA on GEV(0, 1, xi), against the weight of the tail.

All shapes xi, both readings of the paper's step size, and all trainings are one batched run of each sampler. Chains
start at independent draws of the target: a sampler that leaves it invariant stays at the floor, and what rises above
is bias.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.score_mh import models
from xpsample.experiments.score_mh.gev_problem import gev, gev_quantile
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.experiments.transport import wasserstein_1d
from xpsample.kernels import MALA, ULA, Kernel
from xpsample.metrics import median_bandwidth, squared_mmd
from xpsample.metrics.stein import RBF
from xpsample.score_mh import LangevinProposal, Learned, acceptance_network, score_network
from xpsample.targets import Target

SHAPES = (-0.25, 0.0, 0.25, 0.5, 0.75)
BOUND = 100.0
"""Bound on the true score in the training of acceptances."""

MEASURES = (
    ("w1", "W1", ".3f"),
    ("mmd2", "MMD^2", ".4f"),
    ("accept", "acceptance", ".3f"),
    ("frozen", "frozen chains of ULA", ".3f"),
)
LEGEND = """\
floor     another draw of the target, as many
W1        between the chains' last positions and new draws, mean over trainings +- its standard error. Of the target,
          moments of order 1 / xi and above are infinite, and W1 of its own draws scatters (see the floor)
MMD^2     squared and unbiased, RBF kernel whose sigma is the median squared distance of draws; the mean over trainings
          and the least and the largest
true      with the score of the target; learned: with a network trained on draws
direct    accepted with a(x', x), the paper's; ratio: with min(1, a / a back); line: the line integral, 8 nodes
frozen    share of ULA's chains that left the support or the finite numbers, and stay where they were before"""
COLOURS = {
    "floor": "#B0B0B0",
    "ULA": "#202020",
    "MALA": "#7A4E9F",
    "MALA direct": "#B3440A",
    "MALA ratio": "#D98A2B",
    "MALA line": "#3567A8",
    "MALA Taylor": "#3B7A57",
}


class Size(NamedTuple):
    """Trainings, chains and steps of each, rows of data; how scores and acceptances are trained."""

    runs: int
    chains: int
    steps: int
    rows: int
    score: models.Training
    acceptance: models.Training
    shapes: tuple[float, ...] = SHAPES
    etas: tuple[float, ...] = (0.005, 0.1)
    """The paper's step size is 0.1: eta, or epsilon of which eta is half the square."""


FULL = Size(5, 400, 300, 10_000, models.Training(32, 0, 3000, 128, 1e-3), models.Training(32, 2, 50, 128, 5e-4, 78, 4))
QUICK = Size(
    2, 80, 30, 200, models.Training(8, 0, 20, 16, 1e-3), models.Training(8, 2, 2, 16, 5e-4, 12, 2), (-0.25, 0.5)
)


SWEPT = {"etas": "step size", "shapes": "shape xi"}
"""Fields of `Size` that an option gives other values."""


def options(parser: argparse.ArgumentParser) -> None:
    """Step sizes and shapes; all of them are one batch, so that few cost less."""
    for field, what in SWEPT.items():
        default = ", ".join(f"{value:g}" for value in getattr(FULL, field))
        text = f"{what}; may be given several times (default: {default})"
        parser.add_argument(f"--{field[:-1]}", dest=field, action="append", type=float, metavar="X", help=text)


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each sampler, step size and shape."""
    asked = {name: getattr(run.args, name) for name in SWEPT}
    run.size = run.size._replace(**{name: tuple(values) for name, values in asked.items() if values})
    size, (device,), rng = run.size, run.devices, np.random.default_rng(run.seed)
    run.say(f"{size.runs} trainings, {size.chains} chains of {size.steps} steps on each, from draws of the target")
    shape, xi = (len(size.shapes), size.runs, size.chains), np.asarray(size.shapes)[:, None, None]
    start, fresh, other = (gev_quantile(rng.random(shape), xi) for _ in range(3))
    yield from measured(size, np.stack([other] * len(size.etas)), fresh, {"sampler": "floor", "score": ""})
    x0 = device.array(np.broadcast_to(start[..., None], (len(size.etas), *shape, 1)))
    for name, score, kernel, target in samplers(run):
        trace = run.sample(target, kernel, x0, 1, thinning=size.steps, quiet=True)  # divergences are in the rows
        shares = {"accept": to_host(trace.run_statistics.acceptance_probability)}
        if name == "ULA":
            shares["frozen"] = trace.run_statistics.diverged > 0
        x = to_host(trace.draws)[0, ..., 0].astype(np.float64)
        yield from measured(size, x, fresh, {"sampler": name, "score": score}, **shares)


def measured(size: Size, x: np.ndarray, fresh: np.ndarray, named: Row, **shares: np.ndarray) -> Iterator[Row]:
    """Rows of positions (eta, shape, runs, chains), for each step size and shape; `shares` are averaged."""
    for e, eta in enumerate(size.etas):
        for k, shape in enumerate(size.shapes):
            kernel = RBF(float(median_bandwidth(fresh[k, 0][:, None])))
            row = {"eta": eta, "shape": shape} | named
            row |= mean_and_error("w1", wasserstein_1d(x[e, k], fresh[k]))
            row |= models.mean_and_range("mmd2", squared_mmd(x[e, k][..., None], fresh[k][..., None], kernel))
            means = {key: np.mean(np.broadcast_to(values, x.shape)[e, k]) for key, values in shares.items()}
            yield row | {"accept": None, "frozen": None} | means


def samplers(run: Run[Size]) -> Iterator[tuple[str, str, Kernel, Target]]:
    """Name, whose score, kernel, and target of positions (eta, shape, runs, chains, 1); networks are trained here."""
    size, (device,), etas, shapes = run.size, run.devices, np.asarray(run.size.etas), np.asarray(run.size.shapes)
    each = (len(etas), len(shapes), size.runs)  # acceptance networks
    target, steps = gev(shapes[:, None, None]), device.array(etas[:, None, None, None])
    yield "ULA", "true", ULA(steps), replace(target, constrained=False)  # to show what it does beyond the support
    yield "MALA", "true", MALA(steps), target

    rng = np.random.default_rng([run.seed, 1])
    data = gev_quantile(rng.random((size.rows, len(shapes))), shapes)
    scores = models.train_columns(run, data, size.runs, size.score)
    # Rows for each training and shape, which the acceptance networks of both step sizes share; others to validate.
    rows, validation = (
        np.tile(gev_quantile(rng.random((count, *each[1:])), shapes[:, None]).reshape(count, -1), len(etas))
        for count in (size.rows, size.rows // 10)
    )
    proposal = LangevinProposal(device.array(np.repeat(etas, rows.shape[-1] // len(etas))))

    def by_score(name: str, target: Target, score: Callable[..., Array], parameters: tree.Tree) -> Iterator[Any]:
        trained = models.train_acceptance_columns(
            run, rows, proposal, bounded(score), parameters, size.acceptance, validation
        )
        learned = Learned(acceptance_network, models.arranged(trained.parameters, *each), LangevinProposal(steps))
        for label, acceptance in models.acceptances(learned).items():
            accepting = Target(None, score=target.score, data=target.data, acceptance=acceptance)
            yield f"MALA {label}", name, MALA(steps), accepting

    true = gev(np.tile(np.repeat(shapes, size.runs), len(etas))[:, None])
    yield from by_score("true", target, true.score, true.data)
    target = Target(None, score=score_network, data=models.arranged(scores.parameters, *each[1:]))
    yield "ULA", "learned", ULA(steps), target
    yield from by_score("learned", target, score_network, models.repeated(scores.parameters, len(etas)))


def bounded(score: Callable[..., Array]) -> Callable[..., Array]:
    """A score for training: 0 outside of the support, and clipped where it diverges at its edge (Algorithm 1)."""

    def clipped(x: Array, *parameters: tree.Tree) -> Array:
        xp, s = array_namespace(x), score(x, *parameters)
        return xp.clip(xp.where(xp.isnan(s), xp.zeros_like(s), s), -BOUND, BOUND)

    return clipped


def tell(run: Run[Size], rows: list[Row]) -> None:
    """For each step size and measure, a line for each sampler and a column for each shape."""
    shapes = {f"{shape:g}": (f"xi = {shape:g}", "s") for shape in run.size.shapes}
    for eta in run.size.etas:
        for key, title, spec in MEASURES:
            lines: dict[tuple[str, str], Row] = {}
            for row in rows:
                if row["eta"] == eta and row[key] is not None:
                    named = {name: row[name] for name in ("sampler", "score")}
                    line = lines.setdefault(tuple(named.values()), named)
                    text = models.range_text if f"{key}_low" in row else models.mean_text
                    line[f"{row['shape']:g}"] = text(row, key, spec)
            run.table(list(lines.values()), columns("sampler | score") | shapes, title=f"eta = {eta:g}: {title}")
    run.say(f"\n{LEGEND}")


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """The bias of each sampler at its largest."""

    def largest(eta: float, sampler: str) -> float:
        return max(row["mmd2"] for row in rows if (row["eta"], row["sampler"]) == (eta, sampler))

    found = {eta: ", ".join(f"{name} {largest(eta, name):.3f}" for name in COLOURS) for eta in run.size.etas}
    return "\n".join(f"largest MMD^2 for eta = {eta:g}: {text}" for eta, text in found.items())


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """W1 and MMD^2 against the shape, a column for each step size and score."""
    panels = [(eta, score) for eta in run.size.etas for score in ("true", "learned")]
    figure.set_size_inches(4 * len(panels), 6)
    grid = figure.subplots(2, len(panels), squeeze=False)
    for (w1, mmd2), (eta, score) in zip(grid.T, panels, strict=True):
        for axes, key, title in ((w1, "w1", "W$_1$"), (mmd2, "mmd2", "MMD$^2$")):
            for sampler, colour in COLOURS.items():
                own = [r for r in rows if r["eta"] == eta and r["sampler"] == sampler and r["score"] in (score, "")]
                x, y, errors = ([row[name] for row in own] for name in ("shape", key, f"{key}_se"))
                axes.errorbar(x, y, yerr=errors, fmt="o-", color=colour, ms=3, lw=1, label=sampler)
            axes.set(xlabel="xi", title=f"{title}: eta = {eta:g}, {score} score")
        w1.set_yscale("log")
        mmd2.set_yscale("symlog", linthresh=1e-3)
        w1.legend(frameon=False, fontsize=7)
        tidy(w1, mmd2)


EXPERIMENT = Experiment(
    name="score-mh-gev",
    title="Generalized extreme value distributions GEV(0, 1, xi); Score-MH paper, Appendix B",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper="figures without numbers, at one step size of 0.1; the adjustment is to matter more the heavier the tail",
    figures={"plot": plot},
    options=options,
    trains=True,
    devices=one_float32,
)
