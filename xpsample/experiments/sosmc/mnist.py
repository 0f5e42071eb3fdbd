"""Section 5.3 of the SOSMC paper: a pretrained energy model of MNIST tuned to brighter, darker or lower images."""

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import DivergenceWarning
from xpsample.core.registry import to_host
from xpsample.experiments.clipped_langevin import ClippedLangevin
from xpsample.experiments.digits import Digits, classify, load_digits
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.optimize.optimizers import Adam
from xpsample.particles.resampling import Systematic
from xpsample.run.sampling import sample
from xpsample.sosmc import SOSMC, Adaptation, LangevinMove, RewardReverseKL, SOSMCHistory, Unweighted
from xpsample.targets import Parametric
from xpsample.zoo.mnist_ebm import SIDE, load_parameters, negative_energy, negative_energy_and_score

GAMMA, RATE, THRESHOLD = 3e-3, 1e-4, 0.9
ADAPT = Adaptation(0.95, 1.01, 1e-8, 0.01)

LEGEND = """\
fresh       mean reward of new images of the pretraining sampler under the tuned model, +- one standard error; those of
            the pretrained model (start) have the same beginnings and noise
distance    median distance of the new images to the nearest training image
particles   mean reward of the particles, weighted where they are, at the beginning of the tuning and at its end
ess         effective sample size of the weights over the number of particles, mean over the tuning
resampled   share of the iterations that resampled
gamma       step size at the end
outside     share of the particles' pixels outside [-1, 1] at the end, where the model was not trained"""


def bright(x: Array) -> Array:
    """Mean pixel after clamping to [-1, 1]; images (..., 784) to (...)."""
    xp = array_namespace(x)
    return xp.mean(xp.clip(x, -1.0, 1.0), axis=-1)


def dark(x: Array) -> Array:
    """Minus the mean pixel after clamping; images (..., 784) to (...)."""
    return -bright(x)


def half(x: Array) -> Array:
    """Half the mean of the lower half of the image minus that of the upper, after clamping; (..., 784) to (...)."""
    middle = SIDE * SIDE // 2
    return 0.5 * (bright(x[..., middle:]) - bright(x[..., :middle]))


REWARDS: Mapping[str, Callable[[Array], Array]] = {"bright": bright, "dark": dark, "half": half}


class Method(NamedTuple):
    """A move, and SOSMC's other settings."""

    move: Any
    threshold: float = 0.0
    adapt: Adaptation | None = None


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


FULL = Size(1000, 1000, 200, 500, 1000)
DEFAULT = Size(64, 200, 100, 200, 64)
QUICK = Size(8, 6, 3, 10, 8, ("bright",))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "sosmc-mnist", backends="numpy")
    parser.add_argument("--full", action="store_true", help="the paper's sizes; for an accelerator")
    parser.add_argument(
        "--beta",
        type=float,
        action="append",
        help="strength of the KL regularisation; may be given several times (default: 0.1)",
    )


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, names, betas = time.perf_counter(), args.backend or ["numpy"], args.beta or [0.1]
    size = QUICK if args.quick else FULL if args.full else DEFAULT
    report, (known, _) = Report(args.out), load_digits()
    device = next(p for p in device_dtypes(names) if p.dtype == "float32")
    report.say("Reward tuning of an energy model of MNIST; SOSMC paper, Section 5.3")
    for line in missing(names):
        report.say(line)
    report.say(f"{device}, seed {args.seed}: {size.particles} particles, {size.iterations} iterations")
    theta = load_parameters()
    warm = images_of(theta, size.particles, size, device, args.seed)
    before = images_of(theta, size.images, size, device, args.seed + 1)
    distance = float(np.median(classify(before, known).distance))
    report.say(f"  images of the pretrained model: median distance to the nearest training image {distance:.2f}")
    rows, arrays = [], {"pretrained": before}
    for reward in size.rewards:
        for beta in betas:
            for method in METHODS:
                row, found = tune(reward, method, beta, theta, warm, before, known, size, device, args.seed)
                rows.append(row)
                arrays |= {f"{reward} {beta:g} {method} {key}": value for key, value in found.items()}
                report.say(f"  {reward:6} beta {beta:g} {method:10} {row['seconds']:6.1f} s")
    _tell(report, rows)
    report.rows(rows)
    np.savez_compressed(report.out / "curves.npz", **arrays)
    _plot(report, arrays, size, betas)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def family(theta: tree.Tree) -> Parametric:
    """``exp(f)`` of the convolutional network, with no walls."""
    return Parametric(
        negative_energy,
        theta,
        score=lambda x, p: negative_energy_and_score(x, p)[1],
        log_density_and_score=negative_energy_and_score,
    )


