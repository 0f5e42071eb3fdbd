"""Section 5.2 of the SOSMC paper: energy models of two-dimensional data tuned to the reward of a half-plane."""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.sosmc.ebm2d_problems import DATASETS, EDGE, Grid, lower, optimum
from xpsample.kernels import MALA, ULA
from xpsample.optimize.optimizers import Adam, Clipped
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.particles.resampling import Systematic
from xpsample.run.recorders import Record
from xpsample.run.sampling import sample
from xpsample.sosmc import SOSMC, Adaptation, LangevinMove, RewardReverseKL, SOSMCHistory, Unweighted
from xpsample.zoo.networks import init_mlp, mlp, mlp_energy

BETAS = (0.25, 1.0, 4.0)
GAMMA, RATE, THRESHOLD = 5e-3, 2e-4, 0.9
ADAPT = Adaptation(0.95, 1.01, 1e-8, 0.01)


class Method(NamedTuple):
    """A move, and SOSMC's other settings."""

    move: Any
    threshold: float = 0.0
    adapt: Adaptation | None = None


METHODS = {
    "ImpDiff": Method(Unweighted(LangevinMove(GAMMA))),
    "SOSMC-ULA": Method(LangevinMove(GAMMA), THRESHOLD, ADAPT),
    "SOSMC-MALA": Method(MALA(GAMMA), THRESHOLD, ADAPT),
}

LEGEND = """\
model       expected reward of the tuned model by quadrature on the square [-6, 6]^2, to be compared with
optimum     that of the best of all distributions (Eq. 39)
error       sqrt(p (1 - p) / N) of the optimum's reward p: what N independent particles resolve
particles   mean reward of the particles (weighted where they are) after the last iteration
fresh       mean reward of new chains of ULA under the tuned model, started uniformly on the square
KL          of the tuned model from the pretrained one, by quadrature; and of the optimum
loss        -reward + beta KL, by quadrature; and its least value. Both ends can be read in the figure's plane
ess         last effective sample size of the weights over the number of particles
outside     share of the particles outside the square, where nothing was trained"""


class Size(NamedTuple):
    """Data, network, training and its sizes, tuning and its sizes, fresh chains, cells of the grid."""

    rows: int
    widths: tuple[int, ...]
    sd: float | None
    rate: float
    updates: int
    batch: int
    steps: int
    blocks: int
    particles: int
    iterations: int
    chains: int
    burn_in: int
    fresh: int
    cells: int
    datasets: tuple[str, ...] = tuple(DATASETS)
    betas: tuple[float, ...] = BETAS
    kept: int = 20


