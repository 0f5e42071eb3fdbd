"""SRLD paper, Section 6.2 and Appendix C: Bayesian neural networks on UCI sets by LD, SRLD and SVGD.

All splits of a data set are chains of one batched run, each with its training rows. Step sizes are chosen on
validation rows held out of training rows; test rows are seen once, at the end.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.data import load_dataset
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.srld.regression_network import Predictive, dimension, predictive, regression_network
from xpsample.experiments.table import Row, columns, interval, means_and_errors
from xpsample.kernels import ULA, Kernel
from xpsample.kernels.minibatch import Minibatch
from xpsample.particles.svgd import SVGD, AdaGrad
from xpsample.srld import SRLD, Rolling
from xpsample.targets import Target
from xpsample.trace.recorders import Draws

HIDDEN, BATCH, PAST, PARTICLES = 50, 100, 10, 20
TUNING_SPLITS = 3
TIMED_SPLITS, TIMED_RUNS = 3, 5
PARTS = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of the draws of a chain that are scored, from the first on, for Tables 3 and 4 and Figs. 8 and 9."""
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""eta times the number of training rows, for Langevin dynamics."""
ADAGRAD_STEPS = (0.003, 0.01, 0.03, 0.1)


class Split(NamedTuple):
    """Rows of all splits, inputs (splits, rows, features) standardized by each split's training rows.

    ``outputs`` (splits, rows) are the networks' outputs: the outputs in their own units, ``test_outputs``, less the
    location over the scale, (splits, 1).
    """

    inputs: np.ndarray
    outputs: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    test_inputs: np.ndarray
    test_outputs: np.ndarray


def split_rows(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, scaled: bool = False) -> Split:
    """Rows `train` and `test`, (splits, rows) each, of x (rows, features) and y (rows,).

    Inputs that are constant in a split's training rows become 0. Outputs are standardized only where `scaled`.
    """
    inputs, outputs = x[train], y[train]
    mean, sd = inputs.mean(axis=1, keepdims=True), inputs.std(axis=1, keepdims=True)
    sd = np.where(sd > 1e-9 * np.abs(mean), sd, 1.0)
    location, scale = outputs.mean(axis=1, keepdims=True), outputs.std(axis=1, keepdims=True)
    if not scaled:
        location, scale = np.zeros_like(location), np.ones_like(scale)
    return Split((inputs - mean) / sd, (outputs - location) / scale, location, scale, (x[test] - mean) / sd, y[test])


class Problem(NamedTuple):
    """A file of the data folder, and the paper's test RMSE and test log likelihood by sampler, as printed."""

    file: str
    paper: dict[str, str]


def _paper(*cells: str) -> dict[str, str]:
    return dict(zip(("SVGD", "LD", "SRLD 10"), cells, strict=True))


PROBLEMS = {
    "boston": Problem("uci_boston", _paper("3.300, -4.276", "3.342, -2.678", "3.086, -2.500")),
    "yacht": Problem("uci_yacht", _paper("0.593, -1.281", "0.597, -1.187", "0.578, -0.458")),
    "energy": Problem("uci_energy", _paper("0.428, -0.781", "0.412, -0.543", "0.395, -0.476")),
    "concrete": Problem("uci_concrete", _paper("4.994, -5.500", "4.908, -3.055", "4.886, -3.034")),
    "naval": Problem("uci_naval", _paper("0.006, 3.056", "0.006, 4.041", "0.003, 4.186")),
    "wine-red": Problem("uci_wine_red", _paper("0.655, -1.040", "0.649, -1.004", "0.639, -0.970")),
    "wine-white": Problem("uci_wine_white", _paper("0.655, -1.040", "0.692, -1.047", "0.688, -1.043")),
}
DEFAULT = ("boston", "yacht", "energy", "concrete")

