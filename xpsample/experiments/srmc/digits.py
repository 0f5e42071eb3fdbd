"""Score repellence on binarised digits (SRMC, Appendix D.3): escape from one image, and annealed draws.

The paper's energy model is not available; the one here is a restricted Boltzmann machine trained on the spot. It has a
block Gibbs sampler of its own, which tells what the model's classes are and how long mixing takes.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.registry import to_host
from xpsample.experiments.digits import CLASSES, Digits, classify, load_digits
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.kernels import GWG, Kernel, ParallelTempering, SingleFlip
from xpsample.metrics import (
    class_shares,
    classes_covered,
    cosine_similarity,
    cumulative_class_shares,
    kl_to_uniform,
    normalised_entropy,
    tv_to_uniform,
    vendi_score,
)
from xpsample.particles.ais import AIS, log_normalizer
from xpsample.particles.ladders import geometric_ladder
from xpsample.run.recorders import Record
from xpsample.run.sampling import sample
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Untilted
from xpsample.zoo.rbm import RBM, gibbs_sweep, rbm
from xpsample.zoo.rbm_training import train_rbm

HIDDEN = 100
ALPHAS = (0.0, 1e-4, 1e-2, 1.0)
"""1e-4 is the paper's; 0 is GWG."""
AIS_ALPHA = 5e-4
SCHEDULE = PowerLaw(rho=0.6, scale=0.1)
CONTROLS = {"single flip": SingleFlip(), "PT+GWG": ParallelTempering(GWG(), geometric_ladder(6, 0.1))}
ROWS = 50
"""Equally spaced steps at which the images are classified."""
DIGIT = 7

