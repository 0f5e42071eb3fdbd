"""Appendix D.2.1 of the SRMC paper: a Gaussian mixture on 1,000 CIFAR-10 images, and which of its modes chains visit.

The paper does not state the scale of the pixels, and counts a mode when a state is nearer to its center than to any
other. Here are scales, noises smaller than ULA's, and what that count says at each.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.classes import modes_discovered
from xpsample.experiments.data import load_dataset
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.table import Row, columns
from xpsample.gradients import FiniteDifference
from xpsample.kernels import ULA, Kernel
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import AbstractTarget, Capability, Tempered
from xpsample.trace.recorders import Record
from xpsample.zoo.mixture import gaussian_mixture

SIGMA, ETA, ALPHA, EPS = 4.0, 1.0, 0.15, 1e-3
SCHEDULE = PowerLaw(rho=0.6)
START = 0.45
"""The start is this far along the centers in order of class: image 450 of 1,000, where the paper's ULA stays."""
HELD = 0.5
"""A mode is held by a state when its component has more than this probability given the state."""
BALL = 1.1
"""A ball about a center has this many times the radius sigma sqrt(dim) at which nearly all of a component lies."""
ALPHAS = (0.0, 0.001, 0.01, 0.1, 0.15, 0.3, 1.0, 5.0, 20.0, 100.0)
"""The paper's ablation at 500 steps, with no repellence before it."""
EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Its ablation of the difference, at `ALPHA`."""
PIXELS = {1: "[0, 1]", 2: "[-1, 1]", 255: "[0, 255]"}

COLOURS = "#B3440A", "#CC79A7", "#6b6b6b", "#00568A", "#000000"

PAPER = "ULA visits 28 of 1000 after 5000 steps, SR-ULA all 1000 by about step 1035"
LEGEND = """\
pixels     the range of the images, which the paper does not state; sigma = 4 and eta = 1 in these units
noise      variance of a step's noise over the 2 eta of ULA; less than 1 is ULA on the density to the power 1 / noise
by n       modes that the chains together have visited by step n, counted as the paper does: nearest center
all by     first step with all modes
held       the same after the last step, counted when the component has probability > 0.5 given the state
balls      centers within 1.1 sigma sqrt(dim) of a state, mean over the chains after the last step
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
    """Result of a run, (step, chain): the nearest center, and its component's probability; balls and shift by chain."""

    nearest: np.ndarray
    share: np.ndarray
    balls: np.ndarray
    shift: np.ndarray
    seconds: float