COLUMNS = columns(
    "data | backend | sampler | draws d | step g | rmse .4f+- RMSE | log_likelihood .4f+- log lik. | "
    "coverage .3f+- cover 90 | spread .4f+- | frozen d | seconds .0f s | paper"
)
LEGEND = """\
RMSE     of the posterior mean on test rows, in the units of the output; log lik. the mean log predictive density there
cover 90 share of test rows within 1.645 predictive standard deviations of the mean
spread   of f over the draws, root mean square over test rows, in the units of the output
step     eta times training rows (SVGD: AdaGrad's step), chosen by the log likelihood of validation rows
draws    SRLD's and LD's first ones, against all particles of SVGD (Tables 3 and 4, Figs. 8 and 9)
frozen   splits whose chain left the finite numbers
paper    RMSE, log lik.
Means over splits +- the standard error; differences are paired"""
PAPER = """\
SRLD has the lowest RMSE and the highest log likelihood on all sets but wine-white, where SVGD has; its figures are in
the last column (Table 1)"""


class Size(NamedTuple):
    """Splits, steps of LD and SRLD, thinning (and c), steps of SVGD, and steps that are timed.

    Four fifths of the steps are burn-in. Each step size is tuned in runs of the same length.
    """

    splits: int
    steps: int
    thinning: int
    svgd: int
    timed: int


PAPERS = Size(splits=20, steps=50_000, thinning=100, svgd=2_000, timed=500)
FULL = Size(splits=20, steps=20_000, thinning=100, svgd=1_000, timed=500)
QUICK = Size(splits=4, steps=300, thinning=5, svgd=20, timed=20)


class Method(NamedTuple):
    """A kernel by its step size, the step sizes to choose from, particles of a split (0: a chain), how long it runs."""

    kernel: Callable[[Any], Kernel]
    grid: tuple[float, ...]
    particles: int
    steps: int
    draws: int
    thinning: int


