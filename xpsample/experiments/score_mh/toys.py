"""Score-MH paper, Table 1: four planar data sets by ULA, Score-RW, Score-MALA and Score-pCN, and cheaper acceptances.

A score network is trained on draws of a data set, and an acceptance network for each proposal on the learned score.
Beside the paper's acceptance, a(x', x), the same networks accept by their ratio, and the log ratio is made from the
score alone, by a line integral and by the averaged Taylor expansion. All trainings of a kind, and all chains on them,
are one batched run.
"""

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.checks import check_number
from xpsample.core.registry import to_host
from xpsample.diagnostics.diagnosis import RunStatistics
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.score_mh import models
from xpsample.experiments.score_mh.toys_figures import GRID, STARTS, plot_draws, plot_maps, plot_sweeps, plot_weights
from xpsample.experiments.table import Column, Columns, Row, columns, mean_and_error
from xpsample.experiments.toys import TOYS
from xpsample.experiments.transport import wasserstein
from xpsample.kernels import MALA, PCN, RWM, ULA, Kernel
from xpsample.metrics import median_bandwidth, squared_mmd
from xpsample.metrics.stein import RBF
from xpsample.score_mh import CrankNicolson, LangevinProposal, Learned, Proposal, RandomWalk, log_sigmoid, score_network
from xpsample.score_mh import acceptance_network as logit
from xpsample.targets import Acceptance, LineIntegral, Target, Taylor
from xpsample.targets.acceptance import ByDensity

SCORES = {"moons": (64, 5000, 1e-3)} | dict.fromkeys(("pinwheel", "s-curve", "swiss-roll"), (512, 2000, 5e-4))
"""Table 2: width of the hidden layers, epochs (passes over the data), learning rate."""
ACCEPTANCES = {"moons": (256, 3, 1000), "pinwheel": (256, 4, 200)}
ACCEPTANCES |= dict.fromkeys(("s-curve", "swiss-roll"), (512, 4, 200))
"""Table 3: width, residual blocks, epochs; the learning rate is 5e-4."""

_TABLE_1 = {
    "moons": ((0.143, 0.096, 0.054), (0.019, 0.007, 0.004), (0.018, 0.004, 0.002), (0.039, 0.021, 0.012)),
    "pinwheel": ((0.106, 0.062, 0.022), (0.012, 0.001, 0.001), (0.086, 0.064, 0.027), (0.016, 0.007, 0.003)),
    "s-curve": ((0.082, 0.055, 0.016), (0.050, 0.015, 0.004), (0.046, 0.014, 0.004), (0.090, 0.051, 0.017)),
    "swiss-roll": ((2.881, 14.409, 0.811), (2.270, 8.470, 0.400), (1.399, 4.575, 0.245), (14.167, 113.824, 6.903)),
}
PAPER = {name: dict(zip(("ULA", "RW", "MALA", "pCN"), rows, strict=True)) for name, rows in _TABLE_1.items()}
PAPER_KEYS = ("paper_w1", "paper_w2", "paper_mmd")
"""Table 1: W1, "W2", MMD."""


def _paper(row: Row) -> str:
    return " / ".join(f"{row[key]:.3f}" for key in PAPER_KEYS if key in row)


def _means(**heads: str) -> dict[str, Column]:
    return {key: (head, partial(models.mean_text, key=key)) for key, head in heads.items()}


def _ranges(**heads: str) -> dict[str, Column]:
    return {key: (head, partial(models.range_text, key=key)) for key, head in heads.items()}


