"""Score repellence on binarised digits (SRMC, Appendix D.3): escape from one image, and annealed draws.

The paper's energy model is not available; the one here is a restricted Boltzmann machine trained on the spot. Its
block Gibbs sampler shows what the model's classes are and how long mixing takes.
"""

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.classes import (
    class_shares,
    classes_covered,
    cumulative_class_shares,
    kl_to_uniform,
    normalized_entropy,
    tv_to_uniform,
    vendi_score,
)
from xpsample.experiments.digits import CLASSES, Digits, classify, load_digits
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.srmc.rbm_training import train_rbm
from xpsample.experiments.table import Row, columns
from xpsample.kernels import DMALA, GWG, Kernel, ParallelTempering, SingleFlip
from xpsample.particles.ais import AIS, log_normalizer
from xpsample.particles.ladders import geometric_ladder
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Untilted
from xpsample.trace.recorders import Record
from xpsample.trace.trace import Trace
from xpsample.zoo.rbm import RBM, gibbs_sweep, rbm

HIDDEN = 100
ALPHAS = (0.0, 1e-4, 1e-2, 1.0)
"""1e-4 is the paper's; 0 is GWG."""
AIS_ALPHA = 5e-4
SCHEDULE = PowerLaw(rho=0.6, scale=0.1)
CONTROLS: dict[str, Any] = {
    "all bits": DMALA(1e6, balance=1.0),
    "single flip": SingleFlip(),
    "PT+GWG": ParallelTempering(GWG(), geometric_ladder(6, 0.1)),
}
"""The first is a tenth of a step of the authors' SR-GWG, without repellence."""
ROWS = 50
"""Equally spaced steps at which the images are classified."""
SHOWN, TIMES = 10, (0, 12, 25, 38, 50)
"""Chains whose images are kept and drawn, and rows of the figure after Fig. 10; 0 is the start."""
DIGIT = 7

COLUMNS = columns(
    "sampler | alpha g | same_class .2f still a 7 | classes d | kl .3f KL | tv .3f TV | entropy .3f "
    "| cumulative_kl .3f cumulative KL | vendi .2f Vendi | theta .2g alpha |theta| | moved .2f | seconds .0f s"
)
AIS_COLUMNS = columns(
    "sampler | alpha g | entropy .4f class entropy | vendi .4f Vendi | log_z .2f log Z | log_z_se .2f se "
    "| weight_ess .1f ESS | log_density .1f mean log density"
)
PAPER = """\
another model: GWG stays near the 7, SR-GWG at alpha = 1e-4 is at every digit by 10,000
annealed: entropy 2.1140 and Vendi 8.2572 with GWG, 2.1628 and 8.4319 with SR-GWG"""
LEGEND = """\
classes    of the chains' last images: how many are met; KL(p || uniform) of their shares (Eq. 89), total variation from
           uniform (TV, Eq. 90), entropy over log 10 (Eq. 91)
cumulative KL  of the classes of all images so far (Eq. 92)
Vendi      of the last images, by the cosine of their class shares; 10 at most
alpha |theta|  how far the tilt displaces, mean over the chains at the end; moved: share of the steps accepted
all bits   an inner step of the authors' SR-GWG, without repellence: for every bit a choice whether to flip it,
           and one accept step for all of them
PT+GWG     six rungs from 1 to beta = 0.1, a swap attempted after every step; each step moves all of them
model      the machine by its own block Gibbs sampler, a tenth as many sweeps as the others make flips: from the 7, and
           from training images"""


class Size(NamedTuple):
    """Chains, steps from the 7, updates of the training, chains and temperatures of the annealed run."""

    chains: int
    steps: int
    updates: int
    ais_chains: int
    betas: int


FULL = Size(chains=100, steps=10_000, updates=6_000, ais_chains=200, betas=5_000)
QUICK = Size(chains=5, steps=100, updates=100, ais_chains=10, betas=50)


def measure(run: Run[Size]) -> Iterator[Row]:
    """Rows of the chains from a 7; the annealed ones, the courses and the last images are left for the rest."""
    known, tested = load_digits()
    machine = _machine(run, known)
    seven = (tested.images[tested.labels == DIGIT][0] > 0).astype(np.float32)
    run.say(f"{run.size.chains} chains from a 7, {run.size.steps} steps, gamma_n = 0.1 (n + 1)^-0.6")
    run.shown["annealed"] = []
    for device in run.devices:
        rows, curves, images = _escape(run, machine, seven, known, device)
        found, ways = _controls(run, machine, seven, known, device)
        rows += found
        run.shown["annealed"] += _anneal(run, machine, known, device)
        if device is run.devices[0]:
            rows += _model(run, machine, seven, known)
            run.shown |= {"curves": curves, "images": images, "ways": ways}
            run.save("images", images=images, **ways)
        yield from ({"study": "escape", **row} for row in rows)


