"""Transient phase of a warm-up: chains that have not converged, that lag or are stuck; and the path of its rules."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xpsample.adaptation.rule import Rule
from xpsample.core.arrays import Array, is_array
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.lagging import judge_arrival, lagging_chains, spacing, stand_ins, stuck_by
from xpsample.kernels.adapted import AdaptedKernel, taken, tuning_states, tunings
from xpsample.kernels.kernel import Kernel
from xpsample.targets.bound import BoundTarget
from xpsample.trace.recorders import Recorder

# Whose metrics a path has: of more, these are spread evenly. A path of all would be larger than many runs' draws.
COORDINATES = 1000

# Standard deviations by which the log density moves from one quarter of a warm-up to the next: in any case, and if they
# are more than two standard errors between chains; and steps of a warm-up.
# If chains have converged, the means of two quarters differ by the standard error of a few dozen draws. On targets of
# the experiment `samplers` (six, three seeds, 4 to 128 chains) that is up to 0.31 with HMC, 0.2 with NUTS and 0.55 with
# MALA, and on the funnel up to 0.6 with HMC and NUTS and 0.83 with MALA. Chains in their transient phase differ by
# more, up to 3.5 on a straight path; if one coordinate of many is in it, 0.58 was seen, which also occurs by chance.
FAR, ON_THE_WAY, FEWEST_JUDGED = 1.0, 0.7, 40


class Judged(NamedTuple):
    """State of the chains at the end of a stage, or after its first third.

    Parameters
    ----------
    moving, lagging : Finding, optional
        Findings ``warmup`` and ``behind``.
    stuck : numpy.ndarray
        How far stuck chains are below the others in log density, and 0 for other chains, (*chains).
    """

    moving: Finding | None = None
    lagging: Finding | None = None
    stuck: Any = 0.0

    @property
    def transient(self) -> bool:
        """Return whether the log density still drifts or chains are stuck."""
        return self.moving is not None or bool(np.any(self.stuck))

    @property
    def goes_on(self) -> bool:
        """Return whether another adaptation stage is needed."""
        return self.moving is not None or self.lagging is not None


def judge_stage(path: Mapping[str, Array], pooled: bool) -> Judged:
    """Judge the chains by the path of a stage, arrays (step, ...) by name.

    Nothing is found if it has no log density. `pooled` says that the positions have a chain axis.
    """
    rows = path.get("log_density")
    if rows is None or rows.shape[0] < FEWEST_JUDGED:
        return Judged()
    host = to_host(rows)
    lagging = judge_arrival(host) if pooled else None
    return Judged(judge_warm_up(host, pooled), lagging, stuck_by(host, lagging))


def judge_warm_up(rows: np.ndarray, pooled: bool) -> Finding | None:
    """Finding for log densities (step, ...) that still move in the last quarter, in at least one group of chains."""
    quarter = rows.shape[0] // 4
    half = np.ma.masked_invalid(rows[-2 * quarter :, ...].astype(np.float64))
    half = half if pooled else half[..., np.newaxis]
    before, after = half[:quarter], half[quarter:]
    ways = after.mean(0) - before.mean(0)
    way = np.abs(np.mean(ways, axis=-1))
    error = np.std(ways, axis=-1) / math.sqrt(max(1, ways.shape[-1] - 1))
    within = np.sqrt(np.mean(after.var(0), axis=-1))  # not between chains, which may all be distant from each other
    rounding = np.maximum(1.0, np.abs(np.mean(after.mean(0), axis=-1)))  # of chains that do not move any more
    rounding = max(1e-8, spacing(rows)) * rounding
    moved = way / np.maximum(within, rounding)
    known = (moved > FAR) | ((moved > ON_THE_WAY) & (way > 2 * error) & (ways.shape[-1] > 1))
    worst = float(np.max(np.ma.filled(np.ma.where(known, moved, 0.0), 0.0)))
    if worst == 0:
        return None
    return Finding(
        "warmup",
        "the chains were still in their transient phase when the warm-up ended: in its last quarter their log "
        f"density moved by {worst:.2g} standard deviations",
        worst,
        f"use a longer warm-up, such as warmup={4 * rows.shape[0]}, or start closer",
    )


def restarted(target: BoundTarget, x: Array, found: Judged) -> Array:
    """Positions (*chains, dim) in which each stuck chain has the position of one of its group that does not lag."""
    if not np.any(found.stuck):
        return x
    others = stand_ins(lagging_chains(found.lagging, found.stuck.shape))
    return taken(target, np.where(found.stuck > 0, others, np.arange(others.shape[-1])), x)


class WarmUpPath(Recorder, eq=True):
    """Tuned values and state of the chains of each group, after every step of a warm-up."""

    kernel: Kernel
    name: str = "warmup"

    def init(self, target: BoundTarget, state: Any) -> Tree:
        return None

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        xp = target.xp
        row: dict[str, Array] = {}
        owners: list[str] = []
        for tuning, own in tunings(self.kernel, state):
            kind = type(tuning.base).__name__
            seen = sum(name == kind for name in owners)  # several blocks may have kernels of one kind
            owners.append(kind)
            owner = f"{kind}[{seen}]" if seen else kind
            row |= {f"{owner}.{name}": _some(a) for name, a in tuning.path(xp, own.memory).items()}
        row["acceptance_probability"] = info.acceptance_probability
        row["diverged"] = info.diverged
        scores = info.evaluations.score
        if is_array(state.point.log_density):
            row["log_density"] = state.point.log_density
        zeros = xp.zeros_like(info.acceptance_probability)
        row["scores"] = zeros + (xp.astype(scores, zeros.dtype) if is_array(scores) else scores)
        return None, row

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows


def _some(values: Array) -> Array:
    """At most `COORDINATES` along the last axis, evenly spread."""
    return values[..., :: -(-values.shape[-1] // COORDINATES)] if len(values.shape) else values


class TunedPath(Recorder, eq=True):
    """The hyperparameters of particles that tune them at every step, and their mean acceptance probability, (*groups).

    The kernel that moves them has a name here, and rules by the names of its fields. A kernel itself would hold arrays,
    and need a separate compiled program.
    """

    kernel: str
    rules: tuple[tuple[str, Rule], ...]
    name: str = "tuned"

    @classmethod
    def of(cls, tuning: AdaptedKernel) -> "TunedPath":
        """Path of a kernel that tunes itself."""
        return cls(type(tuning.base).__name__, tuple(tuning.rules.items()))

    def init(self, target: BoundTarget, state: Any) -> Tree:
        return None

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        xp = target.xp
        memory = next(tuning_states(state)).memory
        row = {f"{self.kernel}.{name}": rule.final(xp, memory[name]) for name, rule in self.rules}
        row["acceptance_probability"] = xp.mean(info.acceptance_probability, axis=-1)
        return None, row

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows
