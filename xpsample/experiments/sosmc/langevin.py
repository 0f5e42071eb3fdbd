"""Section 5.1 of the SOSMC paper: mixtures whose weights are tuned to a reward, by six methods, with its tables."""

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.checks import check_count
from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.sosmc.methods import COLOURS, THRESHOLD, Method
from xpsample.experiments.sosmc.problems import FLOOR, PROBLEMS, Problem, family, reference, softmax, start_positions
from xpsample.experiments.table import Row, columns
from xpsample.kernels import HMC, MALA, RWM
from xpsample.optimize.optimizers import SGD, Adam
from xpsample.particles.resampling import Multinomial
from xpsample.sosmc import Adaptation, LangevinMove, RewardForwardKL, SingleChain, SOSMCHistory, Unweighted
from xpsample.targets import Parametric

GAMMA, RATE = 0.1, 0.1
ADAPT = Adaptation(0.95, 1.01, 0.001, 0.99)
ADAPT_ROOT = Adaptation(0.95, 1.01**0.5, 0.002**0.5, 1.98**0.5)
"""Adaptation of a random walk's standard deviation sqrt(2 gamma)."""
REWARD, NLL = "", ", NLL"
"""Endings of the names of courses: the mean reward, and the mean of U, which the paper calls NLL."""


