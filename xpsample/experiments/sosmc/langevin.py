"""Section 5.1 of the SOSMC paper: mixtures whose weights are tuned to a reward, by six methods, beside its tables."""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import DivergenceWarning
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.sosmc.problems import FLOOR, PROBLEMS, Problem, family, reference, start_positions
from xpsample.kernels import HMC, MALA, RWM
from xpsample.optimize.optimizers import SGD, Adam
from xpsample.run.sampling import sample
from xpsample.sosmc import SOSMC, Adaptation, LangevinMove, RewardForwardKL, SingleChain, SOSMCHistory, Unweighted
from xpsample.targets import Parametric

GAMMA, RATE, THRESHOLD = 0.1, 0.1, 0.9
ADAPT = Adaptation(0.95, 1.01, 0.001, 0.99)
ADAPT_ROOT = Adaptation(0.95, 1.01**0.5, 0.002**0.5, 1.98**0.5)
"""Of a random walk's standard deviation sqrt(2 gamma)."""


class Method(NamedTuple):
    """A row of the tables: its move for a number of particles, and SOSMC's other settings."""

    move: Callable[[int], Any]
    threshold: float = 0.0
    adapt: Adaptation | None = None


METHODS = {
    "ImpDiff": Method(lambda n: Unweighted(LangevinMove(GAMMA))),
    "SOUL": Method(lambda n: SingleChain(GAMMA, n // 2)),
    "SOSMC-ULA": Method(lambda n: LangevinMove(GAMMA), THRESHOLD, ADAPT),
    "SOSMC-MALA": Method(lambda n: MALA(GAMMA), THRESHOLD, ADAPT),
    "SOSMC-RWM": Method(lambda n: RWM((2 * GAMMA) ** 0.5), THRESHOLD, ADAPT_ROOT),
    "SOSMC-HMC": Method(lambda n: HMC(0.1, 1), THRESHOLD),
}
OPTIMIZERS = {"SGD": SGD(RATE), "Adam": Adam(RATE)}

PAPER: dict[tuple[int, str], dict[str, tuple[float, ...]]] = {
    (1, "SGD"): {
        "ImpDiff": (0.6364, 0.0095, 0.0173, 0.0115),
        "SOUL": (0.5714, 0.0059, 0.0173, 0.0000),
        "SOSMC-ULA": (0.6434, 0.0133, 0.0224, 0.1327),
        "SOSMC-MALA": (0.6435, 0.0128, 0.0204, 0.3788),
        "SOSMC-RWM": (0.6424, 0.0129, 0.0207, 0.3803),
        "SOSMC-HMC": (0.6416, 0.0127, 0.0202, 0.3775),
    },
    (1, "Adam"): {
        "ImpDiff": (0.6026, 0.0169, 0.0363, 0.0142),
        "SOUL": (0.6477, 0.0187, 0.0365, 0.0000),
        "SOSMC-ULA": (0.6484, 0.0186, 0.0369, 0.2497),
        "SOSMC-MALA": (0.6491, 0.0185, 0.0368, 0.3994),
        "SOSMC-RWM": (0.6476, 0.0186, 0.0368, 0.3994),
        "SOSMC-HMC": (0.6485, 0.0183, 0.0366, 0.3994),
    },
    (2, "Adam"): {
        "ImpDiff": (0.5766, 0.0173, 0.0357, 0.0102),
        "SOUL": (0.3680, 0.0132, 0.0367, 0.0000),
        "SOSMC-ULA": (0.6020, 0.0181, 0.0361, 0.2002),
        "SOSMC-MALA": (0.6036, 0.0181, 0.0361, 0.3220),
        "SOSMC-RWM": (0.6016, 0.0181, 0.0362, 0.3216),
        "SOSMC-HMC": (0.6033, 0.0181, 0.0360, 0.3218),
    },
}
"""Terminal rewards of Tables 1 and 2, in the order of `PROBLEMS`."""

LEGEND = """\
particles   mean reward of the particles (weighted where they are) at the end, mean +- sd over the runs: what the paper
            tabulates, beside it
mixture     expected reward of the mixture that the final theta makes, by quadrature
to 95 %     iterations until that is 95 % of the best reachable (one pure component), median over the runs; and how many
            runs got there
evaluations of densities and scores per particle and iteration; one gradient in theta comes to that
ess         last effective sample size of the weights over the number of particles, mean over the runs
diverged    share of moves that left the finite numbers. A run all of whose particles did so ends with no number (-)"""


class Size(NamedTuple):
    """Runs, particles of each, draws of the reference, iterations by optimiser and of SOUL, problems and tables."""

    runs: int
    particles: int
    draws: int
    iterations: dict[str, int]
    soul: int
    problems: tuple[Problem, ...] = PROBLEMS
    tables: tuple[int, ...] = (1, 2)


FULL = Size(10, 10_000, 5_000, {"SGD": 850, "Adam": 300}, 100)
QUICK = Size(2, 200, 200, {"Adam": 25}, 5, (PROBLEMS[0], PROBLEMS[3]), (1,))


class Job(NamedTuple):
    """One batched run: a table of the paper, an optimiser, a problem, the floor of its density, and a method."""

    table: int
    optimizer: str
    problem: Problem
    floor: float
    method: str


def jobs(size: Size) -> Iterator[Job]:
    """All batched runs; without the floor only where it matters."""
    for number, optimizer in PAPER:
        if optimizer not in size.iterations or number not in size.tables:
            continue
        for problem in size.problems:
            floors = (FLOOR, 0.0) if problem is PROBLEMS[-1] and (number, optimizer) == (1, "Adam") else (FLOOR,)
            for floor in floors:
                for method in METHODS:
                    yield Job(number, optimizer, problem, floor, method)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "sosmc-langevin", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    device = next(p for p in device_dtypes(names) if p.dtype == "float32")
    report.say("Reward tuning of Langevin processes; SOSMC paper, Section 5.1, Tables 1 and 2")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{device}, seed {args.seed}: {size.runs} runs of {size.particles} particles at once; iterations "
        + ", ".join(f"{n} ({name})" for name, n in size.iterations.items())
        + f", SOUL {size.soul}"
    )
    results, curves, targets = [], {}, {}
    for job in jobs(size):
        key = job.problem.name, job.floor
        if key not in targets:  # one for all methods, so that its derivatives are made once
            targets[key] = family(job.problem, job.floor, size.runs)
        row, curve = run_job(job, targets[key], size, device, args.seed)
        results.append(row)
        curves[f"{job.table} {job.optimizer} {job.problem.name} {job.floor:g} {job.method}"] = curve
        report.say(
            f"  Table {job.table} {job.optimizer:4} {job.problem.name:16} floor {job.floor:5g} {job.method:10} "
            f"{row['seconds']:6.1f} s"
        )
    _tell(report, results, size.runs)
    report.rows(results)
    np.savez_compressed(report.out / "curves.npz", **curves)
    _plot(report, curves)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def run_job(
    job: Job, target: Parametric, size: Size, device: DeviceDtype, seed: int
) -> tuple[dict[str, Any], np.ndarray]:
    """The numbers of a batched run, and the mean reward of its particles, (iteration, run)."""
    problem, method = job.problem, METHODS[job.method]
    beta = problem.beta if job.table == 2 else 0.0
    loss = RewardForwardKL(problem.reward, beta, reference(problem, size.draws) if beta else None)
    kernel = SOSMC(
        loss,
        method.move(size.particles),
        OPTIMIZERS[job.optimizer],
        threshold=method.threshold,
        adapt_move=method.adapt,
    )
    x0 = device.array(start_positions(problem, size.runs, size.particles, seed))
    iterations = size.soul if job.method == "SOUL" else size.iterations[job.optimizer]
    recorders = (SOSMCHistory({"reward": problem.reward}),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # counted in the table
        trace = sample(target, kernel, x0, iterations, seed=seed, recorders=recorders, progress=False)
    kept = trace.recorded["history"]
    reward = to_host(kept["reward"]).astype(np.float64)
    mixture = problem.expected_reward(to_host(kept["parameters"])[:, :, 0, :].astype(np.float64))
    reached = mixture >= 0.95 * np.max(problem.component_rewards)
    first = np.where(np.any(reached, axis=0), np.argmax(reached, axis=0) + 1.0, np.inf)
    median = float(np.median(first))
    spent = trace.run_statistics.evaluations
    paper = PAPER[job.table, job.optimizer][job.method][PROBLEMS.index(problem)]
    return {
        "table": job.table,
        "optimizer": job.optimizer,
        "problem": problem.name,
        "floor": job.floor,
        "method": job.method,
        "iterations": iterations,
        "particles": _number(np.mean(reward[-1])),
        "particles_sd": _number(np.std(reward[-1], ddof=1)),
        "paper": paper,
        "mixture": _number(np.mean(mixture[-1])),
        "mixture_sd": _number(np.std(mixture[-1], ddof=1)),
        "best": float(np.max(problem.component_rewards)),
        "to_95": _number(median),
        "reached": int(np.sum(np.isfinite(first))),
        "evaluations": spent["log_density"] + spent["score"],
        "diverged": float(np.sum(trace.run_statistics.diverged)) / (x0.shape[0] * x0.shape[1] * iterations),
        "ess": _number(np.mean(to_host(kept["weight_ess"])[-1]) / size.particles),
        "resampled": float(np.mean(to_host(kept["resampled"]))),
        "step_size": float(np.mean(to_host(kept["step_size"])[-1])) if "step_size" in kept else None,
        "seconds": trace.metadata["seconds"],
    }, reward.astype(np.float32)


def _number(value: Any) -> float | None:
    """A finite number, or None: json knows no others."""
    return float(value) if np.isfinite(value) else None


def _pair(mean: float | None, sd: float | None) -> str:
    return "-" if mean is None or sd is None else f"{mean:.4f} +- {sd:.4f}"


def _tell(report: Report, results: list[dict[str, Any]], runs: int) -> None:
    """A table for each table, optimiser and problem."""
    report.say()
    cells = []
    for row in results:
        reached = "-" if row["to_95"] is None else f"{row['to_95']:g}"
        cells.append(
            {
                "case": f"{row['table']} {row['optimizer']}",
                "problem": row["problem"] + ("" if row["floor"] else ", no floor"),
                "method": row["method"],
                "particles": _pair(row["particles"], row["particles_sd"]),
                "paper": f"{row['paper']:.4f}",
                "mixture": _pair(row["mixture"], row["mixture_sd"]),
                "to_95": f"{reached} ({row['reached']}/{runs})",
                "evaluations": f"{row['evaluations']:g}",
                "ess": "-" if row["ess"] is None else f"{row['ess']:.2f}",
                "diverged": f"{row['diverged']:.2f}",
            }
        )
    columns = {
        "case": ("table", "s"),
        "problem": ("problem", "s"),
        "method": ("method", "s"),
        "particles": ("particles", "s"),
        "paper": ("paper", "s"),
        "mixture": ("mixture", "s"),
        "to_95": ("to 95 %", "s"),
        "evaluations": ("evaluations", "s"),
        "ess": ("ess", "s"),
        "diverged": ("diverged", "s"),
    }
    report.say(table(cells, columns) + "\n\n" + LEGEND + "\n")


def _plot(report: Report, curves: dict[str, np.ndarray]) -> None:
    try:
        from xpsample.experiments.sosmc.langevin_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", curves)
