"""Appendices D.2.2, D.2.3 and D.3.1 of the SRMC paper on a pretrained energy model of MNIST: are more digits visited?

The paper's model is one of CIFAR-10 and its weights are not at hand; here is the MNIST model of `mnist_ebm`, with its
own sampler, a classifier of digits, and the paper's measures. Samples of the density itself are also shown.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.classes import (
    class_shares,
    classes_covered,
    cumulative_class_shares,
    kl_to_uniform,
    modes_discovered,
    normalized_entropy,
    tv_to_uniform,
    vendi_score,
)
from xpsample.experiments.clipped_langevin import ClippedLangevin
from xpsample.experiments.digits import CLASSES, Classified, Digits, classify, load_digits
from xpsample.experiments.figures import tidy
from xpsample.experiments.mnist_ebm import (
    SIDE,
    Parameters,
    fold,
    load_parameters,
    mnist_ebm,
    negative_energy,
    negative_energy_and_score,
)
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.gradients import FiniteDifference
from xpsample.kernels import ULA
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Target, Tempered
from xpsample.trace.recorders import Record

ALPHAS = (0.0, 1.0, 10.0, 30.0)
SCHEDULE = PowerLaw(rho=0.6)
TILT = FiniteDifference(0.1, scheme="forward")
GROUPS = (100, 50, 10)
TEMPERATURES = (1.0, 0.1, 0.01, 0.001, 0.0001)
DRIFT, LARGEST_STEP = 5.0, 0.02
"""ULA at temperature T has the step size min(DRIFT T, LARGEST_STEP): 5 times the score, and noise up to 0.2."""
EVERY = 5
"""Steps per state that is kept."""
SEVEN = 0
"""The first test image is a 7."""

PAPER = """\
CIFAR-10, covered, KL, TV and entropy
100 chains  ULA 9, 0.306, 0.33, 0.867; SR-ULA 10, 0.202, 0.26, 0.912
50 chains   ULA 9, 0.347, 0.33, 0.849; SR-ULA 10, 0.226, 0.28, 0.902
10 chains   ULA 5, 0.832, 0.50, 0.639; SR-ULA 7, 0.468, 0.30, 0.797
one chain   ULA 5, 1.492, 0.716, 0.352; SR-ULA 8, 0.558, 0.437, 0.757"""
COLOURS = "#6b6b6b", "#00568A", "#B3440A", "#CC79A7"

OWN = columns("backend | alpha g | covered .1f+- | kl .3f+- KL | tv .3f+- TV | entropy .3f+- | f .2f | distance .1f")
LAST = columns("vendi .2f Vendi | cumulative_kl .3f cum. KL")
DENSITY = columns(
    "backend | temperature g T | f_digits .2f f from digits | f_noise .2f f from noise "
    "| distance_digits .1f distance from digits | distance_noise .1f distance from noise | same_class .2f same class"
)
LEGEND = """\
covered    classes among the samples; KL, TV and entropy as in Eqs. 89, 90 and 91, KL from the samples to uniform
uniform    the same of as many independent samples of a uniform class, on average
Vendi      of the classifier's votes, cosine similarity, all chains at the last step
cum. KL    Eq. 92: all chains, all kept steps from the first
f          negative energy, mean over the chains at the last step; of test images about 0, of noise -17.9
distance   median distance to the nearest training image at the last step; of test images {distance:.1f}
same class share of the chains from digits whose last state has the class of their start; 0.1 were chance
+-         one standard error over the chains or groups of chains"""


class Size(NamedTuple):
    """Chains and steps of the three parts."""

    chains: int
    steps: int
    single: int
    single_steps: int
    density: int
    density_steps: int


FULL = Size(chains=100, steps=450, single=20, single_steps=2000, density=20, density_steps=3000)
QUICK = Size(chains=10, steps=20, single=2, single_steps=40, density=2, density_steps=20)


class Path(NamedTuple):
    """Kept states: their classes (row, alpha, chain), and of the last step all that is known, by (alpha, chain)."""

    labels: np.ndarray
    last: Classified
    value: np.ndarray
    images: np.ndarray
    seconds: float


def model(parameters: Parameters) -> Target:
    """The density exp(f) without walls, which the clipped sampler does not leave the cube of.

    The mirror images of `mnist_ebm` would put a kink at the walls, where most pixels of a digit are, and a difference
    of scores across it is large.
    """
    return Target(
        negative_energy,
        score=lambda x, p: negative_energy_and_score(x, p)[1],
        log_density_and_score=negative_energy_and_score,
        data=parameters,
    )


def measures(labels: np.ndarray) -> dict[str, np.ndarray]:
    """The paper's measures of classes (..., sample), each (...)."""
    shares = class_shares(labels, CLASSES)
    return {
        "covered": classes_covered(shares).astype(np.float64),
        "kl": kl_to_uniform(shares),
        "tv": tv_to_uniform(shares),
        "entropy": normalized_entropy(shares),
    }


