"""Which tilt breaks chains, and which lowers the error of running means, over data sets, starts and strengths.

The logistic regression of the SRMC paper's Appendix D.1, whose data the paper gives as a distribution: every data set
here is a draw of it. And its correlated Gaussian, which has groups of chains in their place. All data sets, starts,
strengths and chains of a kernel, a scale of the history and a tilt are one batched run.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.srmc import problems
from xpsample.experiments.srmc.problems import BURN_IN, DIM, STUCK, squared_errors
from xpsample.experiments.srmc.ratio_plot import plot_ratios
from xpsample.experiments.table import Column, Row
from xpsample.gradients.choices import FiniteDifference
from xpsample.kernels import HMC, MALA, Kernel
from xpsample.srmc import SRMC, Adaptive, PowerLaw, Stable, autocorrelation, warmup_steps
from xpsample.targets import Exact, Shift, Target, Tilt, Untilted
from xpsample.trace.recorders import Moments
from xpsample.zoo.logistic import logistic_regression

TILTS: dict[str, Tilt | FiniteDifference] = {
    "Exact": Exact(),
    "eps = 1e-3": FiniteDifference(1e-3, "forward"),
    "eps = 0.1": FiniteDifference(0.1, "forward"),
    "eps = 1": FiniteDifference(1.0, "forward"),
    "Shift": Shift(),
    "Untilted": Untilted(),
}
GUARDS = ("capped", "guarded")
"""Beside the tilts, which run with a fixed strength and a plain history: `Exact` with `Stable`, and with `Adaptive`."""
ALPHAS = (0.1, 0.3, 1.0, 2.0, 5.0, 30.0)
SETTINGS: dict[str, dict[str, tuple[Kernel, tuple[float, ...]]]] = {
    "logistic": {"MALA": (MALA(0.005), (0.3, 1.0)), "HMC": (HMC(0.03, steps=10), (0.03, 0.3, 1.0))},
    "gaussian": {"MALA": (MALA(0.01), (1.0,)), "HMC": (HMC(0.2, steps=10), (0.03, 1.0))},
}
"""Base kernels as in srmc-mse, and scales of the history: 1 is the paper's, 0.3 (MALA) and 0.03 (HMC) its code's."""

LEGEND = """\
from       where the chains start: at draws of the target, or of the wider prior N(0, I) of the logistic regression
capped     Exact, gamma capped by Stable, which follows the curvature; guarded: Exact, the strength by Adaptive
cells      MSE of the running mean divided by that of the base kernel after the same steps, the median of the data
           sets with its 95 % interval; on how many of the data sets it is below 1; the share of chains that break: the
           mean is worse than one exact draw would be on average, or the mean acceptance is below 0.01
