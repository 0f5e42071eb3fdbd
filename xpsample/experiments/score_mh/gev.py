"""Score-MH paper, Appendix B: ULA, MALA and Score-MALA on GEV(0, 1, xi), against the weight of the tail.

All shapes xi, both readings of the paper's step size, and all trainings are one batched run of each sampler. Chains
start at independent draws of the target: a sampler that leaves it invariant stays at the floor, and what rises above
is bias.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import DivergenceWarning
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.score_mh.models import Trained, Training, train_acceptances, train_columns
from xpsample.kernels import MALA, ULA, Kernel
from xpsample.metrics import median_bandwidth, squared_mmd, wasserstein_1d
from xpsample.metrics.stein import RBF
from xpsample.run.sampling import sample
from xpsample.score_mh import LangevinProposal, Learned, acceptance_network, score_network
from xpsample.targets import LineIntegral, Target, Taylor
from xpsample.zoo.gev import gev, gev_quantile

SHAPES = (-0.25, 0.0, 0.25, 0.5, 0.75)
ETAS = (0.005, 0.1)
"""The paper's step size is 0.1: eta, or epsilon of which eta is half the square."""
REGULARIZATION, MAX_NORM, BOUND = 1.0, 100.0, 100.0

LEGEND = """\
floor     another draw of the target, as many
W1        between the chains' last positions and new draws, mean over trainings +- its standard error. Of the target,
          moments of order 1 / xi and above are infinite, and W1 of its own draws scatters (see the floor)
MMD^2     squared and unbiased, RBF kernel whose sigma is the median squared distance of draws
true      with the score of the target; learned: with a network trained on draws
direct    accepted with a(x', x), the paper's; ratio: with min(1, a / a back); line: the line integral, 8 nodes
frozen    share of ULA's chains that left the support or the finite numbers, and stay where they were before"""


class Size(NamedTuple):
    """Trainings, chains and steps of each, rows of data; of the networks batch, width, updates of scores and others."""

    runs: int
    chains: int
    steps: int
    rows: int
    batch: int
    hidden: int
    updates: int
    acceptance_updates: int
    shapes: tuple[float, ...] = SHAPES


FULL = Size(3, 400, 300, 10_000, 128, 32, 3000, 500)
QUICK = Size(2, 80, 30, 200, 16, 8, 20, 10, (-0.25, 0.5))


class Sampler(NamedTuple):
    """What it is called, its kernel, and the target."""

    name: str
    score: str
    kernel: Kernel
    target: Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "score-mh-gev", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # counted in the rows
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, size = time.perf_counter(), QUICK if args.quick else FULL
    report, names = Report(args.out), args.backend or ["numpy"]
    device = next(p for p in device_dtypes(names) if p.dtype == "float32")
    report.say("Generalised extreme value distributions GEV(0, 1, xi); Score-MH paper, Appendix B")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{device}, seed {args.seed}: {size.runs} trainings, {size.chains} chains of {size.steps} steps on each, from "
        "draws of the target"
    )
    rng, shape = np.random.default_rng(args.seed), (len(size.shapes), size.runs, size.chains)
    xi = np.asarray(size.shapes)[:, None, None]
    start, fresh, other = (gev_quantile(rng.random(shape), xi) for _ in range(3))
    samplers, told = build(size, device, args.seed)
    report.say(told)
    rows = _rows(size, "floor", "", np.stack([other] * len(ETAS)), fresh)
    for sampler in samplers:
        x0 = device.array(np.broadcast_to(start[..., None], (len(ETAS), *shape, 1)))
        trace = sample(sampler.target, sampler.kernel, x0, 1, thinning=size.steps, seed=args.seed, progress=False)
        x = to_host(trace.draws)[0, ..., 0].astype(np.float64)
        rows += _rows(size, sampler.name, sampler.score, x, fresh, trace)
    report.say("\n" + _table(rows, size) + "\n\n" + LEGEND)
    report.rows([{k: None if v != v else v for k, v in row.items()} for row in rows])
    _plot(report, rows)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def build(size: Size, device: DeviceDtype, seed: int) -> tuple[list[Sampler], str]:
    """All samplers, for positions (eta, shape, runs, chains, 1), and a line on the training."""
    shapes, runs = np.asarray(size.shapes), size.runs
    networks = len(shapes) * runs
    rng = np.random.default_rng([seed, 1])
    data = gev_quantile(rng.random((size.rows, len(shapes))), shapes)
    scores = train_columns(data, runs, Training(size.hidden, 0, size.updates, size.batch, 1e-3), device, seed)
    by_shape = tree.map(lambda leaf: to_host(leaf).reshape(len(shapes), runs, *leaf.shape[1:]), scores.parameters)

    eta = np.asarray(ETAS)
    flat_eta = np.repeat(eta, networks * size.batch)
    proposal = LangevinProposal(device.array(flat_eta))
    # One fixed batch for each network, (eta, shape, run, row), with new proposals in every update.
    one = gev_quantile(rng.random((len(shapes), runs, size.batch)), shapes[:, None, None])
    batch = np.broadcast_to(one, (len(eta), *one.shape)).reshape(-1, 1)
    how = Training(size.hidden, 2, size.acceptance_updates, size.batch, 5e-4)
    true = gev(np.tile(np.repeat(shapes, runs), len(eta))[:, None])
    tiled = tree.map(lambda leaf: np.concatenate([to_host(leaf)] * len(eta)), scores.parameters)

    def trained(score: Callable[..., Array], parameters: tree.Tree) -> Trained:
        return train_acceptances(
            batch,
            proposal,
            bounded(score),
            parameters,
            len(eta) * networks,
            how,
            device,
            seed,
            whole=True,
            regularization=REGULARIZATION,
            max_norm=MAX_NORM,
        )

    steps = device.array(eta[:, None, None, None])
    target = gev(shapes[:, None, None])
    learned = Target(None, score=score_network, data=by_shape)
    assert true.score is not None
    on_true, on_learned = trained(true.score, true.data), trained(score_network, tiled)

    def own(found: Trained) -> Learned:
        parameters = tree.map(
            lambda leaf: to_host(leaf).reshape(len(eta), len(shapes), runs, *leaf.shape[1:]), found.parameters
        )
        return Learned(acceptance_network, parameters, LangevinProposal(steps), direct=True)

    samplers = [
        Sampler("ULA", "true", ULA(steps), target),
        Sampler("MALA", "true", MALA(steps), target),
    ]
    for name, base, found in (("true", target, on_true), ("learned", learned, on_learned)):
        if name == "learned":
            samplers.append(Sampler("ULA", name, ULA(steps), learned))
        direct = own(found)
        for label, acceptance in (
            ("direct", direct),
            ("ratio", replace(direct, direct=False)),
            ("line", LineIntegral(8)),
            ("Taylor", Taylor(1)),
        ):
            by_score = Target(None, score=base.score, data=base.data, acceptance=acceptance)
            samplers.append(Sampler(f"MALA {label}", name, MALA(steps), by_score))
    told = (
        f"score networks 1 x {size.hidden} x {size.hidden}, {size.updates} updates, {scores.seconds:.0f} CPU s; "
        f"acceptance networks of 2 blocks of {size.hidden}, {size.acceptance_updates} updates, "
        f"{on_true.seconds:.0f} CPU s on true scores and {on_learned.seconds:.0f} on learned ones"
    )
    return samplers, told


