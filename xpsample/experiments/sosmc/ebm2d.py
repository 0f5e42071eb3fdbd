"""Section 5.2 of the SOSMC paper: energy models of two-dimensional data tuned to the reward of a half-plane."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.sosmc.ebm2d_problems import DATASETS, EDGE, Grid, lower, optimum
from xpsample.experiments.sosmc.methods import COLOURS, THRESHOLD, Method
from xpsample.experiments.table import Row, columns
from xpsample.kernels import MALA, ULA
from xpsample.optimize.optimizers import Adam, Clipped
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.particles.resampling import Systematic
from xpsample.sosmc import Adaptation, LangevinMove, RewardReverseKL, SOSMCHistory, Unweighted
from xpsample.trace.recorders import Record
from xpsample.zoo.networks import init_mlp, mlp, mlp_energy

BETAS = (0.25, 1.0, 4.0)
GAMMA, RATE = 5e-3, 2e-4
ADAPT = Adaptation(0.95, 1.01, 1e-8, 0.01)


METHODS = {
    "ImpDiff": Method(Unweighted(LangevinMove(GAMMA))),
    "SOSMC-ULA": Method(LangevinMove(GAMMA), THRESHOLD, ADAPT),
    "SOSMC-MALA": Method(MALA(GAMMA), THRESHOLD, ADAPT),
}

COLUMNS = columns(
    "dataset s data | beta g | method | start .3f pretrained | model .3f | optimum .3f | error .3f | "
    "particles .3f | fresh .3f | kl .3f KL | kl_optimum .3f of optimum | loss .4f | loss_optimum .4f least | "
    "ess .2f | outside .3f"
)
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
    datasets: tuple[str, ...] = tuple(DATASETS)
    betas: tuple[float, ...] = BETAS
    kept: int = 20


PAPER_SIZE = Size(20_000, (128,) * 4, 0.02, 2e-4, 19_500, 512, 80, 39, 10_000, 1000, 1000, 15_000, 5000, 240)
FULL = Size(20_000, (128,) * 4, None, 1e-3, 2000, 256, 20, 16, 1000, 1000, 50, 3000, 1000, 100)
QUICK = Size(500, (16,) * 2, None, 3e-3, 200, 64, 10, 4, 200, 100, 20, 50, 50, 40, ("moons",), (0.25, 1.0), 5)


def measure(run: Run[Size]) -> Iterator[Row]:
    """All data sets and methods, the betas of a method in one batched run; densities and courses are left too."""
    size, seed, device = run.size, run.seed, run.devices[0]
    run.say(
        f"network 2 x {' x '.join(map(str, size.widths))} x 1; {size.updates} updates of PCD with batches of "
        f"{size.batch} and {size.steps} steps; {size.particles} particles, {size.iterations} iterations"
    )
    grid, arrays = Grid.of(size.cells), run.shown
    arrays["betas"] = np.array(size.betas)
    for name in size.datasets:
        data = DATASETS[name].draw(size.rows, seed)
        theta = pretrain(run, name, data)
        logs = grid.normalised(_on_grid(grid, theta, device))
        arrays |= {f"{name} data": data[:: max(1, len(data) // 400)], f"{name} start": logs}
        for method in METHODS:
            found, curves = tune(run, name, method, theta, logs, grid)
            yield from found
            arrays |= {f"{name} {method} {key}": value for key, value in curves.items()}
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

    Parameters
    ----------
    dataset, name : str
        Of the data and of the method.
    theta : tree of numpy.ndarray
        The pretrained parameters.
    logs : numpy.ndarray, shape (points,)
        Their log probabilities on the grid.
    """
    size, device, betas, runs = run.size, run.devices[0], np.array(run.size.betas), len(run.size.betas)
    x0 = grid.draw(logs, (runs, size.particles), np.random.default_rng(run.seed))
    loss = RewardReverseKL(lower, device.array(betas[:, None]))
    trace = run.sample(
        mlp_energy(tree.map(lambda leaf: np.array(np.broadcast_to(leaf, (runs, 1, *leaf.shape))), theta)),
        METHODS[name].kernel(loss, Adam(RATE), Systematic()),
        device.array(x0),
        size.kept,
        thinning=size.iterations // size.kept,
        recorders=(SOSMCHistory({"reward": lower, "outside": _outside}),),
        label=f"{dataset}, {name}",
    )
    kept = trace.recorded["history"]
    course = tree.map(to_host, kept["parameters"])
    later = [_on_grid(grid, tree.map(lambda leaf, t=t: leaf[t], course), device) for t in range(size.kept)]
    tuned = grid.normalised(np.stack(later))  # (row, run, points)
    rewarded = lower(grid.points)
    reward = np.concatenate([np.full((1, runs), np.sum(np.exp(logs) * rewarded)), np.exp(tuned) @ rewarded])
    kl = np.concatenate([np.zeros((1, runs)), np.sum(np.exp(tuned) * (tuned - logs), axis=-1)])
    fresh = _fresh(run, trace.state.parameters, f"{dataset}, {name}, new chains")
    ess, particles = to_host(kept["weight_ess"]) / size.particles, to_host(kept["reward"])
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
                "kl": kl[-1, r],
                "kl_optimum": best.kl,
                "loss": beta * kl[-1, r] - reward[-1, r],
                "loss_optimum": best.loss,
                "ess": ess[-1, r],
                "outside": to_host(kept["outside"])[-1, r],
                "seconds": trace.metadata["seconds"],
            }
        )
    return rows, {"reward": reward, "kl": kl, "particles": particles, "end": tuned[-1]}


