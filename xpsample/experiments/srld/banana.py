"""SRLD paper, Section 6.1: Langevin dynamics and SRLD on a correlated density in the plane, with the same noise.

All repeats of a sampler are one batched run. Langevin's step is scaled, repeat by repeat, so that the root mean square
of its drift is SRLD's, as in the authors' code.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.srld.problems import MMD, correlated, exact_draws
from xpsample.kernels import ULA, Kernel
from xpsample.metrics import (
    autocorrelation,
    chain_ess,
    marginal_wasserstein,
    squared_mmd,
    wasserstein,
)
from xpsample.metrics.stein import RBF, Bandwidth, Median, MedianFromPoint
from xpsample.run.recorders import Draws, Record, Recorder
from xpsample.run.sampling import sample
from xpsample.srld import SRLD, Thinned

ETA, ALPHA, DROPPED = 0.01, 10.0, 100
W1_EVERY = 4
"""Every which draw the exact distance takes, whose cost is cubic."""


class Setting(NamedTuple):
    """A way to run SRLD: whether it is padded, and its bandwidth rule."""

    padded: bool
    bandwidth: Bandwidth


SETTINGS = {"Eq. 3, App. A": Setting(False, Median()), "authors' code": Setting(True, MedianFromPoint())}


class Size(NamedTuple):
    """Repeats, steps of each, M, and draws of the target to compare with."""

    repeats: int
    steps: int
    past: int
    exact: int


FULL = Size(repeats=20, steps=2000, past=100, exact=2000)
QUICK = Size(repeats=3, steps=300, past=10, exact=200)

LEGEND = """\
MMD^2   unbiased, with k = exp(-0.1 d^2), against draws of the target; the paper's "MMD"
marg W1 sum of the Wasserstein-1 distances of the two marginals; the paper's "W1"
W1      the Wasserstein-1 distance itself, from every fourth draw
ESS     of a chain's mean, averaged over coordinates
All but eta are means over repeats +- the standard error. SRLD - LD is paired, with a 95 % interval"""


def starts(repeats: int, rng: np.random.Generator, dim: int = 2) -> np.ndarray:
    """N(2, 1) cut off two standard deviations from its mean, in every coordinate, (repeats, dim)."""
    z = rng.standard_normal((1000, repeats, dim))
    first = np.argmax(np.abs(z) < 2, axis=0)
    return 2 + np.take_along_axis(z, first[None], axis=0)[0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srld-banana", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    report.say("Correlated density in the plane; SRLD paper, Section 6.1")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.repeats} repeats of {size.steps} steps, the first {DROPPED} dropped; eta = {ETA}, alpha = {ALPHA:g}, "
        f"M = {size.past}, c = 1, seed {args.seed}"
    )
    rng = np.random.default_rng(args.seed)
    x0, truth = starts(size.repeats, rng), exact_draws(size.exact, rng)
    results, shown = [], {}
    where = widest(device_dtypes(names))
    for device in where:
        for name, setting in SETTINGS.items():
            srld, ratio = _run(device, x0, size, args.seed, ETA, ALPHA, setting)
            ld, _ = _run(device, x0, size, args.seed, ETA * ratio, 0.0, setting)
            both = {"SRLD": _measure(srld, truth), "LD": _measure(ld, truth)}
            for sampler, eta in (("LD", ETA * ratio), ("SRLD", np.full_like(ratio, ETA))):
                results.append(
                    {"backend": device.backend.name, "setting": name, "sampler": sampler, "eta": float(eta.mean())}
                    | _summary(both[sampler])
                )
            gain = {key: both["SRLD"][key] - both["LD"][key] for key in both["LD"]}
            results.append(
                {"backend": device.backend.name, "setting": name, "sampler": "SRLD - LD", "eta": math.nan}
                | _summary(gain)
            )
            if device is where[0]:
                shown[name] = (ld, srld)
    _tell(report, results)
    report.rows([{k: None if v != v else v for k, v in row.items()} for row in results])
    _plot(report, shown, truth)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _run(
    device: DeviceDtype, x0: np.ndarray, size: Size, seed: int, eta: Any, alpha: float, setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    """Kept draws (draw, repeat, 2), and the ratio of the RMS drifts with and without repulsion (repeat,)."""
    base = ULA(device.array(np.broadcast_to(eta, x0.shape[:1]).copy()))
    recorders: tuple[Recorder, ...] = (Draws(),)
    kernel: Kernel = base
    if alpha:
        repelled = SRLD(base, alpha, Thinned(size.past, padded=setting.padded), RBF(setting.bandwidth))
        recorders += (Record("drifts", lambda state: (state.point.score, repelled.drift(state))),)
        kernel = repelled
    trace = sample(
        correlated(),
        kernel,
        device.array(x0),
        size.steps - DROPPED,
        burn_in=DROPPED,
        seed=seed,
        recorders=recorders,
        progress=False,
    )
    draws = to_host(trace.draws).astype(np.float64)
    if not alpha:
        return draws, np.ones(len(x0))
    plain, whole = (np.sum(to_host(a).astype(np.float64) ** 2, axis=-1) for a in trace.recorded["drifts"])
    return draws, np.sqrt(np.mean(whole, axis=0) / np.mean(plain, axis=0))


def _measure(draws: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Of each repeat, (repeat,)."""
    runs = np.moveaxis(draws, 0, 1)
    exact = np.broadcast_to(truth, (len(runs), *truth.shape))
    found = {
        "mmd2": np.array([squared_mmd(x, truth, MMD) for x in runs]),
        "marginal_w1": marginal_wasserstein(runs, truth),
        "ess": np.array([chain_ess(x[:, None]).mean() for x in runs]),
        "acf10": np.mean(autocorrelation(draws, 10)[10], axis=-1),
    }
    try:
        return found | {"w1": wasserstein(runs[:, ::W1_EVERY], exact)}
    except ImportError:
        return found


