"""SRLD paper, Section 6.2 and Appendix C: Bayesian neural networks on UCI sets by LD, SRLD and SVGD.

All splits of a data set are chains of one batched run, each with training rows of its own. Step sizes are chosen on
validation rows held out of training rows; test rows are seen once, at the end.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import DivergenceWarning
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.kernels import ULA, Kernel
from xpsample.kernels.minibatch import Minibatch
from xpsample.particles.svgd import SVGD, AdaGrad
from xpsample.run.recorders import Draws
from xpsample.run.sampling import sample
from xpsample.srld import SRLD, Thinned
from xpsample.targets import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.regression_network import Predictive, dimension, predictive, regression_network

HIDDEN, BATCH, PAST, PARTICLES = 50, 100, 10, 20
TUNING_SPLITS = 3
TIMED_SPLITS, TIMED_RUNS = 3, 5
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""eta times the number of training rows, for Langevin dynamics."""
ADAGRAD_STEPS = (0.003, 0.01, 0.03, 0.1)


class Split(NamedTuple):
    """Rows of all splits, inputs (splits, rows, features) standardised by each split's training rows.

    ``outputs`` (splits, rows) are those that the networks see: the outputs in their own units, ``test_outputs``, less
    the location over the scale, (splits, 1).
    """

    inputs: np.ndarray
    outputs: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    test_inputs: np.ndarray
    test_outputs: np.ndarray


