"""Binary neural networks on four data sets by discrete samplers (HiSS, Section 6.4, Appendix D.5, Tables 2 and 5).

A two-layer tanh network with 100 hidden units and all weights in {-1, 1}; many networks, which are chains, in one
batched run. The log density is -100 times the mean squared error of a sigmoid output, as in the paper's public code.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import ACS, DMALA, GWG, Cosine, Kernel, ParallelTempering, SingleFlip
from xpsample.particles.ladders import geometric_ladder
from xpsample.run.recorders import Record
from xpsample.run.sampling import sample
from xpsample.zoo.binary_network import binary_network, dimension, fit, predict
from xpsample.zoo.breast_cancer import measurements
from xpsample.zoo.data import load_dataset

HIDDEN = 100
ALPHA, SWEEPS, REFINEMENTS = 0.4, 10, 5
"""The paper's alpha, 0.1, is a step on {0, 1}: four times that on {-1, 1}."""
INNER = SWEEPS * REFINEMENTS
RUNGS, SWAP_EVERY = 4, 20


class Split(NamedTuple):
    """Inputs (rows, features) and outputs (rows,) in [0, 1], for training and for testing."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def _scaled(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Columns to [0, 1]; constant ones to 0."""
    return (x - low) / np.where(high > low, high - low, 1.0)


def _by_rows(x: np.ndarray, y: np.ndarray, arrays: dict[str, np.ndarray]) -> Split:
    train, test = arrays["train_index"].astype(np.int64), arrays["test_index"].astype(np.int64)
    return Split(x[train], y[train].astype(np.float64), x[test], y[test].astype(np.float64))


def _breast_cancer() -> Split:
    x, malignant, _ = measurements()
    x = _scaled(x, x.min(axis=0), x.max(axis=0))
    return _by_rows(x, malignant, load_dataset("breast_cancer_split"))


def _compas() -> Split:
    data = load_dataset("compas")
    numeric = data["numeric"].astype(np.float64)
    x = [_scaled(numeric, numeric.min(axis=0), numeric.max(axis=0)), np.eye(6)[data["race"]], np.eye(2)[data["sex"]]]
    return _by_rows(np.concatenate(x, axis=1), data["y"], data)


def _hiv() -> Split:
    data = load_dataset("hiv1_1625")
    codes = data["codes"]
    return _by_rows(np.eye(20)[codes].reshape(len(codes), -1), data["y"], data)


def _blog() -> Split:
    """Rows up to the 90th percentile of the comments of all rows, 8, scaled to [0, 1]."""
    data = load_dataset("blogfeedback")
    low, high = data["full_min"].astype(np.float64), data["full_max"].astype(np.float64)

    def part(name: str) -> tuple[np.ndarray, np.ndarray]:
        y = data[f"y_{name}"].astype(np.float64)
        kept = y <= 8
        return _scaled(data[f"X_{name}"][kept].astype(np.float64), low, high), y[kept] / 8.0

    return Split(*part("train"), *part("test"))


class Problem(NamedTuple):
    """How to load_dataset a data set, the paper's eta, and its test log likelihood and RMSE by sampler."""

    load: Callable[[], Split]
    eta: float
    paper: dict[str, str]


def _paper(*cells: str) -> dict[str, str]:
    return dict(zip(("GWG", "DMALA", "ACS", "PT+DMALA", "HiSS"), cells, strict=True))


PROBLEMS = {
    "breast-cancer": Problem(
        _breast_cancer, 0.005, _paper("-.0241, .155", "-.0240, .155", "-.0280, .167", "-.0246, .157", "-.0237, .154")
    ),
    "compas": Problem(
        _compas, 2.0, _paper("-.2265, .476", "-.2271, .477", "-.2284, .478", "-.2265, .476", "-.2237, .473")
    ),
    "hiv": Problem(_hiv, 4.0, _paper("-.7025, .834", "-.7446, .863", "-.7446, .863", "-.7446, .863", "-.2551, .505")),
    "blog": Problem(_blog, 5.0, _paper("-.2799, .528", "-.2919, .540", "-.2919, .540", "-.2919, .540", "-.2136, .462")),
}
COLUMNS = {
    "data": ("data", "s"),
    "backend": ("backend", "s"),
    "sampler": ("sampler", "s"),
    "log_likelihood": ("test log lik.", ".4f"),
    "log_likelihood_sd": ("sd", ".4f"),
    "rmse": ("test RMSE", ".3f"),
    "rmse_sd": ("sd", ".3f"),
    "train_rmse": ("train RMSE", ".3f"),
    "moved": ("moved", ".2g"),
    "changed": ("changed", ".3f"),
    "seconds": ("s", ".0f"),
    "paper": ("paper: log lik., RMSE", "s"),
}
LEGEND = """\
test       of the networks at the end of their chains: mean over them and standard deviation; log lik. is minus the
           mean squared error, as in the paper
moved      share of the steps that changed a weight; a step of HiSS is 50 inner steps
changed    share of the weights that differ from the start
random     the networks that all chains start from: independent draws from the prior; none can be had from the posterior
constant   (a line for each data set) what predicting the training mean, or 0 throughout, or 1, gives"""


