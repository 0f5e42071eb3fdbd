"""Appendix D.2.1 of the SRMC paper: a Gaussian mixture on 1,000 CIFAR-10 images, and which of its modes chains visit.

The paper does not state the scale of the pixels, and counts a mode when a state is nearer to its centre than to any
other. Here are scales, noises smaller than ULA's, and what that count says at each.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.gradients import FiniteDifference
from xpsample.kernels import ULA, Kernel
from xpsample.metrics import modes_discovered, nearest_centre
from xpsample.run.recorders import Record
from xpsample.run.sampling import sample
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import AbstractTarget, Tempered
from xpsample.zoo.data import load_dataset
from xpsample.zoo.mixture import gaussian_mixture

SIGMA, ETA, ALPHA, EPS = 4.0, 1.0, 0.15, 1e-3
SCHEDULE = PowerLaw(rho=0.6)
START = 0.45
"""The start is this far along the centres in order of class: image 450 of 1,000, where the paper's ULA stays."""
DTYPE = "float32"
"""Halves the time. Probabilities of components are right to 2e-5 at [0, 1] and [-1, 1], to 1e-3 at [0, 255]."""
HELD = 0.5
"""A mode is held by a state when its component has more than this probability given the state."""
BALL = 1.1
"""A ball about a centre has this many times the radius sigma sqrt(dim) at which nearly all of a component lies."""
ALPHAS = (0.0, 0.001, 0.01, 0.1, 0.15, 0.3, 1.0, 5.0, 20.0)
"""The paper's ablation at 500 steps, with no repellence before it and a larger one after it."""
PIXELS = {1: "[0, 1]", 2: "[-1, 1]", 255: "[0, 255]"}

LEGEND = """\
pixels     the range of the images, which the paper does not state; sigma = 4 and eta = 1 in these units
noise      variance of a step's noise over the 2 eta of ULA; less than 1 is ULA on the density to the power 1 / noise
by n       modes that the chains together have visited by step n, counted as the paper does: nearest centre
all by     first step with all modes
held       the same after the last step, counted when the component has probability > 0.5 given the state
balls      centres within 1.1 sigma sqrt(dim) of a state, mean over the chains after the last step
shift      alpha |theta|, the distance by which the tilt displaces a well, mean after the last step"""


class Setting(NamedTuple):
    """Range of the pixels in units of [0, 1], and variance of the noise in units of ULA's."""

    scale: int
    noise: float


SETTINGS = Setting(1, 1.0), Setting(1, 0.1), Setting(1, 0.01), Setting(2, 1.0), Setting(255, 1.0)


class Size(NamedTuple):
    """Modes, an equal number of each class; chains; steps; and steps of the runs over alpha."""

    modes: int
    chains: int
    steps: int
    ablation: int


FULL = Size(modes=1000, chains=50, steps=5000, ablation=500)
QUICK = Size(modes=100, chains=10, steps=100, ablation=20)


class Result(NamedTuple):
    """Of a run, (step, chain): the nearest centre, and the probability of its component; balls and shift by chain."""

    nearest: np.ndarray
    share: np.ndarray
    balls: np.ndarray
    shift: np.ndarray
    seconds: float