COLUMNS = {
    "sampler": ("sampler", "s"),
    "alpha": ("alpha", "g"),
    "same_class": ("still a 7", ".2f"),
    "classes": ("classes", "d"),
    "kl": ("KL", ".3f"),
    "tv": ("TV", ".3f"),
    "entropy": ("entropy", ".3f"),
    "cumulative_kl": ("cumulative KL", ".3f"),
    "vendi": ("Vendi", ".2f"),
    "theta": ("alpha |theta|", ".2g"),
    "moved": ("moved", ".2f"),
    "seconds": ("s", ".0f"),
}
AIS_COLUMNS = {
    "sampler": ("sampler", "s"),
    "alpha": ("alpha", "g"),
    "entropy": ("class entropy", ".4f"),
    "vendi": ("Vendi", ".4f"),
    "log_z": ("log Z", ".2f"),
    "log_z_se": ("se", ".2f"),
    "weight_ess": ("ESS", ".1f"),
    "log_density": ("mean log density", ".1f"),
}
LEGEND = """\
classes    of the chains' last images: how many are met; KL(p || uniform) of their shares (Eq. 89), total variation from
           uniform (TV, Eq. 90), entropy over log 10 (Eq. 91)
cumulative KL  of the classes of all images so far (Eq. 92)
Vendi      of the last images, by the cosine of their class shares; 10 at most
alpha |theta|  how far the tilt displaces, mean over the chains at the end; moved: share of the steps accepted
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srmc-digits", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    known, tested = load_digits()
    report.say("Binarised digits: escape from one image, and annealed draws; SRMC paper, Appendix D.3")
    for line in missing(names):
        report.say(line)
    machine = _machine(known, size, args, report)
    seven = (tested.images[tested.labels == DIGIT][0] > 0).astype(np.float32)
    where = [device for device in device_dtypes(names) if device.dtype == "float32"]
    rows: list[dict[str, Any]] = []
    annealed: list[dict[str, Any]] = []
    curves: dict[str, np.ndarray] = {}
    for device in where:
        found, shown, images = _escape(machine, seven, known, device, size, args.seed)
        rows += found + _controls(machine, seven, known, device, size, args.seed)
        annealed += _anneal(machine, known, device, size, args.seed)
        if device is where[0]:
            curves = shown
            rows += _model(machine, seven, known, size, args.seed)
            np.savez_compressed(report.out / "images.npz", images=images)
    report.say(f"\n{size.chains} chains from a 7, {size.steps} steps, gamma_n = 0.1 (n + 1)^-0.6, seed {args.seed}")
    report.say(table(rows, COLUMNS) + "\n\n" + LEGEND)
    report.say("the paper, another model: GWG stays near the 7, SR-GWG at alpha = 1e-4 is at every digit by 10,000")
    report.say(f"\nannealed from uniform bits, {size.betas} temperatures, {size.ais_chains} draws")
    report.say(table(annealed, AIS_COLUMNS))
    report.say("the paper, another model: entropy 2.1140 and Vendi 8.2572 with GWG, 2.1628 and 8.4319 with SR-GWG")
    report.rows([{"study": "escape", **row} for row in rows])
    _plot(report, curves, images, size)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _machine(known: Digits, size: Size, args: argparse.Namespace, report: Report) -> RBM:
    """The machine, trained; its parameters are left in ``machine.npz``."""
    begun = time.perf_counter()
    rows = (known.images > 0).astype(np.float32)
    machine = train_rbm(rows, HIDDEN, size.updates, seed=args.seed)
    np.savez_compressed(report.out / "machine.npz", **machine._asdict())
    report.say(
        f"an RBM with {HIDDEN} hidden units, {size.updates} updates of persistent contrastive divergence on "
        f"{len(rows)} images: {time.perf_counter() - begun:.0f} s"
    )
    return machine


def _row(sampler: str, alpha: float, labels: np.ndarray, images: np.ndarray, known: Digits) -> dict[str, Any]:
    """The measures of labels (row, chain) and of the last images (chain, 784)."""
    like = np.zeros((), dtype=np.float64)
    shares = class_shares(labels[-1], CLASSES, like)
    votes = classify(2 * images - 1, known).votes
    return {
        "sampler": sampler,
        "alpha": alpha,
        "same_class": float(np.mean(labels[-1] == DIGIT)),
        "classes": int(classes_covered(shares)),
        "kl": float(kl_to_uniform(shares)),
        "tv": float(tv_to_uniform(shares)),
        "entropy": float(normalised_entropy(shares)),
        "cumulative_kl": float(kl_to_uniform(cumulative_class_shares(labels, CLASSES, like))[-1]),
        "vendi": float(vendi_score(cosine_similarity(votes))),
        "theta": 0.0,
        "moved": 1.0,
        "seconds": 0.0,
    }


def _escape(
    machine: RBM, seven: np.ndarray, known: Digits, device: DeviceDtype, size: Size, seed: int
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray], np.ndarray]:
    """GWG and SR-GWG from the 7, all alphas in one run: rows, cumulative KL by name, images (row, alpha, 8, 784)."""
    alpha = device.array(np.asarray(ALPHAS)[:, None])
    kernel = SRMC(GWG(), alpha, SCHEDULE, Untilted())
    x0 = device.array(np.broadcast_to(seven, (len(ALPHAS), size.chains, len(seven))))
    trace = sample(
        *(rbm(machine), kernel, x0, ROWS),
        thinning=size.steps // ROWS,
        seed=seed,
        recorders=(Record("x", lambda state: state.point.x),),
        progress=False,
    )
    x, theta = to_host(trace.recorded["x"]), to_host(trace.state.theta)
    labels = classify(2 * x - 1, known).labels
    rows, curves = [], {}
    for k, value in enumerate(ALPHAS):
        name = "SR-GWG" if value else "GWG"
        row = _row(f"{name} {device.backend.name}", value, labels[:, k], x[-1, k], known)
        row["theta"] = value * float(np.mean(np.linalg.norm(theta[k], axis=-1)))
        row["moved"] = float(np.mean(trace.run_statistics.moved[k]))
        rows.append(row | {"seconds": trace.metadata["seconds"] / len(ALPHAS)})
        shares = cumulative_class_shares(labels[:, k], CLASSES, np.zeros(()))
        curves[f"{name}, alpha = {value:g}" if value else name] = np.asarray(kl_to_uniform(shares))
    return rows, curves, x[:, :, :8]


def _controls(
    machine: RBM, seven: np.ndarray, known: Digits, device: DeviceDtype, size: Size, seed: int
) -> list[dict[str, Any]]:
    """Rows of uniform Metropolis and of a tempered ladder, from the 7, with as many steps."""
    rows = []
    for name, kernel in CONTROLS.items():
        trace = sample(
            *(rbm(machine), kernel, device.array(np.tile(seven, (size.chains, 1))), ROWS),
            thinning=size.steps // ROWS,
            seed=seed,
            recorders=(Record("x", lambda state: state.point.x),),
            progress=False,
        )
        x = to_host(trace.recorded["x"])
        row = _row(f"{name} {device.backend.name}", 0.0, classify(2 * x - 1, known).labels, x[-1], known)
        rows.append(row | {"moved": float(np.mean(trace.run_statistics.moved)), "seconds": trace.metadata["seconds"]})
    return rows


def _model(machine: RBM, seven: np.ndarray, known: Digits, size: Size, seed: int) -> list[dict[str, Any]]:
    """The same measures of the machine's own sampler, from the 7 and from training images."""
    rng, rows = np.random.default_rng(seed), []
    training = (known.images[rng.choice(len(known.images), size.chains, replace=False)] > 0).astype(np.float32)
    for name, start in (("model, from the 7", np.tile(seven, (size.chains, 1))), ("model, from digits", training)):
        begun, v, labels = time.perf_counter(), start, []
        for step in range(1, size.steps // 10 + 1):
            hidden = rng.random((size.chains, HIDDEN), dtype=np.float32)
            v = gibbs_sweep(machine, v, hidden, rng.random(v.shape, dtype=np.float32))
            if step % max(1, size.steps // (10 * ROWS)) == 0:
                labels.append(classify(2 * v - 1, known).labels)
        row = _row(name, 0.0, np.stack(labels), v, known)
        rows.append(row | {"seconds": time.perf_counter() - begun})
    return rows


def _anneal(machine: RBM, known: Digits, device: DeviceDtype, size: Size, seed: int) -> list[dict[str, Any]]:
    """AIS from uniform bits with GWG and SR-GWG steps."""
    betas = np.linspace(0.0, 1.0, size.betas)
    start = np.random.default_rng(seed + 1).integers(2, size=(size.ais_chains, len(machine.visible_bias)))
    kernels: dict[str, tuple[float, Kernel]] = {
        "GWG": (0.0, GWG()),
        "SR-GWG": (AIS_ALPHA, SRMC(GWG(), AIS_ALPHA, SCHEDULE, Untilted())),
    }
    rows = []
    for name, (alpha, base) in kernels.items():
        x0 = device.array(start.astype(np.float64))
        trace = sample(
            *(rbm(machine), AIS(base, betas.tolist(), approximate=alpha > 0), x0, 1),
            thinning=len(betas) - 1,
            seed=seed,
            recorders=(Record("x", lambda state: state.point.x),),
            progress=False,
        )
        x, weights = to_host(trace.recorded["x"])[-1], to_host(trace.state.log_weight)
        voted = classify(2 * x - 1, known)
        shares = class_shares(voted.labels, CLASSES, np.zeros(()))
        estimate = log_normalizer(weights, x.shape[-1] * math.log(2.0))
        rows.append(
            {
                "sampler": f"{name} {device.backend.name}",
                "alpha": alpha,
                "entropy": float(normalised_entropy(shares)) * math.log(CLASSES),
                "vendi": float(vendi_score(cosine_similarity(voted.votes))),
                "log_z": estimate.value,
                "log_z_se": estimate.standard_error,
                "weight_ess": estimate.weight_ess,
                "log_density": float(np.mean(to_host(trace.state.point.log_density))),
            }
        )
    return rows


def _plot(report: Report, curves: dict[str, np.ndarray], images: np.ndarray, size: Size) -> None:
    try:
        from xpsample.experiments.srmc.digits_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", curves, images, size.steps)