evals      scores + Hessian-vector products per step, 1 and 10 without repellence"""
PAPER = """\
tilt (Fig. 5, alpha = 1, one data set): for MALA very small eps are harmful, 0.1, 1 and alpha are alike; HMC is much
less sensitive"""


class Size(NamedTuple):
    """Data sets, chains of each strength on each, chains of the base kernel, and steps; likewise for the reference."""

    draws: int
    chains: int
    base: int
    steps: Mapping[str, Mapping[str, int]]
    reference: int


FULL = Size(
    draws=16,
    chains=25,
    base=100,
    steps={"logistic": {"MALA": 4_000, "HMC": 400}, "gaussian": {"MALA": 10_000, "HMC": 2_000}},
    reference=2_000,
)
QUICK = Size(draws=3, chains=8, base=16, steps={key: {"MALA": 300, "HMC": 60} for key in SETTINGS}, reference=100)


class Problem(NamedTuple):
    """All data sets at once: the target, starts (draw, base chains, dim), means (draw, dim) and the traces of the
    covariances (draw,); and which of `TILTS` and `GUARDS` to run."""

    target: Target
    starts: dict[str, np.ndarray]
    means: np.ndarray
    traces: np.ndarray
    tilts: tuple[str, ...]


def logistic(run: Run[Size]) -> Problem:
    """The data sets, and a well tuned run of HMC on each for the mean and for starts."""
    size, draws = run.size, range(run.size.draws)
    found = [problems.logistic(run, size.base, size.reference, draw) for draw in draws]
    features, labels = (np.stack(parts) for parts in zip(*map(problems.logistic_data, draws), strict=True))
    exact = np.stack([to_host(problem.start) for problem in found])
    prior = np.random.default_rng([run.seed, 1]).standard_normal(exact.shape)
    means, traces = np.stack([problem.mean for problem in found]), np.asarray([problem.trace for problem in found])
    starts = {"target": exact, "prior": prior}
    return Problem(logistic_regression(features, labels), starts, means, traces, (*TILTS, *GUARDS))


def gaussian(run: Run[Size]) -> Problem:
    """Groups of chains in place of data sets. Its score is linear, so that all tilts but `Untilted` are alike."""
    size = run.size
    found = problems.decaying_gaussian(size.draws * size.base, run.seed)
    starts = {"target": found.start.reshape(size.draws, size.base, DIM)}
    traces = np.full(size.draws, found.trace)
    return Problem(found.target, starts, np.zeros((size.draws, DIM)), traces, ("Exact", "Untilted", *GUARDS))


class Means(NamedTuple):
    """Results of chains (start, draw, alpha, chain): squared errors of the running mean, and whether they broke; and
    scores and Hessian-vector products per step."""

    squared: np.ndarray
    broken: np.ndarray
    cost: float


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each target, kernel, scale, tilt, start and strength."""
    size, device, ratios = run.size, run.devices[0], {}
    run.say(
        f"{size.draws} data sets, on each {size.chains} chains of every strength and start; "
        + "; ".join(f"{target} {of['MALA']} steps of MALA, {of['HMC']} of HMC" for target, of in size.steps.items())
        + f"; the first {BURN_IN:g} left out; gamma_n = scale (n + 1)^-0.6"
    )
    for target, make in {"logistic": logistic, "gaussian": gaussian}.items():
        problem = make(run)
        for name, (base, scales) in SETTINGS[target].items():
            steps = size.steps[target][name]
            plain = _means(run, problem, device, base, steps, 1, size.base, f"{target} {name}")
            for start, broken in zip(problem.starts, plain.broken, strict=True):
                run.say(
                    f"  {target} {name}, from the {start}: {100 * np.mean(broken):.2g} % of the base's chains break"
                )
            for scale in scales:
                for label in problem.tilts:
                    if label in GUARDS and scale != 1.0:
                        continue
                    kernel = repellent(base, label, scale, _along_chains(problem, device, size.chains), steps)
                    told = f"{target} SR-{name}, scale {scale:g}, {label}"
                    found = _means(run, problem, device, kernel, steps, len(ALPHAS), size.chains, told)
                    for s, start in enumerate(problem.starts):
                        row: Row = {"target": target, "kernel": name, "scale": scale, "start": start, "tilt": label}
                        row |= {"cost": found.cost, "place": str(device)}
                        ratio = np.mean(found.squared[s], axis=-1) / np.mean(plain.squared[s], axis=-1)  # (draw, alpha)
                        ratios[f"{target} {name} {scale:g} {start} {label}"] = ratio
                        for k, alpha in enumerate(ALPHAS):
                            yield row | {"alpha": alpha} | summary(ratio[:, k], found.broken[s, :, k])
    run.save("ratios", **ratios)


def repellent(base: Kernel, label: str, scale: float, alpha: Array, steps: int) -> SRMC:
    """SRMC with one of `TILTS` or `GUARDS`."""
    history = PowerLaw(rho=0.6, scale=scale)
    if label == "capped":
        return SRMC(base, alpha, Stable(autocorrelation(base), schedule=history), Exact())
    if label == "guarded":
        inner = base.steps or 1 if isinstance(base, HMC) else 1
        return SRMC(base, Adaptive(alpha, warmup_steps(steps * inner, inner)), history, Exact())
    return SRMC(base, alpha, history, TILTS[label])


def _along_chains(problem: Problem, device: DeviceDtype, chains: int) -> Array:
    """alpha along the last chain axis, which joins starts, strengths and chains."""
    shape = (len(problem.starts), len(ALPHAS), chains)
    return device.array(np.broadcast_to(np.asarray(ALPHAS)[:, None], shape).reshape(-1))


