"""Score-MH paper, Table 1: four planar data sets by ULA, Score-RW, Score-MALA and Score-pCN, and cheaper acceptances.

A score network is trained on draws of a data set, and an acceptance network for each proposal on the learned score.
Beside the paper's acceptance, a(x', x), the same networks accept by their ratio, and the log ratio is made from the
score alone, by a line integral and by the averaged Taylor expansion. All trainings of a kind, and all chains on them,
are one batched run.
"""

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import DivergenceWarning
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.score_mh.models import Trained, Training, train_acceptances, train_scores
from xpsample.kernels import MALA, PCN, RWM, ULA, Kernel
from xpsample.metrics import median_bandwidth, squared_mmd, wasserstein
from xpsample.metrics.stein import RBF
from xpsample.run.sampling import sample
from xpsample.score_mh import CrankNicolson, LangevinProposal, Learned, Proposal, RandomWalk, log_sigmoid, score_network
from xpsample.score_mh import acceptance_network as logit
from xpsample.targets import Acceptance, LineIntegral, Target, Taylor
from xpsample.zoo.toys import TOYS

PARTS = ("table", "steps", "settings")
STARTS = ("data", "normal")

SCORES = {"moons": (64, 5000, 1e-3)} | dict.fromkeys(("pinwheel", "s-curve", "swiss-roll"), (512, 2000, 5e-4))
"""Table 2: width of the hidden layers, epochs, learning rate."""
ACCEPTANCES = {
    "moons": (256, 3, 1000),
    "pinwheel": (256, 4, 200),
    "s-curve": (512, 4, 200),
    "swiss-roll": (512, 4, 200),
}
"""Table 3: width, residual blocks, epochs; the learning rate is 5e-4."""

PAPER = {
    "moons": {
        "ULA": (0.143, 0.096, 0.054),
        "RW": (0.019, 0.007, 0.004),
        "MALA": (0.018, 0.004, 0.002),
        "pCN": (0.039, 0.021, 0.012),
    },
    "pinwheel": {
        "ULA": (0.106, 0.062, 0.022),
        "RW": (0.012, 0.001, 0.001),
        "MALA": (0.086, 0.064, 0.027),
        "pCN": (0.016, 0.007, 0.003),
    },
    "s-curve": {
        "ULA": (0.082, 0.055, 0.016),
        "RW": (0.050, 0.015, 0.004),
        "MALA": (0.046, 0.014, 0.004),
        "pCN": (0.090, 0.051, 0.017),
    },
    "swiss-roll": {
        "ULA": (2.881, 14.409, 0.811),
        "RW": (2.270, 8.470, 0.400),
        "MALA": (1.399, 4.575, 0.245),
        "pCN": (14.167, 113.824, 6.903),
    },
}
"""Table 1: W1, "W2", MMD."""


class Size(NamedTuple):
    """Trainings, chains and steps of each, rows of data and of batches, widths at most, updates (None: epochs)."""

    runs: int
    chains: int
    steps: int
    rows: int
    batch: int
    hidden: int
    updates: int | None
    acceptance_hidden: int
    acceptance_updates: int | None
    datasets: tuple[str, ...] = tuple(TOYS)
    swept: tuple[str, ...] = ("moons", "swiss-roll")
    sweep_runs: int = 2
    scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    lambdas: tuple[float, ...] = (0.0, 0.1, 1.0, 4.0)

    def score(self, name: str) -> Training:
        """Table 2 within the limits."""
        hidden, updates, rate = SCORES[name]
        return Training(min(hidden, self.hidden), 0, self.updates or updates, self.batch, rate)

    def acceptance(self, name: str) -> Training:
        """Table 3 within the limits."""
        hidden, blocks, updates = ACCEPTANCES[name]
        width = min(hidden, self.acceptance_hidden)
        return Training(width, blocks, self.acceptance_updates or updates, self.batch, 5e-4)


