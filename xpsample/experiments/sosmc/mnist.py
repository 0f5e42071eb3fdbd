"""Section 5.3 of the SOSMC paper: a pretrained energy model of MNIST tuned to brighter, darker or lower images."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.experiments.clipped_langevin import ClippedLangevin
from xpsample.experiments.digits import Digits, classify, load_digits
from xpsample.experiments.figures import tidy
from xpsample.experiments.mnist_ebm import SIDE, load_parameters, negative_energy, negative_energy_and_score
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.sosmc.methods import COLOURS, THRESHOLD, Method
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.optimize.optimizers import Adam
from xpsample.particles.resampling import Systematic
from xpsample.sosmc import Adaptation, LangevinMove, RewardReverseKL, SOSMCHistory, Unweighted
from xpsample.targets import Parametric
from xpsample.trace.recorders import Draws

GAMMA, RATE = 3e-3, 1e-4
ADAPT = Adaptation(0.95, 1.01, 1e-8, 0.01)

COLUMNS = columns(
    "reward | beta g | method | start .4f | fresh .4f+- | distance .2f | particles_start .4f particles | "
    "particles .4f at the end | ess .2f | resampled .2f | gamma .4f | outside .2f | diverged d"
)
LEGEND = """\
fresh       mean reward of new images of the pretraining sampler under the tuned model, +- one standard error; those of
            the pretrained model (start) have the same beginnings and noise
distance    median distance of the new images to the nearest training image
particles   mean reward of the particles, weighted where they are, at the beginning of the tuning and at its end
ess         effective sample size of the weights over the number of particles, mean over the tuning
resampled   share of the iterations that resampled
gamma       step size at the end
outside     share of the particles' pixels outside [-1, 1] at the end, where the model was not trained
diverged    moves that left the finite numbers"""
PAPER = """\
figures only: both methods raise the reward of new images for all rewards and all beta, SOSMC-ULA slightly more for
half, without reward hacking; for bright and dark the images collapse to one"""
SHOWN = 10
"""Images of each strip of a figure: so many new ones, or one at so many equally spaced steps."""


def bright(x: Array) -> Array:
    """Mean pixel after clamping to [-1, 1]; images (..., 784) to (...)."""
    xp = array_namespace(x)
    return xp.mean(xp.clip(x, -1.0, 1.0), axis=-1)


def dark(x: Array) -> Array:
    """Minus the mean pixel after clamping; images (..., 784) to (...)."""
    return -bright(x)


def half(x: Array) -> Array:
    """Half the mean of the lower half of the image minus the upper half's, after clamping; (..., 784) to (...)."""
    middle = SIDE * SIDE // 2
    return 0.5 * (bright(x[..., middle:]) - bright(x[..., :middle]))


REWARDS: Mapping[str, Callable[[Array], Array]] = {"bright": bright, "dark": dark, "half": half}


METHODS = {
    "ImpDiff": Method(Unweighted(LangevinMove(GAMMA))),
    "SOSMC-ULA": Method(LangevinMove(GAMMA), THRESHOLD, ADAPT),
}


class Size(NamedTuple):
    """Particles, iterations and rows kept of them, steps of the pretraining sampler, images of it, rewards."""

    particles: int
    iterations: int
    kept: int
    steps: int
    images: int
    rewards: tuple[str, ...] = tuple(REWARDS)


PAPER_SIZE = Size(1000, 1000, 200, 500, 1000)
FULL = Size(64, 200, 100, 200, 64)
QUICK = Size(8, 6, 3, 10, 8, ("bright",))


def options(parser: argparse.ArgumentParser) -> None:
    """The strength of the regularization."""
    parser.add_argument(
        "--beta",
        type=float,
        action="append",
        help="strength of the KL regularization; may be given several times (default: 0.1)",
    )


def betas(run: Run[Size]) -> list[float]:
    """The strengths that the options ask for."""
    return run.args.beta or [0.1]