def _fresh(run: Run[Size], parameters: tree.Tree, label: str) -> np.ndarray:
    """Eq. 41: the mean reward of new chains, (runs,)."""
    size, seed = run.size, run.seed + 1
    x0 = np.random.default_rng(seed).uniform(-EDGE, EDGE, (len(size.betas), size.chains, 2))
    trace = run.sample(
        *(mlp_energy(parameters), ULA(GAMMA), run.devices[0].array(x0), size.fresh),
        burn_in=size.burn_in,
        seed=seed,
        recorders=(Record("reward", lambda state: lower(state.point.x)),),
        label=label,
    )
    return np.mean(to_host(trace.recorded["reward"]), axis=(0, 2))


def _on_grid(grid: Grid, parameters: tree.Tree, device: DeviceDtype) -> np.ndarray:
    """f at the grid's points, (points,) or (runs, points), float64."""
    leaves = tree.map(device.array, parameters)
    points = device.array(grid.points)
    return to_host(mlp(points, leaves)).astype(np.float64)


def _outside(x: Array) -> Array:
    return array_namespace(x).astype((abs(x[..., 0]) > EDGE) | (abs(x[..., 1]) > EDGE), x.dtype)


def tell(run: Run[Size], rows: list[Row]) -> None:
    """The table, the methods of a data set and a beta next to each other."""
    ordered = sorted(rows, key=lambda row: (list(DATASETS).index(row["dataset"]), row["beta"]))
    run.table(ordered, COLUMNS, ("dataset", "beta", "method"), legend=LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """By method, how far the loss is above the least one, and the particles from the model that they tune."""
    lines = []
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        above = np.mean([row["loss"] - row["loss_optimum"] for row in own])
        lag = np.mean([abs(row["particles"] - row["model"]) for row in own])
        lines.append(
            f"{method}: loss {above:.4f} above the least one on average; reward of the particles {lag:.3f} from that "
            "of the model"
        )
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """For each data set the pretrained and tuned densities, and the courses in the plane of reward and KL."""
    arrays, betas, datasets = run.shown, run.size.betas, run.size.datasets
    figure.set_size_inches(3.0 * (2 + len(betas)), 3.1 * len(datasets))
    grid = figure.subplots(len(datasets), 2 + len(betas), squeeze=False)
    for axes, name in zip(grid, datasets, strict=True):
        _density(axes[0], arrays[f"{name} start"], f"{name}: pretrained")
        data = arrays[f"{name} data"]
        axes[0].plot(data[:, 0], data[:, 1], ".", ms=1.5, color="#E69F00", alpha=0.6)
        _density(axes[1], arrays[f"{name} SOSMC-ULA end"][0], f"SOSMC-ULA, beta = {betas[0]:g}")
        for r, beta in enumerate(betas):
            _plane(axes[2 + r], arrays, name, r, beta)
    grid[0, 2].legend(frameon=False, fontsize=8)


def _density(axes: Any, logs: np.ndarray, title: str) -> None:
    cells = round(len(logs) ** 0.5)
    axes.imshow(np.exp(logs).reshape(cells, cells).T, origin="lower", extent=(-EDGE, EDGE, -EDGE, EDGE), cmap="Blues")
    axes.axhline(0, color="black", lw=0.6, ls=(0, (1, 3)))
    axes.set_title(title, fontsize=9)


def _plane(axes: Any, arrays: Mapping[str, np.ndarray], name: str, r: int, beta: float) -> None:
    high = 0.0
    for method in METHODS:
        reward, kl = arrays[f"{name} {method} reward"][:, r], arrays[f"{name} {method} kl"][:, r]
        axes.plot(reward, kl, "-o", ms=2.5, lw=1.0, color=COLOURS[method], label=method)
        high = max(high, float(np.max(kl)))
    best = optimum(float(arrays[f"{name} SOSMC-ULA reward"][0, r]), beta)
    axes.plot(best.reward, best.kl, "*", ms=11, color="#009E73", label="optimum (Eq. 39)")
    high = 1.15 * max(high, best.kl)
    (left, right), kls = axes.get_xlim(), np.linspace(0, high, 50)
    rewards = np.linspace(left, right, 50)
    axes.contour(rewards, kls, beta * kls[:, None] - rewards, 10, colors="#bbbbbb", linewidths=0.5, linestyles="solid")
    axes.set(xlim=(left, right), ylim=(-0.03 * high, high), xlabel="reward")
    axes.set_title(f"{name}, beta = {beta:g}: KL", fontsize=9)
    tidy(axes)


EXPERIMENT = Experiment(
    name="sosmc-ebm2d",
    title="Reward tuning of energy models of two-dimensional data; SOSMC paper, Section 5.2",
    settings={"full": FULL, "quick": QUICK, "paper": PAPER_SIZE},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
    devices=one_float32,
)
