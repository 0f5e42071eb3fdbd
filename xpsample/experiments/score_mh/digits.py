"""Annealed ULA against annealed Score-MALA on images of digits (Score-MH paper, Figs. 6, 9 and 16, Section 5).

The paper trains a U-Net on a GPU. Here a perceptron learns the score at all noise levels on the spot, and the
acceptance of MALA is derived from it in several ways. Positions are all principal components, so that noise and
distances are in pixels.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.classes import class_shares, classes_covered, tv_to_uniform
from xpsample.experiments.digits import CLASSES, Digits, classify
from xpsample.experiments.figures import tidy
from xpsample.experiments.files import write_rows
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.score_mh.digits_models import DATA, LearnedAtLevels, LevelBalance, Networks, NormULA
from xpsample.experiments.table import Row, columns
from xpsample.experiments.transport import wasserstein
from xpsample.kernels import MALA, ULA, Kernel
from xpsample.metrics import squared_mmd
from xpsample.optimize.optimizers import Adam
from xpsample.particles.annealed import Annealed
from xpsample.score_mh import AnnealedDenoising, TrainingLoss
from xpsample.targets import LineIntegral, Target, Taylor
from xpsample.targets.acceptance import ByDensity
from xpsample.zoo.mixture import smoothed_mixture

TAUS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1)
"""The last four are the paper's."""
LARGEST, SMALLEST = 10.0, 0.03
"""Noise levels, in units of pixels in [-1, 1]."""
UPDATES, BATCH = 50, 256
"""Updates of an epoch, rows of each."""
METHODS = (
    "ULA",
    "ULA, steps by norm",
    "MALA, line integral",
    "MALA, Taylor",
    "MALA, learned, direct",
    "MALA, learned, ratio",
    "ULA, known mixture",
    "MALA, known mixture",
)
KNOWN = 300
"""Training images that the known mixture is made of."""
BOUND = 1000.0
"""Chains beyond are lost."""

COLUMNS = columns(
    "method | tau g | w1 .2f W1 | w1_sd .2f sd | mmd .4f MMD^2 | classes .1f | tv .2f TV | distance .2f nearest | "
    "noise .3g noise / sigma_L | annealing .3f accepted | final .3f at the end | frozen .2f lost | seconds .0f s"
)
STEPS_COLUMNS = columns("method | levels d | tau g | w1 .2f W1")
LEGEND = """\
W1, MMD^2  to held-out images, in pixels from -1 to 1: means over the groups of chains, sd between them
classes    of a group's images, by the nearest training images; TV their shares' total variation from uniform
nearest    mean distance to the nearest training image
noise      standard deviation of what is left where all training images are empty, over the last noise level
accepted   mean acceptance probability going down the ladder, and after it
known mixture  300 training images with noise, whose score and density are known: another target, without a network
lost       share of the chains beyond 1,000 or not a number; in W1, MMD^2, nearest, noise they count as at 1,000"""


class Size(NamedTuple):
    """Data, hidden units, epochs of both trainings, groups, chains of each, levels, steps at the last level, lengths of
    further ladders, methods."""

    data: str
    hidden: int
    epochs: int
    balance_epochs: int
    groups: int
    chains: int
    levels: int
    more: int
    ladders: tuple[int, ...]
    methods: tuple[str, ...] = METHODS


FULL = Size("mnist", 256, 100, 40, 3, 20, 100, 1000, (10, 30, 300))
SMALL = FULL._replace(data="small", chains=50)
QUICK = Size("small", 32, 4, 2, 2, 10, 10, 0, (5,), ("ULA", "MALA, learned, direct", "MALA, known mixture"))


def options(parser: argparse.ArgumentParser) -> None:
    """The data set."""
    parser.add_argument(
        "--data", choices=sorted(DATA), default="mnist", help="28x28 or scikit-learn's 8x8 digits (default: mnist)"
    )