def split_rows(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, scaled: bool = False) -> Split:
    """Rows `train` and `test`, (splits, rows) each, of x (rows, features) and y (rows,).

    Inputs that are constant in a split's training rows become 0. Outputs are standardised only where `scaled`.
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
    paper: Mapping[str, tuple[str, str]]


def _paper(*cells: str) -> dict[str, tuple[str, str]]:
    svgd, ld, srld = zip(cells[:3], cells[3:], strict=True)
    return {"SVGD": svgd, "LD": ld, "SRLD 10": srld}


PROBLEMS = {
    "boston": Problem("uci_boston", _paper("3.300", "3.342", "3.086", "-4.276", "-2.678", "-2.500")),
    "yacht": Problem("uci_yacht", _paper("0.593", "0.597", "0.578", "-1.281", "-1.187", "-0.458")),
    "energy": Problem("uci_energy", _paper("0.428", "0.412", "0.395", "-0.781", "-0.543", "-0.476")),
    "concrete": Problem("uci_concrete", _paper("4.994", "4.908", "4.886", "-5.500", "-3.055", "-3.034")),
    "naval": Problem("uci_naval", _paper("0.006", "0.006", "0.003", "3.056", "4.041", "4.186")),
    "wine-red": Problem("uci_wine_red", _paper("0.655", "0.649", "0.639", "-1.040", "-1.004", "-0.970")),
    "wine-white": Problem("uci_wine_white", _paper("0.655", "0.692", "0.688", "-1.040", "-1.047", "-1.043")),
}
DEFAULT = ("boston", "yacht", "energy", "concrete")


class Size(NamedTuple):
    """Splits, steps of LD and SRLD, thinning (and c), steps of SVGD, and steps that are timed.

    Four fifths of the steps are burn-in; tuning takes a fifth of a run's steps.
    """

    splits: int
    steps: int
    thinning: int
    svgd: int
    timed: int


FULL = Size(splits=20, steps=50_000, thinning=100, svgd=2_000, timed=500)
SHORT = Size(splits=20, steps=20_000, thinning=100, svgd=1_000, timed=500)
QUICK = Size(splits=4, steps=300, thinning=5, svgd=40, timed=20)


class Method(NamedTuple):
    """A kernel by its step size, the step sizes to choose from, chains of a split, and how long it runs."""

    kernel: Callable[[Any], Kernel]
    grid: tuple[float, ...]
    particles: int
    steps: int
    draws: int
    thinning: int


def methods(size: Size, alphas: list[float]) -> dict[str, Method]:
    """The samplers of the table."""

    def langevin(alpha: float) -> Callable[[Any], Kernel]:
        def kernel(eta: Any) -> Kernel:
            return Minibatch(SRLD(ULA(eta), alpha, Thinned(PAST, size.thinning)) if alpha else ULA(eta), BATCH)

        return kernel

    draws = size.steps // 5 // size.thinning
    found = {
        f"SRLD {alpha:g}" if alpha else "LD": Method(langevin(alpha), STEPS, 1, size.steps, draws, size.thinning)
        for alpha in (0.0, *alphas)
    }
    # The particles of a split share their batches.
    svgd = Method(
        lambda eta: Minibatch(SVGD(eta, adagrad=AdaGrad()), BATCH, common=True),
        *(ADAGRAD_STEPS, PARTICLES, size.svgd, 1, 1),
    )
    return found | {"SVGD": svgd}


COLUMNS = {
    "data": ("data", "s"),
    "backend": ("backend", "s"),
    "sampler": ("sampler", "s"),
    "step": ("step", "s"),
    "rmse": ("RMSE", "s"),
    "log_likelihood": ("log lik.", "s"),
    "coverage": ("cover 90", "s"),
    "spread": ("spread", "s"),
    "frozen": ("frozen", "s"),
    "seconds": ("s", "s"),
    "paper": ("paper", "s"),
}
LEGEND = """\
RMSE     of the posterior mean on test rows, in the units of the output; log lik. the mean log predictive density there
cover 90 share of test rows within 1.645 predictive standard deviations of the mean
spread   of f over the draws, root mean square over test rows, in the units of the output
step     eta times training rows (SVGD: AdaGrad's step), chosen by the log likelihood of validation rows
frozen   splits whose chain left the finite numbers
Means over splits +- the standard error; differences are paired"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srld-bnn", backends="numpy")
    parser.add_argument(
        "--data",
        action="append",
        choices=tuple(PROBLEMS),
        help=f"data set; may be given several times (default: {', '.join(DEFAULT)})",
    )
    parser.add_argument("--full", action="store_true", help=f"the paper's {FULL.steps} steps, instead of {SHORT.steps}")
    parser.add_argument(
        "--step",
        type=float,
        metavar="S",
        help="eta N of LD and SRLD, instead of one chosen for each on validation rows",
    )
    parser.add_argument(
        "--scaled",
        action="store_true",
        help="standardise the outputs, too, by mean and standard deviation of the training rows (default: the "
        "networks' outputs are in the units of the data, as in the public code)",
    )
    parser.add_argument(
        "--alpha",
        action="append",
        type=float,
        metavar="A",
        help="strength of the repulsion, positive; may be given several times (default: 10, the paper's, and 1, its "
        "public code's)",
    )


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size = QUICK if args.quick else FULL if args.full else SHORT
    report, names = Report(args.out), args.backend or ["numpy"]
    report.say("Bayesian neural networks; SRLD paper, Section 6.2 and Table 1")
    for line in missing(names):
        report.say(line)
    # One float32 place for each backend: the networks need no more digits.
    where = [device for device in device_dtypes(names) if device.dtype == "float32"]
    report.say(
        f"{size.splits} splits, {size.steps} steps, the first {size.steps * 4 // 5} dropped, one in {size.thinning} "
        f"kept; M = {PAST}, batches of {BATCH}, float32, seed {args.seed}; SVGD: {size.svgd} steps of {PARTICLES} "
        f"particles; outputs {'standardised' if args.scaled else 'in their own units'}"
    )
    rows: list[dict[str, Any]] = []
    for name in args.data or DEFAULT:
        arrays = load_dataset(PROBLEMS[name].file)
        x, y = arrays["X"], arrays["y"]
        train, test = (arrays[key][: size.splits].astype(np.int64) for key in ("train_index", "test_index"))
        final = split_rows(x, y, train, test, args.scaled)
        held = _held_out(train[:TUNING_SPLITS], args.seed)
        tuning = split_rows(x, y, *held, args.scaled)
        report.say(f"{name}: {train.shape[1]} + {test.shape[1]} rows, {dimension(x.shape[1], HIDDEN)} coordinates")
        for device in where:
            report.say("  " + _timing(final, device, size, args.seed))
            measured = {}
            for sampler, method in methods(size, args.alpha or [10.0, 1.0]).items():
                step = args.step
                if step is None or sampler == "SVGD":
                    step, scores = _tune(tuning, device, method, args.seed)
                    report.say(f"  {sampler}: validation " + ", ".join(f"{s:g}: {v:.3f}" for s, v in scores.items()))
                measured[sampler], about = _measure(final, device, method, step, args.seed)
                labels = {"data": name, "backend": device.backend.name, "sampler": sampler, "step": step}
                rows.append(labels | _summary(measured[sampler]) | about | _printed(name, sampler))
                _tell(report, rows[-1:])
            for sampler in list(measured)[1:-1]:
                gain = {key: value - measured["LD"][key] for key, value in measured[sampler].items()}
                labels = {"data": name, "backend": device.backend.name, "sampler": f"{sampler} - LD", "step": None}
                rows.append(labels | _summary(gain) | {"frozen": None, "seconds": None} | _printed(name, ""))
        report.rows(rows)
    report.say()
    _tell(report, rows)
    report.say("\n" + LEGEND)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


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
    """The posteriors of all splits, for positions with so many chain axes after that of the splits."""
    front = (split.inputs.shape[0],) + (1,) * axes
    return regression_network(
        split.inputs.reshape(*front, *split.inputs.shape[1:]), split.outputs.reshape(*front, -1), HIDDEN
    )


def _rates(method: Method, steps: np.ndarray, rows: int) -> np.ndarray:
    return steps if method.particles > 1 else steps / rows


def _draws(
    target: Target, device: DeviceDtype, kernel: Kernel, x0: np.ndarray, method: Method, steps: int, seed: int
) -> Any:
    """The trace of a run that keeps its end."""
    burn_in = steps - method.draws * method.thinning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # counted, and shown in the table
        return sample(
            *(target, kernel, device.array(x0), method.draws),
            burn_in=burn_in,
            thinning=method.thinning,
            seed=seed,
            recorders=(Draws(),),
            progress=False,
        )


