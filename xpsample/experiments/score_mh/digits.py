"""Annealed ULA against annealed Score-MALA on images of digits (Score-MH paper, Figs. 6, 9 and 16, Section 5).

The paper trains a U-Net on a GPU. Here a perceptron learns the score at all noise levels on the spot, and the
acceptance of MALA is had from it in several ways. Positions are principal components, none left out, so that noise and
distances are those of pixels.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.registry import to_host
from xpsample.experiments.digits import CLASSES, Digits, classify
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.score_mh.digits_models import DATA, LearnedAtLevels, LevelBalance, Networks, NormULA
from xpsample.kernels import MALA, ULA, Kernel
from xpsample.metrics import class_shares, classes_covered, squared_mmd, tv_to_uniform, wasserstein
from xpsample.optimize.optimizers import Adam
from xpsample.particles.annealed import Annealed
from xpsample.run.recorders import Draws, Statistics
from xpsample.run.sampling import sample
from xpsample.score_mh import AnnealedDenoising, Fitted, fit
from xpsample.targets import Acceptance, LineIntegral, Target, Taylor
from xpsample.targets.acceptance import ByDensity
from xpsample.zoo.mixture import smoothed_mixture

TAUS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1)
"""The last four are the paper's."""
LARGEST, SMALLEST = 10.0, 0.03
"""Noise levels, in units of pixels in [-1, 1]."""
NODES = 2
REGULARIZATION, MAX_NORM = 1.0, 300.0
"""lambda and C of the balance loss."""

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
COLUMNS = {
    "method": ("method", "s"),
    "tau": ("tau", "g"),
    "w1": ("W1", ".2f"),
    "w1_sd": ("sd", ".2f"),
    "mmd": ("MMD^2", ".4f"),
    "classes": ("classes", ".1f"),
    "tv": ("TV", ".2f"),
    "distance": ("nearest", ".2f"),
    "noise": ("noise / sigma_L", ".3g"),
    "annealing": ("accepted", ".3f"),
    "final": ("at the end", ".3f"),
    "frozen": ("lost", ".2f"),
    "seconds": ("s", ".0f"),
}
STEPS_COLUMNS = {"method": ("method", "s"), "levels": ("levels", "d"), "tau": ("tau", "g"), "w1": ("W1", ".2f")}
LEGEND = """\
W1, MMD^2  to held-out images, in pixels from -1 to 1: means over the groups of chains, sd between them
classes    of a group's images, by the nearest training images; TV their shares' total variation from uniform
nearest    mean distance to the nearest training image
noise      standard deviation of what is left where all training images are empty, over the last noise level
accepted   mean acceptance probability going down the ladder, and after it
known mixture  300 training images with noise, whose score and density are known: another target, without a network
lost       share of the chains beyond 1,000 or not a number; in W1, MMD^2, nearest, noise they count as at 1,000"""
BOUND = 1000.0


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
    methods: tuple[str, ...]