def measure(run: Run[Size]) -> Iterator[Row]:
    """Floors, and all methods over the step sizes; images and the rows of further ladders are left for the rest."""
    if run.args.data == "small" and not run.args.quick:
        run.size = SMALL
    size = run.size
    run.say(
        f"{size.levels} noise levels from {LARGEST:g} to {SMALLEST:g}, one step of 2 (tau sigma)^2 at each, then "
        f"{size.more} at the last; {size.groups} groups of {size.chains} chains for each tau"
    )
    images, steps = run.shown["images"], run.shown["steps"] = {}, []
    for device in run.devices:
        problem, named = prepare(run, device), {"study": "taus", "levels": size.levels}
        yield from (named | row for row in floors(problem))
        for method in size.methods:
            began = time.perf_counter()
            with run.step(f"{device} {method}"):
                x, *accepted = anneal(problem, method, size.levels, size.more)
            seconds = (time.perf_counter() - began) / len(TAUS)
            images.setdefault(method, x[:, :10].astype(np.float32))
            for tau, draws, going_down, final in zip(TAUS, x, *accepted, strict=True):
                row = named | {"method": method, "tau": tau} | measured(problem, draws)
                yield row | {"annealing": going_down, "final": final, "seconds": seconds}
            for levels in size.ladders:
                short, row = anneal(problem, method, levels, 0)[0], {"method": method, "levels": levels}
                w1 = [measured(problem, draws)["w1"] for draws in short]
                steps += [row | {"tau": tau, "w1": value} for tau, value in zip(TAUS, w1, strict=True)]
    files = {name.replace(", ", "_").replace(" ", "_"): value for name, value in images.items()}
    run.save("images", taus=np.asarray(TAUS), **files)
    write_rows(run.file, steps, "steps")


class Problem(NamedTuple):
    """Data, their principal components, and on a device networks with their trained parameters."""

    run: Run[Size]
    device: DeviceDtype
    known: Digits
    held_out: np.ndarray
    others: np.ndarray
    mean: np.ndarray
    basis: np.ndarray
    empty: np.ndarray
    networks: Networks
    score: tree.Tree
    acceptance: tree.Tree