class Size(NamedTuple):
    """Networks, and inner steps by data set."""

    networks: int
    steps: dict[str, int]


FULL = Size(networks=50, steps={"breast-cancer": 500, "compas": 100, "hiv": 100, "blog": 50})
QUICK = Size(networks=3, steps=dict.fromkeys(PROBLEMS, INNER))
DEFAULT = ("breast-cancer", "compas")


def samplers(steps: int, eta: float) -> dict[str, tuple[Kernel, int]]:
    """The samplers of the table, and the inner steps that one step of each makes; a run has `steps` inner ones."""
    dmala = DMALA(ALPHA)
    return {
        "GWG": (GWG(), 1),
        "DMALA": (dmala, 1),
        "ACS": (ACS(Cosine(ALPHA, max(1, steps // 10))), 1),
        "PT+DMALA": (ParallelTempering(dmala, geometric_ladder(RUNGS, 1e-3), SWAP_EVERY), 1),
        "HiSS": (HiSS(dmala, eta, SWEEPS, REFINEMENTS), INNER),
        "single flip": (SingleFlip(), 1),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "hiss-bnn", backends="numpy")
    parser.add_argument(
        "--data",
        action="append",
        choices=tuple(PROBLEMS),
        help=f"data set; may be given several times (default: {', '.join(DEFAULT)})",
    )
    parser.add_argument("--steps", type=int, help=f"inner steps of each chain, rounded up to a multiple of {INNER}")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    report.say("Binary neural networks; HiSS paper, Section 6.4 and Tables 2 and 5")
    for line in missing(names):
        report.say(line)
    # One float32 place for each backend: the networks need no more digits.
    where = [device for device in device_dtypes(names) if device.dtype == "float32"]
    rows: list[dict[str, Any]] = []
    for name in args.data or DEFAULT:
        problem, split = PROBLEMS[name], PROBLEMS[name].load()
        steps = -(-(args.steps or size.steps[name]) // INNER) * INNER
        dim = dimension(split.train_x.shape[1], HIDDEN)
        report.say(
            f"{name}: {len(split.train_y)} + {len(split.test_y)} rows, {dim} weights, {size.networks} networks, "
            f"{steps} inner steps, alpha = {ALPHA} on {{-1, 1}}, eta = {problem.eta:g}, seed {args.seed}"
        )
        for guess, value in (("mean", np.mean(split.train_y)), ("0", 0.0), ("1", 1.0)):
            error = float(np.mean((split.test_y - value) ** 2))
            report.say(f"  constant {guess}: test log likelihood {-error:.4f}, RMSE {error**0.5:.3f}")
        start = np.random.default_rng(args.seed).choice([-1.0, 1.0], size=(size.networks, dim))
        for device in where:
            for sampler, (kernel, inner) in samplers(steps, problem.eta).items():
                row = _run(split, kernel, steps // inner, start, device, args.seed)
                labels = {"data": name, "backend": device.backend.name, "sampler": sampler}
                rows.append(labels | row | {"paper": problem.paper.get(sampler, "")})
            labels = {"data": name, "backend": device.backend.name, "sampler": "random networks"}
            rows.append(labels | _row(split, device.array(start), start, device) | {"paper": ""})
    report.say("\n" + table(rows, COLUMNS) + "\n\n" + LEGEND)
    report.rows(rows)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _run(split: Split, kernel: Kernel, steps: int, start: np.ndarray, device: DeviceDtype, seed: int) -> dict[str, Any]:
    target = binary_network(split.train_x, split.train_y, HIDDEN)
    trace = sample(
        *(target, kernel, device.array(start), 1),
        thinning=steps,
        seed=seed,
        recorders=(Record("x", lambda state: state.point.x),),
        progress=False,
    )
    row = _row(split, trace.recorded["x"][-1, ...], start, device)
    return row | {"moved": float(np.mean(trace.run_statistics.moved)), "seconds": trace.metadata["seconds"]}


def _row(split: Split, last: Any, start: np.ndarray, device: DeviceDtype) -> dict[str, Any]:
    """The measures of networks (network, dim)."""
    tested = fit(predict(last, device.array(split.test_x), HIDDEN), device.array(split.test_y))
    trained = fit(predict(last, device.array(split.train_x), HIDDEN), device.array(split.train_y))
    log_likelihood, rmse, train_rmse = (
        to_host(a).astype(np.float64) for a in (tested.log_likelihood, tested.rmse, trained.rmse)
    )
    return {
        "log_likelihood": float(np.mean(log_likelihood)),
        "log_likelihood_sd": float(np.std(log_likelihood, ddof=1)),
        "rmse": float(np.mean(rmse)),
        "rmse_sd": float(np.std(rmse, ddof=1)),
        "train_rmse": float(np.mean(train_rmse)),
        "moved": 0.0,
        "changed": float(np.mean(to_host(last) != start)),
        "seconds": 0.0,
    }