def images_of(theta: tree.Tree, count: int, size: Size, device: DeviceDtype, seed: int) -> np.ndarray:
    """New images (count, 784) of the pretraining sampler, from uniform noise: the last of its steps."""
    x0 = np.random.default_rng(seed).uniform(-1, 1, (count, SIDE * SIDE))
    there = tree.map(device.array, tree.map(to_host, theta))
    trace = sample(
        family(there), ClippedLangevin(), device.array(x0), size.steps, seed=seed, recorders=(), progress=False
    )
    return to_host(trace.state.point.x)


def tune(
    reward: str,
    name: str,
    beta: float,
    theta: tree.Tree,
    warm: np.ndarray,
    before: np.ndarray,
    known: Digits,
    size: Size,
    device: DeviceDtype,
    seed: int,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The numbers of a run; its images, and its rewards and effective sample sizes by kept row."""
    method, function = METHODS[name], REWARDS[reward]
    kernel = SOSMC(
        RewardReverseKL(function, beta),
        method.move,
        Adam(RATE),
        threshold=method.threshold,
        resampling=Systematic(),
        adapt_move=method.adapt,
    )
    history = SOSMCHistory({"reward": function}, parameters=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # counted in the table
        trace = sample(
            family(theta),
            kernel,
            device.array(warm),
            size.kept,
            thinning=size.iterations // size.kept,
            seed=seed,
            recorders=(history,),
            progress=False,
        )
    kept = tree.map(to_host, trace.recorded["history"])
    after = images_of(trace.state.parameters, size.images, size, device, seed + 1)
    fresh, start = (function(x.astype(np.float64)) for x in (after, before))
    ess, x = kept["weight_ess"] / size.particles, to_host(trace.state.point.x)
    return {
        "reward": reward,
        "beta": beta,
        "method": name,
        "start": float(np.mean(start)),
        "fresh": float(np.mean(fresh)),
        "fresh_se": float(np.std(fresh, ddof=1) / len(fresh) ** 0.5),
        "distance": float(np.median(classify(after, known).distance)),
        "particles_start": float(np.mean(function(warm))),
        "particles": float(kept["reward"][-1]),
        "ess": float(np.mean(ess)),
        "resampled": float(np.mean(kept["resampled"])),
        "gamma": float(kept["step_size"][-1]) if "step_size" in kept else GAMMA,
        "outside": float(np.mean(abs(x) > 1)),
        "diverged": int(np.sum(trace.run_statistics.diverged)),
        "seconds": trace.metadata["seconds"],
    }, {"images": after, "reward": kept["reward"], "ess": ess}


def _tell(report: Report, rows: list[dict[str, Any]]) -> None:
    columns = {
        "reward": ("reward", "s"),
        "beta": ("beta", "g"),
        "method": ("method", "s"),
        "start": ("start", ".4f"),
        "fresh": ("fresh", ".4f"),
        "fresh_se": ("+-", ".4f"),
        "distance": ("distance", ".2f"),
        "particles_start": ("particles", ".4f"),
        "particles": ("at the end", ".4f"),
        "ess": ("ess", ".2f"),
        "resampled": ("resampled", ".2f"),
        "gamma": ("gamma", ".4f"),
        "outside": ("outside", ".2f"),
        "diverged": ("diverged", "d"),
    }
    report.say("\n" + table(rows, columns) + "\n\n" + LEGEND + "\n")


def _plot(report: Report, arrays: dict[str, np.ndarray], size: Size, betas: list[float]) -> None:
    try:
        from xpsample.experiments.sosmc.mnist_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    every = size.iterations // size.kept
    plot(report.out / "plot.png", arrays, size.rewards, betas[0], every)