def uniform_measures(samples: int, draws: int = 20_000) -> dict[str, float]:
    """Mean measures of independent samples of a uniform class, by simulation with a fixed seed."""
    labels = np.random.default_rng(0).integers(0, CLASSES, (draws, samples))
    return {key: float(np.mean(value)) for key, value in measures(labels).items()}


def measure(run: Run[Size]) -> Iterator[Row]:
    """Rows of the three parts, in which chains start from noise and from a 7, and of the density itself."""
    size, (train, test), parameters = run.size, load_digits(), load_parameters()
    known = classify(test.images, train)
    run.shown["distance"] = float(np.median(known.distance))
    run.say(
        f"classifier: 5 nearest of {len(train.labels)} training images, right on "
        f"{np.mean(known.labels == test.labels):.1%} of {len(test.labels)} test images"
    )
    run.say(f"alpha in {ALPHAS}, gamma_n = (n + 1)^-0.6, forward differences with eps = {TILT.eps}")
    for device in run.devices:
        noise = np.random.default_rng(run.seed).uniform(-1, 1, (size.chains, SIDE * SIDE))
        seven = np.broadcast_to(test.images[SEVEN], (size.single, SIDE * SIDE))
        starts = {
            "parallel": (noise, size.steps),
            "single": (noise[: size.single], size.single_steps),
            "seven": (seven, size.steps),
        }
        for part, start in starts.items():
            path = _path(run, device, parameters, train, part, *start)
            yield from _rows(part, path, device)
            if device is run.devices[0]:
                run.shown[part] = path
        yield from _density(run, device, parameters, train, test)


