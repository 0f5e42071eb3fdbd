"""SRLD paper, Appendix B: a mixture in the plane, a Gaussian in 100 dimensions, a mixture in 20, against alpha.

All repeats at all strengths of a problem are one batched run, in which every strength sees the same noise. A second run
is Langevin dynamics with its step scaled, for each strength and repeat, so that the root mean square of its drift is
SRLD's, as in the authors' toy code.
"""

import argparse
import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.srld.matched import SETTINGS, Setting, starts
from xpsample.experiments.srld.problems import MMD, Shown
from xpsample.kernels import ULA, Kernel, Trait
from xpsample.metrics import (
    autocorrelation,
    chain_ess,
    marginal_wasserstein,
    median_bandwidth,
    squared_mmd,
    wasserstein,
)
from xpsample.metrics.stein import RBF
from xpsample.run.recorders import Draws, Record, Recorder
from xpsample.run.sampling import sample
from xpsample.srld import SRLD, Thinned
from xpsample.targets import BoundTarget, Capability, Target
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.mixture import gaussian_mixture

CODE = "authors' code"
"""Of `SETTINGS`, the one that is run by default: the other's bandwidth sorts all pairs of the past in every step."""

W1_EVERY, W1_EXACT = 2, 500
"""Every which draw the exact distance takes, and how many draws of the target: its cost is cubic."""