def prepare(run: Run[Size], device: DeviceDtype) -> Problem:
    """Train the score network, then the acceptance network on its scores."""
    size, (known, tested) = run.size, DATA[run.size.data]()
    images = tested.images[np.random.default_rng(run.seed).permutation(len(tested.images))]
    held_out, others = np.split(images, 2)
    mean = np.mean(known.images, axis=0, dtype=np.float64)
    variances, basis = np.linalg.eigh(np.cov(known.images.T, dtype=np.float64))
    empty = np.var(known.images, axis=0) < 1e-4
    networks = Networks(tuple(np.maximum(variances, 1e-4 * np.mean(variances)).tolist()))
    x, validation = (device.array((a - mean) @ basis) for a in (known.images, held_out[:250]))
    batch = min(BATCH, len(known.images))

    def train(name: str, loss: TrainingLoss, start: tree.Tree, epochs: int, rows: int) -> tree.Tree:
        counts = {"epochs": epochs, "steps_per_epoch": UPDATES, "batch_size": rows}
        with run.step(f"{device} {name} network, {epochs * UPDATES} updates"):
            found = run.fit(loss, start, x, seed=run.seed, validation=validation, optimizer=Adam(5e-4), **counts)
        losses: Any = found.validation_losses
        run.say(f"  held-out loss {losses[0]:.2f} after {UPDATES}, {min(losses):.2f} at best")
        return found.parameters

    sigmas = ladder(size.levels)
    matching = AnnealedDenoising(sigmas, networks.score)
    score = train("score", matching, networks.init_score(size.hidden, run.seed), size.epochs, batch)
    balance = LevelBalance(sigmas, TAUS, networks, score, regularization=1.0, max_norm=300.0)
    start = networks.init_acceptance(size.hidden // 2, run.seed + 1)
    acceptance = train("acceptance", balance, start, size.balance_epochs, batch // 4)
    return Problem(run, device, known, held_out, others, mean, basis, empty, networks, score, acceptance)


def ladder(levels: int) -> tuple[float, ...]:
    """Noise levels in equal ratios."""
    return tuple(np.geomspace(LARGEST, SMALLEST, levels).tolist())


def kernel_and_target(problem: Problem, method: str) -> tuple[Kernel, Target]:
    """Kernel and target of a method, for chains (tau, chain)."""
    tau, networks = problem.device.array(np.asarray(TAUS)[:, None]), problem.networks
    eta = 2.0 * tau * tau
    kernel = MALA(eta) if method.startswith("MALA") else NormULA(tau) if method.endswith("norm") else ULA(eta)
    if method.endswith("known mixture"):
        components = (problem.known.images[:KNOWN] - problem.mean) @ problem.basis
        return kernel, smoothed_mixture(np.ones(KNOWN), components, 1e-3, LARGEST)
    held = {"layers": problem.acceptance, "tau": tau}
    acceptances = {
        "MALA, line integral": LineIntegral(2),
        "MALA, Taylor": Taylor(),
        "MALA, learned, direct": LearnedAtLevels(held, networks, direct=True),
        "MALA, learned, ratio": LearnedAtLevels(held, networks, direct=False),
    }
    data = {"sigma": np.asarray(LARGEST), "layers": problem.score}
    acceptance = acceptances.get(method, ByDensity())
    return kernel, Target(None, score=networks.score_at_level, data=data, acceptance=acceptance)


def anneal(problem: Problem, method: str, levels: int, more: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (taus, groups * chains, dim), and the acceptance on the ladder and after it, (taus,)."""
    run, sigmas, accepted = problem.run, ladder(levels), []
    kernel, target = kernel_and_target(problem, method)
    shape = (len(TAUS), run.size.groups * run.size.chains, len(problem.mean))
    x = problem.device.array(LARGEST * np.random.default_rng(run.seed).standard_normal(shape))
    stages = [(Annealed(kernel, sigmas), levels), (Annealed(kernel, sigmas[-1:], 10), more // 10)]
    for stage, (annealed, steps) in enumerate(stages if more else stages[:1]):
        # The table counts lost chains.
        trace = run.sample(target, annealed, x, 1, thinning=steps, seed=run.seed + stage, quiet=True)
        accepted.append(np.mean(to_host(trace.run_statistics.acceptance_probability), axis=-1))
        x = trace.state.point.x
    return problem.mean + to_host(x).astype(np.float64) @ problem.basis.T, accepted[0], accepted[-1]


def measured(problem: Problem, images: np.ndarray) -> Row:
    """Measures of images (groups * chains, dim), group by group."""
    lost = ~np.all(np.abs(images) < BOUND, axis=-1)  # false for nan
    images = np.where(lost[:, None], BOUND, images)
    groups, held_out = images.reshape(problem.run.size.groups, -1, images.shape[-1]), problem.held_out
    w1 = wasserstein(groups, np.broadcast_to(held_out, (len(groups), *held_out.shape)))
    found, empty = classify(groups, problem.known), problem.empty
    shares = class_shares(found.labels, CLASSES)
    return {
        "w1": np.mean(w1),
        "w1_sd": np.std(w1, ddof=1),
        "mmd": np.mean([squared_mmd(group, held_out.astype(np.float64)) for group in groups]),
        "classes": np.mean(classes_covered(shares)),
        "tv": np.mean(tv_to_uniform(shares)),
        "distance": np.mean(found.distance),
        "noise": np.std(images[:, empty] - problem.mean[empty]) / SMALLEST,
        "frozen": np.mean(lost),
    }


def floors(problem: Problem) -> Iterator[Row]:
    """Rows of other held-out images, clean and with the noise of the last level, and of the known mixture."""
    size, others, rng = problem.run.size, problem.others, np.random.default_rng(problem.run.seed + 2)
    count = size.groups * size.chains
    clean = others[rng.choice(len(others), count, replace=len(others) < count)].astype(np.float64)
    noisy = clean + SMALLEST * rng.standard_normal(clean.shape)
    mixture = problem.known.images[rng.integers(KNOWN, size=count)] + SMALLEST * rng.standard_normal(clean.shape)
    rest = {"tau": 0.0, "annealing": 1.0, "final": 1.0, "seconds": 0.0}
    for name, images in {"held-out images": clean, "the same, with noise": noisy, "known mixture": mixture}.items():
        yield {"method": name} | measured(problem, images) | rest


def tell(run: Run[Size], rows: list[Row]) -> None:
    """Print all rows, and the rows of further ladders."""
    run.table(rows, COLUMNS, ("method", "tau"), legend=LEGEND)
    title = "the same without the steps after the ladder, for ladders of several lengths"
    run.table(run.shown["steps"], STEPS_COLUMNS, ("method", "levels", "tau"), title=title)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Over how many step sizes each method comes near the data."""
    floor = rows[1]["w1"]
    near = Counter(row["method"] for row in rows[3:] if row["w1"] < 2 * floor)
    counts = ", ".join(f"{near[method]} with {method}" for method in run.size.methods)
    return f"W1 is below twice that of other images with noise, {floor:.2f}, for so many of {len(TAUS)} tau:\n{counts}"


def plot_images(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Eight images for every step size and method."""
    shown, across = run.shown["images"], 4
    figure.set_size_inches(11.0, 0.8 * len(shown) + 0.3)
    for axes, (method, images) in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown.items(), strict=True):
        side = round(images.shape[-1] ** 0.5)
        squares = np.clip(np.nan_to_num(images[:, : 2 * across], nan=1.0), -1, 1)
        blocks = squares.reshape(len(TAUS), 2, across, side, side).transpose(0, 1, 3, 2, 4)
        blocks = blocks.reshape(len(TAUS), 2 * side, across * side)
        padded = np.pad(blocks, ((0, 0), (0, 0), (0, side // 4)), constant_values=-1.0)
        axes.imshow(np.concatenate(list(padded), axis=1), cmap="gray_r")
        labels = [f"tau = {tau:g}" if method == list(shown)[-1] else "" for tau in TAUS]
        axes.set_xticks([padded.shape[2] * k + across * side / 2 for k in range(len(TAUS))], labels)
        axes.set_yticks([])
        axes.tick_params(length=0, labelsize=8)
        axes.set_ylabel(method.replace(", ", "\n"), fontsize=8, rotation=0, ha="right", va="center")


def plot_distances(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """W1 against tau for all methods, after the ladder and the steps at its end, and after further ladders alone."""
    figure.set_size_inches(11.0, 3.4)
    tables = {"ladder and steps after it": rows}
    for row in run.shown["steps"]:
        tables.setdefault(f"{row['levels']} levels alone", []).append(row)
    panels = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    floor = rows[1]["w1"]
    for axes, (title, own) in zip(panels, tables.items(), strict=True):
        for number, method in enumerate(run.size.methods):
            curve = {row["tau"]: row["w1"] for row in own if row["method"] == method}
            line = "-" if method.startswith("MALA") else "--"
            axes.plot(list(curve), list(curve.values()), line, color=f"C{number}", marker=".", label=method)
        axes.axhline(floor, color="0.6", lw=1, label="held-out images")
        axes.set(xlabel="tau", yscale="log", ylim=(0.9 * floor, 40 * floor), title=title)
    ticks = [value for value in (5, 10, 15, 20, 30, 50, 100, 200, 400) if 0.9 < value / floor < 40]
    panels[0].set_yticks(ticks, [str(value) for value in ticks])
    panels[0].minorticks_off()
    panels[0].set_ylabel("W1 to held-out images")
    panels[-1].legend(fontsize=7, frameon=False, bbox_to_anchor=(1.02, 1.0), loc="upper left")
    tidy(*panels)


EXPERIMENT = Experiment(
    name="score-mh-digits",
    title="Digits by annealed ULA and annealed Score-MALA; Score-MH paper, Section 5 and Appendix E",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper="MALA is more robust to the step size than ULA, by images and by thresholds of W1 (Fig. 16: 30, 32 and 34)",
    figures={"images": plot_images, "w1": plot_distances},
    options=options,
    devices=float32,
)