def bounded(score: Callable[..., Array]) -> Callable[..., Array]:
    """A score for training: 0 outside of the support, and clipped where it diverges at its edge (Algorithm 1)."""

    def clipped(x: Array, *parameters: tree.Tree) -> Array:
        xp, s = array_namespace(x), score(x, *parameters)
        return xp.clip(xp.where(xp.isnan(s), xp.zeros_like(s), s), -BOUND, BOUND)

    return clipped


def _rows(
    size: Size, sampler: str, score: str, x: np.ndarray, fresh: np.ndarray, trace: Any = None
) -> list[dict[str, Any]]:
    """A row for each step size and shape, of positions (eta, shape, runs, chains)."""
    rows = []
    for e, eta in enumerate(ETAS):
        for k, shape in enumerate(size.shapes):
            kernel = RBF(float(median_bandwidth(fresh[k, 0][:, None])))
            values = {
                "w1": np.asarray(wasserstein_1d(x[e, k], fresh[k])),
                "mmd2": np.asarray(squared_mmd(x[e, k][..., None], fresh[k][..., None], kernel)),
            }
            row: dict[str, Any] = {"eta": eta, "shape": shape, "sampler": sampler, "score": score}
            for key, value in values.items():
                row[key] = float(np.mean(value))
                row[f"{key}_se"] = float(np.std(value, ddof=1) / math.sqrt(len(value)))
            row["accept"] = row["frozen"] = math.nan
            if trace is not None:
                accepted = np.broadcast_to(to_host(trace.run_statistics.acceptance_probability), x.shape)
                row["accept"] = float(np.mean(accepted[e, k]))
                frozen = np.broadcast_to(trace.run_statistics.diverged > 0, x.shape)
                row["frozen"] = float(np.mean(frozen[e, k])) if sampler == "ULA" else math.nan
            rows.append(row)
    return rows


def _table(rows: list[dict[str, Any]], size: Size) -> str:
    """For each step size, a line for each sampler and a column for each shape."""
    parts = []
    for eta in ETAS:
        for key, title, spec in (("w1", "W1", ".3f"), ("mmd2", "MMD^2", ".4f"), ("accept", "acceptance", ".3f")):
            cells: dict[tuple[str, str], dict[str, str]] = {}
            for row in rows:
                if row["eta"] != eta or (key == "accept" and row["sampler"] in ("floor", "ULA")):
                    continue
                name = (row["sampler"], row["score"])
                cell = cells.setdefault(name, {"sampler": name[0], "score": name[1]})
                form = spec if abs(row[key]) < 1e4 else ".1e"  # of chains that went far out
                error = f" +- {row[f'{key}_se']:{form}}" if f"{key}_se" in row else ""
                cell[f"{row['shape']:g}"] = f"{row[key]:{form}}{error}"
            columns = {"sampler": ("sampler", "s"), "score": ("score", "s")}
            columns |= {f"{shape:g}": (f"xi = {shape:g}", "s") for shape in size.shapes}
            parts.append(f"eta = {eta:g}: {title}\n" + table(list(cells.values()), columns))
        frozen = [row for row in rows if row["eta"] == eta and row["sampler"] == "ULA"]
        told = ", ".join(f"{row['score']} score, xi = {row['shape']:g}: {row['frozen']:.3f}" for row in frozen)
        parts.append(f"frozen chains of ULA: {told}")
    return "\n\n".join(parts)


def _plot(report: Report, rows: list[dict[str, Any]]) -> None:
    try:
        from xpsample.experiments.score_mh.gev_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", rows)