FULL = Size(20_000, (128,) * 4, 0.02, 2e-4, 19_500, 512, 80, 39, 10_000, 1000, 1000, 15_000, 5000, 240)
DEFAULT = Size(20_000, (128,) * 4, None, 1e-3, 2000, 256, 20, 16, 1000, 1000, 50, 3000, 1000, 100)
QUICK = Size(500, (16,) * 2, None, 3e-3, 200, 64, 10, 4, 200, 100, 20, 50, 50, 40, ("moons",), (0.25, 1.0), 5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "sosmc-ebm2d", backends="numpy")
    parser.add_argument("--full", action="store_true", help="the paper's sizes; for an accelerator")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, names = time.perf_counter(), args.backend or ["numpy"]
    size = QUICK if args.quick else FULL if args.full else DEFAULT
    report = Report(args.out)
    device = next(p for p in device_dtypes(names) if p.dtype == "float32")
    report.say("Reward tuning of energy models of two-dimensional data; SOSMC paper, Section 5.2")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{device}, seed {args.seed}: network 2 x {' x '.join(map(str, size.widths))} x 1; {size.updates} updates of "
        f"PCD with batches of {size.batch} and {size.steps} steps; {size.particles} particles, "
        f"{size.iterations} iterations"
    )
    grid, rows, arrays = Grid.of(size.cells), [], {"betas": np.array(size.betas)}
    for name in size.datasets:
        data = DATASETS[name].draw(size.rows, args.seed)
        start = time.perf_counter()
        theta = pretrain(data, size, device, args.seed, DATASETS[name].share)
        logs = grid.normalised(_on_grid(grid, theta, device))
        report.say(f"  {name:8} trained in {time.perf_counter() - start:.0f} s")
        arrays |= {f"{name} data": data[:: max(1, len(data) // 400)], f"{name} start": logs}
        for method in METHODS:
            found, curves = tune(method, theta, logs, grid, size, device, args.seed)
            rows += [{"dataset": name, "method": method} | row for row in found]
            arrays |= {f"{name} {method} {key}": value for key, value in curves.items()}
            report.say(f"  {name:8} {method:10} {found[0]['seconds']:6.1f} s")
    _tell(report, rows)
    report.rows(rows)
    np.savez_compressed(report.out / "curves.npz", **{k: np.asarray(v, np.float32) for k, v in arrays.items()})
    _plot(report, arrays, size)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def pretrain(data: np.ndarray, size: Size, device: DeviceDtype, seed: int, share: float) -> tree.Tree:
    """Parameters on the host, after PCD on the data (App. E.2.1)."""
    kernel = PCD(
        RowBatches(device.array(data), size.batch),
        Clipped(Adam(size.rate), 10.0),
        GAMMA,
        size.steps,
        size.blocks,
        refresh=0.05,
        low=-EDGE,
        high=EDGE,
        energy_penalty=1e-3,
        gradient_penalty=0.2,
    )
    buffer = np.random.default_rng(seed).uniform(-EDGE, EDGE, (size.blocks * size.batch, 2))
    family = mlp_energy(init_mlp((2, *size.widths, 1), seed, size.sd))
    updates = round(share * size.updates)
    trace = sample(family, kernel, device.array(buffer), updates, seed=seed, recorders=(), progress=False)
    return tree.map(to_host, trace.state.parameters)


def tune(
    name: str, theta: tree.Tree, logs: np.ndarray, grid: Grid, size: Size, device: DeviceDtype, seed: int
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """A row for each beta, all in one batched run, and their courses.

    Parameters
    ----------
    name : str
        Of the method.
    theta : tree of numpy.ndarray
        The pretrained parameters.
    logs : numpy.ndarray, shape (points,)
        Their log probabilities on the grid.
    """
    method, betas, runs = METHODS[name], np.array(size.betas), len(size.betas)
    x0 = grid.draw(logs, (runs, size.particles), np.random.default_rng(seed))
    family = mlp_energy(tree.map(lambda leaf: np.array(np.broadcast_to(leaf, (runs, 1, *leaf.shape))), theta))
    kernel = SOSMC(
        RewardReverseKL(lower, device.array(betas[:, None])),
        method.move,
        Adam(RATE),
        threshold=method.threshold,
        resampling=Systematic(),
        adapt_move=method.adapt,
    )
    history = SOSMCHistory({"reward": lower, "outside": _outside})
    every = size.iterations // size.kept
    trace = sample(
        family, kernel, device.array(x0), size.kept, thinning=every, seed=seed, recorders=(history,), progress=False
    )
    kept = trace.recorded["history"]
    course = tree.map(to_host, kept["parameters"])
    later = [_on_grid(grid, tree.map(lambda leaf, t=t: leaf[t], course), device) for t in range(size.kept)]
    tuned = grid.normalised(np.stack(later))  # (row, run, points)
    rewarded = lower(grid.points)
    reward = np.concatenate([np.full((1, runs), np.sum(np.exp(logs) * rewarded)), np.exp(tuned) @ rewarded])
    kl = np.concatenate([np.zeros((1, runs)), np.sum(np.exp(tuned) * (tuned - logs), axis=-1)])
    fresh = _fresh(trace.state.parameters, size, device, seed)
    ess, particles = to_host(kept["weight_ess"]) / size.particles, to_host(kept["reward"])
    rows = []
    for r, beta in enumerate(size.betas):
        best = optimum(float(reward[0, r]), beta)
        rows.append(
            {
                "beta": beta,
                "start": float(reward[0, r]),
                "model": float(reward[-1, r]),
                "optimum": best.reward,
                "error": (best.reward * (1 - best.reward) / size.particles) ** 0.5,
                "particles": float(particles[-1, r]),
                "fresh": float(fresh[r]),
                "kl": float(kl[-1, r]),
                "kl_optimum": best.kl,
                "loss": float(beta * kl[-1, r] - reward[-1, r]),
                "loss_optimum": best.loss,
                "ess": float(ess[-1, r]),
                "outside": float(to_host(kept["outside"])[-1, r]),
                "seconds": trace.metadata["seconds"],
            }
        )
    return rows, {"reward": reward, "kl": kl, "particles": particles, "end": tuned[-1]}


def _fresh(parameters: tree.Tree, size: Size, device: DeviceDtype, seed: int) -> np.ndarray:
    """Eq. 41: the mean reward of new chains, (runs,)."""
    x0 = np.random.default_rng(seed + 1).uniform(-EDGE, EDGE, (len(size.betas), size.chains, 2))
    kept = Record("reward", lambda state: lower(state.point.x))
    trace = sample(
        mlp_energy(parameters),
        ULA(GAMMA),
        device.array(x0),
        size.fresh,
        burn_in=size.burn_in,
        seed=seed + 1,
        recorders=(kept,),
        progress=False,
    )
    return np.mean(to_host(trace.recorded["reward"]), axis=(0, 2))


def _on_grid(grid: Grid, parameters: tree.Tree, device: DeviceDtype) -> np.ndarray:
    """f at the grid's points, (points,) or (runs, points), float64."""
    leaves = tree.map(device.array, parameters)
    points = device.array(grid.points)
    return to_host(mlp(points, leaves)).astype(np.float64)


def _outside(x: Array) -> Array:
    return array_namespace(x).astype((abs(x[..., 0]) > EDGE) | (abs(x[..., 1]) > EDGE), x.dtype)


def _tell(report: Report, rows: list[dict[str, Any]]) -> None:
    columns = {
        "dataset": ("data", "s"),
        "beta": ("beta", "g"),
        "method": ("method", "s"),
        "start": ("pretrained", ".3f"),
        "model": ("model", ".3f"),
        "optimum": ("optimum", ".3f"),
        "error": ("error", ".3f"),
        "particles": ("particles", ".3f"),
        "fresh": ("fresh", ".3f"),
        "kl": ("KL", ".3f"),
        "kl_optimum": ("of optimum", ".3f"),
        "loss": ("loss", ".4f"),
        "loss_optimum": ("least", ".4f"),
        "ess": ("ess", ".2f"),
        "outside": ("outside", ".3f"),
    }
    ordered = sorted(rows, key=lambda row: (list(DATASETS).index(row["dataset"]), row["beta"]))
    report.say("\n" + table(ordered, columns) + "\n\n" + LEGEND + "\n")


def _plot(report: Report, arrays: dict[str, np.ndarray], size: Size) -> None:
    try:
        from xpsample.experiments.sosmc.ebm2d_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", arrays, size.datasets)