def _tune(split: Split, device: DeviceDtype, method: Method, seed: int) -> tuple[float, dict[float, float]]:
    """The step size of the best mean validation log likelihood in a fifth of the steps, and those of all.

    All step sizes are one run, a chain axis after that of the splits.
    """
    grid = np.asarray(method.grid)
    splits, rows, features = split.inputs.shape
    inner = (1,) if method.particles > 1 else ()
    target = _target(split, 1 + len(inner))
    x0 = starts((splits, len(grid), *(method.particles for _ in inner)), features, seed)
    eta = device.array(_rates(method, grid, rows).reshape(-1, *inner))
    steps = max(method.steps // 5, 1)
    short = method._replace(draws=max(method.draws // 5, 1))
    trace = _draws(target, device, method.kernel(eta), x0, short, steps, seed)
    draws = to_host(trace.draws).astype(np.float64)
    scores = np.stack([_predict(split, _as_draws(draws[:, :, i], method)).log_likelihood for i in range(len(grid))])
    frozen = trace.run_statistics.diverged.reshape(splits, len(grid), -1).any(axis=-1).T
    found = np.where(np.isfinite(scores) & ~frozen, scores, -np.inf).mean(axis=1)
    return method.grid[int(np.argmax(found))], dict(zip(method.grid, found.tolist(), strict=True))


def _as_draws(draws: np.ndarray, method: Method) -> np.ndarray:
    """(draw, splits, dim): the particles of the last step are draws."""
    return np.moveaxis(draws[-1], 1, 0) if method.particles > 1 else draws


def _predict(split: Split, draws: np.ndarray) -> Predictive:
    """Of draws (draw, splits, dim), each (splits,); one split after the other, for the memory."""
    with np.errstate(over="ignore", invalid="ignore"):  # of chains that left the finite numbers
        each = [
            predictive(draws[:, s], split.test_inputs[s], split.test_outputs[s], *_units(split, s), HIDDEN)
            for s in range(draws.shape[1])
        ]
    return Predictive(*(np.asarray(values) for values in zip(*each, strict=True)))


def _units(split: Split, s: int) -> tuple[float, float]:
    return float(split.location[s, 0]), float(split.scale[s, 0])


def _measure(
    split: Split, device: DeviceDtype, method: Method, step: float, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Test figures of each split, and what the run was like."""
    splits, rows, features = split.inputs.shape
    inner = (method.particles,) if method.particles > 1 else ()
    kernel = method.kernel(float(_rates(method, np.asarray(step), rows)))
    x0 = starts((splits, *inner), features, seed)
    trace = _draws(_target(split, len(inner)), device, kernel, x0, method, method.steps, seed)
    draws = _as_draws(to_host(trace.draws).astype(np.float64), method)
    frozen = np.reshape(trace.run_statistics.diverged, (splits, -1)).any(axis=1)
    about = {"frozen": int(frozen.sum()), "seconds": trace.metadata["seconds"]}
    return _predict(split, draws)._asdict(), about


def _timing(split: Split, device: DeviceDtype, size: Size, seed: int) -> str:
    """Time of a step of LD per split: all in one run, and one split after the other."""
    features, eta = split.inputs.shape[2], STEPS[0] / split.inputs.shape[1]

    def seconds(part: Split) -> float:
        target, kernel = _target(part, 0), Minibatch(ULA(eta), BATCH)
        x0 = device.array(starts(part.inputs.shape[:1], features, seed))
        # The first may compile; the shortest suffers least from what else the machine does.
        runs = [
            sample(target, kernel, x0, 1, thinning=size.timed, seed=seed, recorders=(Draws(),), progress=False)
            for _ in range(TIMED_RUNS)
        ]
        return min(trace.metadata["seconds"] for trace in runs) / size.timed

    together = seconds(split) / size.splits
    alone = [seconds(Split(*(a[s : s + 1] for a in split))) for s in range(TIMED_SPLITS)]
    one = float(np.mean(alone))
    return (
        f"a step of LD on {device.backend.name}: {together * 1e6:.0f} us a split with {size.splits} splits in one run, "
        f"{one * 1e6:.0f} us one by one: {one / together:.1f} times"
    )


def _summary(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    out = {}
    for key, value in values.items():
        out[key] = float(np.mean(value))
        out[f"{key}_se"] = float(np.std(value, ddof=1) / math.sqrt(len(value)))
    return out


def _printed(name: str, sampler: str) -> dict[str, str]:
    return {"paper": ", ".join(PROBLEMS[name].paper.get(sampler, ()))}


def _tell(report: Report, rows: list[dict[str, Any]]) -> None:
    def cell(row: dict[str, Any], key: str) -> str:
        value = row[key]
        if value is None or isinstance(value, str):
            return value or ""
        digits = {"coverage": ".3f", "step": "g", "frozen": "d", "seconds": ".0f"}.get(key, ".4f")
        return f"{value:{digits}}" + (f" +- {row[key + '_se']:{digits}}" if key + "_se" in row else "")

    report.say(table([{key: cell(row, key) for key in COLUMNS} for row in rows], COLUMNS))