def methods(size: Size, alphas: list[float]) -> dict[str, Method]:
    """The samplers of the table."""
    steps, every = size.steps, size.thinning
    long = (STEPS, 0, steps, steps // 5 // every, every)
    found = {
        f"SRLD {alpha:g}" if alpha else "LD": Method(partial(_langevin, alpha=alpha, every=every), *long)
        for alpha in (0.0, *alphas)
    }
    return found | {"SVGD": Method(_svgd, ADAGRAD_STEPS, PARTICLES, size.svgd, 1, 1)}


def _langevin(eta: Any, alpha: float, every: int) -> Kernel:
    return Minibatch(SRLD(ULA(eta), alpha, Rolling(PAST, every)) if alpha else ULA(eta), BATCH)


def _svgd(eta: Any) -> Kernel:
    return Minibatch(SVGD(eta, adagrad=AdaGrad()), BATCH, common=True)  # the particles of a split share their batches


def options(parser: argparse.ArgumentParser) -> None:
    """Data sets, step sizes, scaling and strengths."""
    add, default = parser.add_argument, ", ".join(DEFAULT)
    add("--data", action="append", choices=tuple(PROBLEMS), help=f"data set; may be repeated (default: {default})")
    add("--step", type=float, metavar="S", help="eta N of LD and SRLD, instead of one chosen on validation rows")
    text = "standardize the outputs, too, by the training rows (default: in their own units, as in the public code)"
    add("--scaled", action="store_true", help=text)
    text = "strength of the repulsion, positive; may be repeated (default: 10, the paper's, and 1, its public code's)"
    add("--alpha", action="append", type=float, metavar="A", help=text)


def measure(run: Run[Size]) -> Iterator[Row]:
    """All samplers on all data sets, and the differences of SRLD and LD."""
    size, args = run.size, run.args
    run.say(
        f"{size.splits} splits, {size.steps} steps, the first {size.steps * 4 // 5} dropped, one in {size.thinning} "
        f"kept; M = {PAST}, batches of {BATCH}; SVGD: {size.svgd} steps of {PARTICLES} particles; outputs "
        + ("standardized" if args.scaled else "in their own units")
    )
    for name in args.data or DEFAULT:
        arrays = load_dataset(PROBLEMS[name].file)
        x, y = arrays["X"], arrays["y"]
        train, test = (arrays[key][: size.splits].astype(np.int64) for key in ("train_index", "test_index"))
        final = split_rows(x, y, train, test, args.scaled)
        tuning = split_rows(x, y, *_held_out(train[:TUNING_SPLITS], run.seed), args.scaled)
        run.say(f"{name}: {train.shape[1]} + {test.shape[1]} rows, {dimension(x.shape[1], HIDDEN)} coordinates")
        for device in run.devices:
            _timing(run, final, device)
            labels, found = {"data": name, "backend": device.backend.name}, {}
            for sampler, method in methods(size, args.alpha or [10.0, 1.0]).items():
                step = args.step
                if step is None or sampler == "SVGD":
                    scores = _tune(run, tuning, device, method, f"{sampler}, all step sizes")
                    step = max(scores, key=lambda step: scores[step])
                    run.say(f"  {sampler}: validation " + ", ".join(f"{s:g}: {v:.3f}" for s, v in scores.items()))
                measures, frozen, seconds = _fit(run, final, device, method, (step,), sampler, PARTS)
                found[sampler] = {key: values[:, 0] for key, values in measures.items()}
                row = labels | {"sampler": sampler, "step": step} | means_and_errors(_part(found[sampler]))
                row |= {"frozen": np.sum(frozen), "seconds": seconds}
                yield row | {"paper": PROBLEMS[name].paper.get(sampler, "")}
            for sampler in list(found)[1:-1]:
                yield labels | {"sampler": f"{sampler} - LD"} | _gain(found[sampler], found["LD"]) | {"paper": ""}
            for i, share in enumerate(PARTS):
                own = labels | {"draws": round(share * methods(size, [])["LD"].draws), "paper": ""}
                for sampler in list(found)[1:-1]:
                    for other in ("LD", "SVGD"):
                        row = own | {"sampler": f"{sampler} - {other}, first draws"}
                        yield row | _gain(found[sampler], found[other], i)


def _part(measures: dict[str, np.ndarray], i: int = -1) -> dict[str, np.ndarray]:
    """The measures (split,) of a share of the draws, from the measures of all shares (share, split)."""
    return {key: values[i] for key, values in measures.items()}


def _gain(own: dict[str, np.ndarray], other: dict[str, np.ndarray], i: int = -1) -> Row:
    """Differences paired by split."""
    return means_and_errors({key: values - _part(other, i)[key] for key, values in _part(own, i).items()})


def _held_out(train: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training rows (splits, rows) in two at random, nine to one."""
    shuffled = np.random.default_rng(seed).permuted(train, axis=1)
    kept = round(0.9 * train.shape[1])
    return shuffled[:, :kept], shuffled[:, kept:]


def starts(shape: tuple[int, ...], features: int, seed: int) -> np.ndarray:
    """Weights N(0, 1 / units that feed in), biases included, and log precision 0; (*shape, dim)."""
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((*shape, (features + 1) * HIDDEN)) / math.sqrt(features + 1)
    second = rng.standard_normal((*shape, HIDDEN + 1)) / math.sqrt(HIDDEN + 1)
    return np.concatenate([first, second, np.zeros((*shape, 1))], axis=-1)


def _target(split: Split, axes: int) -> Target:
    """The posteriors of all splits, for positions with so many chain axes after the axis of the splits."""
    inputs, outputs = (np.expand_dims(a, tuple(range(1, 1 + axes))) for a in (split.inputs, split.outputs))
    return regression_network(inputs, outputs, HIDDEN)


def _tune(run: Run[Size], split: Split, device: DeviceDtype, method: Method, label: str) -> dict[float, float]:
    """The mean validation log likelihood of all step sizes, in runs of the full length."""
    measures, frozen, _ = _fit(run, split, device, method, method.grid, label)
    scores = measures["log_likelihood"][0]
    scores = np.where(np.isfinite(scores) & ~frozen, scores, -np.inf).mean(axis=1)
    return dict(zip(method.grid, scores.tolist(), strict=True))


def _fit(
    run: Run[Size],
    split: Split,
    device: DeviceDtype,
    method: Method,
    grid: tuple[float, ...],
    label: str,
    shares: tuple[float, ...] = (1.0,),
) -> tuple[dict[str, np.ndarray], np.ndarray, float]:
    """Predictive quality of shares of the draws on test rows, (share, step size, split), frozen chains, and seconds.

    All step sizes are one run, a chain axis after the axis of the splits. Particles all count for every share.
    """
    splits, rows, features = split.inputs.shape
    inner = (method.particles,) if method.particles else ()
    rates = np.asarray(grid) / (1 if inner else rows)
    eta = float(rates[0]) if len(grid) == 1 else device.array(np.expand_dims(rates, -1) if inner else rates)
    x0 = device.array(starts((splits, len(grid), *inner), features, run.seed))
    trace = run.sample(
        *(_target(split, 1 + len(inner)), method.kernel(eta), x0, method.draws),
        burn_in=method.steps - method.draws * method.thinning,
        thinning=method.thinning,
        recorders=(Draws(),),
        label=label,
        quiet=True,  # the table counts divergences
    )
    draws = to_host(trace.draws).astype(np.float64)
    if inner:
        draws = np.moveaxis(draws[-1], 2, 0)  # the particles of the last step are draws
    counts = [len(draws) if inner else max(1, round(share * len(draws))) for share in shares]
    parts = [Split(*(a[s] for a in split)) for s in range(splits)]  # one by one, for the memory

    def score(n: int, i: int, s: int) -> Predictive:
        p = parts[s]
        return predictive(draws[:n, s, i], p.test_inputs, p.test_outputs, p.location, p.scale, HIDDEN)

    with np.errstate(over="ignore", invalid="ignore"):  # of chains that left the finite numbers
        fits = [[[score(n, i, s) for s in range(splits)] for i in range(len(grid))] for n in counts]
    measures = dict(zip(Predictive._fields, np.moveaxis(np.asarray(fits), -1, 0), strict=True))
    frozen = np.reshape(trace.run_statistics.diverged, (splits, len(grid), -1))
    return measures, np.any(frozen, axis=-1).T, trace.metadata["seconds"]


def _timing(run: Run[Size], split: Split, device: DeviceDtype) -> None:
    """Say the time of a step of LD per split: all in one run, and one split after the other."""
    features, kernel = split.inputs.shape[2], Minibatch(ULA(STEPS[0] / split.inputs.shape[1]), BATCH)

    def microseconds(part: Split) -> float:
        x0 = device.array(starts((*part.inputs.shape[:1], 1), features, run.seed))
        # The first may compile; the shortest suffers least from other load of the machine.
        runs = [
            run.sample(_target(part, 1), kernel, x0, 1, thinning=run.size.timed, recorders=(Draws(),))
            for _ in range(TIMED_RUNS)
        ]
        return 1e6 * min(trace.metadata["seconds"] for trace in runs) / run.size.timed

    together = microseconds(split) / run.size.splits
    one = np.mean([microseconds(Split(*(a[s : s + 1] for a in split))) for s in range(TIMED_SPLITS)])
    run.say(
        f"  a step of LD on {device.backend.name}: {together:.0f} us a split with {run.size.splits} splits in one run, "
        f"{one:.0f} us one by one: {one / together:.1f} times"
    )


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """The highest log likelihood, and what the repulsion does to it, for each data set."""
    lines = []
    for labels, of_data in groupby(rows, key=lambda row: (row["data"], row["backend"])):
        own = list(of_data)
        best = max((row for row in own if "step" in row), key=lambda row: row["log_likelihood"])
        lines.append(f"{', '.join(labels)}: highest log lik. {best['log_likelihood']:.3f} ({best['sampler']})")
        for row in (row for row in own if "step" not in row and "draws" not in row):
            low, high = interval(row, "log_likelihood")
            lines[-1] += f"; {row['sampler']}: {row['log_likelihood']:.3f} ({low:.3f}, {high:.3f})"
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="srld-bnn",
    title="Bayesian neural networks; SRLD paper, Section 6.2 and Table 1",
    settings={"full": FULL, "quick": QUICK, "paper": PAPERS},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    paper=PAPER,
    options=options,
    devices=float32,
)