def _means(
    run: Run[Size],
    problem: Problem,
    device: DeviceDtype,
    kernel: Kernel,
    steps: int,
    strengths: int,
    chains: int,
    label: str,
) -> Means:
    """One batched run: positions (draw, start x strength x chain, dim)."""
    draws, shape = run.size.draws, (len(problem.starts), strengths, chains)
    starts = np.stack([start[:, None, :chains] for start in problem.starts.values()], axis=1)
    x0 = np.broadcast_to(starts, (draws, *shape, DIM)).reshape(draws, -1, DIM)
    burn_in = round(BURN_IN * steps)
    trace = run.sample(
        problem.target,
        kernel,
        device.array(x0),
        steps - burn_in,
        burn_in=burn_in,
        recorders=(Moments(),),
        label=label,
        quiet=True,
    )
    squared = squared_errors(trace, problem.means[:, None])
    accepted = to_host(trace.run_statistics.acceptance_probability)
    broken = (squared > problem.traces[:, None]) | (accepted < STUCK)
    squared, broken = (np.moveaxis(found.reshape(draws, *shape), 0, 1) for found in (squared, broken))
    return Means(squared, broken, problems.gradients(trace.run_statistics.evaluations))


def summary(ratio: np.ndarray, broken: np.ndarray) -> Row:
    """Summary of ratios (draw,) and broken chains (draw, chain) of a setting.

    The interval of the median is by a bootstrap over data sets, whose ratios have the noise of their chains in them.
    """
    picks = np.random.default_rng(0).integers(0, len(ratio), (2000, len(ratio)))
    low, high = np.quantile(np.median(ratio[picks], axis=-1), [0.025, 0.975])
    return {
        "ratio": float(np.median(ratio)),
        "low": float(low),
        "high": float(high),
        "least": float(np.min(ratio)),
        "largest": float(np.max(ratio)),
        "below": int(np.sum(ratio < 1)),
        "draws": len(ratio),
        "broken": float(np.mean(broken)),
        "most_broken": float(np.max(np.mean(broken, axis=-1))),
        "draws_broken": int(np.sum(np.any(broken, axis=-1))),
    }


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A line for each target, kernel, scale, start and tilt, with a column for each strength."""
    keys = ("target", "kernel", "scale", "start", "tilt", "cost")
    lines: dict[Any, Row] = {}
    for row in rows:
        own = {key: row[key] for key in keys}
        lines.setdefault(tuple(own.values()), own)[f"{row['alpha']:g}"] = _cell(row)
    shown: dict[str, Column] = {key: (key, "s") for key in ("target", "kernel")} | {"scale": ("scale", "g")}
    shown |= {"start": ("from", "s"), "tilt": ("tilt", "s"), "cost": ("evals", ".3g")}
    shown |= {f"{alpha:g}": (f"alpha = {alpha:g}", "s") for alpha in ALPHAS}
    run.table(list(lines.values()), shown, keys[:-1], legend=LEGEND)


def _cell(row: Row) -> str:
    median, low, high = (_short(row[key]) for key in ("ratio", "low", "high"))
    return f"{median} ({low}-{high}); {row['below']}; {100 * row['broken']:.2g} %"


def _short(value: float) -> str:
    return "overflow" if value > 1e30 else f"{value:.2g}"


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """For each tilt how often no chain broke, and how often the error was lower on all data sets."""
    lines = []
    for name, tilt in dict.fromkeys((row["kernel"], row["tilt"]) for row in rows):
        own = [row for row in rows if (row["kernel"], row["tilt"]) == (name, tilt)]
        whole, lower = (sum(row["draws_broken"] == 0 for row in own), sum(row["below"] == row["draws"] for row in own))
        lines.append(
            f"SR-{name}, {tilt}: of {len(own)} targets, scales, starts and strengths {whole} broke no chain, "
            f"{lower} had a lower error on all data sets"
        )
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Ratios against alpha on the logistic regression, a panel for each kernel, scale and start."""
    _plot(figure, rows, "logistic")


def plot_gaussian(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """The same on the Gaussian."""
    _plot(figure, rows, "gaussian")


def _plot(figure: Any, rows: list[Row], target: str) -> None:
    def panel(row: Row) -> str | None:
        if row["target"] != target or row["tilt"] == "eps = 1e-3":  # whose curve equals the curve of Exact
            return None
        return f"SR-{row['kernel']}, scale {row['scale']:g}, from the {row['start']}"

    plot_ratios(figure, rows, panel, lambda row: row["tilt"], "alpha", r"$\alpha$")


EXPERIMENT = Experiment(
    name="srmc-tilts",
    title="Which tilt lowers the error, and which breaks chains, over data sets and starts (SRMC, Fig. 5)",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot, "gaussian": plot_gaussian},
)