def _summary(values: dict[str, np.ndarray]) -> dict[str, float]:
    out = {}
    for key, value in values.items():
        out[key] = float(np.mean(value))
        out[f"{key}_se"] = float(np.std(value, ddof=1) / math.sqrt(len(value)))
    return out


def _tell(report: Report, results: list[dict[str, Any]]) -> None:
    columns = {"mmd2": ("MMD^2", ".4f"), "marginal_w1": ("marg W1", ".3f"), "w1": ("W1", ".3f"), "ess": ("ESS", ".1f")}
    columns |= {"acf10": ("acf 10", ".3f")}
    columns = {key: value for key, value in columns.items() if key in results[0]}
    cells = []
    for row in results:
        cell = {key: row[key] for key in ("backend", "setting", "sampler")}
        cell["eta"] = "" if row["eta"] != row["eta"] else f"{row['eta']:.4f}"
        for key, (_, spec) in columns.items():
            mean, se = row[key], row[f"{key}_se"]
            if row["sampler"] == "SRLD - LD":
                cell[key] = f"{mean:{spec}} ({mean - 1.96 * se:{spec}}, {mean + 1.96 * se:{spec}})"
            else:
                cell[key] = f"{mean:{spec}} +- {se:{spec}}"
        cells.append(cell)
    heads = {key: (key, "s") for key in ("backend", "setting", "sampler", "eta")}
    report.say("\n" + table(cells, heads | {key: (head, "s") for key, (head, _) in columns.items()}) + "\n")
    report.say(LEGEND)
    if "w1" not in columns:
        report.say('no W1: it needs POT, pip install "xpsample[metrics]"')


def _plot(report: Report, shown: dict[str, tuple[np.ndarray, np.ndarray]], truth: np.ndarray) -> None:
    try:
        from xpsample.experiments.srld.banana_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", shown, truth)
