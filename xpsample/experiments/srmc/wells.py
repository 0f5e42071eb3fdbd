"""Fig. 1 of the SRMC paper over many chains: does score repellence help ULA out of a narrow well, and what is left?

The paper shows one chain of each sampler. Here ULA (alpha = 0) and SR-ULA (alpha = 3) make one batched run of many
chains for each tilt, with the settings of the paper's Appendix A.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.table import Row, columns
from xpsample.kernels import MALA, ULA
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Shift, Target, Tilt, Tilted
from xpsample.trace.recorders import Moments, Record
from xpsample.zoo.mixture import gaussian_mixture

WEIGHTS, SDS = np.array([0.8, 0.2]), np.array([0.18, 1.0])
MEANS = np.array([[-2.0, 0.0], [2.0, 0.0]])
ALPHAS = (0.0, 3.0)
ETA = 0.01
SCHEDULE = PowerLaw(rho=0.6, scale=0.1, offset=2.0)
THINNING = 50
RADIUS = math.sqrt(-2.0 * math.log(0.05))
"""95 % of the wide component lie within this distance of its center."""
TILTS: dict[str, Tilt] = {"Exact": Exact(), "Shift": Shift()}

LEGEND = f"""\
by 1k ...   share of chains that have been in the wide well by then, with a 95 % Wilson interval: found with
            responsibility of the wide component > 0.5, within {RADIUS:.2f} of its center and beyond it (x1 > 2), at
            one of every {THINNING} steps. A chain that is in the wide well goes beyond its center soon
naive       the same with x1 > 0 only
in wide     share of kept steps of the second half of the run with responsibility of the wide component > 0.5
near 1      of those, share with 0.5 < x1 < 1.5
mean x1     over the whole run from X0 on, mean over chains +- its standard error; rmse is a chain's error"""


PAPER = """\
one chain of each: ULA has not left after 100k steps; SR-ULA leaves by about 2k, and after 100k has explored both wells
with theta near 0"""
COLOURS = {"ULA": "#6b6b6b", "SR-ULA Exact": "#B3440A", "SR-ULA Shift": "#00568A"}


class Size(NamedTuple):
    """Chains for each alpha, and steps of each."""

    chains: int
    steps: int


FULL = Size(chains=1000, steps=100_000)
QUICK = Size(chains=50, steps=4000)


def wells() -> Target:
    """0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I), Eq. 18."""
    return gaussian_mixture(WEIGHTS, MEANS, SDS)


def responsibility(x: np.ndarray) -> np.ndarray:
    """Probability of the wide component given the position, (..., 2) to (...)."""
    squared = np.sum((x[..., None, :] - MEANS) ** 2, axis=-1)
    logs = np.log(WEIGHTS / SDS**2) - 0.5 * squared / SDS**2
    return 1.0 / (1.0 + np.exp(np.clip(logs[..., 0] - logs[..., 1], -700, 700)))


def escaped(x: np.ndarray) -> np.ndarray:
    """Return whether positions are in the wide well, beyond its center (see the legend), (..., 2) to (...)."""
    near = np.sum((x - MEANS[1]) ** 2, axis=-1) < RADIUS**2
    return (responsibility(x) > 0.5) & near & (x[..., 0] > MEANS[1, 0])