def centres(modes: int) -> np.ndarray:
    """The images, in order of class, in coordinates of the space that they span, (modes, modes - 1).

    Their pixels are in [0, 1]. They are the first ``modes / 10`` of each class. Distances equal the distances between
    the 3,072 pixels, and the origin is the mean image. Nothing is lost: across this space all components of the mixture
    have one factor in common, N(0, sigma^2 I). There ULA is a separate chain, and neither the nearest center nor any
    probability of a component depends on it.
    """
    data = load_dataset("cifar10_1000")
    order = np.argsort(data["labels"], kind="stable").reshape(10, -1)[:, : modes // 10].ravel()
    pixels = data["images"][order].reshape(modes, -1) / 255.0
    pixels = pixels - np.mean(pixels, axis=0)
    _, _, basis = np.linalg.svd(pixels, full_matrices=False)
    return pixels @ basis[: modes - 1].T


def local_maxima(means: np.ndarray, sd: float, tolerance: float = 1e-6) -> int:
    """Number of local maxima of the mixture of equal isotropic normals, found from its centers (modes, dim).

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


def target_and_kernel(means: np.ndarray, noise: float, alpha: Any, eps: float = EPS) -> tuple[AbstractTarget, Kernel]:
    """ULA, or SR-ULA, on the mixture of equal weights, with `noise` times ULA's variance in its steps.

    x + eta s(x) + sqrt(2 eta T) xi is ULA with step eta T on the density to the power 1 / T, whose scores and
    histories are 1 / T times as large; so with alpha T and eps T the tilt is the same, too.
    """
    mixture = Tempered(gaussian_mixture(np.ones(len(means)), means, SIGMA), 1.0 / noise)
    base = ULA(ETA * noise)
    if isinstance(alpha, float) and alpha == 0:
        return mixture, base
    return mixture, SRMC(base, alpha * noise, SCHEDULE, FiniteDifference(eps * noise, scheme="forward"))


def marks(size: Size) -> list[int]:
    """Steps by which modes are counted."""
    return sorted({n for n in (100, 500, 1035, size.steps) if n <= size.steps})


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each setting, with and without repellence; then all alphas of the paper's ablation."""
    size, unit = run.size, centres(run.size.modes)
    run.say(
        f"{size.modes} modes; {size.chains} chains from one center, {size.steps} steps, eta = {ETA:g}, "
        f"alpha = {ALPHA}, eps = {EPS}, gamma_n = (n + 1)^-0.6"
    )
    _geometry(run, unit)
    for device in run.devices:
        for setting in SETTINGS:
            for name, alpha in (("ULA", 0.0), ("SR-ULA", ALPHA)):
                result = _visits(run, device, unit * setting.scale, setting, alpha)
                row = {"backend": device.backend.name, "dtype": device.dtype, "pixels": PIXELS[setting.scale]}
                yield row | {"noise": setting.noise, "sampler": name} | _row(result, size.modes, marks(size))
                if device is run.devices[0]:
                    run.shown.setdefault("results", {})[setting, name] = result
        run.shown.setdefault("ablation", []).extend(_ablation(run, device, unit))


def recorder(means: Array) -> Record:
    """Records nearest center, its component's probability, and number of balls that hold the state, of every chain.

    The nearest center is that in Euclidean distance (Appendix D.2.1).
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


def _visits(run: Run[Size], device: DeviceDtype, means: np.ndarray, setting: Setting, alpha: float) -> Result:
    chains, noise = run.size.chains, setting.noise
    target, kernel = target_and_kernel(means, noise, alpha)
    x0 = device.array(np.broadcast_to(means[int(START * len(means))], (chains, means.shape[-1])))
    label = f"{device!s:20} {PIXELS[setting.scale]:9} noise {noise:<4g} {'SR-ULA' if alpha else 'ULA'}"
    trace = run.sample(target, kernel, x0, run.size.steps, recorders=(recorder(device.array(means)),), label=label)
    kept = {key: to_host(value) for key, value in trace.recorded["modes"].items()}
    theta = to_host(trace.state.theta) if alpha else np.zeros((chains, 1))
    # The history of the tempered target, and the strength on it, are 1 / noise and noise times the mixture's.
    shift = alpha * noise * np.linalg.norm(theta, axis=-1)
    return Result(kept["nearest"], kept["share"], kept["balls"], shift, trace.metadata["seconds"])


def _ablation(run: Run[Size], device: DeviceDtype, unit: np.ndarray) -> list[Row]:
    """The paper's ablations, pixels in [0, 1] and ULA's noise: all alphas in one batched run, and each eps."""
    rows = _ended(run, device, unit, np.array(ALPHAS)[:, None], EPS, "all alphas")
    for eps in EPSILONS:
        rows += _ended(run, device, unit, np.full((1, 1), ALPHA), eps, f"eps = {eps:g}")
    return rows


def _ended(
    run: Run[Size], device: DeviceDtype, unit: np.ndarray, alphas: np.ndarray, eps: float, label: str
) -> list[Row]:
    """For alphas (groups, 1) the modes visited by the end of the ablation, and the size of the correction there."""
    target, kernel = target_and_kernel(unit, 1.0, device.array(alphas), eps)
    x0 = device.array(np.broadcast_to(unit[int(START * len(unit))], (len(alphas), run.size.chains, unit.shape[-1])))
    recorders, label = (recorder(device.array(unit)),), f"{device!s:20} {label}"
    trace = run.sample(target, kernel, x0, run.size.ablation, recorders=recorders, label=label)
    counts = modes_discovered(to_host(trace.recorded["modes"]["nearest"]))[-1]
    ratios = correction(unit, to_host(trace.state.point.x), to_host(trace.state.theta))
    return [
        {"backend": device.backend.name, "alpha": alpha, "eps": eps, "modes": int(count), "ratio": np.mean(ratio)}
        for alpha, count, ratio in zip(alphas[:, 0], counts, ratios, strict=True)
    ]


def correction(means: np.ndarray, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Norm of the Hessian of log pi times theta, over the score's norm, (*chains,): the paper's |H_theta| / |s|."""
    x, theta = x.astype(np.float64), theta.astype(np.float64)
    target = gaussian_mixture(np.ones(len(means)), means, SIGMA).prepare(x, Capability.SCORE | Capability.HVP)
    return np.linalg.norm(target.hvp(x, theta), axis=-1) / np.linalg.norm(target.score(x), axis=-1)


def _row(result: Result, modes: int, marks: list[int]) -> dict[str, Any]:
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


def _geometry(run: Run[Size], unit: np.ndarray) -> None:
    """Say how far the modes are apart, and how many maxima the density has, at each scale."""
    products, squared = unit @ unit.T, np.sum(unit * unit, axis=-1)
    distance = np.sqrt(np.maximum(squared[:, None] + squared - 2 * products, 0) + np.diag(np.full(len(unit), np.inf)))
    nearest = np.min(distance, axis=-1)
    run.say("half the distance from a center to the nearest other one, in sigma; local maxima of the density:")
    for scale, pixels in PIXELS.items():
        low, middle, high = (scale * q / (2 * SIGMA) for q in np.quantile(nearest, (0, 0.5, 1)))
        run.say(
            f"  {pixels:9} least {low:.3g}, median {middle:.3g}, greatest {high:.3g}; "
            f"{local_maxima(unit * scale, SIGMA)} maxima"
        )


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A table of all runs."""
    text = "backend | pixels | noise g | sampler" + "".join(f" | by_{n} d by {n}" for n in marks(run.size))
    text += " | all_by d all by | held d | balls .0f | shift .2g"
    run.table(rows, columns(text), ("backend", "pixels", "noise", "sampler"), legend=LEGEND)
    title = f"modes by alpha and eps, pixels in [0, 1], noise 1, after {run.size.ablation} steps (nearest center)"
    legend = "ratio    norm of the Hessian times theta over that of the score at the end, mean over chains"
    run.table(
        run.shown["ablation"], columns("backend | alpha g | eps g | modes d | ratio .2g"), title=title, legend=legend
    )


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Lead of repellence in the paper's measure, and the effect of alpha on it."""
    last = f"by_{run.size.steps}"
    ahead = max(
        (sr[last] - ula[last], sr["pixels"], sr["noise"]) for ula, sr in zip(rows[::2], rows[1::2], strict=True)
    )
    modes = [row["modes"] for row in run.shown["ablation"]]
    return (
        "SR-ULA is ahead of ULA by {} modes at most, pixels in {}, noise {:g}".format(*ahead)
        + f"\nby step {run.size.ablation} {min(modes)} to {max(modes)} modes, whatever alpha and eps"
    )


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Modes visited against steps, the modes of five chains, and modes visited against alpha."""
    shown, by_alpha = run.shown["results"], run.shown["ablation"][: len(ALPHAS)]
    figure.set_size_inches(12.5, 4.2)
    curves, paths, strengths = figure.subplots(1, 3, width_ratios=(1.25, 1, 0.9))
    settings = list(dict.fromkeys(setting for setting, _ in shown))
    colours = dict(zip(settings, COLOURS, strict=False))
    for (setting, name), result in shown.items():
        counts = modes_discovered(result.nearest)
        label = f"{PIXELS[setting.scale]}, noise {setting.noise:g}" if name == "ULA" else None
        style = {"lw": 3.5, "alpha": 0.35} if name == "ULA" else {"lw": 1.2, "ls": "--"}
        curves.plot(np.arange(1, len(counts) + 1), counts, color=colours[setting], label=label, **style)
    curves.set(xscale="log", xlabel="step", title="modes visited (nearest center):\nULA wide, SR-ULA dashed")
    curves.legend(frameon=False, title="pixels, noise")
    for setting in settings[:3:2]:
        nearest = shown[setting, "ULA"].nearest[:, :5]
        n = np.arange(1, len(nearest) + 1)
        for i in range(nearest.shape[1]):
            paths.plot(n, nearest[:, i], ".", ms=1, color=colours[setting])
    paths.set(xlabel="step", title="nearest mode of five chains of ULA,\n[0, 1], noise 1 (orange) and 0.01 (gray)")
    counts = [row["modes"] for row in by_alpha]
    strengths.plot(range(len(counts)), counts, "o-", color=COLOURS[0])
    strengths.set_xticks(range(len(counts)), [f"{row['alpha']:g}" for row in by_alpha], rotation=60)
    top = 1.1 * max(counts)
    strengths.set(xlabel="alpha", ylim=(0, top), title=f"modes visited by step {run.size.ablation},\n[0, 1], noise 1")
    tidy(curves, paths, strengths)


EXPERIMENT = Experiment(
    name="srmc-modes",
    title=f"Modes at CIFAR-10 images, sigma = {SIGMA:g}; SRMC paper, Appendix D.2.1",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
    devices=float32,  # half the time; probabilities of components are right to 2e-5, at [0, 255] to 1e-3
)