class Problem(NamedTuple):
    """A target of Appendix B: what it is made of, how it is run, and the strengths, which end with 0."""

    dim: int
    means: tuple[float, ...]
    variance: float
    eta: float
    every: int
    draws: int
    repeats: int
    alphas: tuple[float, ...]

    def target(self) -> Target:
        """The mixture of N(m 1, variance I), with equal weights, over its means m."""
        if self.means == (0.0,):
            return gaussian(self.variance * np.eye(self.dim))
        means = np.asarray(self.means)[:, None] * np.ones(self.dim)
        return gaussian_mixture(np.ones(len(means)), means, math.sqrt(self.variance))

    @property
    def square(self) -> float:
        """The mean square of a coordinate."""
        return self.variance + float(np.mean(np.square(self.means)))

    def exact(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, (count, dim)."""
        centres = rng.choice(self.means, size=count)
        return centres[:, None] + math.sqrt(self.variance) * rng.standard_normal((count, self.dim))


PROBLEMS = {
    "mixture, d = 2": Problem(2, (1.0, -1.0), 1.0, 1e-3, 100, 1000, 20, (10.0, 0.0)),
    "Gaussian, d = 100": Problem(100, (0.0,), 0.5, 1e-2, 10, 1000, 5, (100.0, 50.0, 20.0, 10.0, 0.0)),
    "mixture, d = 20": Problem(20, (0.1**0.5, -(0.1**0.5)), 1.0, 1e-3, 100, 1000, 5, (20.0, 10.0, 5.0, 0.0)),
}
"""The paper gives dimensions, means, strengths and thinning; step sizes and draws are those of the authors' toy code,
the Gaussian's step size that of its other unimodal target. The paper has 20 repeats throughout."""


class Size(NamedTuple):
    """Repeats (None: the problem's), the share of its draws that is made, M, draws dropped, draws to compare with."""

    repeats: int | None
    share: float
    past: int
    dropped: int
    exact: int


PAPERS = Size(repeats=20, share=1.0, past=100, dropped=100, exact=2000)
FULL = PAPERS._replace(repeats=None)
QUICK = Size(repeats=3, share=0.06, past=10, dropped=10, exact=200)

METRICS = {
    "mmd2": ("MMD^2", ".4f"),
    "mmd2_median": ("MMD^2 med", ".4f"),
    "marginal_w1": ("marg W1/d", ".4f"),
    "w1": ("W1", ".3f"),
    "square": ("x^2", ".3f"),
    "ess": ("ESS", ".0f"),
    "acf1": ("acf 1", ".3f"),
    "acf10": ("acf 10", ".3f"),
}
LEGEND = f"""\
exact     independent draws of the target, as many
LD        alpha = 0 at the same step size; LD scaled: at the one whose drift is, in the root mean square, SRLD's
MMD^2     unbiased, with k = exp(-0.1 d^2), against draws of the target; the paper's "MMD"
MMD^2 med the same with k = exp(-d^2 / sigma), sigma the median squared distance of draws of the target
marg W1/d Wasserstein-1 distance of the marginals, averaged over coordinates; d times it is the paper's "W1"
W1        the Wasserstein-1 distance itself, from every second draw, against {W1_EXACT} draws
x^2       mean square of a coordinate, over the target's: below 1 the draws are too narrow
ESS, acf  of a chain's mean, and autocorrelation at lags 1 and 10 in kept draws, averaged over coordinates
Means over repeats +- the standard error. Differences are paired, with 95 % intervals"""


@dataclass(frozen=True, eq=False)
class CommonNoise(Kernel):
    """A kernel whose chains along the first axis all see the noise of one of them."""

    base: Kernel

    @property
    def requires(self) -> Capability:
        return self.base.requires

    @property
    def traits(self) -> Trait:
        return self.base.traits

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.base.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x[:1, ...])

    def step(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        return self.base.step(target, state, noise)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srld-mixtures", backends="numpy")
    parser.add_argument(
        "--paper", action="store_true", help="20 repeats of every problem, and also the bandwidth of App. A; hours"
    )
    parser.add_argument(
        "--problem",
        action="append",
        choices=tuple(name.replace(", d = ", "-") for name in PROBLEMS),
        help="may be given several times (default: all)",
    )


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size = QUICK if args.quick else PAPERS if args.paper else FULL
    report, names = Report(args.out), args.backend or ["numpy"]
    report.say("Mixtures and a Gaussian, against alpha; SRLD paper, Appendix B")
    for line in missing(names):
        report.say(line)
    report.say(f"The first {size.dropped} draws dropped; M = {size.past}, seed {args.seed}")
    results: list[dict[str, Any]] = []
    shown: dict[str, Shown] = {}
    where = widest(device_dtypes(names))
    for device in where:
        for number, (name, problem) in enumerate(PROBLEMS.items()):
            if args.problem and name.replace(", d = ", "-") not in args.problem:
                continue
            problem = problem._replace(repeats=size.repeats or problem.repeats)
            for setting_name, setting in SETTINGS.items():
                if setting_name != CODE and not (args.paper or args.quick):
                    continue
                rows, curves = _problem(name, problem, setting, device, size, args.seed + 1000 * number)
                labels = {"backend": device.backend.name, "problem": name, "setting": setting_name}
                results += [labels | row for row in rows]
                if device is where[0]:
                    shown[f"{name}\n{setting_name}"] = curves
                kept = f"{problem.repeats} repeats of {rows[0]['draws']} draws, one in {problem.every} steps"
                report.say(f"\n{device}: {name}, {setting_name}, {kept}\n" + _table(rows))
    report.say("\n" + LEGEND)
    if "w1" not in results[0]:
        report.say('no W1: it needs POT, pip install "xpsample[metrics]"')
    report.rows([{k: None if v != v else v for k, v in row.items()} for row in results])
    _plot(report, shown)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


# ---- runs ------------------------------------------------------------------------------------------------------------


def _problem(
    name: str, problem: Problem, setting: Setting, device: DeviceDtype, size: Size, seed: int
) -> tuple[list[dict[str, Any]], Shown]:
    rng = np.random.default_rng(seed)
    x0, truth = starts(problem.repeats, rng, problem.dim), problem.exact(size.exact, rng)
    kept = round(problem.draws * size.share) - size.dropped
    plain, ratios = _run(problem, device, x0, size, kept, seed, setting, None)
    scaled, _ = _run(problem, device, x0, size, kept, seed, setting, problem.eta * ratios)
    independent = np.stack([problem.exact(kept, rng) for _ in range(problem.repeats)], axis=1)

    def measure(draws: np.ndarray) -> dict[str, np.ndarray]:
        return _measure(draws, truth, problem.square)

    ld = measure(plain[:, -1])
    rows = [_row("exact", math.nan, math.nan, measure(independent))]
    rows.append(_row("LD", 0.0, problem.eta, ld))
    shown = {"LD": plain[:, -1]}
    for i, alpha in enumerate(problem.alphas[:-1]):
        srld, fast = measure(plain[:, i]), measure(scaled[:, i])
        rows.append(_row("SRLD", alpha, problem.eta, srld))
        rows.append(_row("LD scaled", alpha, float(problem.eta * ratios[i].mean()), fast))
        rows.append(_row("SRLD - LD", alpha, math.nan, {key: srld[key] - ld[key] for key in ld}))
        rows.append(_row("SRLD - LD scaled", alpha, math.nan, {key: srld[key] - fast[key] for key in fast}))
        shown[f"SRLD, alpha = {alpha:g}"] = plain[:, i]
    if len(problem.alphas) == 2:
        shown["LD scaled"] = scaled[:, 0]
    return [{"draws": kept} | row for row in rows], Shown(shown, truth)


def _run(
    problem: Problem, device: DeviceDtype, x0: np.ndarray, size: Size, kept: int, seed: int, setting: Setting, eta: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Kept draws (draw, strength, repeat, dim), and ratios of RMS drifts with and without repulsion, both axes.

    With step sizes `eta` (strength, repeat) without repulsion.
    """
    count = len(problem.alphas)
    recorders: tuple[Recorder, ...] = (Draws(),)
    if eta is None:
        alpha = device.array(np.asarray(problem.alphas)[:, None])
        history = Thinned(size.past, problem.every, padded=setting.padded)
        repelled = SRLD(ULA(problem.eta), alpha, history, RBF(setting.bandwidth))
        recorders += (Record("drifts", lambda state: _squares(state.point.score, repelled.drift(state))),)
        kernel: Kernel = repelled
    else:
        kernel = ULA(device.array(eta))
    trace = sample(
        problem.target(),
        CommonNoise(kernel),
        device.array(np.broadcast_to(x0, (count, *x0.shape)).copy()),
        kept,
        burn_in=size.dropped * problem.every,
        thinning=problem.every,
        seed=seed,
        recorders=recorders,
        progress=False,
    )
    draws = to_host(trace.draws).astype(np.float64)
    if eta is not None:
        return draws, np.ones((count, len(x0)))
    own, whole = (to_host(a).astype(np.float64) for a in trace.recorded["drifts"])
    return draws, np.sqrt(np.mean(whole, axis=0) / np.mean(own, axis=0))


def _squares(own: Array, whole: Array) -> tuple[Array, Array]:
    """Squared lengths, (strength, repeat)."""
    xp = array_namespace(own)
    return xp.sum(own * own, axis=-1), xp.sum(whole * whole, axis=-1)


# ---- measures --------------------------------------------------------------------------------------------------------


def _measure(draws: np.ndarray, truth: np.ndarray, square: float) -> dict[str, np.ndarray]:
    """Of each repeat, (repeat,)."""
    runs, lags = np.moveaxis(draws, 0, 1), min(10, len(draws) - 1)
    acf = np.mean(autocorrelation(draws, lags), axis=-1)
    median = RBF(float(median_bandwidth(truth)))
    found = {
        "mmd2": np.array([squared_mmd(x, truth, MMD) for x in runs]),
        "mmd2_median": np.array([squared_mmd(x, truth, median) for x in runs]),
        "marginal_w1": marginal_wasserstein(runs, truth) / truth.shape[-1],
        "square": np.mean(draws**2, axis=(0, 2)) / square,
        "ess": np.array([chain_ess(x[:, None]).mean() for x in runs]),
        "acf1": acf[1],
        "acf10": acf[lags],
    }
    try:
        exact = np.broadcast_to(truth[:W1_EXACT], (len(runs), *truth[:W1_EXACT].shape))
        return found | {"w1": wasserstein(runs[:, ::W1_EVERY], exact)}
    except ImportError:
        return found


def _row(sampler: str, alpha: float, eta: float, values: dict[str, np.ndarray]) -> dict[str, Any]:
    row: dict[str, Any] = {"sampler": sampler, "alpha": alpha, "eta": eta}
    for key, value in values.items():
        row[key] = float(np.mean(value))
        row[f"{key}_se"] = float(np.std(value, ddof=1) / math.sqrt(len(value)))
    return row


def _table(rows: list[dict[str, Any]]) -> str:
    columns = {key: value for key, value in METRICS.items() if key in rows[0]}
    cells = []
    for row in rows:
        cell = {
            "sampler": row["sampler"],
            "alpha": "" if row["alpha"] != row["alpha"] else f"{row['alpha']:g}",
            "eta": "" if row["eta"] != row["eta"] else f"{row['eta']:.2e}",
        }
        for key, (_, spec) in columns.items():
            mean, se = row[key], row[f"{key}_se"]
            if " - " in row["sampler"]:
                cell[key] = f"{mean:{spec}} ({mean - 1.96 * se:{spec}}, {mean + 1.96 * se:{spec}})"
            else:
                cell[key] = f"{mean:{spec}} +- {se:{spec}}"
        cells.append(cell)
    heads = {key: (key, "s") for key in ("sampler", "alpha", "eta")}
    return table(cells, heads | {key: (head, "s") for key, (head, _) in columns.items()})


def _plot(report: Report, shown: dict[str, Shown]) -> None:
    try:
        from xpsample.experiments.srld.mixtures_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", shown)
