"""Binary neural networks on four data sets by discrete samplers (HiSS, Section 6.4, Appendix D.5, Tables 2 and 5).

A two-layer tanh network with 100 hidden units and all weights in {-1, 1}; many networks, which are chains, in one
batched run. The log density is -100 times the mean squared error of a sigmoid output, as in the paper's public code, or
minus the sum of its squared errors, as the paper prints.
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.checks import check_count
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.data import load_dataset
from xpsample.experiments.hiss.binary_network import binary_network, dimension, fit, predict
from xpsample.experiments.hiss.uniform import UniformProposals
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.table import Row, columns
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import ACS, DMALA, GWG, Cosine, Kernel, ParallelTempering, SingleFlip
from xpsample.particles.ladders import geometric_ladder
from xpsample.targets.target import Target
from xpsample.trace.recorders import Record
from xpsample.zoo.logistic import measurements

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
    """Loader of a data set, the paper's eta, and its test log likelihood and RMSE by sampler."""

    load: Callable[[], Split]
    eta: float
    paper: dict[str, str]


def _paper(*cells: str) -> dict[str, str]:
    return dict(zip(("GWG", "DMALA", "ACS", "PT+DMALA", "HiSS"), cells, strict=True))


PROBLEMS = {
    "breast-cancer": Problem(
        _breast_cancer,
        0.005,
        _paper("-0.0241, 0.155", "-0.0240, 0.155", "-0.0280, 0.167", "-0.0246, 0.157", "-0.0237, 0.154"),
    ),
    "compas": Problem(
        _compas, 2.0, _paper("-0.2265, 0.476", "-0.2271, 0.477", "-0.2284, 0.478", "-0.2265, 0.476", "-0.2237, 0.473")
    ),
    "hiv": Problem(
        _hiv, 4.0, _paper("-0.7025, 0.834", "-0.7446, 0.863", "-0.7446, 0.863", "-0.7446, 0.863", "-0.2551, 0.505")
    ),
    "blog": Problem(
        _blog, 5.0, _paper("-0.2799, 0.528", "-0.2919, 0.540", "-0.2919, 0.540", "-0.2919, 0.540", "-0.2136, 0.462")
    ),
}
COLUMNS = columns(
    "data | energy | backend | sampler | log_likelihood .4f test log lik. | log_likelihood_sd .4f sd | "
    "rmse .3f test RMSE | rmse_sd .3f sd | train_rmse .3f train RMSE | moved .2g | changed .3f | seconds .0f s | "
    "paper s paper: log lik., RMSE"
)
KEYS = ("data", "energy", "backend", "sampler")
LEGEND = """\
energy     code: -100 times the mean squared error; printed: minus the sum of the squared errors
test ...   of the networks at the end of their chains: mean over them and standard deviation; log lik. is minus the
           mean squared error, as in the paper
moved      share of the steps that changed a weight; a step of HiSS is 50 inner steps
changed    share of the weights that differ from the start
random     the networks that all chains start from: independent draws from the prior; none can be had from the posterior
constant   what predicting the training mean gives, or 0 throughout, or 1"""
PAPER = """\
HiSS has the highest test log likelihood and the lowest RMSE on all four data sets; its figures are in the last column.
On HIV they are those of constants: 0 throughout for HiSS, 1 throughout for DMALA, ACS and PT+DMALA"""
RANDOM = "random networks"


class Size(NamedTuple):
    """Networks, and inner steps by data set."""

    networks: int
    steps: dict[str, int]


FULL = Size(networks=50, steps={"breast-cancer": 500, "compas": 100, "hiv": 100, "blog": 50})
QUICK = Size(networks=3, steps=dict.fromkeys(PROBLEMS, INNER))
DEFAULT = ("breast-cancer", "compas")
ENERGIES: dict[str, Callable[[int], float]] = {"code": lambda rows: 100.0, "printed": float}
"""Factor of the mean squared error by the number of rows."""


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
        "uniform proposals": (UniformProposals(), 1),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """Which data sets and energies, how many networks, and how long."""
    parser.add_argument(
        "--data",
        action="append",
        choices=tuple(PROBLEMS),
        help=f"data set; may be given several times (default: {', '.join(DEFAULT)})",
    )
    parser.add_argument(
        "--energy",
        action="append",
        choices=tuple(ENERGIES),
        help="energy of the public code or of the paper; may be given several times (default: code)",
    )
    parser.add_argument("--networks", type=int, help=f"networks (default: {FULL.networks})")
    parser.add_argument("--steps", type=int, help=f"inner steps of each chain, rounded up to a multiple of {INNER}")


