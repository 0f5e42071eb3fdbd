"""Helpers of the HiSS experiments: the samplers of their tables, at equal inner steps, and measures on few states."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.hiss.uniform import UniformProposals
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.hiss.kernel import HiSS
from xpsample.hiss.smoothed import Gaussian
from xpsample.kernels import ACS, DMALA, GWG, Cosine, CycleSearch, Gibbs, Kernel, ParallelTempering, SingleFlip
from xpsample.kernels.traits import Trait
from xpsample.metrics.discrete import coverage, kl_divergence, log_mean_absolute_error, total_variation
from xpsample.spaces import Spins
from xpsample.targets import Target
from xpsample.trace.recorders import Draws

BETAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""The paper's temperatures 1, 10, ..., 10^4."""
SIGMA = math.sqrt(0.9)
"""Standard deviation of the Gaussian kernel in the paper's Section 6.5."""
CYCLE = 20
"""Steps of a cycle of ACS, which the paper does not give."""
IID = "independent draws"
COLUMNS = columns(
    "backend | sampler | logmae .3f+- logMAE | tvd .3f+- TVD | kl .3f KL | coverage .3f+- | "
    "pooled .3f pooled TVD | acceptance .3f accept | log_density .0f densities | score .0f scores | "
    "nfe .0f NFE | seconds .1f"
)
LEGEND = """\
means over chains +- standard error
TVD        total variation distance of a chain's estimate from the target; KL: divergence of the estimate from it
pooled     of the mean estimate of all chains
PT+DMALA   swaps by the paper's frequency, taken as inner steps or as draws; HiSS-GK: Gaussian noise with the sd eta,
           or with the variance 0.9 of the paper's Section 6.5
accept     of all proposals, for HiSS of the denoising ones
densities  and scores: evaluations for each kept draw. NFE: 2 for every one of them, as the paper counts them. A swap
           costs nothing here, for the densities are known; a denoising proposal costs 4 and not 2, for refinement
           starts from its score"""


class Settings(NamedTuple):
    """alpha on {0, 1}, G, L, eta; and the paper's swap frequency of parallel tempering, whose unit it leaves open."""

    step_size: float
    sweeps: int
    refinements: int
    scale: float
    every: int


def samplers(target: Target, settings: Settings) -> dict[str, tuple[Kernel, int]]:
    """Kernels by name, and the steps of each per kept draw: G L inner steps, one of HiSS.

    The target is on `Binary` or `Spins`. The paper's alpha is for {0, 1}: on spins 4 times that makes the same moves.
    """
    unit = 4.0 if isinstance(target.space, Spins) else 1.0
    base = DMALA(unit * settings.step_size)
    g, n, eta = settings.sweeps, settings.refinements, settings.scale
    return {
        "GWG": (GWG(), g * n),
        "DMALA": (base, g * n),
        "ACS": (ACS(Cosine(unit * settings.step_size, CYCLE)), g * n),
        "ACS, tuned": (ACS(CycleSearch(CYCLE)), g * n),
        "PT+DMALA, steps": (ParallelTempering(base, BETAS, settings.every), g * n),
        "PT+DMALA, draws": (
            ParallelTempering(base, BETAS, settings.every * g * n),
            g * n,
        ),
        "HiSS": (HiSS(base, eta, g, n), 1),
        "HiSS-GK": (HiSS(base, eta, g, n, smoothing=Gaussian()), 1),
        "HiSS-GK, 0.9": (HiSS(base, SIGMA, g, n, smoothing=Gaussian()), 1),
        "HiSS, no MH": (HiSS(base, eta, g, n, adjusted=False), 1),
        "HiSS, L = 0": (HiSS(base, eta, g, 0), 1),
        "single flip": (SingleFlip(), g * n),
        "Gibbs": (Gibbs(), g * n),
        "uniform proposals": (UniformProposals(), g * n),
    }


def run_states(
    run: Run[Any],
    target: Target,
    kernel: Kernel,
    thinning: int,
    x0: Any,
    draws: int,
    label: str,
) -> tuple[np.ndarray, Row]:
    """State numbers (draw, *chains), rows of the space's `states`, and what the run cost.

    The acceptance is a mean over the last chain axis.
    """
    trace = run.sample(target, kernel, x0, draws, thinning=thinning, recorders=(Draws(),), label=label)
    x = to_host(trace.draws)
    assert target.space is not None
    states = np.asarray(target.space.number(np, x)).astype(np.int64)
    used = {name: thinning * count for name, count in trace.run_statistics.evaluations.items() if name != "hvp"}
    return states, {
        "seconds": trace.metadata["seconds"],
        "acceptance": np.mean(to_host(trace.run_statistics.acceptance_probability), axis=-1),
        **used,
        # Appendix D.3: an energy counts 1, a gradient 2, and every Metropolis step takes the energy of both ends.
        "nfe": 2.0 * sum(used.values()),
    }


def independent(exact: np.ndarray, draws: int, chains: int, seed: int) -> np.ndarray:
    """State numbers (draw, chain) drawn from the distribution itself."""
    return np.random.default_rng(seed).choice(len(exact), size=(draws, chains), p=exact)