FULL = Size("mnist", 256, 100, 40, 3, 20, 100, 1000, (10, 30, 300), METHODS)
SMALL = Size("small", 256, 100, 40, 3, 50, 100, 1000, (10, 30, 300), METHODS)
QUICK = Size("small", 32, 4, 2, 2, 10, 10, 0, (), ("ULA", "MALA, learned, direct", "MALA, known mixture"))
UPDATES, BATCH = 50, 256
"""Updates of an epoch, rows of each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "score-mh-digits", backends="numpy")
    parser.add_argument(
        "--data", choices=sorted(DATA), default="mnist", help="28x28 or scikit-learn's 8x8 digits (default: mnist)"
    )


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size = QUICK if args.quick else FULL if args.data == "mnist" else SMALL
    report, names = Report(args.out), args.backend or ["numpy"]
    report.say("Digits by annealed ULA and annealed Score-MALA; Score-MH paper, Section 5 and Appendix E")
    for line in missing(names):
        report.say(line)
    known, tested = DATA[size.data]()
    rows: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    shown: dict[str, np.ndarray] = {}
    for device in (device for device in device_dtypes(names) if device.dtype == "float32"):
        bench = _Bench(known, tested, device, size, args.seed)
        bench.train(report)
        first = not rows
        rows += bench.floors()
        for method in size.methods:
            found, images = bench.compare(method)
            report.say(table(found, COLUMNS))
            rows += found
            steps += bench.ladders(method)
            if first:
                shown[method] = images
    report.say(
        f"\n{size.levels} noise levels from {LARGEST:g} to {SMALLEST:g}, one step of 2 (tau sigma)^2 at each, then "
        f"{size.more} at the last; {size.groups} groups of {size.chains} chains for each tau, seed {args.seed}"
    )
    report.say(table(rows, COLUMNS) + "\n\n" + LEGEND)
    if steps:
        report.say("\nthe same without the steps after the ladder, for ladders of several lengths")
        report.say(table(steps, STEPS_COLUMNS))
    report.rows([{"study": "taus", "levels": size.levels, **row} for row in rows])
    named = {name.replace(", ", "_").replace(" ", "_"): value for name, value in shown.items()}
    np.savez_compressed(report.out / "images.npz", allow_pickle=False, taus=np.asarray(TAUS), **named)
    _write_steps(report, steps)
    _plot(report, shown, rows, steps)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


class _Bench:
    """Data, networks and runs at one place."""

    def __init__(self, known: Digits, tested: Digits, device: DeviceDtype, size: Size, seed: int) -> None:
        self.known, self.device, self.size, self.seed = known, device, size, seed
        self.mean = np.asarray(np.mean(known.images, axis=0, dtype=np.float64))
        variances, self.basis = np.linalg.eigh(np.cov(known.images.T, dtype=np.float64))
        self.networks = Networks(tuple(np.maximum(variances, 1e-4 * np.mean(variances)).tolist()))
        self.empty = np.var(known.images, axis=0) < 1e-4
        images = tested.images[np.random.default_rng(seed).permutation(len(tested.images))]
        self.held_out, self.others = images[: len(images) // 2], images[len(images) // 2 :]
        self.sigmas = tuple(np.geomspace(LARGEST, SMALLEST, size.levels).tolist())
        self.score: Any = None
        self.acceptance: Any = None

    def train(self, report: Report) -> None:
        """The score network, then the acceptance network on its scores."""
        begun, size, networks = time.perf_counter(), self.size, self.networks
        standard = [self.device.array((a - self.mean) @ self.basis) for a in (self.known.images, self.held_out[:250])]
        settings: dict[str, Any] = {
            "seed": self.seed,
            "batch_size": min(BATCH, len(self.known.images)),
            "steps_per_epoch": UPDATES,
            "validation": standard[1],
            "progress": False,
        }
        start = networks.init_score(size.hidden, self.seed)
        matching = AnnealedDenoising(self.sigmas, networks.score)
        fitted = fit(matching, start, standard[0], epochs=size.epochs, optimizer=Adam(5e-4), **settings)
        self.score, middle = fitted.parameters, time.perf_counter()
        report.say(f"score: {_told(fitted)}, {middle - begun:.0f} s")
        balance = LevelBalance(self.sigmas, TAUS, networks, self.score, REGULARIZATION, MAX_NORM)
        start = networks.init_acceptance(size.hidden // 2, self.seed + 1)
        settings["batch_size"] //= 4
        fitted = fit(balance, start, standard[0], epochs=size.balance_epochs, optimizer=Adam(5e-4), **settings)
        self.acceptance = fitted.parameters
        report.say(f"acceptance: {_told(fitted)}, {time.perf_counter() - middle:.0f} s")

    def _kernel(self, method: str, taus: Array) -> tuple[Kernel, Acceptance]:
        """A method's kernel and its acceptance, for tau of shape (taus, 1)."""
        if method == "ULA, steps by norm":
            return NormULA(taus), ByDensity()
        eta = 2.0 * taus * taus
        if method in ("ULA", "ULA, known mixture"):
            return ULA(eta), ByDensity()
        if method == "MALA, known mixture":
            return MALA(eta), ByDensity()
        held = {"layers": self.acceptance, "tau": taus}
        return MALA(eta), {
            "MALA, line integral": LineIntegral(NODES),
            "MALA, Taylor": Taylor(),
            "MALA, learned, direct": LearnedAtLevels(held, self.networks, direct=True),
            "MALA, learned, ratio": LearnedAtLevels(held, self.networks, direct=False),
        }[method]

    def anneal(self, method: str, sigmas: tuple[float, ...], more: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images (taus, groups * chains, dim), and the acceptance on the ladder and after it, (taus,)."""
        base, acceptance = self._kernel(method, self.device.array(np.asarray(TAUS)[:, None]))
        if method.endswith("known mixture"):
            components = (self.known.images[:KNOWN] - self.mean) @ self.basis
            target = smoothed_mixture(np.ones(len(components)), components, 1e-3, sigmas[0])
        else:
            data = {"sigma": np.asarray(sigmas[0]), "layers": self.score}
            target = Target(None, score=self._score_at_level, data=data, acceptance=acceptance)
        shape = (len(TAUS), self.size.groups * self.size.chains, len(self.mean))
        x = self.device.array(sigmas[0] * np.random.default_rng(self.seed).standard_normal(shape))
        settings: dict[str, Any] = {"recorders": (Draws(), Statistics()), "progress": False}
        trace = sample(target, Annealed(base, sigmas), x, 1, thinning=len(sigmas), seed=self.seed, **settings)
        accepted = [np.mean(to_host(trace.run_statistics.acceptance_probability), axis=-1)]
        if more:
            last = Annealed(base, sigmas[-1:], 10)
            begin = trace.state.point.x
            trace = sample(target, last, begin, 1, thinning=more // 10, seed=self.seed + 1, **settings)
            accepted.append(np.mean(to_host(trace.run_statistics.acceptance_probability), axis=-1))
        images = self.mean + to_host(trace.state.point.x).astype(np.float64) @ self.basis.T
        return images, accepted[0], accepted[-1]

    def _score_at_level(self, x: Array, data: dict[str, Any]) -> Array:
        return self.networks.score(x, data["sigma"], data["layers"])

    def compare(self, method: str) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Rows of all taus, and images (taus, 10, dim)."""
        begun = time.perf_counter()
        images, annealing, final = self.anneal(method, self.sigmas, self.size.more)
        seconds = (time.perf_counter() - begun) / len(TAUS)
        rows = [
            {"method": method, "tau": tau, **self.measure(images[k])}
            | {"annealing": float(annealing[k]), "final": float(final[k]), "seconds": seconds}
            for k, tau in enumerate(TAUS)
        ]
        return rows, images[:, :10].astype(np.float32)

    def ladders(self, method: str) -> list[dict[str, Any]]:
        """W1 for ladders of several lengths, nothing after them."""
        rows = []
        for levels in self.size.ladders:
            sigmas = tuple(np.geomspace(LARGEST, SMALLEST, levels).tolist())
            images = self.anneal(method, sigmas, 0)[0]
            rows += [
                {"method": method, "levels": levels, "tau": tau, "w1": self.measure(images[k])["w1"]}
                for k, tau in enumerate(TAUS)
            ]
        return rows

    def measure(self, images: np.ndarray) -> dict[str, Any]:
        """Of images (groups * chains, dim), group by group."""
        lost = ~np.all(np.abs(images) < BOUND, axis=-1)  # false for what is not a number
        images = np.where(lost[:, None], BOUND, images)
        groups = images.reshape(self.size.groups, -1, images.shape[-1])
        against = np.broadcast_to(self.held_out, (len(groups), *self.held_out.shape))
        w1 = wasserstein(groups, against)
        found = classify(groups, self.known)
        shares = class_shares(found.labels, CLASSES, np.zeros(()))
        return {
            "w1": float(np.mean(w1)),
            "w1_sd": float(np.std(w1, ddof=1)),
            "mmd": float(np.mean([squared_mmd(g, self.held_out.astype(np.float64)) for g in groups])),
            "classes": float(np.mean(classes_covered(shares))),
            "tv": float(np.mean(tv_to_uniform(shares))),
            "distance": float(np.mean(found.distance)),
            "noise": float(np.std(images[:, self.empty] - self.mean[self.empty])) / SMALLEST,
            "frozen": float(np.mean(lost)),
        }

    def floors(self) -> list[dict[str, Any]]:
        """Rows of other held-out images, clean and with the noise of the last level."""
        rng, count = np.random.default_rng(self.seed + 2), self.size.groups * self.size.chains
        clean = self.others[rng.choice(len(self.others), count, replace=len(self.others) < count)].astype(np.float64)
        noisy = clean + SMALLEST * rng.standard_normal(clean.shape)
        rest = {"tau": 0.0, "annealing": 1.0, "final": 1.0, "seconds": 0.0}
        mixture = self.known.images[rng.integers(KNOWN, size=count)] + SMALLEST * rng.standard_normal(clean.shape)
        named = {"held-out images": clean, "the same, with noise": noisy, "known mixture": mixture}
        return [{"method": name, **self.measure(images), **rest} for name, images in named.items()]


def _told(fitted: Fitted) -> str:
    losses: Any = fitted.validation_losses
    return f"{len(losses) * UPDATES} updates, held-out loss {losses[0]:.2f} after {UPDATES}, {min(losses):.2f} at best"


def _write_steps(report: Report, steps: list[dict[str, Any]]) -> None:
    lines = [",".join(STEPS_COLUMNS), *(",".join(f'"{v}"' for v in row.values()) for row in steps)]
    (report.out / "steps.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _plot(
    report: Report, shown: dict[str, np.ndarray], rows: list[dict[str, Any]], steps: list[dict[str, Any]]
) -> None:
    try:
        from xpsample.experiments.score_mh.digits_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out, shown, TAUS, rows, steps)