PAPERS = Size(5, 1000, 1000, 10_000, 256, 512, None, 512, None, sweep_runs=5)
FULL = Size(5, 400, 500, 10_000, 128, 64, 5000, 64, 600)
QUICK = Size(2, 60, 20, 500, 32, 16, 60, 8, 10, ("moons",), ("moons",), 2, (0.5, 2.0), (0.0, 4.0))


class Loss(NamedTuple):
    """lambda, C, and where training pairs come from: "local" ones with alpha = 1 throughout, as in Eq. 7."""

    regularization: float
    max_norm: float | None
    pairs: str = "global"

    def options(self) -> dict[str, Any]:
        """Of `ScoreBalance`."""
        return self._asdict() | {"alpha": (1.0, 1.0) if self.pairs == "local" else (0.0, 1.0)}


PAPERS_LOSS = Loss(1.0, 100.0)
"""As Algorithms 1 and 2 have it: regularised, clipped, independent pairs. The numbers are not in the paper."""

LEGEND = """\
floor      another draw of the data, as many: what any of these numbers is for a perfect sampler
starts     the positions that the chains start from
direct     Metropolis-Hastings with a(x', x), the paper's; ratio: with min(1, a(x', x) / a(x, x'))
line       with the integral of the score between x and x', 8 nodes; Taylor: with the trapezoidal rule, App. A
W1, W2     Wasserstein distances of the chains' last positions to new draws of the data, mean over trainings +- the
           standard error; from starts that are data ("data") or normal with the data's mean and standard deviations
MMD^2      squared and unbiased, RBF kernel whose sigma is the median squared distance of the data
paper      Table 1: W1, what it calls W2, what it calls MMD
accept     mean acceptance probability; scores: evaluations of the score network in a step, per chain
CPU        seconds, of training all acceptances of the row and of sampling, compilation included"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "score-mh-toys", backends="numpy")
    parser.add_argument("--paper", action="store_true", help="the networks of the paper's Tables 2 and 3; hours")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be given several times (default: all)")
    parser.add_argument("--data", action="append", choices=tuple(TOYS), help="may be given several times")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # counted in the rows
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, parts = time.perf_counter(), args.part or PARTS
    size = QUICK if args.quick else PAPERS if args.paper else FULL
    if args.data:
        size = size._replace(datasets=tuple(args.data), swept=tuple(n for n in size.swept if n in args.data))
    report, names = Report(args.out), args.backend or ["numpy"]
    device = next(p for p in device_dtypes(names) if p.dtype == "float32")
    report.say("Planar data sets by learned scores and acceptances; Score-MH paper, Table 1 and Figs. 7, 8, 11")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{device}, seed {args.seed}: {size.runs} trainings on {size.rows} rows, {size.chains} chains of {size.steps} "
        f"steps on each; but in the settings, lambda = {PAPERS_LOSS.regularization:g}, C = {PAPERS_LOSS.max_norm:g}, "
        f"{PAPERS_LOSS.pairs} pairs"
    )
    rows: list[dict[str, Any]] = []
    shown: dict[str, dict[str, np.ndarray]] = {}
    for name in size.datasets:
        problem = Problem.of(name, size, device, args.seed)
        report.say(f"\n{name}: {_describe(problem)}")
        if "table" in parts:
            found, shown[name] = compare(problem)
            rows += found
            report.say(_table(found))
        if "steps" in parts and name in size.swept:
            found = step_sizes(problem)
            rows += found
            report.say(_sweep_table(found))
        if "settings" in parts and name == "moons":
            found = settings(problem)
            rows += found
            report.say(_sweep_table(found))
        report.rows(_filled(rows))
    report.say("\n" + LEGEND)
    _plot(report, shown, rows)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


# ---- a data set ------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A data set (rows, 2), new draws to compare with and their floor (runs, chains, 2), starts, and its score."""

    name: str
    size: Size
    device: DeviceDtype
    seed: int
    data: np.ndarray
    fresh: np.ndarray
    other: np.ndarray
    starts: np.ndarray
    score: Trained

    @classmethod
    def of(cls, name: str, size: Size, device: DeviceDtype, seed: int) -> "Problem":
        """Draw the data and train the scores."""
        rng, shape = np.random.default_rng([seed, list(TOYS).index(name)]), (size.runs, size.chains)
        draw = TOYS[name].generate
        data = rng.permutation(draw(size.rows, rng))
        count = size.runs * size.chains
        fresh, other = (rng.permutation(draw(count, rng)).reshape(*shape, 2) for _ in range(2))
        from_data = data[rng.integers(len(data), size=shape)]
        normal = data.mean(axis=0) + data.std(axis=0) * rng.standard_normal((*shape, 2))
        starts = np.stack([from_data, normal])  # in the order of STARTS
        score = train_scores(data, size.runs, size.score(name), device, seed)
        return cls(name, size, device, seed, data, fresh, other, starts, score)

    @property
    def epsilon(self) -> float:
        """The scale of proposals: the standard deviation of the data's own noise."""
        return TOYS[self.name].noise

    def few(self) -> "Problem":
        """With `Size.sweep_runs` of the trainings."""
        n = self.size.sweep_runs
        parameters = tree.map(lambda leaf: leaf[:n, ...], self.score.parameters)
        return self._replace(
            size=self.size._replace(runs=n),
            fresh=self.fresh[:n],
            other=self.other[:n],
            starts=self.starts[:, :n],
            score=self.score._replace(parameters=parameters),
        )