def centres(modes: int) -> np.ndarray:
    """The images with pixels in [0, 1], in order of class, in coordinates of the space that they span.

    Parameters
    ----------
    modes : int
        How many, the first ``modes / 10`` of each class.

    Returns
    -------
    numpy.ndarray, shape (modes, modes - 1)
        Distances are those of the 3,072 pixels. The origin is the mean image.

    Notes
    -----
    Nothing is lost. Across this space all components of the mixture have one factor in common, N(0, sigma^2 I): there
    ULA is a chain of its own, and neither the nearest centre nor any probability of a component depends on it.
    """
    data = load_dataset("cifar10_1000")
    order = np.argsort(data["labels"], kind="stable").reshape(10, -1)[:, : modes // 10].ravel()
    pixels = data["images"][order].reshape(modes, -1) / 255.0
    pixels = pixels - np.mean(pixels, axis=0)
    _, _, basis = np.linalg.svd(pixels, full_matrices=False)
    return pixels @ basis[: modes - 1].T


def local_maxima(means: np.ndarray, sd: float, tolerance: float = 1e-6) -> int:
    """How many local maxima the mixture of equal isotropic normals has, as found from its centres (modes, dim).

    By mean shift, x <- sum_k p_k(x) means_k, an EM step that climbs the density; ends are one maximum where they
    agree to a hundredth of `sd`.
    """
    x, change = means, math.inf
    half = 0.5 * np.sum(means * means, axis=-1)
    while change > tolerance * sd:
        logs = (x @ means.T - half) / sd**2
        shares = np.exp(logs - np.max(logs, axis=-1, keepdims=True))
        new = (shares / np.sum(shares, axis=-1, keepdims=True)) @ means
        x, change = new, float(np.max(np.abs(new - x)))
    found: list[np.ndarray] = []
    for end in x:
        if all(np.sum((end - other) ** 2) > (0.01 * sd) ** 2 for other in found):
            found.append(end)
    return len(found)


def target_and_kernel(means: np.ndarray, noise: float, alpha: Any) -> tuple[AbstractTarget, Kernel]:
    """ULA, or SR-ULA, on the mixture of equal weights, with `noise` times ULA's variance in its steps.

    x + eta s(x) + sqrt(2 eta T) xi is ULA with step eta T on the density to the power 1 / T, whose scores and
    histories are 1 / T times as large; so with alpha T and eps T the tilt is the same, too.
    """
    mixture = Tempered(gaussian_mixture(np.ones(len(means)), means, SIGMA), 1.0 / noise)
    base = ULA(ETA * noise)
    if isinstance(alpha, float) and alpha == 0:
        return mixture, base
    return mixture, SRMC(base, alpha * noise, SCHEDULE, FiniteDifference(EPS * noise, scheme="forward"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srmc-modes", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, size, names = time.perf_counter(), QUICK if args.quick else FULL, args.backend or ["numpy"]
    where = [device._replace(dtype=DTYPE) for device in widest(device_dtypes(names))]
    unit = centres(size.modes)
    report = Report(args.out)
    report.say(f"{size.modes} modes at CIFAR-10 images, sigma = {SIGMA:g}; SRMC paper, Appendix D.2.1")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains from one centre, {size.steps} steps, eta = {ETA:g}, alpha = {ALPHA}, eps = {EPS}, "
        f"gamma_n = (n + 1)^-0.6, seed {args.seed}"
    )
    _geometry(report, unit)
    marks = sorted({n for n in (100, 500, 1035, size.steps) if n <= size.steps})
    results, shown, sweeps = [], {}, {}
    for device in where:
        for setting in SETTINGS:
            for name, alpha in (("ULA", 0.0), ("SR-ULA", ALPHA)):
                result = _run(device, unit * setting.scale, setting.noise, alpha, size.chains, size.steps, args.seed)
                row: dict[str, Any] = {
                    "backend": device.backend.name,
                    "dtype": device.dtype,
                    "pixels": PIXELS[setting.scale],
                }
                row |= {"noise": setting.noise, "sampler": name} | _measure(result, size.modes, marks)
                results.append(row)
                report.say(
                    f"  {device!s:20} {row['pixels']:9} noise {setting.noise:<4g} {name:7} {result.seconds:6.1f} s"
                )
                if device is where[0]:
                    shown[setting, name] = result
        sweeps[device.backend.name] = _sweep(device, unit, size, args.seed)
    _tell(report, results, marks, sweeps, size)
    report.rows(results)
    try:
        from xpsample.experiments.srmc.modes_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
    else:
        plot(report.out / "plot.png", shown, sweeps[where[0].backend.name], size.ablation)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def recorder(means: Array) -> Record:
    """Records nearest centre, its component's probability, and number of balls that hold the state, of every chain.

    The nearest centre is that of `nearest_centre`; it shares a matrix product with the rest.
    """
    xp = array_namespace(means)
    half = 0.5 * xp.sum(means * means, axis=-1)
    ball = (BALL * SIGMA) ** 2 * means.shape[-1]

    def function(state: Any) -> dict[str, Array]:
        x = state.point.x
        logs = x @ means.T - half
        largest = xp.max(logs, axis=-1, keepdims=True)
        squared = xp.sum(x * x, axis=-1, keepdims=True) - 2.0 * logs
        return {
            "nearest": xp.argmax(logs, axis=-1),
            "share": 1.0 / xp.sum(xp.exp((logs - largest) / SIGMA**2), axis=-1),
            "balls": xp.count_nonzero(squared < ball, axis=-1),
        }

    return Record("modes", function)


def _run(
    device: DeviceDtype, means: np.ndarray, noise: float, alpha: float, chains: int, steps: int, seed: int
) -> Result:
    target, kernel = target_and_kernel(means, noise, alpha)
    x0 = device.array(np.broadcast_to(means[int(START * len(means))], (chains, means.shape[-1])))
    trace = sample(target, kernel, x0, steps, seed=seed, recorders=(recorder(device.array(means)),), progress=False)
    kept = {key: to_host(value) for key, value in trace.recorded["modes"].items()}
    theta = to_host(trace.state.theta) if alpha else np.zeros((chains, 1))
    # The history of the tempered target, and the strength on it, are 1 / noise and noise times the mixture's.
    shift = alpha * noise * np.linalg.norm(theta, axis=-1)
    return Result(kept["nearest"], kept["share"], kept["balls"], shift, trace.metadata["seconds"])


def _sweep(device: DeviceDtype, unit: np.ndarray, size: Size, seed: int) -> dict[float, int]:
    """Modes visited by the end of the paper's ablation, by alpha, pixels in [0, 1] and ULA's noise: one batched run."""
    target, kernel = target_and_kernel(unit, 1.0, device.array(np.array(ALPHAS)[:, None]))
    x0 = device.array(np.broadcast_to(unit[int(START * len(unit))], (len(ALPHAS), size.chains, unit.shape[-1])))
    means = device.array(unit)
    recorder = Record("nearest", lambda state: nearest_centre(state.point.x, means))
    trace = sample(target, kernel, x0, size.ablation, seed=seed, recorders=(recorder,), progress=False)
    counts = to_host(modes_discovered(trace.recorded["nearest"]))[-1]
    return dict(zip(ALPHAS, (int(c) for c in counts), strict=True))


def _measure(result: Result, modes: int, marks: list[int]) -> dict[str, Any]:
    """The numbers of a run."""
    visited = modes_discovered(result.nearest)
    held = modes_discovered(np.where(result.share > HELD, result.nearest, -1))
    complete = np.flatnonzero(visited == modes)
    row: dict[str, Any] = {f"by_{n}": int(visited[n - 1]) for n in marks}
    return row | {
        "all_by": int(complete[0]) + 1 if len(complete) else None,
        "held": int(held[-1]),
        "balls": float(np.mean(result.balls[-1])),
        "shift": float(np.mean(result.shift)),
        "seconds": result.seconds,
    }


def _geometry(report: Report, unit: np.ndarray) -> None:
    """Say how far the modes are apart, and how many maxima the density has, at each scale."""
    products, squared = unit @ unit.T, np.sum(unit * unit, axis=-1)
    distance = np.sqrt(np.maximum(squared[:, None] + squared - 2 * products, 0) + np.diag(np.full(len(unit), np.inf)))
    nearest = np.min(distance, axis=-1)
    report.say("half the distance from a centre to the nearest other one, in sigma; local maxima of the density:")
    for scale, pixels in PIXELS.items():
        low, middle, high = (scale * q / (2 * SIGMA) for q in np.quantile(nearest, (0, 0.5, 1)))
        report.say(
            f"  {pixels:9} least {low:.3g}, median {middle:.3g}, greatest {high:.3g}; "
            f"{local_maxima(unit * scale, SIGMA)} maxima"
        )


def _tell(
    report: Report, results: list[dict[str, Any]], marks: list[int], sweeps: dict[str, dict[float, int]], size: Size
) -> None:
    """Print the tables, and what the paper has."""
    cells = [row | {"all_by": row["all_by"] or "-"} for row in results]
    columns = {
        "backend": ("backend", "s"),
        "pixels": ("pixels", "s"),
        "noise": ("noise", "g"),
        "sampler": ("sampler", "s"),
    }
    columns |= {f"by_{n}": (f"by {n}", "d") for n in marks} | {"all_by": ("all by", ""), "held": ("held", "d")}
    columns |= {"balls": ("balls", ".0f"), "shift": ("shift", ".2g")}
    report.say("\n" + table(cells, columns) + "\n\n" + LEGEND + "\n")
    report.say("the paper: ULA 28 of 1000 after 5000 steps, SR-ULA all 1000 by about step 1035")
    report.say(f"by alpha, pixels in [0, 1], noise 1, after {size.ablation} steps (nearest centre):")
    for backend, sweep in sweeps.items():
        report.say(f"  {backend}: " + ", ".join(f"{alpha:g}: {count}" for alpha, count in sweep.items()))