def measure(run: Run[Size]) -> Iterator[Row]:
    """All rewards, strengths and methods; images and courses are left for the figure."""
    size, (known, _), theta = run.size, load_digits(), load_parameters()
    run.say(f"{size.particles} particles, {size.iterations} iterations")
    warm = way_of_images(run, theta, size.particles, run.seed, "the particles' first images")[-1]
    way = way_of_images(run, theta, size.images, run.seed + 1, "images of the pretrained model")
    distance = np.median(classify(way[-1], known).distance)
    run.say(f"  their median distance to the nearest training image: {distance:.2f}")
    arrays = run.shown
    arrays |= {"pretrained": way[-1], "pretrained way": way[:, :SHOWN]}
    for reward in size.rewards:
        for beta in betas(run):
            for method in METHODS:
                row, found = tune(run, reward, method, beta, theta, warm, way[-1], known)
                yield row
                arrays |= {f"{reward} {beta:g} {method} {key}": value for key, value in found.items()}
    run.save("curves", **arrays)


def family(theta: tree.Tree) -> Parametric:
    """``exp(f)`` of the convolutional network, with no walls."""
    return Parametric(
        negative_energy,
        theta,
        score=lambda x, p: negative_energy_and_score(x, p)[1],
        log_density_and_score=negative_energy_and_score,
    )


def way_of_images(run: Run[Size], theta: tree.Tree, count: int, seed: int, label: str) -> np.ndarray:
    """New images (stop, count, 784) of the pretraining sampler, at some steps from uniform noise to the last step."""
    device = run.devices[0]
    x0 = np.random.default_rng(seed).uniform(-1, 1, (count, SIDE * SIDE))
    target = family(tree.map(device.array, tree.map(to_host, theta)))
    trace = run.sample(
        *(target, ClippedLangevin(), device.array(x0), SHOWN),
        thinning=run.size.steps // SHOWN,
        seed=seed,
        recorders=(Draws(),),
        label=label,
    )
    return to_host(trace.draws)


def tune(
    run: Run[Size],
    reward: str,
    name: str,
    beta: float,
    theta: tree.Tree,
    warm: np.ndarray,
    before: np.ndarray,
    known: Digits,
) -> tuple[Row, dict[str, np.ndarray]]:
    """The numbers of a run; its images, and its rewards and effective sample sizes by kept row."""
    size, function, label = run.size, REWARDS[reward], f"{reward}, beta {beta:g}, {name}"
    trace = run.sample(
        family(theta),
        METHODS[name].kernel(RewardReverseKL(function, beta), Adam(RATE), Systematic()),
        run.devices[0].array(warm),
        size.kept,
        thinning=size.iterations // size.kept,
        recorders=(SOSMCHistory({"reward": function}, parameters=False),),
        label=label,
        quiet=True,  # the table counts divergences
    )
    kept = tree.map(to_host, trace.recorded["history"])
    way = way_of_images(run, trace.state.parameters, size.images, run.seed + 1, f"{label}, new images")
    after = way[-1]
    fresh, start = (function(x.astype(np.float64)) for x in (after, before))
    ess, x = kept["weight_ess"] / size.particles, to_host(trace.state.point.x)
    return {
        "reward": reward,
        "beta": beta,
        "method": name,
        "start": np.mean(start),
        **mean_and_error("fresh", fresh),
        "distance": np.median(classify(after, known).distance),
        "particles_start": np.mean(function(warm)),
        "particles": kept["reward"][-1],
        "ess": np.mean(ess),
        "resampled": np.mean(kept["resampled"]),
        "gamma": kept["step_size"][-1] if "step_size" in kept else GAMMA,
        "outside": np.mean(abs(x) > 1),
        "diverged": np.sum(trace.run_statistics.diverged),
        "seconds": trace.metadata["seconds"],
    }, {"images": after, "way": way[:, :SHOWN], "reward": kept["reward"], "ess": ess}


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """By method, how much new images gained, how far they are from digits, and how near the particles are to them."""
    lines = []
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        gain = np.mean([row["fresh"] - row["start"] for row in own])
        gap = np.mean([abs(row["particles"] - row["fresh"]) for row in own])
        lines.append(
            f"{method}: the reward of new images changes by {gain:+.3f} on average; the particles' mean is {gap:.3f} "
            "from it"
        )
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Images before and after, the particles' rewards and the effective sample sizes, a row for each reward."""
    arrays, rewards, beta, every = run.shown, run.size.rewards, betas(run)[0], run.size.iterations // run.size.kept
    figure.set_size_inches(13.0, 2.6 * len(rewards))
    ratios = [2.4, 1.0, 1.0]
    for row, reward in zip(figure.subplots(len(rewards), 3, squeeze=False, width_ratios=ratios), rewards, strict=True):
        images = {"pretrained": arrays["pretrained"]}
        images |= {method: arrays[f"{reward} {beta:g} {method} images"] for method in METHODS}
        _strips(row[0], images, f"{reward}, beta = {beta:g}: new images")
        for method in METHODS:
            for axes, key in zip(row[1:], ("reward", "ess"), strict=True):
                values = arrays[f"{reward} {beta:g} {method} {key}"]
                iterations = every * np.arange(1, len(values) + 1)
                axes.plot(iterations, values, color=COLOURS[method], lw=1.2, label=method)
        row[1].set_title("mean reward of the particles", fontsize=9)
        row[2].set_title("ESS of the weights / particles", fontsize=9)
        row[2].set_ylim(0, 1.05)
        for axes in row[1:]:
            axes.set_xlabel("iteration")
        tidy(*row[1:])
        row[1].legend(frameon=False, fontsize=8)


