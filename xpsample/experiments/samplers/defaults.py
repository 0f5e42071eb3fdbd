"""Default two-line calls on every target: is the run correct and, if not, does it warn?

Noise is `Portable`, so that all libraries are given the same numbers.
"""

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import mcse_mean, normal_quantile
from xpsample.diagnostics.findings import LARGEST_RHAT
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Columns, Row, columns
from xpsample.kernels import Kernel
from xpsample.sampling.noise import Portable
from xpsample.trace.stored import column_blocks
from xpsample.zoo.benchmarks import Benchmark

DRAWS = 1000

KNOWN_WITHIN = dict.fromkeys(
    ("brownian-motion", "german-credit", "breast-cancer", "item-response", "stochastic-volatility"), 0.01
)
"""Error of the known means, in standard deviations, where they are from long runs."""

FALSE_ALARM = 1e-4
"""Probability that chance alone takes any mean of a right run beyond the bound."""


def _beyond(row: Row) -> str:
    return f"{row['beyond']:.1f} of {row['bound']:.1f}"


COLUMNS: Columns = {
    **columns("target | sampler | chains d | device | rhat .3f R-hat | ess ,.0f ESS | error .3f"),
    "beyond": ("MC errors", _beyond),
    **columns("gradients .0f grads/draw | seconds .0f | outcome | says"),
}
LEGEND = f"""\
R-hat, ESS  of the worst coordinate, all chains together
error       of the means of y and y^2, in their standard deviations, the worst one
MC errors   the same in Monte Carlo standard errors, less what is not known of the true means; and the largest that
            chance makes of so many with probability {FALSE_ALARM:g}
outcome     right: R-hat below {LARGEST_RHAT} and the means within that bound; warned: not so, and the run says what is
            wrong; silent: not so, and it says nothing
says        what `trace.diagnose()` finds"""


def run_of(
    run: Run[Any],
    device: DeviceDtype,
    name: str,
    benchmark: Benchmark,
    sampler: tuple[str, Kernel],
    chains: int,
    seed: int,
) -> Row:
    """A row: ``sample(target, kernel, x0, 1000, seed=seed)`` compared with the known values of the target."""
    label, kernel = sampler
    x0 = device.array(benchmark.start(np.random.default_rng(seed), chains))
    began = time.perf_counter()
    trace = run.sample(benchmark.target(), kernel, x0, DRAWS, seed=Portable(seed), quiet=True)
    seconds, summary = time.perf_counter() - began, trace.summary()
    draws = to_host(trace.draws).astype(np.float64, copy=False)
    errors, beyond = _errors(benchmark, draws, KNOWN_WITHIN.get(name, 0.0))
    bound = float(normal_quantile(np.asarray(1 - FALSE_ALARM / (2 * errors.size))))
    rhat, says = float(np.max(summary.rhat)), [finding.kind for finding in summary.findings]
    right = rhat < LARGEST_RHAT and np.max(beyond) < bound
    return {
        "target": name,
        "sampler": label,
        "chains": chains,
        "device": str(device),
        "seed": seed,
        "rhat": rhat,
        "ess": float(np.min(summary.ess_bulk)),
        "error": float(np.max(errors)),
        "beyond": float(np.max(beyond)),
        "bound": bound,
        "gradients": float(trace.run_statistics.evaluations["score"]),
        "seconds": seconds,
        "outcome": "right" if right else "warned" if says else "silent",
        "says": ", ".join(says),
    }


def _errors(benchmark: Benchmark, draws: np.ndarray, known_within: float) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the known means of y and y^2, in standard deviations of y and y^2, and in Monte Carlo errors."""
    known, y = benchmark.moments(), np.asarray(benchmark.parameters(draws))
    found = []
    for values, mean, variance in ((y, known.mean, known.variance), (y * y, known.square, known.square_variance)):
        of = ~np.isnan(mean)
        values, sd = values[..., of], np.sqrt(variance[of])
        if values.size:
            error = np.abs(np.mean(values, axis=(0, 1)) - mean[of])
            mcse = np.concatenate([mcse_mean(block) for block in column_blocks(values)])
            found.append((error / sd, np.clip(error - known_within * sd, 0, math.inf) / mcse))
    errors, beyond = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return errors, np.where(np.isnan(beyond), math.inf, beyond)


def conclude(rows: list[Row]) -> Iterator[str]:
    """Number of runs that are correct, number that warn, and runs that do neither."""
    of = {outcome: [row for row in rows if row["outcome"] == outcome] for outcome in ("right", "warned", "silent")}
    yield f"{len(of['right'])} of {len(rows)} runs are right, {len(of['warned'])} say what is wrong"
    if of["silent"]:
        yield "silent: " + ", ".join(f"{row['sampler']} on {row['target']}, {row['chains']}" for row in of["silent"])
