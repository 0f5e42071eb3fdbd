"""Appendices D.2.2, D.2.3 and D.3.1 of the SRMC paper on a pretrained energy model of MNIST: are more digits visited?

The paper's model is one of CIFAR-10 and its weights are not at hand; here is the MNIST model of `mnist_ebm`, with its
own sampler, a classifier of digits, and the paper's measures. What the density itself looks like is shown beside it.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.experiments.clipped_langevin import ClippedLangevin
from xpsample.experiments.digits import CLASSES, Classified, Digits, classify, load_digits
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.gradients import FiniteDifference
from xpsample.kernels import ULA
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
from xpsample.run.recorders import Record
from xpsample.run.sampling import sample
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Target, Tempered
from xpsample.zoo.mnist_ebm import (
    SIDE,
    Parameters,
    fold,
    load_parameters,
    mnist_ebm,
    negative_energy,
    negative_energy_and_score,
)

DTYPE = "float32"
"""That of the weights."""
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

PAPER_SINGLE = "ULA 5 classes, KL 1.492, TV 0.716, entropy 0.352; SR-ULA 8, 0.558, 0.437, 0.757"
PAPER_PARALLEL = {
    100: "ULA 9 classes, KL 0.306, TV 0.33, entropy 0.867; SR-ULA 10, 0.202, 0.26, 0.912",
    50: "ULA 9 classes, KL 0.347, TV 0.33, entropy 0.849; SR-ULA 10, 0.226, 0.28, 0.902",
    10: "ULA 5 classes, KL 0.832, TV 0.50, entropy 0.639; SR-ULA 7, 0.468, 0.30, 0.797",
}

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
    shares = class_shares(labels, CLASSES, np.zeros(1))
    return {
        "covered": classes_covered(shares).astype(np.float64),
        "kl": kl_to_uniform(shares),
        "tv": tv_to_uniform(shares),
        "entropy": normalised_entropy(shares),
    }


def uniform_measures(samples: int, draws: int = 20_000) -> dict[str, float]:
    """Mean measures of independent samples of a uniform class, by simulation with a fixed seed."""
    labels = np.random.default_rng(0).integers(0, CLASSES, (draws, samples))
    return {key: float(np.mean(value)) for key, value in measures(labels).items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srmc-ebm", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, size, names = time.perf_counter(), QUICK if args.quick else FULL, args.backend or ["numpy"]
    where = [device._replace(dtype=DTYPE) for device in widest(device_dtypes(names))]
    (train, test), parameters = load_digits(), load_parameters()
    report = Report(args.out)
    report.say("Energy model of MNIST digits (UvA tutorial 8); SRMC paper, Appendices D.2.2, D.2.3 and D.3.1")
    for line in missing(names):
        report.say(line)
    known = classify(test.images, train)
    report.say(
        f"classifier: 5 nearest of {len(train.labels)} training images, right on "
        f"{np.mean(known.labels == test.labels):.1%} of {len(test.labels)} test images"
    )
    report.say(
        f"alpha in {ALPHAS}, gamma_n = (n + 1)^-0.6, forward differences with eps = {TILT.eps}, seed {args.seed}"
    )
    rows: list[dict[str, Any]] = []
    shown: dict[str, Path] = {}
    for device in where:
        rng = np.random.default_rng(args.seed)
        noise = rng.uniform(-1, 1, (size.chains, SIDE * SIDE))
        seven = np.broadcast_to(test.images[SEVEN], (size.single, SIDE * SIDE))
        starts = {
            "parallel": (noise, size.steps),
            "single": (noise[: size.single], size.single_steps),
            "seven": (seven, size.steps),
        }
        found = {part: _run(device, parameters, train, *start, args.seed) for part, start in starts.items()}
        for part, path in found.items():
            report.say(f"  {device!s:20} {part:9} {path.seconds:6.1f} s")
            rows += _measure(part, path, device)
        rows += _density(device, parameters, train, test, size, args.seed)
        shown = shown or found
    _tell(report, rows, float(np.median(known.distance)))
    keys = list(dict.fromkeys(key for row in rows for key in row))
    report.rows([{key: row.get(key) for key in keys} for row in rows])
    try:
        from xpsample.experiments.srmc.ebm_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
    else:
        plot(report.out / "plot.png", shown)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _run(device: DeviceDtype, parameters: Parameters, train: Digits, start: np.ndarray, steps: int, seed: int) -> Path:
    """Chains of every alpha from start positions (chain, 784), driven by the model's own sampler."""
    kernel = SRMC(ClippedLangevin(), device.array(np.array(ALPHAS)[:, None]), SCHEDULE, TILT)
    x0 = device.array(np.broadcast_to(start, (len(ALPHAS), *start.shape)))
    recorder = Record("x", lambda state: state.point.x)
    trace = sample(
        model(parameters), kernel, x0, steps // EVERY, thinning=EVERY, seed=seed, recorders=(recorder,), progress=False
    )
    x = to_host(trace.recorded["x"])
    kept, last = classify(x, train), classify(x[-1], train)
    value = negative_energy(x[-1], parameters)
    return Path(kept.labels, last, value, x[-1], trace.metadata["seconds"])


