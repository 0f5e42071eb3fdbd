"""Score-MH paper, Fig. 14: does an acceptance that is learned from a learned score do as well as from the true one?

The target is N(3, 2). A random walk accepts by the density, by networks that learned on the true score, and by networks
that learned on a learned score. All trainings of a kind, and all chains on them, are one batched run.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.score_mh.models import Training, acceptances, train_acceptances, train_scores
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.experiments.transport import wasserstein_1d
from xpsample.kernels import RWM
from xpsample.score_mh import Learned, RandomWalk, acceptance_network, score_network
from xpsample.targets import LineIntegral, Target
from xpsample.zoo.gaussian import gaussian

MEAN, SD = 3.0, math.sqrt(2.0)
SCALE = 2.4 * SD
"""Standard deviation of the proposals, the usual one in one dimension."""
COLUMNS = columns("score | acceptance | mean .3f+- | sd .3f+- | w1 .3f+- W1 | accept .3f+-")
LEGEND = f"""\
mean, sd   of the chains' last positions, mean over trainings +- standard error; the target's: {MEAN:g} and {SD:.3f}
W1         of them to new draws of the target; floor: of another draw, as many
density    by Eq. 5; direct: with a(x', x), the paper's; ratio: with min(1, a(x', x) / a(x, x')); line: by the integral
           of the learned score, what a perfect acceptance on it gives"""


class Size(NamedTuple):
    """Trainings, chains and steps of each, rows of data; how scores and acceptances are trained."""

    runs: int
    chains: int
    steps: int
    rows: int
    score: Training
    acceptance: Training


FULL = Size(5, 1000, 200, 10_000, Training(32, 0, 10, 128, 1e-2, 78, 8), Training(32, 2, 10, 128, 5e-3, 78, 8))
QUICK = Size(2, 100, 20, 256, Training(16, 0, 2, 32, 1e-2, 8, 2), Training(16, 2, 2, 32, 5e-3, 8, 2))


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each acceptance; the last positions are left for the figure."""
    size, (device,), rng = run.size, run.devices, np.random.default_rng(run.seed)
    run.say(f"{size.runs} trainings, {size.chains} chains of {size.steps} steps on each, from N(0, 1)")
    data, validation = (MEAN + SD * rng.standard_normal((size.rows, 1)) for _ in range(2))
    fresh, other = (MEAN + SD * rng.standard_normal((size.runs, size.chains)) for _ in range(2))
    x0 = device.array(rng.standard_normal((size.runs, size.chains, 1)))
    yield _row("", "floor", other, fresh)
    for score, acceptance, target in _targets(run, data, validation):
        trace = run.sample(target, RWM(SCALE), x0, 1, thinning=size.steps, quiet=True)
        x = to_host(trace.draws)[0, ..., 0].astype(np.float64)
        accepted = np.mean(to_host(trace.run_statistics.acceptance_probability), axis=-1)
        run.shown[f"{score} score, {acceptance}" if score else acceptance] = x
        yield _row(score, acceptance, x, fresh) | mean_and_error("accept", accepted)


def _targets(run: Run[Size], data: np.ndarray, validation: np.ndarray) -> Iterator[tuple[str, str, Target]]:
    """Whose score, which acceptance, and the target with it; networks are trained here."""
    size, true, proposal = run.size, gaussian(np.array([[SD**2]]), np.array([MEAN])), RandomWalk(SCALE)
    yield "", "density", true
    trained = train_scores(run, data, size.runs, size.score, validation)
    for name, score, parameters in (("true", true.score, true.data), ("learned", score_network, trained.parameters)):
        learned = train_acceptances(
            run, data, proposal, score, parameters, size.runs, size.acceptance, validation=validation
        )
        for label, acceptance in acceptances(Learned(acceptance_network, learned.parameters, proposal)).items():
            if isinstance(acceptance, Learned | LineIntegral):
                yield name, label, Target(None, score=score, data=parameters, acceptance=acceptance)


def _row(score: str, acceptance: str, x: np.ndarray, fresh: np.ndarray) -> Row:
    """Measures of positions (training, chain)."""
    row = {"score": score, "acceptance": acceptance} | mean_and_error("mean", np.mean(x, axis=-1))
    return row | mean_and_error("sd", np.std(x, axis=-1)) | mean_and_error("w1", wasserstein_1d(x, fresh))


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Both scores compared."""
    w1 = {(row["score"], row["acceptance"]): row["w1"] for row in rows}
    pairs = (f"{how} {w1['true', how]:.3f} and {w1['learned', how]:.3f}" for how in ("direct", "ratio"))
    return f"W1 with the true and the learned score: {', '.join(pairs)}; floor {w1['', 'floor']:.3f}"


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Histograms of the last positions of all trainings, with the density: the paper's three and the ratios."""
    names = [name for name in run.shown if not name.endswith("line")]
    figure.set_size_inches(2.4 * len(names), 2.4)
    # As wide as what the chains gave: a wrong histogram that is cut looks right. What is left lies at the ends.
    low, high = np.quantile(np.concatenate([np.ravel(run.shown[name]) for name in names]), [0.005, 0.995])
    grid = np.linspace(min(low, MEAN - 4 * SD), max(high, MEAN + 4 * SD), 201)
    density = np.exp(-0.5 * ((grid - MEAN) / SD) ** 2) / (SD * math.sqrt(2 * math.pi))
    for axes, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        axes.hist(np.clip(np.ravel(run.shown[name]), grid[0], grid[-1]), bins=grid[::5], density=True, color="#9DB7D5")
        axes.plot(grid, density, color="#B3440A", lw=1)
        axes.set_title(name, fontsize=9)
        tidy(axes)


EXPERIMENT = Experiment(
    name="score-mh-gaussian",
    title="N(3, 2) with true and learned scores; Score-MH paper, Fig. 14",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    paper="histograms: an acceptance trained with a learned score does as well as with the true one",
    figures={"plot": plot},
    trains=True,
    devices=one_float32,
)
