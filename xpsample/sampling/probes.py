"""Probes: what the log density is around the draws of a bad run, and far out, which the draws alone do not tell."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.metrics.arrival import stand_ins
from xpsample.metrics.causes import causes_first
from xpsample.metrics.findings import (
    Finding,
)
from xpsample.metrics.precision import judge_density_precision
from xpsample.metrics.steps import (
    judge_bound,
    judge_improper,
)
from xpsample.spaces.named import is_real
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import wanted
from xpsample.trace.stored import StoredRows
from xpsample.trace.trace import Trace

AROUND, FACTORS = 8, (0.25, 0.5, 1.0, 1.5)
"""Places around each chain that are looked at, each a difference of two draws away, times one of these."""

FAR_OUT = (10.0, 100.0, 1000.0)
"""How far out rays are followed, in spreads of the draws; the log density is compared at two of these at a time."""

RAYS = 8
"""Coordinates that rays go along: those in which the halves of the chains differ the most."""

ROWS = 64
"""Draws of each chain that a probe looks at."""

FEWEST_STEPS = 400
"""Of a run that is looked into: the probes call the log density up to 68 times, which a short run would wait for."""

OF_A_BOUND = {"divergences", "not_finite", "stuck"}
OF_NO_END = {"rhat", "ess_bulk", "ess_tail", "modes", "slow", "growth", "transient", "warmup", "depth", "not_finite"}


def examined(trace: Trace, target: BoundTarget) -> tuple[Trace, tuple[Finding, ...]]:
    """Return the trace of a run with all findings: if it is bad, its target is evaluated around the draws, too.

    Only targets on real spaces are.
    """
    findings = trace.diagnose()
    kinds = {finding.kind for finding in findings}
    if not is_real(target.space) or not kinds & (OF_A_BOUND | OF_NO_END):
        return trace, findings
    if trace.draws is None or trace.run_statistics.steps < FEWEST_STEPS:
        return trace, findings
    if "processes" in trace.metadata or not trace.metadata.get("diagnosis", {}).get("chains", True):
        return trace, findings
    found = list(_probed(target, trace.draws, kinds))
    if not found:
        return trace, findings
    known = trace.metadata["diagnosis"]
    told = [*known.get("findings", ()), *(finding.to_json() for finding in found)]
    trace = replace(trace, metadata=trace.metadata | {"diagnosis": known | {"findings": told}})
    return trace, causes_first((*found, *trace.diagnose()))


def _probed(target: BoundTarget, draws: Array | StoredRows, kinds: set[str]) -> Iterator[Finding]:
    """What the log density shows around the draws and far out."""
    n = draws.shape[0]
    rows = _host(draws, np.linspace(n // 2, n - 1, min(ROWS, n - n // 2)).astype(int))
    like = draws[-1, ...]

    def density(host: np.ndarray) -> np.ndarray:
        values = np.full(host.shape[:-1], np.nan)
        with np.errstate(all="ignore"), warnings.catch_warnings(), suppress(Exception):  # places that it cannot take
            warnings.simplefilter("ignore")
            point = target.evaluate(target.backend.from_host(host.astype(rows.dtype), like))
            if point.log_density is not None:
                values = np.asarray(to_host(point.log_density), dtype=np.float64)
        return values

    declared = target.constrained
    if kinds & (OF_NO_END if declared else OF_A_BOUND):
        finding = judge_bound(np.stack(list(map(density, _around(_of_those_that_moved(rows))))), declared)
        if finding is not None:
            yield finding
    if kinds & OF_NO_END:
        finding = judge_improper([_along(density, rows, ray) for ray in _rays(rows)])
        if finding is not None:
            yield finding


def _host(draws: Array | StoredRows, wanted: np.ndarray) -> np.ndarray:
    """Some rows on the host."""
    return np.stack([to_host(draws[int(i), ...]) for i in wanted])


def _of_those_that_moved(rows: np.ndarray) -> np.ndarray:
    """The draws, (row, *chains, dim), with those of chains that moved in place of those that did not.

    What is around a chain that is stuck far out, such as an overflow, is no bound of the others.
    """
    if rows.ndim < 3:
        return rows
    index = stand_ins(np.all(rows == rows[:1, ...], axis=(0, -1)))
    return np.take_along_axis(rows, index[None, ..., None], axis=-2)


def _around(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Places around the last draws, (*chains, dim): by differences of other draws, as far as the draws go."""
    n, chains = len(rows), rows.ndim > 2
    for i in range(AROUND):
        a, b = rows[(7 * i) % n], rows[(7 * i + n // 2) % n]
        b = np.roll(b, 1, axis=-2) if chains else b
        yield rows[(11 * i + n // 3) % n] + (-1) ** i * FACTORS[i % len(FACTORS)] * (a - b)


def _rays(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Directions, (*chains, dim), as long as the draws go: of the way of each chain, and of some coordinates.

    Chains that hardly move go a short way, at whose thousandfold they may still be where they are.
    """
    half = len(rows) // 2
    dim = rows.shape[-1]
    values = np.reshape(rows.astype(np.float64), (len(rows), -1, dim))
    way = np.mean(values[half:], axis=0) - np.mean(values[: len(rows) - half], axis=0)
    with np.errstate(all="ignore"):
        looks = np.sqrt(np.mean(way**2, axis=0)) / np.sqrt(np.mean(np.var(values, axis=0), axis=0))
    extent, length = np.ptp(values, axis=(0, 1)), np.linalg.norm(way, axis=-1, keepdims=True)
    longer = np.linalg.norm(extent) / np.where(length > 0, length, np.inf)
    way = way * np.where(np.isfinite(longer), np.maximum(1.0, longer), 1.0)
    chosen = np.argsort(-np.where(np.isfinite(looks), looks, 0.0), kind="stable")[:RAYS]
    yield np.broadcast_to(np.reshape(way, rows.shape[1:]), rows.shape[1:])
    together = np.zeros(dim)
    together[chosen] = np.max(extent[chosen], initial=0.0)
    for ray in ([together] if len(chosen) > 1 else []) + [extent[i] * np.eye(dim)[i] for i in chosen]:
        yield np.broadcast_to(ray, rows.shape[1:])


def _along(density: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, ray: np.ndarray) -> np.ndarray:
    """Log densities far out, (sign, distance, *chains); nan for chains that the ray leads nowhere."""
    far_out = np.stack([[density(rows[-1] + sign * far * ray) for far in FAR_OUT] for sign in (1.0, -1.0)])
    return np.where(np.any(ray != 0, axis=-1), far_out, np.nan)


def computed_in(target: BoundTarget, x: Array) -> dict[str, tuple[str, float]]:
    """The dtype that a log density in float32 computes in, where it has fewer digits, and its machine epsilon.

    As an entry of what a diagnosis knows of a run; none where it computes in float32.
    """
    autodiff = target.backend.autodiff
    if autodiff is None or target.as_floating(x).dtype != target.xp.float32 or not _gives_density(target):
        return {}
    found = None
    with suppress(Exception):  # nothing is known of what a library cannot look into
        found = autodiff.coarsest(target.log_density, x)
    return {} if found is None else {"computed_in": found}


def _gives_density(target: BoundTarget) -> bool:
    wants = wanted(target.requires)
    return wants.log_density or (wants.ratio and target.acceptance.exact)


def say_precision(state: Any, burn_in: int, known: Mapping[str, Any]) -> Finding | None:
    """Whether the log density has too few digits where the draws begin; nothing is known of what is thrown away."""
    log_density = getattr(state.point, "log_density", None)
    if log_density is None or burn_in or not hasattr(log_density, "shape"):
        return None
    host = np.atleast_1d(to_host(log_density))[None]
    return judge_density_precision(host, at_start=True, computed_in=known.get("computed_in"))