def _measure(part: str, path: Path, device: DeviceDtype) -> list[dict[str, Any]]:
    """Rows of a part: one for every alpha, and of the parallel one for every size of group."""
    rows = []
    chains = path.labels.shape[-1]
    cumulative = kl_to_uniform(cumulative_class_shares(path.labels, CLASSES, np.zeros(1)))
    vendi = vendi_score(cosine_similarity(path.last.votes))
    for i, alpha in enumerate(ALPHAS):
        base = {"part": part, "backend": device.backend.name, "dtype": device.dtype, "alpha": alpha}
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
                rows.append(base | {"samples": samples} | _mean_and_error(measures(groups)))
        else:
            rows.append(base | {"samples": len(path.labels)} | _mean_and_error(measures(path.labels[:, i].T)))
    return rows


def _mean_and_error(values: dict[str, np.ndarray]) -> dict[str, float | None]:
    """Mean over the groups, and its standard error (None for one group)."""
    row: dict[str, float | None] = {}
    for key, value in values.items():
        row[key] = float(np.mean(value))
        row[f"{key}_se"] = float(np.std(value, ddof=1) / math.sqrt(len(value))) if len(value) > 1 else None
    return row


def _density(
    device: DeviceDtype, parameters: Parameters, train: Digits, test: Digits, size: Size, seed: int
) -> list[dict[str, Any]]:
    """ULA with its full noise on exp(f / T), reflected at the walls, from digits and from uniform noise."""
    temperatures = np.array(TEMPERATURES)[:, None]
    steps = device.array(np.minimum(DRIFT * temperatures, LARGEST_STEP))
    rng = np.random.default_rng(seed)
    per_class = [test.images[test.labels == c][: -(-size.density // CLASSES)] for c in range(CLASSES)]
    digits = np.concatenate(per_class)[: size.density]
    start = np.stack([digits, rng.uniform(-1, 1, digits.shape)])[:, None]
    x0 = device.array(np.broadcast_to(start, (2, len(TEMPERATURES), *digits.shape)))
    target = Tempered(mnist_ebm(parameters), device.array(1 / temperatures))
    trace = sample(target, ULA(steps), x0, 1, burn_in=size.density_steps - 1, seed=seed, recorders=(), progress=False)
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


def _tell(report: Report, rows: list[dict[str, Any]], distance: float) -> None:
    """Print the tables, each with what the paper has."""
    own = ("covered", "kl", "tv", "entropy")
    heads = {"backend": ("backend", "s"), "alpha": ("alpha", "s")}
    heads |= dict(zip(own, (("covered", "s"), ("KL", "s"), ("TV", "s"), ("entropy", "s")), strict=True))

    def cell(row: dict[str, Any], key: str) -> str:
        error = row.get(f"{key}_se")
        digits = 1 if key == "covered" else 3
        return f"{row[key]:.{digits}f}" + ("" if error is None else f" +- {error:.{digits}f}")

    def cells(part: str, samples: int | None = None) -> list[dict[str, str]]:
        chosen = [row for row in rows if row["part"] == part and samples in (None, row["samples"])]
        lines = [
            {"backend": row["backend"], "alpha": f"{row['alpha']:g}"}
            | {key: cell(row, key) for key in own}
            | {"vendi": f"{row['vendi']:.2f}", "cum": f"{row['cumulative_kl']:.3f}"}
            | {"f": f"{row['f']:.2f}", "distance": f"{row['distance']:.1f}"}
            for row in chosen
        ]
        if samples is not None:
            exact = uniform_measures(samples)
            lines.append(dict.fromkeys(lines[0], "") | {"alpha": "uniform"} | {key: cell(exact, key) for key in own})
        return lines

    last = {"vendi": ("Vendi", "s"), "cum": ("cum. KL", "s"), "f": ("f", "s"), "distance": ("distance", "s")}
    for samples in sorted({row["samples"] for row in rows if row["part"] == "parallel"}, reverse=True):
        report.say(f"\nfinal states of {samples} chains from uniform noise")
        report.say(table(cells("parallel", samples), heads | (last if samples == max(GROUPS) else {})))
        report.say(f"the paper, on CIFAR-10: {PAPER_PARALLEL[samples]}")
    report.say("\nall states of one chain from uniform noise, mean over chains")
    report.say(table(cells("single"), heads | {"f": last["f"], "distance": last["distance"]}))
    report.say(f"the paper, on CIFAR-10, one chain: {PAPER_SINGLE}")
    report.say("\nall states of one chain from an image of a 7, mean over chains; cum. KL over all of them")
    report.say(table(cells("seven"), heads | last))
    report.say("\nthe density exp(f / T) itself: ULA with its full noise, reflected at the walls")
    columns = {"backend": ("backend", "s"), "temperature": ("T", "g"), "f_digits": ("f from digits", ".2f")}
    columns |= {"f_noise": ("f from noise", ".2f"), "distance_digits": ("distance from digits", ".1f")}
    columns |= {"distance_noise": ("distance from noise", ".1f"), "same_class": ("same class", ".2f")}
    report.say(table([row for row in rows if row["part"] == "density"], columns))
    report.say("\n" + LEGEND.format(distance=distance) + "\n")