def _machine(run: Run[Size], known: Digits) -> RBM:
    """The machine, trained; its parameters are left in ``machine.npz``."""
    rows = (known.images > 0).astype(np.float32)
    label = f"{run.size.updates} updates of persistent contrastive divergence on {len(rows)} images"
    with run.step(f"an RBM with {HIDDEN} hidden units, {label}"):
        machine = train_rbm(rows, HIDDEN, run.size.updates, seed=run.seed, progress=False, **run.checkpoint())
    run.save("machine", **machine._asdict())
    return machine


def _row(sampler: str, alpha: float, labels: np.ndarray, images: np.ndarray, known: Digits) -> Row:
    """The measures of labels (row, chain) and of the last images (chain, 784)."""
    shares = class_shares(labels[-1], CLASSES)
    votes = classify(2 * images - 1, known).votes
    return {
        "sampler": sampler,
        "alpha": alpha,
        "same_class": float(np.mean(labels[-1] == DIGIT)),
        "classes": int(classes_covered(shares)),
        "kl": float(kl_to_uniform(shares)),
        "tv": float(tv_to_uniform(shares)),
        "entropy": float(normalized_entropy(shares)),
        "cumulative_kl": float(kl_to_uniform(cumulative_class_shares(labels, CLASSES))[-1]),
        "vendi": float(vendi_score(votes)),
        "theta": 0.0,
        "moved": 1.0,
        "seconds": 0.0,
    }


def _sample(
    run: Run[Size], machine: RBM, kernel: Kernel, x0: Array, rows: int, thinning: int, label: str
) -> tuple[Trace, np.ndarray]:
    """The trace of a run, and its images (row, *chains, 784) on the host."""
    recorders = (Record("x", lambda state: state.point.x),)
    trace = run.sample(rbm(machine), kernel, x0, rows, thinning=thinning, recorders=recorders, label=label)
    return trace, to_host(trace.recorded["x"])


