"""What the HiSS experiments share: the samplers of their tables, at equal inner steps, and measures on few states."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, table
from xpsample.hiss.kernel import HiSS
from xpsample.hiss.smoothed import Gaussian
from xpsample.kernels import ACS, DMALA, GWG, Cosine, Gibbs, Kernel, ParallelTempering, SingleFlip
from xpsample.metrics.discrete import coverage, kl_divergence, log_mean_absolute_error, total_variation
from xpsample.run.recorders import Draws
from xpsample.run.sampling import sample
from xpsample.run.tune_acs import tune_acs
from xpsample.spaces import Spins
from xpsample.targets import Target

BETAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""The paper's temperatures 1, 10, ..., 10^4."""
CYCLE = 20
"""Steps of a cycle of ACS, which the paper does not give."""
IID = "independent draws"


class Settings(NamedTuple):
    """alpha on {0, 1}, G, L, eta, and steps from one attempt to swap to the next in parallel tempering."""

    step_size: float
    sweeps: int
    refinements: int
    scale: float
    every: int


def samplers(target: Target, x0: Any, settings: Settings, seed: int) -> dict[str, tuple[Kernel, int]]:
    """Kernels by name, and the steps of each per kept draw: G L inner steps, one of HiSS.

    Parameters
    ----------
    target : Target
        On `Binary` or `Spins`. The paper's alpha is for {0, 1}: on spins 4 times that makes the same moves.
    x0 : array, shape (chains, dim)
        Start positions of the runs that tune ACS.
    settings : Settings
    seed : int
        Of these runs.
    """
    unit = 4.0 if isinstance(target.space, Spins) else 1.0
    base = DMALA(unit * settings.step_size)
    g, n, eta = settings.sweeps, settings.refinements, settings.scale
    tuned = tune_acs(target, x0, CYCLE, seed=seed, step_sizes=tuple(unit * np.geomspace(0.05, 50.0, 16)))
    return {
        "GWG": (GWG(), g * n),
        "DMALA": (base, g * n),
        "ACS": (ACS(Cosine(unit * settings.step_size, CYCLE)), g * n),
        "ACS, tuned": (tuned, g * n),
        "PT+DMALA": (ParallelTempering(base, BETAS, settings.every), g * n),
        "HiSS": (HiSS(base, eta, g, n), 1),
        "HiSS-GK": (HiSS(base, eta, g, n, smoothing=Gaussian()), 1),
        "HiSS, no MH": (HiSS(base, eta, g, n, adjusted=False), 1),
        "HiSS, L = 0": (HiSS(base, eta, g, 0), 1),
        "single flip": (SingleFlip(), g * n),
        "Gibbs": (Gibbs(), g * n),
    }


def run_states(
    device: DeviceDtype, target: Target, kernel: Kernel, thinning: int, x0: Any, draws: int, seed: int
) -> Any:
    """State numbers (draw, *chains), rows of the space's `states`, and the table row of the run's cost."""
    trace = sample(target, kernel, x0, draws, thinning=thinning, seed=seed, recorders=(Draws(),), progress=False)
    x = to_host(trace.draws)
    assert target.space is not None
    states = np.asarray(target.space.number(np, x)).astype(np.int64)
    used = {name: thinning * count for name, count in trace.run_statistics.evaluations.items() if name != "hvp"}
    return states, {
        "seconds": trace.metadata["seconds"],
        "acceptance": float(np.mean(trace.run_statistics.acceptance_probability)),
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


def measure(counts: np.ndarray, exact: np.ndarray, among: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Of counts (..., chains, states), by chain: logMAE, TVD, KL(estimate || exact), coverage; and of all chains.

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


def summary(measured: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Means over chains, and their standard errors as ``*_se``."""
    row = {"pooled": float(measured["pooled"])}
    for name in ("logmae", "tvd", "kl", "coverage"):
        values = measured[name]
        row[name], row[f"{name}_se"] = float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(values.size))
    return row


def compare(
    device: DeviceDtype,
    target: Target,
    x0: Any,
    settings: Settings,
    draws: int,
    exact: np.ndarray,
    seed: int,
    among: np.ndarray | None = None,
) -> tuple[list[dict[str, Any]], dict[str, dict[str, np.ndarray]], np.ndarray]:
    """Run all samplers: rows, measures at the marks by sampler, and the marks."""
    marks = np.unique(np.geomspace(min(10, draws), draws, 25).astype(int))
    rows: list[dict[str, Any]] = []
    curves: dict[str, dict[str, np.ndarray]] = {}

    def add(name: str, states: np.ndarray, cost: Mapping[str, float]) -> None:
        curves[name] = measure(counts_at(states, list(marks), len(exact)), exact, among)
        last = {key: values[-1] for key, values in curves[name].items()}
        rows.append({"backend": str(device), "sampler": name} | summary(last) | dict(cost))

    for name, (kernel, thinning) in samplers(target, x0, settings, seed).items():
        add(name, *run_states(device, target, kernel, thinning, x0, draws, seed))
    free = dict.fromkeys(("seconds", "acceptance", "log_density", "score", "nfe"), 0.0)
    add(IID, independent(exact, draws, x0.shape[0], seed), free)
    return rows, curves, marks


def tell(report: Report, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table."""
    cells = []
    for row in rows:
        cell = {name: f"{row[name]:.3f} +- {row[f'{name}_se']:.3f}" for name in ("logmae", "tvd", "coverage")}
        cells.append(dict(row) | cell)
    columns = {"sampler": ("sampler", "s"), "logmae": ("logMAE", "s"), "tvd": ("TVD", "s"), "kl": ("KL", ".3f")}
    columns |= {"coverage": ("coverage", "s"), "pooled": ("pooled TVD", ".3f"), "acceptance": ("accept", ".3f")}
    columns |= {"log_density": ("densities", ".0f"), "score": ("scores", ".0f"), "nfe": ("NFE", ".0f")}
    report.say("\n" + table(cells, columns | {"seconds": ("seconds", ".1f")}) + "\n")
    report.say(
        "means over chains +- standard error; KL is of estimate and target; pooled: of all chains' mean estimate"
    )
    report.say("accept: of all proposals, for HiSS of the denoising ones; densities, scores, NFE: per kept draw")


def draw_plot(
    report: Report, curves: Mapping[str, Mapping[str, np.ndarray]], marks: np.ndarray, quantities: Mapping[str, str]
) -> None:
    """Write ``plot.png``, if matplotlib is there."""
    try:
        from xpsample.experiments.hiss.plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(Path(report.out) / "plot.png", curves, marks, quantities)