def _path(
    run: Run[Size],
    device: DeviceDtype,
    parameters: Parameters,
    train: Digits,
    part: str,
    start: np.ndarray,
    steps: int,
) -> Path:
    """Chains of every alpha from start positions (chain, 784), driven by the model's own sampler."""
    kernel = SRMC(ClippedLangevin(), device.array(np.array(ALPHAS)[:, None]), SCHEDULE, TILT)
    x0 = device.array(np.broadcast_to(start, (len(ALPHAS), *start.shape)))
    recorder = Record("x", lambda state: state.point.x)
    options: dict[str, Any] = {"thinning": EVERY, "recorders": (recorder,), "label": f"{device!s:20} {part}"}
    trace = run.sample(model(parameters), kernel, x0, steps // EVERY, **options)
    x = to_host(trace.recorded["x"])
    kept, last = classify(x, train), classify(x[-1], train)
    value = negative_energy(x[-1], parameters)
    return Path(kept.labels, last, value, x[-1], trace.metadata["seconds"])


def _rows(part: str, path: Path, device: DeviceDtype) -> list[Row]:
    """Rows of a part: one for every alpha, and of the parallel one for every size of group."""
    rows = []
    chains = path.labels.shape[-1]
    cumulative = kl_to_uniform(cumulative_class_shares(path.labels, CLASSES))
    vendi = vendi_score(path.last.votes)
    for i, alpha in enumerate(ALPHAS):
        base: Row = {"part": part, "backend": device.backend.name, "dtype": device.dtype, "alpha": alpha}
        base |= {
            "f": float(np.mean(path.value[i])),
            "distance": float(np.median(path.last.distance[i])),
            "vendi": float(vendi[i]),
            "cumulative_kl": float(cumulative[-1, i]),
            "seconds": path.seconds,
        }
        if part == "parallel":
            for samples in (n for n in GROUPS if n <= chains):
                groups = path.labels[-1, i, : chains // samples * samples].reshape(-1, samples)
                rows.append(base | {"samples": samples} | _means(groups))
        else:
            rows.append(base | {"samples": len(path.labels)} | _means(path.labels[:, i].T))
    return rows


def _means(labels: np.ndarray) -> Row:
    """Means over the groups of the measures of classes (group, sample), and their standard errors."""
    found: Row = {}
    for key, value in measures(labels).items():
        found |= mean_and_error(key, value)
    return found


def _density(run: Run[Size], device: DeviceDtype, parameters: Parameters, train: Digits, test: Digits) -> list[Row]:
    """ULA with its full noise on exp(f / T), reflected at the walls, from digits and from uniform noise."""
    size, temperatures = run.size, np.array(TEMPERATURES)[:, None]
    steps = device.array(np.minimum(DRIFT * temperatures, LARGEST_STEP))
    rng = np.random.default_rng(run.seed)
    per_class = [test.images[test.labels == c][: -(-size.density // CLASSES)] for c in range(CLASSES)]
    digits = np.concatenate(per_class)[: size.density]
    start = np.stack([digits, rng.uniform(-1, 1, digits.shape)])[:, None]
    x0 = device.array(np.broadcast_to(start, (2, len(TEMPERATURES), *digits.shape)))
    target = Tempered(mnist_ebm(parameters), device.array(1 / temperatures))
    label = f"{device!s:20} density"
    trace = run.sample(target, ULA(steps), x0, 1, burn_in=size.density_steps - 1, recorders=(), label=label)
    x = fold(to_host(trace.state.point.x))
    value, known = negative_energy(x, parameters), classify(x, train)
    distance, started = known.distance, classify(digits, train).labels
    return [
        {
            "part": "density",
            "backend": device.backend.name,
            "dtype": device.dtype,
            "temperature": temperature,
            "f_digits": float(np.mean(value[0, i])),
            "f_noise": float(np.mean(value[1, i])),
            "same_class": float(np.mean(known.labels[0, i] == started)),
            "distance_digits": float(np.median(distance[0, i])),
            "distance_noise": float(np.median(distance[1, i])),
            "seconds": trace.metadata["seconds"],
        }
        for i, temperature in enumerate(TEMPERATURES)
    ]


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A table for each part, and for each size of group of the parallel one, next to samples of a uniform class."""
    parallel, single, seven, density = (
        [row for row in rows if row["part"] == part] for part in ("parallel", "single", "seven", "density")
    )
    for samples in sorted({row["samples"] for row in parallel}, reverse=True):
        own = [row for row in parallel if row["samples"] == samples]
        uniform = {"alpha": "uniform"} | uniform_measures(samples)
        wanted = OWN | LAST if samples == max(GROUPS) else OWN
        run.table([*own, uniform], wanted, title=f"final states of {samples} chains from uniform noise")
    run.table(single, OWN, title="all states of one chain from uniform noise, mean over chains")
    title = "all states of one chain from an image of a 7, mean over chains; cum. KL over all of them"
    run.table(seven, OWN | LAST, title=title)
    title = "the density exp(f / T) itself: ULA with its full noise, reflected at the walls"
    run.table(density, DENSITY, title=title, legend=LEGEND.format(distance=run.shown["distance"]))


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Classes with and without repellence, and whether the density holds digits at all."""
    most = max(row["samples"] for row in rows if row["part"] == "parallel")
    found = [row for row in rows if row["part"] == "parallel" and row["samples"] == most]
    covered = ", ".join(f"{row['covered']:g} with alpha = {row['alpha']:g}" for row in found)
    density = next(row for row in rows if row["part"] == "density")
    return (
        f"classes among the last states of {most} chains from noise: {covered}\n"
        f"digits under the density itself, T = 1: {density['same_class']:.0%} keep their class, f is "
        f"{density['f_digits']:.1f}, from noise {density['f_noise']:.1f}"
    )


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Final images, classes of final states, and the cumulative KL divergence against steps."""
    shown = run.shown
    figure.set_size_inches(12, 7.2)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.15, 1)).ravel()
    pictures = upper.subplots(2, 2)
    for i, (alpha, axes) in enumerate(zip(ALPHAS, pictures.ravel(), strict=True)):
        _images(axes, shown["parallel"].images[i], shown["seven"].images[i])
        axes.set_title(f"alpha = {alpha:g}: last states from noise (upper row), from a 7 (lower)", fontsize=9)
    classes, curves = lower.subplots(1, 2)
    for i, (alpha, colour) in enumerate(zip(ALPHAS, COLOURS, strict=True)):
        name = "alpha = 0, no repellence" if alpha == 0 else f"alpha = {alpha:g}"
        counts = np.bincount(shown["parallel"].last.labels[i], minlength=CLASSES)
        classes.bar(np.arange(CLASSES) + 0.2 * (i - 1.5), counts, 0.2, color=colour, label=name)
        for part, style in (("parallel", "-"), ("seven", "--")):
            labels = shown[part].labels[:, i]
            kl = kl_to_uniform(cumulative_class_shares(labels, CLASSES))
            curves.plot(EVERY * np.arange(1, len(kl) + 1), kl, style, color=colour, lw=1.2)
    classes.axhline(shown["parallel"].labels.shape[-1] / CLASSES, color="black", lw=0.8, ls=":")
    classes.set(xticks=range(CLASSES), xlabel="class", title="classes of the last states from noise")
    classes.legend(frameon=False)
    curves.set(xlabel="step", title="cumulative KL (Eq. 92): from noise, and from a 7 dashed", ylim=(0, 2.5))
    tidy(classes, curves)


def plot_so_far(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Classes that one chain has visited up to a step, mean over the chains (Fig. 8, right)."""
    figure.set_size_inches(5, 3)
    axes, labels = figure.subplots(), run.shown["single"].labels
    counts = np.mean(modes_discovered(labels[..., None]), axis=-1)
    for alpha, colour, count in zip(ALPHAS, COLOURS, counts.T, strict=True):
        axes.plot(EVERY * np.arange(1, len(count) + 1), count, color=colour, lw=1.2, label=f"alpha = {alpha:g}")
    axes.set(xlabel="step", title="classes of one chain so far, mean over chains", ylim=(0, None))
    axes.legend(frameon=False)
    tidy(axes)


def _images(axes: Any, upper: np.ndarray, lower: np.ndarray, count: int = 10) -> None:
    """Two rows of images."""
    rows = [np.concatenate([image.reshape(SIDE, SIDE) for image in part[:count]], axis=1) for part in (upper, lower)]
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1])), constant_values=-1) for row in rows]
    axes.imshow(np.concatenate(padded), cmap="gray", vmin=-1, vmax=1)
    axes.axis("off")


EXPERIMENT = Experiment(
    name="srmc-ebm",
    title="Energy model of MNIST digits (UvA tutorial 8); SRMC paper, Appendices D.2.2, D.2.3 and D.3.1",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot, "so-far": plot_so_far},
    devices=float32,  # dtype of the weights
)