def _escape(
    run: Run[Size], machine: RBM, seven: np.ndarray, known: Digits, device: DeviceDtype
) -> tuple[list[Row], dict[str, np.ndarray], np.ndarray]:
    """GWG and SR-GWG from the 7, all alphas in one run.

    Rows, cumulative KL by name, and images (1 + row, alpha, chain, 784), the first of which are the 7.
    """
    alpha = device.array(np.asarray(ALPHAS)[:, None])
    kernel = SRMC(GWG(), alpha, SCHEDULE, Untilted())
    x0 = device.array(np.broadcast_to(seven, (len(ALPHAS), run.size.chains, len(seven))))
    trace, x = _sample(run, machine, kernel, x0, ROWS, run.size.steps // ROWS, f"{device} GWG and SR-GWG")
    theta = to_host(trace.state.theta)
    labels = classify(2 * x - 1, known).labels
    rows, curves = [], {}
    for k, value in enumerate(ALPHAS):
        name = "SR-GWG" if value else "GWG"
        row = _row(f"{name} {device.backend.name}", value, labels[:, k], x[-1, k], known)
        row["theta"] = value * float(np.mean(np.linalg.norm(theta[k], axis=-1)))
        row["moved"] = float(np.mean(trace.run_statistics.moved[k]))
        rows.append(row | {"seconds": trace.metadata["seconds"] / len(ALPHAS)})
        shares = cumulative_class_shares(labels[:, k], CLASSES)
        curves[f"{name}, alpha = {value:g}" if value else name] = np.asarray(kl_to_uniform(shares))
    return rows, curves, np.concatenate([to_host(x0)[None], x])[:, :, :SHOWN]


def _controls(
    run: Run[Size], machine: RBM, seven: np.ndarray, known: Digits, device: DeviceDtype
) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Rows of the `CONTROLS` from the 7, and images by name (1 + row, chain, 784)."""
    rows, ways = [], {}
    for name, kernel in CONTROLS.items():
        x0 = device.array(np.tile(seven, (run.size.chains, 1)))
        trace, x = _sample(run, machine, kernel, x0, ROWS, run.size.steps // ROWS, f"{device} {name}")
        row = _row(f"{name} {device.backend.name}", 0.0, classify(2 * x - 1, known).labels, x[-1], known)
        rows.append(row | {"moved": float(np.mean(trace.run_statistics.moved)), "seconds": trace.metadata["seconds"]})
        ways[name] = np.concatenate([to_host(x0)[None], x])[:, :SHOWN]
    return rows, ways


def _model(run: Run[Size], machine: RBM, seven: np.ndarray, known: Digits) -> list[Row]:
    """The same measures of the machine's own sampler, from the 7 and from training images."""
    size, rng, rows = run.size, np.random.default_rng(run.seed), []
    training = (known.images[rng.choice(len(known.images), size.chains, replace=False)] > 0).astype(np.float32)

    starts = {"model, from the 7": np.tile(seven, (size.chains, 1)), "model, from digits": training}

    def swept() -> dict[str, Any]:
        found: dict[str, list[Any]] = {"labels": [], "last": [], "seconds": []}
        for v in starts.values():
            begun, labels = time.perf_counter(), []
            for step in range(1, size.steps // 10 + 1):
                hidden = rng.random((size.chains, HIDDEN), dtype=np.float32)
                v = gibbs_sweep(machine, v, hidden, rng.random(v.shape, dtype=np.float32))
                if step % max(1, size.steps // (10 * ROWS)) == 0:
                    labels.append(classify(2 * v - 1, known).labels)
            found["labels"].append(np.stack(labels))
            found["last"].append(v)
            found["seconds"].append(time.perf_counter() - begun)
        return {name: np.stack(values) for name, values in found.items()}

    found = run.once(swept)
    for i, name in enumerate(starts):
        row = _row(name, 0.0, found["labels"][i], found["last"][i], known)
        rows.append(row | {"seconds": float(found["seconds"][i])})
    return rows


def _anneal(run: Run[Size], machine: RBM, known: Digits, device: DeviceDtype) -> list[Row]:
    """AIS from uniform bits with GWG and SR-GWG steps."""
    betas = np.linspace(0.0, 1.0, run.size.betas)
    start = np.random.default_rng(run.seed + 1).integers(2, size=(run.size.ais_chains, len(machine.visible_bias)))
    kernels: dict[str, tuple[float, Kernel]] = {
        "GWG": (0.0, GWG()),
        "SR-GWG": (AIS_ALPHA, SRMC(GWG(), AIS_ALPHA, SCHEDULE, Untilted())),
    }
    rows = []
    for name, (alpha, base) in kernels.items():
        x0 = device.array(start.astype(np.float64))
        annealing = AIS(base, betas.tolist(), approximate=alpha > 0)
        trace, kept = _sample(run, machine, annealing, x0, 1, len(betas) - 1, f"{device} annealed {name}")
        x, weights = kept[-1], to_host(trace.state.log_weight)
        voted = classify(2 * x - 1, known)
        shares = class_shares(voted.labels, CLASSES)
        estimate = log_normalizer(weights, x.shape[-1] * math.log(2.0))
        rows.append(
            {
                "sampler": f"{name} {device.backend.name}",
                "alpha": alpha,
                "entropy": float(normalized_entropy(shares)) * math.log(CLASSES),
                "vendi": float(vendi_score(voted.votes)),
                "log_z": estimate.value,
                "log_z_se": estimate.standard_error,
                "weight_ess": estimate.weight_ess,
                "log_density": float(np.mean(to_host(trace.state.point.log_density))),
            }
        )
    return rows


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A table from the 7, and one of the annealed draws."""
    run.table(rows, COLUMNS, ("sampler", "alpha"), legend=LEGEND)
    title = f"annealed from uniform bits, {run.size.betas} temperatures, {run.size.ais_chains} draws"
    run.table(run.shown["annealed"], AIS_COLUMNS, ("sampler", "alpha"), title=title)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Sampler that leaves the 7, and sampler that meets the most classes."""
    stay = min(rows[: len(ALPHAS) + len(CONTROLS)], key=lambda row: row["same_class"])
    own = next(row for row in rows if row["sampler"] == "model, from the 7")
    return (
        f"fewest still at a 7: {stay['same_class']:.0%} of {stay['sampler']}, alpha = {stay['alpha']:g}, "
        f"{stay['classes']} classes; by the model's own sampler {own['same_class']:.0%}, {own['classes']} classes"
    )


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Cumulative KL against steps, and images of each sampler at the end."""
    curves, images = run.shown["curves"], run.shown["images"]
    figure.set_size_inches(10, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    for name, values in curves.items():
        left.plot(run.size.steps / len(values) * np.arange(1, len(values) + 1), values, label=name)
    left.set(xlabel="steps", ylabel="cumulative KL(p || uniform)", ylim=(0, None))
    left.legend(fontsize=8, frameon=False)
    _strips(right, images[-1], list(curves))
    right.set_title(f"{images.shape[2]} chains after {run.size.steps:,} steps")


def plot_ways(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Fig. 10: the same chains at five times, for each strength and the authors' moves without repellence."""
    images, control = run.shown["images"], next(iter(CONTROLS))
    ways = {name: images[:, k] for k, name in enumerate(run.shown["curves"])} | {control: run.shown["ways"][control]}
    figure.set_size_inches(11, 4.0)
    for axes, (name, x) in zip(figure.subplots(2, 3).flat, ways.items(), strict=False):
        _strips(axes, x[list(TIMES)], [f"{run.size.steps * row // ROWS:,}" for row in TIMES])
        axes.set_title(name, fontsize=9)
    figure.axes[-1].set_axis_off()


def _strips(axes: Any, images: np.ndarray, labels: list[str]) -> None:
    """Images (line, chain, 784) in lines with labels."""
    tiles = images.reshape(*images.shape[:2], 28, 28)
    axes.imshow(np.concatenate([np.concatenate(list(line), axis=1) for line in tiles]), cmap="gray_r")
    axes.set_xticks([])
    axes.set_yticks(28 * np.arange(len(labels)) + 14, labels, fontsize=8)


EXPERIMENT = Experiment(
    name="srmc-digits",
    title="Binarised digits: escape from one image, and annealed draws; SRMC paper, Appendix D.3",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot, "ways": plot_ways},
    devices=float32,
)