class Method(NamedTuple):
    """A proposal with the kernel that makes it."""

    proposal: Proposal
    kernel: Kernel


def methods(epsilon: float) -> dict[str, Method]:
    """The paper's three, of the scale epsilon (in units of x); that of pCN, whose moves shrink x, is at most 0.1."""
    eta, beta = 0.5 * epsilon**2, min(epsilon, 0.1)
    return {
        "RW": Method(RandomWalk(epsilon), RWM(epsilon)),
        "MALA": Method(LangevinProposal(eta), MALA(eta)),
        "pCN": Method(CrankNicolson(beta), PCN(beta)),
    }


def compare(problem: Problem) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Rows of the table, and last positions from normal starts (runs, chains, 2) by sampler."""
    name, epsilon = problem.name, problem.epsilon
    rows = [_row(problem, "floor", "", np.stack([problem.other, problem.other]))]
    rows.append(_row(problem, "starts", "", problem.starts))
    shown = {"data": problem.fresh}
    row, shown["ULA"] = _sampled(problem, "ULA", "", ULA(0.5 * epsilon**2), None, epsilon)
    rows.append(row)
    for kind, method in methods(epsilon).items():
        for label, acceptance, trained in _acceptances(problem, method):
            row, x = _sampled(problem, kind, label, method.kernel, acceptance, epsilon)
            rows.append(row | {"training_seconds": trained.seconds if trained else 0.0})
            shown[f"{kind} {label}"] = x
    for row in rows:
        row |= {"part": "table"}
        if row["sampler"] in PAPER[name] and row["acceptance"] in ("", "direct"):
            row |= dict(zip(("paper_w1", "paper_w2", "paper_mmd"), PAPER[name][row["sampler"]], strict=True))
    return rows, shown


def step_sizes(problem: Problem) -> list[dict[str, Any]]:
    """Figs. 7 and 11: the step size of ULA and of MALA with all acceptances, all sizes in one run of each."""
    problem = problem.few()
    size, array = problem.size, problem.device.array
    epsilons = problem.epsilon * np.asarray(size.scales)
    eta = array(0.5 * epsilons[:, None, None, None] ** 2)
    trained = train_acceptances(
        problem.data,
        LangevinProposal(array(np.repeat(0.5 * epsilons**2, size.runs * size.batch))),
        score_network,
        tree.map(lambda leaf: np.concatenate([to_host(leaf)] * len(epsilons)), problem.score.parameters),
        size.runs * len(epsilons),
        size.acceptance(problem.name),
        problem.device,
        problem.seed,
        **PAPERS_LOSS.options(),
    )
    parameters = tree.map(
        lambda leaf: to_host(leaf).reshape(len(epsilons), 1, size.runs, *leaf.shape[1:]), trained.parameters
    )
    problem = problem._replace(starts=np.broadcast_to(problem.starts, (len(epsilons), *problem.starts.shape)))
    learned = Learned(logit, parameters, LangevinProposal(eta), direct=True)
    samplers: dict[tuple[str, str], tuple[Kernel, Acceptance | None]] = {
        ("ULA", ""): (ULA(eta), None),
        ("MALA", "direct"): (MALA(eta), learned),
        ("MALA", "ratio"): (MALA(eta), replace(learned, direct=False)),
        ("MALA", "line"): (MALA(eta), LineIntegral(8)),
        ("MALA", "Taylor"): (MALA(eta), Taylor(1)),
    }
    rows = []
    for (sampler, label), (kernel, acceptance) in samplers.items():
        ran = _run(problem, kernel, acceptance)
        for k, epsilon in enumerate(epsilons.tolist()):
            row = _row(problem, sampler, label, ran.x[k])
            rows.append(row | {"part": "steps", "epsilon": epsilon, "accept": float(np.mean(ran.accept[k]))})
    return rows


def settings(problem: Problem) -> list[dict[str, Any]]:
    """Fig. 8, and what else the paper leaves open about the loss, for Score-RW.

    By the mean of a(x', 0) over the paper's grid of x', by the error of the log ratio, and by what the chains do.
    """
    problem, rows = problem.few(), []
    method = methods(problem.epsilon)["RW"]
    side = (np.linspace(-1.5, 2.25, 40), np.linspace(-1.0, 1.5, 40))
    grid = problem.device.array(np.stack(np.meshgrid(*side, indexing="ij"), axis=-1).reshape(-1, 2))
    others = (Loss(0.0, None), Loss(0.0, None, "local"), Loss(1.0, None, "local"))
    for loss in (*(PAPERS_LOSS._replace(regularization=weight) for weight in problem.size.lambdas), *others):
        for label, acceptance, trained in _acceptances(problem, method, loss):
            if trained is None:
                continue
            row = _sampled(problem, "RW", label, method.kernel, acceptance, problem.epsilon)[0]
            logits = to_host(logit(grid, 0.0 * grid, trained.parameters)).astype(np.float64)
            row |= {"part": "settings", "lambda": loss.regularization, "max_norm": loss.max_norm, "pairs": loss.pairs}
            row["grid_acceptance"] = float(np.mean(1.0 / (1.0 + np.exp(-np.clip(logits, -700, 700)))))
            rows.append(row | {"log_error": ratio_error(problem, trained)})
    return rows


def ratio_error(problem: Problem, trained: Trained) -> float:
    """Root mean square of log a(x', x) - log a(x, x') minus the line integral of the learned score, 32 nodes.

    Over data x and random-walk proposals x'.
    """
    score, accept = (
        tree.map(lambda leaf: to_host(leaf).astype(np.float64), found.parameters) for found in (problem.score, trained)
    )
    x = problem.starts[0]
    tau = problem.epsilon * np.random.default_rng(problem.seed).standard_normal(x.shape)
    device_dtypes, weights = np.polynomial.legendre.leggauss(32)
    along = x + (0.5 + 0.5 * device_dtypes[:, None, None, None]) * tau
    slopes = np.sum(score_network(along, score) * tau, axis=-1)
    exact = 0.5 * np.tensordot(weights, slopes, axes=1)
    found = log_sigmoid(logit(x + tau, x, accept)) - log_sigmoid(logit(x, x + tau, accept))
    return float(np.sqrt(np.mean((found - exact) ** 2)))


def _acceptances(
    problem: Problem, method: Method, loss: Loss = PAPERS_LOSS
) -> Iterator[tuple[str, Acceptance, Trained | None]]:
    """The learned one in both uses, trained here, and those made from the score."""
    trained = train_acceptances(
        problem.data,
        method.proposal,
        score_network,
        problem.score.parameters,
        problem.size.runs,
        problem.size.acceptance(problem.name),
        problem.device,
        problem.seed,
        **loss.options(),
    )
    learned = Learned(logit, trained.parameters, method.proposal, direct=True)
    yield "direct", learned, trained
    yield "ratio", replace(learned, direct=False), trained
    yield "line", LineIntegral(8), None
    yield "Taylor", Taylor(1), None


class Ran(NamedTuple):
    """Last positions (..., start, runs, chains, 2), acceptances and divergences of the chains, scores, CPU seconds."""

    x: np.ndarray
    accept: np.ndarray
    diverged: np.ndarray
    scores: float
    seconds: float


def _run(problem: Problem, kernel: Kernel, acceptance: Acceptance | None) -> Ran:
    settings = {} if acceptance is None else {"acceptance": acceptance}
    target = Target(None, score=score_network, data=problem.score.parameters, **settings)
    began = time.process_time()
    x0, steps = problem.device.array(problem.starts), problem.size.steps
    trace = sample(target, kernel, x0, 1, thinning=steps, seed=problem.seed, progress=False)
    run_statistics, shape = trace.run_statistics, problem.starts.shape[:-1]
    return Ran(
        to_host(trace.draws)[0].astype(np.float64),
        np.broadcast_to(to_host(run_statistics.acceptance_probability), shape),
        np.broadcast_to(run_statistics.diverged, shape),
        run_statistics.evaluations["score"],
        time.process_time() - began,
    )


def _sampled(
    problem: Problem, sampler: str, label: str, kernel: Kernel, acceptance: Acceptance | None, epsilon: float
) -> tuple[dict[str, Any], np.ndarray]:
    """A row, and the last positions from normal starts."""
    ran = _run(problem, kernel, acceptance)
    row = _row(problem, sampler, label, ran.x) | {
        "epsilon": epsilon,
        "accept": float(np.mean(ran.accept)),
        "scores": ran.scores,
        "diverged": int(np.sum(ran.diverged > 0)),
        "sampling_seconds": ran.seconds,
    }
    return row, ran.x[1]


# ---- measures --------------------------------------------------------------------------------------------------------


def _row(problem: Problem, sampler: str, label: str, x: np.ndarray) -> dict[str, Any]:
    """Metrics of positions (start, runs, chains, 2), mean over runs and standard error."""
    row: dict[str, Any] = {"dataset": problem.name, "sampler": sampler, "acceptance": label}
    kernel = RBF(float(median_bandwidth(problem.fresh[0])))
    for start, draws in zip(STARTS, x, strict=True):
        w2 = wasserstein(draws, problem.fresh, 2)
        values = {
            "w1": wasserstein(draws, problem.fresh),
            "w2": w2,
            "half_w2_squared": 0.5 * w2**2,
            "mmd2": squared_mmd(draws, problem.fresh, kernel),
        }
        for key, value in values.items():
            row[f"{key}_{start}"] = float(np.mean(value))
            row[f"{key}_{start}_se"] = float(np.std(value, ddof=1) / math.sqrt(len(value)))
    return row


def asymmetry(problem: Problem) -> float:
    """How far the learned score is from a gradient: over the data, rms of J_12 - J_21 over that of J's norm."""
    parameters = tree.map(lambda leaf: to_host(leaf).astype(np.float64), problem.score.parameters)
    x, h = problem.starts[0], 1e-5
    columns = [
        (score_network(x + h * e, parameters) - score_network(x - h * e, parameters)) / (2 * h) for e in np.eye(2)
    ]
    jacobian = np.stack(columns, axis=-1)
    curl = jacobian[..., 0, 1] - jacobian[..., 1, 0]
    return float(np.sqrt(np.mean(curl**2) / np.mean(np.sum(jacobian**2, axis=(-2, -1)))))


def _describe(problem: Problem) -> str:
    how, acceptance = problem.size.score(problem.name), problem.size.acceptance(problem.name)
    trained = f"{problem.score.seconds:.0f} CPU s, loss {problem.score.loss:.2f}"
    return (
        f"score network 2 x {how.hidden}, {how.updates} updates of {how.batch} rows, {trained}, "
        f"asymmetry of its Jacobian {asymmetry(problem):.3f};\n"
        f"acceptance networks of {acceptance.blocks} blocks of {acceptance.hidden}, {acceptance.updates} updates; "
        f"epsilon = {problem.epsilon}"
    )


# ---- report ----------------------------------------------------------------------------------------------------------


def _cell(row: dict[str, Any], key: str, spec: str = ".3f") -> str:
    spec = spec if abs(row[key]) < 1e4 else ".1e"  # of chains that went far out
    return f"{row[key]:{spec}} +- {row[f'{key}_se']:{spec}}"


def _number(row: dict[str, Any], key: str, spec: str) -> str:
    return format(row[key], spec) if row.get(key) is not None else ""


def _table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        cell = {"sampler": row["sampler"], "acceptance": row["acceptance"]}
        for key in ("w1_normal", "w1_data", "w2_normal", "half_w2_squared_normal", "mmd2_normal"):
            cell[key] = _cell(row, key)
        paper = [_number(row, f"paper_{key}", ".3f") for key in ("w1", "w2", "mmd")]
        cell["paper"] = " / ".join(paper) if paper[0] else ""
        cell["accept"] = _number(row, "accept", ".3f")
        cell["scores"] = _number(row, "scores", ".0f")
        cell["cpu"] = " + ".join(filter(None, (_number(row, f"{k}_seconds", ".0f") for k in ("training", "sampling"))))
        cells.append(cell)
    heads = ("W1", "W1, data", "W2", "W2^2 / 2", "MMD^2", "paper", "accept", "scores", "CPU")
    columns = dict(zip(list(cells[0])[2:], ((head, "s") for head in heads), strict=True))
    return "\n" + table(cells, {"sampler": ("sampler", "s"), "acceptance": ("", "s")} | columns)


def _sweep_table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        cell = {"epsilon": f"{row['epsilon']:g}"}
        if "lambda" in row:
            clipped = "none" if row["max_norm"] is None else f"{row['max_norm']:g}"
            cell = {"lambda": f"{row['lambda']:g}", "C": clipped, "pairs": row["pairs"]}
        cell |= {"sampler": f"{row['sampler']} {row['acceptance']}".strip()}
        cell |= {head: _cell(row, key) for head, key in (("W1", "w1_normal"), ("W1, data", "w1_data"))}
        cell |= {"MMD^2": _cell(row, "mmd2_normal", ".4f"), "accept": f"{row['accept']:.3f}"}
        if "lambda" in row:
            cell |= {"a on grid": f"{row['grid_acceptance']:.3f}", "error of log r": f"{row['log_error']:.2f}"}
        cells.append(cell)
    return "\n" + table(cells, {key: (key, "s") for key in cells[0]})


def _filled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows with all columns; json knows no nan."""
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{key: None if row.get(key) != row.get(key) else row.get(key) for key in columns} for row in rows]


def _plot(report: Report, shown: dict[str, dict[str, np.ndarray]], rows: list[dict[str, Any]]) -> None:
    try:
        from xpsample.experiments.score_mh.toys_plot import plot_draws, plot_sweeps
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    if shown:
        plot_draws(report.out / "plot.png", shown)
    swept = [row for row in rows if row["part"] != "table"]
    if swept:
        plot_sweeps(report.out / "sweeps.png", swept)