_SWEPT = columns("sampler | acceptance") | _means(w1_normal="W1", w1_data="W1, data")
_SWEPT |= {"mmd2_normal": ("MMD^2", ".4f+-")} | columns("accept .3f")
COLUMNS: dict[str, Columns] = {
    "table": columns("sampler | acceptance")
    | _means(w1_normal="W1", w1_data="W1, data", w2_normal="W2", half_w2_squared_normal="W2^2 / 2", mmd2_normal="MMD^2")
    | _ranges(gain_normal="below ULA", gain_data="below ULA, data")
    | {"paper_w1": ("paper", _paper)}
    | columns("accept .3f | scores .0f | training_seconds .0f CPU: training | sampling_seconds .0f chains"),
    "steps": columns("epsilon g") | _SWEPT,
    "settings": columns("lambda g | max_norm g C | pairs")
    | _SWEPT
    | columns("grid_acceptance .3f a on grid | log_error .2f error of log r"),
}
COLUMNS |= {"lambda": COLUMNS["settings"], "taylor": COLUMNS["steps"]}
TITLES = {"table": "Table 1", "steps": "step sizes, Figs. 7 and 11", "lambda": "lambda, Fig. 8"}
TITLES |= {"taylor": "step sizes, Fig. 10", "settings": "the loss; C: - is none"}
LEGEND = """\
floor      another draw of the data, as many: what any of these numbers is for a perfect sampler
starts     the positions that the chains start from
direct     Metropolis-Hastings with a(x', x), the paper's; ratio: with min(1, a(x', x) / a(x, x'))
line       with the integral of the score between x and x', 8 nodes; Taylor: with the trapezoidal rule, App. A
W1, W2     Wasserstein distances of the chains' last positions to new draws of the data, mean over trainings +- the
           standard error; from starts that are data ("data") or normal with the data's mean and standard deviations
below ULA  W1 of ULA minus that of the row on the same networks, mean over trainings and the least and the largest
MMD^2      squared and unbiased, RBF kernel whose sigma is the median squared distance of the data
paper      Table 1: W1, what it calls W2, what it calls MMD
accept     mean acceptance probability; scores: evaluations of the score network in a step, per chain
CPU        seconds, of training all acceptances of the row and of sampling, compilation included"""