def plot_ways(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Fig. 5: two images of each model at several steps from noise, with the number of steps."""
    arrays, size, beta = run.shown, run.size, betas(run)[0]
    figure.set_size_inches(13.0, 2.3 * len(size.rewards))
    for line, reward in zip(figure.subplots(len(size.rewards), 2, squeeze=False), size.rewards, strict=True):
        ways = {"pretrained": arrays["pretrained way"]}
        ways |= {method: arrays[f"{reward} {beta:g} {method} way"] for method in METHODS}
        for chain, axes in enumerate(line):
            _strips(axes, {name: way[:, chain] for name, way in ways.items()}, f"{reward}, beta = {beta:g}: steps")
            steps = [str(size.steps // SHOWN * (k + 1)) for k in range(SHOWN)]
            axes.set_xticks(SIDE * (np.arange(SHOWN) + 0.5), steps, fontsize=8)


def plot_betas(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Fig. A.15: new images of the pretrained and SOSMC-ULA's models, with common starts and noise."""
    arrays, rewards, strengths = run.shown, run.size.rewards, betas(run)
    figure.set_size_inches(4.4 * len(rewards), 0.8 + 0.42 * (1 + len(strengths)))
    for axes, reward in zip(figure.subplots(1, len(rewards), squeeze=False)[0], rewards, strict=True):
        images = {"pretrained": arrays["pretrained"]}
        images |= {f"beta = {beta:g}": arrays[f"{reward} {beta:g} SOSMC-ULA images"] for beta in strengths}
        _strips(axes, images, reward)


def _strips(axes: Any, images: Mapping[str, np.ndarray], title: str) -> None:
    """A line of images (image, 784) for each name, the first ones of it."""
    lines = [np.concatenate(list(x[:SHOWN].reshape(-1, SIDE, SIDE)), axis=1) for x in images.values()]
    axes.imshow(np.concatenate(lines), cmap="gray", vmin=-1, vmax=1)
    axes.set_yticks([SIDE * (k + 0.5) for k in range(len(images))], list(images), fontsize=8)
    axes.set_xticks([])
    axes.set_title(title, fontsize=9)


EXPERIMENT = Experiment(
    name="sosmc-mnist",
    title="Reward tuning of an energy model of MNIST; SOSMC paper, Section 5.3",
    settings={"full": FULL, "quick": QUICK, "paper": PAPER_SIZE},
    measure=measure,
    columns=COLUMNS,
    keys=("reward", "beta", "method"),
    legend=LEGEND,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot, "ways": plot_ways, "betas": plot_betas},
    options=options,
    devices=one_float32,
)