def wilson(count: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    share, scale = count / total, 1.0 + z * z / total
    middle = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def ula_sd(sd: float) -> float:
    """Stationary standard deviation of ULA on N(0, sd^2): the variance is larger by 1 / (1 - eta / (2 sd^2))."""
    return sd / math.sqrt(1.0 - ETA / (2.0 * sd * sd))


def truth() -> dict[str, float]:
    """Values of the table's columns for exact draws of the target, from a fixed sample of 10^6."""
    rng = np.random.default_rng(0)
    wide = rng.random(10**6) < WEIGHTS[1]
    x = rng.standard_normal((10**6, 2)) * np.where(wide, SDS[1], SDS[0])[:, None] + MEANS[wide.astype(int)]
    inside = responsibility(x) > 0.5
    first = x[inside, 0]
    return {"in_wide": float(np.mean(inside)), "near_1": float(np.mean((first > 0.5) & (first < 1.5)))}


def marks(size: Size) -> list[int]:
    """Steps at which chains are counted and arrows drawn."""
    return sorted({n for n in (1000, 2000, 3000) if n < size.steps} | {size.steps})


def measure(run: Run[Size]) -> Iterator[Row]:
    """Both alphas in one run of each tilt; positions (row, chain, 2) and theta of chain 0 are left for the figure."""
    run.say(
        f"{run.size.chains} chains of each sampler from (-2, 0), {run.size.steps} steps, eta = {ETA}, "
        f"alpha = {ALPHAS[1]:g}, gamma_n = 0.1 (n + 2)^-0.6"
    )
    for device in run.devices:
        for tilt_name, tilt in TILTS.items():
            seconds, x, theta, mean = _chains(run, device, tilt_name, tilt)
            for i, alpha in enumerate(ALPHAS):
                if alpha == 0 and tilt_name != "Exact":
                    continue  # without repellence the tilts are one and the same
                name = "ULA" if alpha == 0 else f"SR-ULA {tilt_name}"
                row = {"backend": device.backend.name, "device": device.name, "dtype": device.dtype, "sampler": name}
                yield row | {"seconds": seconds} | _row(x[:, i], mean[i], marks(run.size))
                if device is run.devices[0]:
                    run.shown[name] = (x[:, i], theta[:, i])


def _chains(
    run: Run[Size], device: DeviceDtype, name: str, tilt: Tilt
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Seconds; every THINNING-th position (row, alpha, chain, 2); theta of chain 0 (row, alpha, 2); means over time."""
    kernel = SRMC(ULA(ETA), device.array(np.array(ALPHAS)[:, None]), SCHEDULE, tilt)
    x0 = device.array(np.broadcast_to(MEANS[0], (len(ALPHAS), run.size.chains, 2)))
    recorders = (
        Moments(),
        Record("x", lambda state: state.point.x),
        Record("theta", lambda state: state.theta[:, 0, :]),
    )
    draws = run.size.steps // THINNING
    trace = run.sample(wells(), kernel, x0, draws, thinning=THINNING, recorders=recorders, label=f"{device} {name}")
    kept = trace.recorded
    x, theta, mean = (
        to_host(a).astype(np.float64, copy=False) for a in (kept["x"], kept["theta"], kept["moments"].mean)
    )
    return trace.metadata["seconds"], x, theta, mean


def _row(x: np.ndarray, mean: np.ndarray, marks: list[int]) -> dict[str, Any]:
    """The numbers of a sampler: positions (row, chain, 2), and means over the run (chain, 2)."""
    chains, row = x.shape[1], {}
    honest, naive = (np.logical_or.accumulate(where, axis=0) for where in (escaped(x), x[..., 0] > 0))
    for n in marks:
        count = int(np.sum(honest[n // THINNING - 1]))
        row[f"escaped_{n}"] = count / chains
        row[f"escaped_{n}_low"], row[f"escaped_{n}_high"] = wilson(count, chains)
        row[f"naive_{n}"] = float(np.mean(naive[n // THINNING - 1]))
    late = x[len(x) // 2 :]
    inside = responsibility(late) > 0.5
    first, narrow = late[inside, 0], late[~inside]
    near = float(np.mean((first > 0.5) & (first < 1.5))) if len(first) else math.nan
    centred = narrow - np.mean(narrow, axis=0) if len(narrow) else narrow
    return row | {
        "in_wide": float(np.mean(inside)),
        "in_wide_se": float(np.std(np.mean(inside, axis=0), ddof=1) / math.sqrt(chains)),
        "near_1": near,
        "narrow_sd": float(np.sqrt(np.mean(centred**2))) if len(narrow) else math.nan,
        "mean_x1": float(np.mean(mean[:, 0])),
        "mean_x1_se": float(np.std(mean[:, 0], ddof=1) / math.sqrt(chains)),
        "mean_x1_rmse": float(np.sqrt(np.mean((mean[:, 0] - WEIGHTS @ MEANS[:, 0]) ** 2))),
    }


def tell(run: Run[Size], rows: list[Row]) -> None:
    """The table, with what the target's own draws give."""

    text = "backend | sampler"
    text += "".join(f" | escaped_{n} .3f(low-high) by {n // 1000}k" for n in marks(run.size))
    text += "".join(f" | naive_{n} .3f naive {n // 1000}k" for n in marks(run.size))
    text += " | in_wide .3f+- in wide | near_1 .2f near 1 | mean_x1 .3f+- mean x1 | mean_x1_rmse .3f rmse"
    target = {"sampler": "target", "mean_x1": float(WEIGHTS @ MEANS[:, 0])} | truth()
    run.table([*rows, target], columns(text), legend=LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Escapes, the time in the wide well, and the bias of the step size."""
    last, found = run.size.steps, [f"by step {run.size.steps:,} the wide well has been reached by"]
    found += [f"  {row['escaped_' + str(last)]:.1%} of the chains of {row['sampler']}" for row in rows]
    return "\n".join(found) + (
        f"\nbias of eta = {ETA} in the narrow well (eta / sd^2 = {ETA / SDS[0] ** 2:.2f}): ULA's standard deviation "
        f"there is {ula_sd(SDS[0]):.4f}, not {SDS[0]}; measured in the second half: "
        + ", ".join(f"{r['sampler']} {r['narrow_sd']:.4f}" for r in rows)
    )


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """The score and the surrogate's score of chain 0 at the marks, and shares of chains against steps."""
    at = marks(run.size)
    figure.set_size_inches(3.1 * len(at), 8.4)
    grid = figure.add_gridspec(3, 2 * len(at))
    for i, name in enumerate(("SR-ULA Exact", "SR-ULA Shift")):
        for j, n in enumerate(at):
            axes = figure.add_subplot(grid[i, 2 * j : 2 * j + 2])
            _arrows(axes, name, run.shown[name], n)
    curves = figure.add_subplot(grid[2, : len(at)]), figure.add_subplot(grid[2, len(at) :])
    for name, (x, _) in run.shown.items():
        steps = THINNING * np.arange(1, len(x) + 1)
        ever = np.logical_or.accumulate(escaped(x), axis=0)
        curves[0].plot(steps, np.mean(ever, axis=1), color=COLOURS[name], label=name)
        curves[1].plot(steps, np.mean(responsibility(x) > 0.5, axis=1), color=COLOURS[name], lw=0.8)
    curves[1].axhline(0.2, color="black", ls="--", lw=1, label="target")
    curves[1].legend(frameon=False, loc="upper left")
    curves[0].legend(frameon=False, loc="upper left")
    curves[0].set_title("share of chains that have been in the wide well")
    curves[1].set_title("share of chains in the wide well now")
    for axes in curves:
        axes.set(xscale="log", xlabel="step", ylim=(0, 1.03))
        tidy(axes)


def _arrows(axes: Any, name: str, chains: tuple[np.ndarray, np.ndarray], n: int) -> None:
    """The score in gray, the surrogate's in red, both shortened; the path of chain 0 until n and where it is."""
    fine = np.stack(np.meshgrid(np.linspace(-3.4, 4.6, 160), np.linspace(-2.6, 2.6, 100)), axis=-1)
    coarse = np.stack(np.meshgrid(np.linspace(-3.2, 4.4, 16), np.linspace(-2.4, 2.4, 9)), axis=-1)
    tilt = Exact() if name.endswith("Exact") else Shift()
    bound = wells().prepare(coarse, SRMC(MALA(1.0), alpha=1.0, tilt=Exact()).requires)
    x, theta = chains
    history = np.broadcast_to(theta[n // THINNING - 1], coarse.shape)
    own = bound.score(coarse)
    tilted = Tilted(bound, history, ALPHAS[1], tilt, bound.requires).score(coarse)
    axes.contourf(
        fine[..., 0], fine[..., 1], bound.evaluate(fine).log_density, levels=np.linspace(-10, 2, 13), cmap="Blues"
    )
    for arrows, colour, width in ((own, "#8a8a8a", 0.006), (tilted, "#c0392b", 0.004)):
        short = arrows / (1.0 + np.linalg.norm(arrows, axis=-1, keepdims=True))
        axes.quiver(
            coarse[..., 0], coarse[..., 1], short[..., 0], short[..., 1], color=colour, width=width, scale=18, zorder=3
        )
    path = x[: n // THINNING, 0]
    axes.plot(path[:, 0], path[:, 1], color="black", lw=0.4, alpha=0.6)
    axes.plot(*path[-1], "o", color="#00d0d8", mec="black", ms=6, zorder=4)
    axes.set(xlim=(-3.4, 4.6), ylim=(-2.6, 2.6), aspect="equal")
    axes.set_title(f"{name}, n = {n:,}", fontsize=9)


EXPERIMENT = Experiment(
    name="srmc-wells",
    title="Two wells: 0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I); SRMC paper, Fig. 1 and Appendix A",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
)