def methods(particles: int) -> dict[str, Method]:
    """The rows of the tables, for a number of particles."""
    return {
        "ImpDiff": Method(Unweighted(LangevinMove(GAMMA))),
        "SOUL": Method(SingleChain(GAMMA, particles // 2)),
        "SOSMC-ULA": Method(LangevinMove(GAMMA), THRESHOLD, ADAPT),
        "SOSMC-MALA": Method(MALA(GAMMA), THRESHOLD, ADAPT),
        "SOSMC-RWM": Method(RWM((2 * GAMMA) ** 0.5), THRESHOLD, ADAPT_ROOT),
        "SOSMC-HMC": Method(HMC(0.1, 1), THRESHOLD),
    }


OPTIMIZERS: dict[str, SGD | Adam] = {"SGD": SGD(RATE), "Adam": Adam(RATE)}

REWARDS: dict[tuple[int, str], dict[str, tuple[float, ...]]] = {
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
PARTS = {f"{table}-{optimizer}": (table, optimizer) for table, optimizer in REWARDS}

COLUMNS = columns(
    "table d | optimizer s optimizer | problem | floor g | method | particles .4f | particles_sd .4f sd | "
    "paper .4f | mixture .4f | mixture_sd .4f sd | to_95 g to 95 % | reached d | evaluations g | ess .2f | "
    "diverged .2f"
)
KEYS = ("table", "optimizer", "problem", "floor", "method")
LEGEND = """\
floor       added to the density, as in the authors' code; Eq. 26 has none
particles   mean reward of the particles (weighted where they are) at the end, mean and sd over the runs: what the paper
            tabulates, beside it
mixture     expected reward of the mixture that the final theta makes, by quadrature
to 95 %     iterations until that is 95 % of the best reachable (one pure component), median over the runs; inf: never
reached     how many runs got there
evaluations of densities and scores per particle and iteration; one gradient in theta comes to that
ess         last effective sample size of the weights over the number of particles, mean over the runs
diverged    share of moves that left the finite numbers. A run all of whose particles did so ends with no number (-)"""
PAPER = """\
Tables 1 and 2 are in the column "paper". On V_tight ImpDiff and SOUL stay near 0; SOSMC with MALA, RWM and HMC comes
near to the best reward, SOSMC-ULA to between a third and two thirds of it"""


class Size(NamedTuple):
    """Runs, particles of each, draws of the reference, iterations by optimizer and of SOUL, problems and tables."""

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
    """One batched run: a table of the paper, an optimizer, a problem, the floor of its density, and a method."""

    table: int
    optimizer: str
    problem: Problem
    floor: float
    method: str


def options(parser: argparse.ArgumentParser) -> None:
    """Which parts of the tables, and fewer particles."""
    parser.add_argument(
        "--part", action="append", choices=tuple(PARTS), help="may be given several times (default: all)"
    )
    parser.add_argument("--particles", type=int, metavar="N", help=f"particles (default: {FULL.particles})")


def jobs(size: Size, parts: list[str] | None) -> Iterator[Job]:
    """All batched runs; without the floor only where it matters."""
    for number, optimizer in (PARTS[part] for part in parts or PARTS):
        if optimizer not in size.iterations or number not in size.tables:
            continue
        for problem in size.problems:
            floors = (FLOOR, 0.0) if problem is PROBLEMS[-1] and (number, optimizer) == (1, "Adam") else (FLOOR,)
            for floor in floors:
                for method in methods(size.particles):
                    yield Job(number, optimizer, problem, floor, method)


def measure(run: Run[Size]) -> Iterator[Row]:
    """All jobs; the courses of their rewards are left for the figure."""
    particles = check_count("--particles", run.args.particles or run.size.particles, 2)
    run.size = run.size._replace(particles=particles)
    size, curves = run.size, run.shown
    run.say(
        f"{size.runs} runs of {size.particles} particles at once; iterations "
        + ", ".join(f"{n} ({name})" for name, n in size.iterations.items())
        + f", SOUL {size.soul}"
    )
    targets: dict[tuple[str, float], Parametric] = {}
    for job in jobs(size, run.args.part):
        key = job.problem.name, job.floor
        if key not in targets:  # one for all methods, so that its derivatives are made once
            targets[key] = family(job.problem, job.floor, size.runs)
        row, courses = run_job(run, job, targets[key])
        yield row
        label = f"{job.table} {job.optimizer} {job.problem.name} {job.floor:g} {job.method}"
        curves |= {f"{label}{what}": course for what, course in courses.items()}
    run.save("curves", **curves)


def run_job(run: Run[Size], job: Job, target: Parametric) -> tuple[Row, dict[str, np.ndarray]]:
    """The numbers of a batched run, and by name the means over its particles, (iteration, run): REWARD and NLL."""
    size, problem = run.size, job.problem
    beta = problem.beta if job.table == 2 else 0.0
    loss = RewardForwardKL(problem.reward, beta, reference(problem, size.draws) if beta else None)
    method = methods(size.particles)[job.method]
    x0 = run.devices[0].array(start_positions(problem, size.runs, size.particles, run.seed))
    iterations = size.soul if job.method == "SOUL" else size.iterations[job.optimizer]
    trace = run.sample(
        *(target, method.kernel(loss, OPTIMIZERS[job.optimizer], Multinomial()), x0, iterations),
        recorders=(SOSMCHistory({"reward": problem.reward}),),
        label=f"Table {job.table}, {job.optimizer}, {problem.name}, floor {job.floor:g}, {job.method}",
        quiet=True,  # the table counts divergences
    )
    kept = trace.recorded["history"]
    reward = to_host(kept["reward"]).astype(np.float64)
    mixture = problem.expected_reward(to_host(kept["parameters"])[:, :, 0, :].astype(np.float64))
    reached = mixture >= 0.95 * np.max(problem.component_rewards)
    first = np.where(np.any(reached, axis=0), np.argmax(reached, axis=0) + 1.0, np.inf)
    spent = trace.run_statistics.evaluations
    paper = REWARDS[job.table, job.optimizer][job.method][PROBLEMS.index(problem)]
    return {
        "table": job.table,
        "optimizer": job.optimizer,
        "problem": problem.name,
        "floor": job.floor,
        "method": job.method,
        "iterations": iterations,
        "particles": np.mean(reward[-1]),
        "particles_sd": np.std(reward[-1], ddof=1),
        "paper": paper,
        "mixture": np.mean(mixture[-1]),
        "mixture_sd": np.std(mixture[-1], ddof=1),
        "best": np.max(problem.component_rewards),
        "to_95": np.median(first),
        "reached": np.sum(np.isfinite(first)),
        "evaluations": spent["log_density"] + spent["score"],
        "diverged": np.sum(trace.run_statistics.diverged) / (x0.shape[0] * x0.shape[1] * iterations),
        "ess": np.mean(to_host(kept["weight_ess"])[-1]) / size.particles,
        "resampled": np.mean(to_host(kept["resampled"])),
        "step_size": np.mean(to_host(kept["step_size"])[-1]) if "step_size" in kept else None,
        "seconds": trace.metadata["seconds"],
    }, {REWARD: reward.astype(np.float32), NLL: to_host(kept["potential"]).astype(np.float32)}


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Which methods come near to the best reachable reward, and how far they are from the paper's figures."""
    near, ratios = [], []
    for method in methods(run.size.particles):
        own = [row for row in rows if row["method"] == method and row["floor"]]
        near.append(f"{method} {sum(row['mixture'] >= 0.95 * row['best'] for row in own)}")
        ratios.append(f"{method} {np.median([row['particles'] / row['paper'] for row in own if row['paper']]):.2f}")
    return (
        f"with the floor, theta within 5 % of the best reachable reward, of {len(own)} cases: {', '.join(near)}\n"
        f"with the floor, the particles' reward over the paper's, median: {', '.join(ratios)}"
    )


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """The particles' mean reward against the iteration; dotted, the best reachable."""
    for row_of_axes in _courses(figure, run, rows, REWARD, "mean reward of the particles"):
        for axes, problem in zip(row_of_axes, run.size.problems, strict=True):
            axes.axhline(np.max(problem.component_rewards), color="black", lw=0.8, ls=(0, (1, 3)))
            axes.set_ylim(0, None)


def plot_nll(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """The particles' mean U against the iteration, the right panels of Figs. 1 and A.2 to A.6."""
    _courses(figure, run, rows, NLL, "mean U of the particles")


def _courses(figure: Any, run: Run[Size], rows: list[Row], what: str, label: str) -> Any:
    """Against the iteration: mean over the runs, and the range of them all. Returns the axes."""
    curves, styles = run.shown, {"SOSMC-RWM": "--", "SOSMC-HMC": ":"}
    cases = list(dict.fromkeys((row["table"], row["optimizer"]) for row in rows))
    figure.set_size_inches(14.0, 3.2 * len(cases))
    problems = run.size.problems
    grid = figure.subplots(len(cases), len(problems), squeeze=False)
    for axes_row, (number, optimizer) in zip(grid, cases, strict=True):
        for axes, problem in zip(axes_row, problems, strict=True):
            for method, colour in COLOURS.items():
                course = curves.get(f"{number} {optimizer} {problem.name} {FLOOR:g} {method}{what}")
                if course is None:
                    continue
                steps, style = np.arange(1, len(course) + 1), styles.get(method, "-")
                axes.plot(steps, np.mean(course, axis=1), color=colour, ls=style, label=method, lw=1.4)
                low, high = np.min(course, axis=1), np.max(course, axis=1)
                axes.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
            axes.set_xscale("log")
            axes.set_title(f"{problem.name}, {optimizer}" + (f", beta = {problem.beta:g}" if number == 2 else ""))
            tidy(axes)
        axes_row[0].set_ylabel(label)
    for axes in grid[-1]:
        axes.set_xlabel("iteration")
    grid[0, 0].legend(frameon=False, fontsize=8)
    return grid


def plot_problems(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Fig. A.1: the reward of each problem, and level lines of its mixture at the start."""
    figure.set_size_inches(3.2 * len(PROBLEMS), 3.4)
    panels, line = figure.subplots(1, len(PROBLEMS)), np.linspace(-7.0, 7.0, 281)
    grid = np.stack(np.meshgrid(line, line), axis=-1)
    for axes, problem in zip(panels, PROBLEMS, strict=True):
        squared = np.sum((grid[..., None, :] - problem.means) ** 2, axis=-1)
        density = np.exp(-0.5 * squared / problem.variance) @ softmax(problem.start)
        extent = (line[0], line[-1], line[0], line[-1])
        axes.imshow(problem.reward(grid), origin="lower", extent=extent, cmap="Greys_r")
        axes.contour(line, line, density, np.max(density) * np.array([0.03, 0.3]), colors="#E69F00", linewidths=1.2)
        axes.set_title(problem.name, fontsize=10)


EXPERIMENT = Experiment(
    name="sosmc-langevin",
    title="Reward tuning of Langevin processes; SOSMC paper, Section 5.1, Tables 1 and 2",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    columns=COLUMNS,
    keys=KEYS,
    legend=LEGEND,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot, "nll": plot_nll, "problems": plot_problems},
    options=options,
    devices=one_float32,
)
