"""Section 5.2 of the SOSMC paper: energy models of two-dimensional data tuned to the reward of a half-plane."""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.sosmc.ebm2d_figures import networks, plot, plot_densities, plot_mixing, plot_short, rows_along
from xpsample.experiments.sosmc.ebm2d_problems import DATASETS, EDGE, REWARDS, Grid, optimum
from xpsample.experiments.sosmc.ebm2d_tilts import COLUMNS as TILTED
from xpsample.experiments.sosmc.ebm2d_tilts import LEGEND as TILTED_LEGEND
from xpsample.experiments.sosmc.ebm2d_tilts import TILTS, plot_tilts, tune_tilts
from xpsample.experiments.sosmc.methods import THRESHOLD, Method, WithNorms
from xpsample.experiments.table import Row, columns
from xpsample.kernels import MALA, ULA
from xpsample.optimize.optimizers import Adam, Clipped
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.particles.resampling import Systematic
from xpsample.sosmc import Adaptation, LangevinMove, RewardReverseKL, SOSMCHistory, Unweighted
from xpsample.trace.recorders import Draws
from xpsample.zoo.networks import init_mlp, mlp, mlp_energy

BETAS = (0.25, 1.0, 4.0)
GAMMA, RATE = 5e-3, 2e-4
PATH = 100
"""Positions that are kept of a new chain."""
ADAPT = Adaptation(0.95, 1.01, 1e-8, 0.01)


METHODS = {
    "ImpDiff": Method(Unweighted(LangevinMove(GAMMA))),
    "SOSMC-ULA": Method(LangevinMove(GAMMA), THRESHOLD, ADAPT),
    "SOSMC-MALA": Method(MALA(GAMMA), THRESHOLD, ADAPT),
}

COLUMNS = columns(
    "dataset s data | beta g | method | start .3f pretrained | model .3f | optimum .3f | error .3f | "
    "particles .3f | fresh .3f | soon .3f | kl .3f KL | kl_optimum .3f of optimum | loss .4f | loss_optimum .4f least"
    " | ess .2f | outside .3f | gradient .3f | varies .2f"
)
LEGEND = """\
model       expected reward of the tuned model by quadrature on the square [-6, 6]^2, to be compared with
optimum     that of the best of all distributions (Eq. 39)
error       sqrt(p (1 - p) / N) of the optimum's reward p: what N independent particles resolve
particles   mean reward of the particles (weighted where they are) after the last iteration
fresh       mean reward of new chains of ULA under the tuned model, started uniformly on the square, after their
            burn-in; soon: in the first eighth of it. All methods have the same starts and noise
KL          of the tuned model from the pretrained one, by quadrature; and of the optimum
loss        -reward + beta KL, by quadrature; and its least value. Both ends can be read in the figure's plane
ess         last effective sample size of the weights over the number of particles
outside     share of the particles outside the square, where nothing was trained
gradient    mean norm of the estimated gradients over the iterations; varies: their standard deviation over the mean"""
PAPER = """\
figures only: SOSMC-ULA reaches lower losses than ImpDiff for small beta (Figs. 3 and A.13)"""


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
    datasets: tuple[str, ...] = (*DATASETS, TILTS)
    betas: tuple[float, ...] = BETAS
    kept: int = 20


PAPER_SIZE = Size(20_000, (128,) * 4, 0.02, 2e-4, 19_500, 512, 80, 39, 10_000, 1000, 1000, 15_000, 5000, 240)
FULL = Size(20_000, (128,) * 4, None, 1e-3, 2000, 256, 20, 16, 1000, 1000, 50, 3000, 1000, 100)
QUICK = Size(500, (16,) * 2, None, 3e-3, 200, 64, 10, 4, 200, 100, 20, 50, 50, 40, ("moons", TILTS), (0.25, 1.0), 5)


def options(parser: argparse.ArgumentParser) -> None:
    """The half-plane, data sets, and more or fewer particles."""
    parser.add_argument("--reward", choices=tuple(REWARDS), default="lower", help="half-plane (default: %(default)s)")
    parser.add_argument(
        "--data", action="append", choices=(*DATASETS, TILTS), help="may be given several times (default: all)"
    )
    parser.add_argument("--particles", type=int, metavar="N", help=f"particles (default: {FULL.particles})")