class Size(NamedTuple):
    """Trainings, chains and steps of each, rows of data and of batches, and at most: widths and epochs.

    With `cycles`, at most so many, the epochs are per cycle, see `Training`, and the learning rates are
    `score_rate` and `acceptance_rate` at its start. Without, all epochs are made at the paper's constant rates.
    """

    runs: int
    chains: int
    steps: int
    rows: int
    batch: int
    hidden: int
    epochs: int
    acceptance_hidden: int
    acceptance_epochs: int
    cycles: int | None = None
    score_rate: float = 1e-2
    acceptance_rate: float = 5e-3
    datasets: tuple[str, ...] = tuple(TOYS)
    swept: tuple[str, ...] = ("moons", "swiss-roll")
    scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    lambdas: tuple[float, ...] = (0.0, 1.0, 4.0, 30.0, 300.0)

    def score(self, name: str) -> models.Training:
        """Table 2 within the limits."""
        hidden, epochs, rate = SCORES[name]
        width, length = min(hidden, self.hidden), min(epochs, self.epochs)
        rate = self.score_rate if self.cycles else rate
        return models.Training(width, 0, length, self.batch, rate, self.rows // self.batch, self.cycles)

    def acceptance(self, name: str) -> models.Training:
        """Table 3 within the limits."""
        hidden, blocks, epochs = ACCEPTANCES[name]
        width, length = min(hidden, self.acceptance_hidden), min(epochs, self.acceptance_epochs)
        rate = self.acceptance_rate if self.cycles else 5e-4
        return models.Training(width, blocks, length, self.batch, rate, self.rows // self.batch, self.cycles)


PAPERS = Size(5, 1000, 1000, 10_000, 256, 512, 5000, 512, 1000)
FULL = Size(5, 1000, 500, 10_000, 128, 64, 100, 64, 25, 8)
QUICK = Size(
    2, 60, 20, 500, 32, 16, 2, 8, 1, 2, datasets=("moons",), swept=("moons",), scales=(0.5, 2.0), lambdas=(0.0, 4.0)
)


# ---- a data set ------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A data set and new draws for validation (rows, 2), others to compare with and their floor (runs, chains, 2),
    starts, and its score."""

    run: Run[Size]
    name: str
    data: np.ndarray
    validation: np.ndarray
    fresh: np.ndarray
    other: np.ndarray
    starts: np.ndarray
    score: models.Trained

    @property
    def epsilon(self) -> float:
        """The scale of proposals: the standard deviation of the data's own noise."""
        return TOYS[self.name].noise


def draw_problem(run: Run[Size], name: str) -> Problem:
    """Draw the data and train the scores."""
    size, rng = run.size, np.random.default_rng([run.seed, list(TOYS).index(name)])
    draw, shape = TOYS[name].generate, (size.runs, size.chains)
    data = rng.permutation(draw(size.rows, rng))
    fresh, other = (rng.permutation(draw(size.runs * size.chains, rng)).reshape(*shape, 2) for _ in range(2))
    from_data = data[rng.integers(len(data), size=shape)]
    normal = data.mean(axis=0) + data.std(axis=0) * rng.standard_normal((*shape, 2))
    starts = np.stack([from_data, normal])  # in the order of STARTS
    validation = rng.permutation(draw(size.rows, rng))
    score = models.train_scores(run, data, size.runs, size.score(name), validation)
    found = f"asymmetry of the score's Jacobian {asymmetry(starts[0], score.parameters):.3f}"
    run.say(f"{name}: {found}; epsilon = {TOYS[name].noise}")
    return Problem(run, name, data, validation, fresh, other, starts, score)


def asymmetry(x: np.ndarray, parameters: tree.Tree) -> float:
    """Distance of a learned score from a gradient: over the data, rms of J_12 - J_21 over the rms of J's norm."""
    parameters, h = tree.map(lambda leaf: to_host(leaf).astype(np.float64), parameters), 1e-5
    around = ((score_network(x + h * e, parameters), score_network(x - h * e, parameters)) for e in np.eye(2))
    jacobian = np.stack([(after - before) / (2 * h) for after, before in around], axis=-1)
    curl = jacobian[..., 0, 1] - jacobian[..., 1, 0]
    return float(np.sqrt(np.mean(curl**2) / np.mean(np.sum(jacobian**2, axis=(-2, -1)))))


def methods(epsilon: float) -> dict[str, tuple[Proposal, Kernel]]:
    """The paper's three methods, of the scale epsilon (in units of x); pCN, whose moves shrink x, has at most 0.1."""
    eta, beta = 0.5 * epsilon**2, min(epsilon, 0.1)
    return {
        "RW": (RandomWalk(epsilon), RWM(epsilon)),
        "MALA": (LangevinProposal(eta), MALA(eta)),
        "pCN": (CrankNicolson(beta), PCN(beta)),
    }


# ---- chains ----------------------------------------------------------------------------------------------------------


def learn(problem: Problem, proposal: Proposal, copies: int | None = None, **settings: Any) -> models.Trained:
    """Acceptance networks, several for each score where `copies` are given, which are not validated."""
    run, runs = problem.run, (copies or 1) * len(problem.fresh)
    parameters, how = models.repeated(problem.score.parameters, copies or 1), run.size.acceptance(problem.name)
    settings |= {"validation": None if copies else problem.validation}
    return models.train_acceptances(run, problem.data, proposal, score_network, parameters, runs, how, **settings)


def walk(problem: Problem, kernel: Kernel, acceptance: Acceptance) -> tuple[np.ndarray, np.ndarray, RunStatistics]:
    """Last positions (..., start, runs, chains, 2), acceptances (..., start, runs, chains), and the statistics."""
    target = Target(None, score=score_network, data=problem.score.parameters, acceptance=acceptance)
    x0 = problem.run.devices[0].array(problem.starts)
    trace = problem.run.sample(target, kernel, x0, 1, thinning=problem.run.size.steps, quiet=True)
    accepted = np.broadcast_to(to_host(trace.run_statistics.acceptance_probability), problem.starts.shape[:-1])
    return to_host(trace.draws)[0].astype(np.float64), accepted, trace.run_statistics


def measured(problem: Problem, sampler: str, acceptance: str, x: np.ndarray) -> tuple[Row, np.ndarray]:
    """Metrics of positions (start, runs, chains, 2), mean over runs and standard error, and the W1 (start, runs)."""
    row, fresh = {"dataset": problem.name, "sampler": sampler, "acceptance": acceptance}, problem.fresh
    kernel, w1 = RBF(float(median_bandwidth(fresh[0]))), np.stack([wasserstein(draws, fresh) for draws in x])
    for k, start in enumerate(STARTS):
        w2 = wasserstein(x[k], fresh, 2)
        row |= models.mean_and_range(f"w1_{start}", w1[k]) | mean_and_error(f"w2_{start}", w2)
        row |= mean_and_error(f"half_w2_squared_{start}", 0.5 * w2**2)
        row |= mean_and_error(f"mmd2_{start}", squared_mmd(x[k], fresh, kernel))
    return row, w1


class Sampled(NamedTuple):
    """A row, the last positions from normal starts (runs, chains, 2), and the W1 (start, runs)."""

    row: Row
    normal: np.ndarray
    w1: np.ndarray


def sampled(problem: Problem, sampler: str, label: str, kernel: Kernel, acceptance: Acceptance) -> Sampled:
    """The chains of a sampler, and how far they are from the data."""
    began = time.process_time()
    x, accepted, statistics = walk(problem, kernel, acceptance)
    seconds = time.process_time() - began
    row, w1 = measured(problem, sampler, label, x)
    row |= {
        "epsilon": problem.epsilon,
        "accept": np.mean(accepted),
        "scores": statistics.evaluations["score"],
        "diverged": np.sum(np.broadcast_to(statistics.diverged > 0, accepted.shape)),
        "sampling_seconds": seconds,
    }
    return Sampled(row, x[1], w1)


# ---- the parts -------------------------------------------------------------------------------------------------------


def compare(problem: Problem) -> Iterator[Row]:
    """Table 1 with more acceptances; last positions from normal starts are left for the figure."""
    papers = {sampler: dict(zip(PAPER_KEYS, row, strict=True)) for sampler, row in PAPER[problem.name].items()}
    shown = problem.run.shown[problem.name] = {"data": problem.fresh}
    yield measured(problem, "floor", "", np.stack([problem.other, problem.other]))[0]
    yield measured(problem, "starts", "", problem.starts)[0]
    ula = sampled(problem, "ULA", "", ULA(0.5 * problem.epsilon**2), ByDensity())
    shown["ULA"] = ula.normal
    yield ula.row | papers["ULA"]
    for sampler, (proposal, kernel) in methods(problem.epsilon).items():
        trained = learn(problem, proposal)
        for label, acceptance in models.acceptances(Learned(logit, trained.parameters, proposal)).items():
            found = sampled(problem, sampler, label, kernel, acceptance)
            shown[f"{sampler} {label}"] = found.normal
            row = found.row | {"training_seconds": trained.seconds if isinstance(acceptance, Learned) else 0.0}
            for start, gain in zip(STARTS, ula.w1 - found.w1, strict=True):
                row |= models.mean_and_range(f"gain_{start}", gain)
            yield row | (papers[sampler] if label == "direct" else {})


def step_sizes(problem: Problem) -> Iterator[Row]:
    """Figs. 7 and 11: the step size of ULA and of MALA with all acceptances, all sizes in one run of each."""
    size, array, runs = problem.run.size, problem.run.devices[0].array, len(problem.fresh)
    etas = 0.5 * (problem.epsilon * np.asarray(size.scales)) ** 2
    trained = learn(problem, LangevinProposal(array(np.repeat(etas, runs * size.batch))), copies=len(etas))
    parameters = models.arranged(trained.parameters, len(etas), 1, runs)
    learned = Learned(logit, parameters, LangevinProposal(array(etas[:, None, None, None])))
    yield from over_steps(problem, {"": ByDensity(), **models.acceptances(learned)})


def taylor(problem: Problem) -> Iterator[Row]:
    """Fig. 10: the step size of MALA with the four Taylor forms, which learn nothing, and with the line integral."""
    forms = {f"Taylor {n}{', averaged' * both}": Taylor(n, both) for n in (1, 2) for both in (False, True)}
    yield from over_steps(problem, {"line": LineIntegral(8), **forms})


def over_steps(problem: Problem, acceptances: Mapping[str, Acceptance]) -> Iterator[Row]:
    """ULA, for the label "", and MALA with each acceptance, by step size."""
    epsilons = problem.epsilon * np.asarray(problem.run.size.scales)
    eta = problem.run.devices[0].array(0.5 * epsilons[:, None, None, None] ** 2)
    problem = problem._replace(starts=np.broadcast_to(problem.starts, (len(epsilons), *problem.starts.shape)))
    for label, acceptance in acceptances.items():
        sampler, kernel = ("MALA", MALA(eta)) if label else ("ULA", ULA(eta))
        x, accepted, _ = walk(problem, kernel, acceptance)
        for k, epsilon in enumerate(epsilons):
            yield measured(problem, sampler, label, x[k])[0] | {"epsilon": epsilon, "accept": np.mean(accepted[k])}


def regularized(problem: Problem) -> Iterator[Row]:
    """Fig. 8: the weight lambda of the loss, for Score-RW, with the line integral of the same scores."""
    weights = problem.run.args.weight or problem.run.size.lambdas
    yield sampled(problem, "RW", "line", methods(problem.epsilon)["RW"][1], LineIntegral(8)).row
    yield from by_loss(problem, [(weight, 100.0, "global") for weight in weights])


def settings(problem: Problem) -> Iterator[Row]:
    """Other settings of the loss that the paper does not state, for Score-RW."""
    losses = [(1.0, 100.0, "global"), (0.0, None, "global"), (0.0, None, "local"), (1.0, None, "local")]
    yield from by_loss(problem, losses)


def by_loss(problem: Problem, losses: Iterable[tuple[float, float | None, str]]) -> Iterator[Row]:
    """Score-RW of each loss (lambda, C, pairs).

    Compared by the mean of a(x', 0) over the paper's grid of x', the error of the log ratio, and the chains.
    """
    proposal, kernel = methods(problem.epsilon)["RW"]
    side = (np.linspace(*edges, 40) for edges in GRID)
    grid = problem.run.devices[0].array(np.stack(np.meshgrid(*side, indexing="ij"), axis=-1).reshape(-1, 2))
    for weight, clip, pairs in losses:
        alpha = (1.0, 1.0) if pairs == "local" else (0.0, 1.0)  # Eq. 7 has local pairs
        trained = learn(problem, proposal, regularization=weight, max_norm=clip, pairs=pairs, alpha=alpha)
        logits = to_host(logit(grid, 0.0 * grid, trained.parameters)).astype(np.float64)
        found = {"lambda": weight, "max_norm": clip, "pairs": pairs}
        accepted = 1.0 / (1.0 + np.exp(-np.clip(logits, -700, 700)))
        found["grid_acceptance"] = np.mean(accepted)
        if clip is not None:
            problem.run.shown.setdefault("maps", {})[f"{problem.name}, lambda = {weight:g}"] = accepted[0]
        found["log_error"] = ratio_error(problem, trained)
        for label, acceptance in models.acceptances(Learned(logit, trained.parameters, proposal)).items():
            if isinstance(acceptance, Learned):
                yield sampled(problem, "RW", label, kernel, acceptance).row | found


def ratio_error(problem: Problem, trained: models.Trained) -> float:
    """Root mean square of log a(x', x) - log a(x, x') minus the line integral of the learned score, 32 nodes.

    Over data x and random-walk proposals x'.
    """
    score, accept = (
        tree.map(lambda leaf: to_host(leaf).astype(np.float64), found.parameters) for found in (problem.score, trained)
    )
    x = problem.starts[0]
    tau = problem.epsilon * np.random.default_rng(problem.run.seed).standard_normal(x.shape)
    nodes, weights = np.polynomial.legendre.leggauss(32)
    along = x + (0.5 + 0.5 * nodes[:, None, None, None]) * tau
    slopes = np.sum(score_network(along, score) * tau, axis=-1)
    exact = 0.5 * np.tensordot(weights, slopes, axes=1)
    found = log_sigmoid(logit(x + tau, x, accept)) - log_sigmoid(logit(x, x + tau, accept))
    return float(np.sqrt(np.mean((found - exact) ** 2)))


# ---- the experiment --------------------------------------------------------------------------------------------------

PARTS = {"table": compare, "steps": step_sizes, "taylor": taylor, "lambda": regularized, "settings": settings}
LIMITS = {
    "chains": "chains on each training",
    "epochs": "epochs of score networks, in each cycle of the learning rate",
    "acceptance_epochs": "epochs of acceptance networks, likewise",
}
"""Options that make it shorter, of the fields of `Size` that they limit."""


def options(parser: argparse.ArgumentParser) -> None:
    """Parts and data sets, and limits on what takes long."""
    for name, choices in {"part": PARTS, "data": TOYS}.items():
        parser.add_argument(
            f"--{name}", action="append", choices=tuple(choices), help="may be given several times (default: all)"
        )
    for name, what in LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"{what}, at most N")
    parser.add_argument(
        "--lambda", dest="weight", action="append", type=float, metavar="W", help="of the part lambda (default: Fig. 8)"
    )
    what = "learning rate of acceptance networks at the start of a cycle"
    parser.add_argument(
        "--acceptance-rate", type=float, metavar="RATE", help=f"{what} (default: {FULL.acceptance_rate})"
    )


def measure(run: Run[Size]) -> Iterator[Row]:
    """The parts for each data set."""
    asked = {name: getattr(run.args, name) or math.inf for name in LIMITS}
    run.size = run.size._replace(**{name: min(most, getattr(run.size, name)) for name, most in asked.items()})
    if run.args.acceptance_rate is not None:
        run.size = run.size._replace(acceptance_rate=check_number("--acceptance-rate", run.args.acceptance_rate, 0))
    size = run.size
    where = dict.fromkeys(("table", "lambda"), tuple(TOYS)) | {"steps": size.swept}
    where |= dict.fromkeys(("taylor", "settings"), ("moons",))
    run.say(
        f"{size.runs} trainings on {size.rows} rows, {size.chains} chains of {size.steps} steps on each; but in the "
        "settings and the part lambda, lambda = 1, C = 100, global pairs"
    )
    for name in run.args.data or size.datasets:
        problem = draw_problem(run, name)
        for part in run.args.part or PARTS:
            if name in where[part]:
                yield from (row | {"part": part} for row in PARTS[part](problem))


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A table for each part of each data set."""
    for name, part in dict.fromkeys((row["dataset"], row["part"]) for row in rows):
        own = [row for row in rows if row["dataset"] == name and row["part"] == part]
        run.table(own, COLUMNS[part], title=f"{name}: {TITLES[part]}")
    run.say(f"\n{LEGEND}")


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Method nearest to the data, and the adjusted chains that are nearer to it than ULA's in every training."""
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name and "accept" in row]
        best = min(own, key=lambda row: row["w1_normal"])
        lines.append(
            f"{name}: smallest W1 from normal starts {best['w1_normal']:.3f}, of {best['sampler']} "
            f"{best['acceptance']} with epsilon = {best['epsilon']:g}, which accepts {best['accept']:.3f}"
        )
        beside = [row for row in own if "gain_normal" in row]
        for start in STARTS if beside else ():
            names = [f"{row['sampler']} {row['acceptance']}" for row in beside if row[f"gain_{start}_low"] > 0]
            lines.append(f"  nearer than ULA in every training, starts: {start}: {', '.join(names) or 'none'}")
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="score-mh-toys",
    title="Planar data sets by learned scores and acceptances; Score-MH paper, Table 1 and Figs. 7, 8, 11",
    settings={"full": FULL, "quick": QUICK, "paper": PAPERS},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper="Table 1 has a column. What it calls W2 is below W1 in 12 of 16 rows, as W2^2 / 2 may be and W2 may not",
    figures={"plot": plot_draws, "sweeps": plot_sweeps, "lambda": plot_weights, "maps": plot_maps},
    options=options,
    trains=True,
    devices=one_float32,
)