def constants(split: Split) -> list[Row]:
    """Results of predictions without a network."""
    guesses = {"constant mean": np.mean(split.train_y), "constant 0": 0.0, "constant 1": 1.0}
    errors = {guess: np.mean((split.test_y - value) ** 2) for guess, value in guesses.items()}
    return [{"sampler": guess, "log_likelihood": -error, "rmse": error**0.5} for guess, error in errors.items()]


def measure(run: Run[Size]) -> Iterator[Row]:
    """All samplers on all data sets, and the random networks that they start from."""
    run.shown["constants"] = []
    if run.args.networks is not None:
        run.size = run.size._replace(networks=check_count("--networks", run.args.networks, 2))
    for name in run.args.data or DEFAULT:
        problem, split = PROBLEMS[name], PROBLEMS[name].load()
        steps = -(-(run.args.steps or run.size.steps[name]) // INNER) * INNER
        dim = dimension(split.train_x.shape[1], HIDDEN)
        run.say(
            f"{name}: {len(split.train_y)} + {len(split.test_y)} rows, {dim} weights, {run.size.networks} networks, "
            f"{steps} inner steps, alpha = {ALPHA} on {{-1, 1}}, eta = {problem.eta:g}"
        )
        run.shown["constants"] += [{"data": name} | row for row in constants(split)]
        start = np.random.default_rng(run.seed).choice([-1.0, 1.0], size=(run.size.networks, dim))
        for energy, device in product(run.args.energy or ("code",), run.devices):
            target = binary_network(split.train_x, split.train_y, HIDDEN, ENERGIES[energy](len(split.train_y)))
            for sampler, (kernel, inner) in samplers(steps, problem.eta).items():
                labels = {"data": name, "energy": energy, "backend": device.backend.name, "sampler": sampler}
                label = f"{device} {sampler}, {energy}"
                row = _sampled(run, split, target, kernel, steps // inner, start, device, label)
                yield labels | row | {"paper": problem.paper.get(sampler, "")}
            yield labels | {"sampler": RANDOM} | _row(split, device.array(start), start, device) | {"paper": ""}


def _sampled(
    run: Run[Size],
    split: Split,
    target: Target,
    kernel: Kernel,
    steps: int,
    start: np.ndarray,
    device: DeviceDtype,
    label: str,
) -> Row:
    x0, last = device.array(start), Record("x", lambda state: state.point.x)
    trace = run.sample(target, kernel, x0, 1, thinning=steps, recorders=(last,), label=label)
    row = _row(split, trace.recorded["x"][-1, ...], start, device)
    return row | {"moved": np.mean(trace.run_statistics.moved), "seconds": trace.metadata["seconds"]}


def _row(split: Split, last: Any, start: np.ndarray, device: DeviceDtype) -> dict[str, Any]:
    """The measures of networks (network, dim)."""
    tested = fit(predict(last, device.array(split.test_x), HIDDEN), device.array(split.test_y))
    trained = fit(predict(last, device.array(split.train_x), HIDDEN), device.array(split.train_y))
    log_likelihood, rmse, train_rmse = (
        to_host(a).astype(np.float64) for a in (tested.log_likelihood, tested.rmse, trained.rmse)
    )
    return {
        "log_likelihood": np.mean(log_likelihood),
        "log_likelihood_sd": np.std(log_likelihood, ddof=1),
        "rmse": np.mean(rmse),
        "rmse_sd": np.std(rmse, ddof=1),
        "train_rmse": np.mean(train_rmse),
        "moved": 0.0,
        "changed": np.mean(to_host(last) != start),
        "seconds": 0.0,
    }


def tell(run: Run[Size], rows: list[Row]) -> None:
    """The samplers, and what constants give on the same data."""
    run.table(rows + run.shown["constants"], COLUMNS, KEYS, legend=LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """For each data set and energy the best sampler on the test rows, with the best constant and random networks."""
    lines = []
    for name, energy in dict.fromkeys((row["data"], row["energy"]) for row in rows):
        own = [row for row in rows if (row["data"], row["energy"]) == (name, energy)]
        own = [row for row in own if row["backend"] == rows[0]["backend"]]
        best = max((row for row in own if row["sampler"] != RANDOM), key=lambda row: row["log_likelihood"])
        constant = max(
            (row for row in run.shown["constants"] if row["data"] == name), key=lambda row: row["log_likelihood"]
        )
        lines.append(
            f"{name}, {energy}: highest test log likelihood of a sampler {best['log_likelihood']:.4f} "
            f"({best['sampler']}), of a constant {constant['log_likelihood']:.4f}, of random networks "
            f"{own[-1]['log_likelihood']:.4f}"
        )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="hiss-bnn",
    title="Binary neural networks; HiSS paper, Section 6.4 and Tables 2 and 5",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    options=options,
    devices=float32,
)