def measure(run: Run[Size]) -> Iterator[Row]:
    """All data sets and methods, the betas of a method in one batched run; densities and courses are left too."""
    particles = check_count("--particles", run.args.particles or run.size.particles, 1)
    datasets = tuple(run.args.data or run.size.datasets)
    run.size = run.size._replace(particles=particles, datasets=datasets)
    size, seed, device = run.size, run.seed, run.devices[0]
    run.say(
        f"network 2 x {' x '.join(map(str, size.widths))} x 1; {size.updates} updates of PCD with batches of "
        f"{size.batch} and {size.steps} steps; {size.particles} particles, {size.iterations} iterations"
    )
    grid, arrays = Grid.of(size.cells), run.shown
    arrays["betas"] = np.array(size.betas)
    for name in networks(run):
        data = DATASETS[name].draw(size.rows, seed)
        theta = pretrain(run, name, data)
        logs = grid.normalised(_on_grid(grid, theta, device))
        arrays |= {f"{name} data": data[:: max(1, len(data) // 400)], f"{name} start": logs}
        for method in METHODS:
            found, curves = tune(run, name, method, theta, logs, grid)
            yield from found
            arrays |= {f"{name} {method} {key}": value for key, value in curves.items()}
    if TILTS in size.datasets:
        yield from tune_tilts(run, METHODS)
    run.save("curves", **{key: np.asarray(value, np.float32) for key, value in arrays.items()})


def pretrain(run: Run[Size], name: str, data: np.ndarray) -> tree.Tree:
    """Parameters on the host, after PCD on the data (App. E.2.1)."""
    size, device = run.size, run.devices[0]
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
    buffer = np.random.default_rng(run.seed).uniform(-EDGE, EDGE, (size.blocks * size.batch, 2))
    family = mlp_energy(init_mlp((2, *size.widths, 1), run.seed, size.sd))
    updates = round(DATASETS[name].share * size.updates)
    trace = run.sample(family, kernel, device.array(buffer), updates, recorders=(), label=f"{name}, pretraining")
    return tree.map(to_host, trace.state.parameters)


def tune(
    run: Run[Size], dataset: str, name: str, theta: tree.Tree, logs: np.ndarray, grid: Grid
) -> tuple[list[Row], dict[str, np.ndarray]]:
    """A row for each beta, all in one batched run, and their courses.

    `theta` are the pretrained parameters, and `logs` (points,) their log probabilities on the grid.
    """
    size, device, betas, runs = run.size, run.devices[0], np.array(run.size.betas), len(run.size.betas)
    inside = REWARDS[run.args.reward]
    x0 = grid.draw(logs, (runs, size.particles), np.random.default_rng(run.seed))
    loss = RewardReverseKL(inside, device.array(betas[:, None]))
    trace = run.sample(
        mlp_energy(tree.map(lambda leaf: np.array(np.broadcast_to(leaf, (runs, 1, *leaf.shape))), theta)),
        METHODS[name].kernel(loss, WithNorms(Adam(RATE)), Systematic()),
        device.array(x0),
        size.kept,
        thinning=size.iterations // size.kept,
        recorders=(SOSMCHistory({"reward": inside, "outside": _outside}),),
        label=f"{dataset}, {name}",
    )
    kept = trace.recorded["history"]
    course = tree.map(to_host, kept["parameters"])
    later = [_on_grid(grid, tree.map(lambda leaf, t=t: leaf[t], course), device) for t in range(size.kept)]
    tuned = grid.normalised(np.stack(later))  # (row, run, points)
    rewarded = inside(grid.points)
    reward = np.concatenate([np.full((1, runs), np.sum(np.exp(logs) * rewarded)), np.exp(tuned) @ rewarded])
    kl = np.concatenate([np.zeros((1, runs)), np.sum(np.exp(tuned) * (tuned - logs), axis=-1)])
    paths = _fresh(run, trace.state.parameters, f"{dataset}, {name}, new chains")
    share, burnt = np.mean(inside(paths), axis=-1), _row_of(size, size.burn_in)
    earlier = tree.map(lambda leaf: leaf[rows_along(size.kept)[:-1]], course)
    along = _fresh(run, earlier, f"{dataset}, {name}, new chains along the tuning")
    short = np.mean(inside(np.concatenate([along, paths[:, None]], axis=1)[burnt // 6 :]), axis=(0, -1))
    fresh, soon = np.mean(share[burnt:], axis=0), np.mean(share[: max(1, burnt // 8)], axis=0)
    ess, particles = to_host(kept["weight_ess"]) / size.particles, to_host(kept["reward"])
    norm, norm_sd = trace.state.optimizer.mean_and_sd()
    rows = []
    for r, beta in enumerate(size.betas):
        best = optimum(float(reward[0, r]), beta)
        rows.append(
            {
                "dataset": dataset,
                "method": name,
                "beta": beta,
                "start": reward[0, r],
                "model": reward[-1, r],
                "optimum": best.reward,
                "error": (best.reward * (1 - best.reward) / size.particles) ** 0.5,
                "particles": particles[-1, r],
                "fresh": fresh[r],
                "soon": soon[r],
                "kl": kl[-1, r],
                "kl_optimum": best.kl,
                "loss": beta * kl[-1, r] - reward[-1, r],
                "loss_optimum": best.loss,
                "above": beta * kl[-1, r] - reward[-1, r] - best.loss,
                "ess": ess[-1, r],
                "outside": to_host(kept["outside"])[-1, r],
                "gradient": norm[r],
                "varies": norm_sd[r] / norm[r],
                "seconds": trace.metadata["seconds"],
            }
        )
    courses = {"reward": reward, "kl": kl, "particles": particles, "short": short}
    return rows, courses | {"end": tuned[-1], "paths": paths[:, 0]}


def _row_of(size: Size, step: int) -> int:
    """Number of rows of the new chains' positions before a step."""
    return step * PATH // (size.burn_in + size.fresh)


def _fresh(run: Run[Size], parameters: tree.Tree, label: str) -> np.ndarray:
    """Positions of new chains for Eq. 41, (PATH, *runs, chains, 2), from the first steps on."""
    size, seed = run.size, run.seed + 1
    x0 = np.random.default_rng(seed).uniform(-EDGE, EDGE, (len(size.betas), size.chains, 2))
    runs = parameters[0].bias.shape[:-2]
    trace = run.sample(
        *(mlp_energy(parameters), ULA(GAMMA), run.devices[0].array(np.broadcast_to(x0, (*runs, *x0.shape[1:]))), PATH),
        thinning=(size.burn_in + size.fresh) // PATH,
        seed=seed,
        recorders=(Draws(),),
        label=label,
    )
    return to_host(trace.draws)


def _on_grid(grid: Grid, parameters: tree.Tree, device: DeviceDtype) -> np.ndarray:
    """f at the grid's points, (points,) or (runs, points), float64."""
    leaves = tree.map(device.array, parameters)
    points = device.array(grid.points)
    return to_host(mlp(points, leaves)).astype(np.float64)


def _outside(x: Array) -> Array:
    return array_namespace(x).astype((abs(x[..., 0]) > EDGE) | (abs(x[..., 1]) > EDGE), x.dtype)


def tell(run: Run[Size], rows: list[Row]) -> None:
    """The table, the methods of a data set and a beta next to each other, and the one of the tilts."""
    ordered = sorted(rows, key=lambda row: (run.size.datasets.index(row["dataset"]), row["beta"]))
    tilted = [row for row in ordered if row["dataset"] == TILTS]
    if len(tilted) < len(ordered):
        trained = [row for row in ordered if row["dataset"] != TILTS]
        run.table(trained, COLUMNS, ("dataset", "beta", "method"), legend=LEGEND)
    if tilted:
        run.table(tilted, TILTED, ("beta", "method"), "tilts of the blobs, three parameters", TILTED_LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """By method, how far the loss is above the least one, and the particles from the model that they tune."""
    lines = []
    kinds = {TILTS: "tilts"}
    for kind in dict.fromkeys(kinds.get(row["dataset"], "networks") for row in rows):
        for method in METHODS:
            of_kind = [row for row in rows if kinds.get(row["dataset"], "networks") == kind]
            own = [row for row in of_kind if row["method"] == method]
            above = np.mean([row["above"] for row in own])
            lag = np.mean([abs(row["particles"] - row["model"]) for row in own])
            lines.append(
                f"{kind}, {method}: loss {above:.4f} above the least one on average; reward of the particles "
                f"{lag:.3f} from the model's reward"
            )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="sosmc-ebm2d",
    title="Reward tuning of energy models of two-dimensional data; SOSMC paper, Section 5.2",
    settings={"full": FULL, "quick": QUICK, "paper": PAPER_SIZE},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={
        "plot": plot,
        "densities": plot_densities,
        "mixing": plot_mixing,
        "short": plot_short,
        "tilts": plot_tilts,
    },
    options=options,
    devices=one_float32,
)