def counts_at(states: np.ndarray, marks: Sequence[int], total: int) -> np.ndarray:
    """Counts (mark, *chains, states) of the first `mark` draws of state numbers (draw, *chains)."""
    chains = states.shape[1:]
    flat = states.reshape(len(states), -1)
    offset = total * np.arange(flat.shape[1])
    rows, done, seen = [], 0, np.zeros(total * flat.shape[1], dtype=np.int64)
    for mark in marks:
        seen = seen + np.bincount((flat[done:mark] + offset).reshape(-1), minlength=len(seen))
        done = mark
        rows.append(seen.reshape(*chains, total))
    return np.stack(rows)


def measures(counts: np.ndarray, exact: np.ndarray, among: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Measures of counts (..., chains, states), by chain (logMAE, TVD, KL(estimate || exact), coverage), and pooled.

    ``pooled`` is the total variation of the chains' mean estimate, (...).
    """
    estimate = counts / np.sum(counts, axis=-1, keepdims=True)
    return {
        "logmae": log_mean_absolute_error(estimate, exact),
        "tvd": total_variation(estimate, exact),
        "kl": kl_divergence(estimate, exact),
        "coverage": coverage(counts, exact, among),
        "pooled": total_variation(np.mean(estimate, axis=-2), exact),
    }


def compare(
    run: Run[Any],
    device: DeviceDtype,
    target: Target,
    x0: Any,
    settings: Settings,
    exact: np.ndarray,
    among: np.ndarray | None = None,
) -> Iterator[Row]:
    """Run all samplers for ``run.size.draws`` draws; the first device's measures at the marks are left for the figure.

    `exact` has the probabilities of the states, and `among` says which the coverage counts; by default all.
    """
    draws = run.size.draws
    marks = np.unique(np.geomspace(min(10, draws), draws, 25).astype(int))
    curves: dict[str, dict[str, np.ndarray]] = {}
    seconds: dict[str, float] = {}

    def row(name: str, states: np.ndarray, cost: Row) -> Row:
        measured = curves[name] = measures(counts_at(states, list(marks), len(exact)), exact, among)
        seconds[name] = cost["seconds"]
        means: Row = {"pooled": measured["pooled"][-1]}
        for key in ("logmae", "tvd", "kl", "coverage"):
            means |= mean_and_error(key, measured[key][-1])
        return {"backend": str(device), "sampler": name} | means | cost

    for name, (kernel, thinning) in samplers(target, settings).items():
        # One without an accept step may go where the density is 0, which is the point of having it here.
        own = target if Trait.STAYS_INSIDE in kernel.traits else replace(target, constrained=False)
        yield row(name, *run_states(run, own, kernel, thinning, x0, draws, f"{device} {name}"))
    free = dict.fromkeys(("seconds", "acceptance", "log_density", "score", "nfe"), 0.0)
    yield row(IID, independent(exact, draws, x0.shape[0], run.seed), free)
    if device is run.devices[0]:
        run.shown |= {"curves": curves, "marks": marks, "seconds": seconds}


def best_sampler(rows: Sequence[Row], key: str, name: str) -> str:
    """A line of a conclusion: the sampler with the least mean, with HiSS, DMALA and independent draws."""
    rows = [row for row in rows if row["backend"] == rows[0]["backend"]]
    value = {row["sampler"]: f"{row[key]:.3f}" for row in rows}
    least = min((row for row in rows if row["sampler"] != IID), key=lambda row: row[key])["sampler"]
    others = (f"{other} {value[other]}" for other in ("HiSS", "DMALA", IID) if other != least)
    return f"least {name} of a sampler: {least} with {value[least]}; {', '.join(others)}"


def plot_curves(titles: Mapping[str, str]) -> Callable[[Any, Run[Any], list[Row]], None]:
    """A figure's function: means over chains, a column for each measure, whose title is given.

    Against draws, and below against seconds, which independent draws do not have. All steps of a run are equally long.
    """

    def plot(figure: Any, run: Run[Any], rows: list[Row]) -> None:
        curves, marks, seconds = run.shown["curves"], run.shown["marks"], run.shown["seconds"]
        figure.set_size_inches(5.2 * len(titles) + 1.8, 8.0)
        by_draws, by_seconds = figure.subplots(2, len(titles), squeeze=False)
        for i, (name, curve) in enumerate(curves.items()):
            colour, style = ("black", ":") if name == IID else (f"C{i % 10}", "-" if i < 7 else "--")
            for column, key in enumerate(titles):
                mean, how = np.mean(curve[key], axis=-1), {"color": colour, "ls": style}
                by_draws[column].plot(marks, mean, **how, label=name)
                if seconds[name]:
                    by_seconds[column].plot(seconds[name] * marks / marks[-1], mean, **how)
        for column, title in enumerate(titles.values()):
            by_draws[column].set(xscale="log", xlabel="kept draws", title=title)
            by_seconds[column].set(xscale="log", xlabel="seconds for all chains")
        tidy(*by_draws, *by_seconds)
        handles, labels = by_draws[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)

    return plot
