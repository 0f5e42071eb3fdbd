"""Transient phase of a warm-up: chains that have not converged, that lag or are stuck; and the path of its rules."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.lagging import HOPELESS, judge_arrival, lost_by, spacing, stand_ins
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.tuning import Tuning, taken, tuning_states, tunings
from xpsample.targets.bound import BoundTarget
from xpsample.trace.recorders import Recorder
from xpsample.warmup.rule import Rule

COORDINATES = 1000
"""Whose metrics a path has: of more, these are spread evenly. A path of all would be larger than many runs' draws."""

STILL = 0.05
"""The standard deviation of the log density of a chain that is stuck, at most. Where chains stay it is 0.7 or more.

Of one at a huge log density it is larger: there rounding alone is, and so are the least moves. So it counts as 0 up to
the spacing of the numbers, too, and up to `HOPELESS` of the way that is left. An acceptance probability does not tell:
where steps of all are tuned to suit a chain that cannot move, it is as asked.
"""

FAR, ON_THE_WAY, FEWEST_JUDGED = 1.0, 0.7, 40
"""Standard deviations by which the log density moves from one quarter of a warm-up to the next: by themselves, and
where they are more than two standard errors between chains; and steps of a warm-up.

Where chains stay, the means of two quarters differ by the standard error of a few dozen draws. On targets of the
experiment `samplers` (six, three seeds, 4 to 128 chains) that is up to 0.31 with HMC, 0.2 with NUTS and 0.55 with MALA,
and on the funnel up to 0.6 with HMC and NUTS and 0.83 with MALA. Chains that still come in differ by more, up to 3.5 on
a straight way; but where one coordinate of many comes in, 0.58 was seen, which chance gives, too.
"""


def judge_warm_up(path: Mapping[str, Array], pooled: bool) -> Finding | None:
    """Whether the chains of some group were still on their way to where they stay when a warm-up ended.

    By its path, arrays (step, ...) by name; nothing is found where it has no log density. `pooled` says that the
    positions have a chain axis.
    """
    rows = path.get("log_density")
    if rows is None or rows.shape[0] < FEWEST_JUDGED:
        return None
    quarter = rows.shape[0] // 4
    half = np.ma.masked_invalid(to_host(rows)[-2 * quarter :, ...].astype(np.float64))
    half = half if pooled else half[..., np.newaxis]
    before, after = half[:quarter], half[quarter:]
    ways = after.mean(0) - before.mean(0)
    way = np.abs(np.mean(ways, axis=-1))
    error = np.std(ways, axis=-1) / math.sqrt(max(1, ways.shape[-1] - 1))
    within = np.sqrt(np.mean(after.var(0), axis=-1))  # and not between chains, which may all be far out, each elsewhere
    rounding = np.maximum(1.0, np.abs(np.mean(after.mean(0), axis=-1)))  # of chains that do not move any more
    rounding = max(1e-8, spacing(to_host(rows))) * rounding
    moved = way / np.maximum(within, rounding)
    known = (moved > FAR) | ((moved > ON_THE_WAY) & (way > 2 * error) & (ways.shape[-1] > 1))
    worst = float(np.max(np.ma.filled(np.ma.where(known, moved, 0.0), 0.0)))
    if worst == 0:
        return None
    return Finding(
        "warmup",
        "the chains were still on their way when the warm-up ended: in its last quarter their log density moved by "
        f"{worst:.2g} of its standard deviations",
        worst,
        f"give a longer warm-up, such as warmup={4 * rows.shape[0]}, or start closer",
    )


def judge_chains(path: Mapping[str, Array], pooled: bool) -> Finding | None:
    """Whether some chains were far below the others of their group when a warm-up ended; as `judge_warm_up`."""
    rows = path.get("log_density")
    if rows is None or rows.shape[0] < FEWEST_JUDGED or not pooled:
        return None
    return judge_arrival(to_host(rows))


def heard_chains(path: Mapping[str, Array], late: Finding | None) -> tuple[Any, ...] | None:
    """For each chain the one whose steps tune in its place: another of its group where it is behind and stuck.

    None where no chain is stuck: those that move, if they are behind, go on to tune the others' steps with their own.
    """
    if late is None:
        return None
    rows = to_host(path["log_density"])
    last = np.ma.masked_invalid(rows[-(len(rows) // 4) :, ...].astype(np.float64))
    sd, mean = last.std(0), last.mean(0)
    behind = _marked(late, sd.shape)
    left = np.ma.median(np.ma.array(mean, mask=behind), axis=-1, keepdims=True) - mean
    still = np.maximum(np.maximum(STILL, spacing(rows) * np.abs(mean)), HOPELESS * left)
    stuck = behind & (sd < still).filled(False)
    return _nested(stand_ins(stuck).tolist()) if np.any(stuck) else None


def those_behind(late: Finding, chains: tuple[int, ...]) -> tuple[Any, ...]:
    """As `heard_chains`, for a round that those which are behind tune; a group of which none is tunes as ever."""
    return _nested(stand_ins(~_marked(late, chains)).tolist())


def begun_again(target: BoundTarget, x: Array, path: Mapping[str, Array]) -> tuple[Array, Any]:
    """Positions (*chains, dim) at the end of a round, with those of others of its group in place of a lost chain's.

    And by how much chains were lost, see `lost_by`.
    """
    rows = path.get("log_density")
    if rows is None or rows.shape[0] < FEWEST_JUDGED or rows.ndim != x.ndim:
        return x, 0.0
    below = lost_by(to_host(rows), x.shape[-1])
    return taken(target, stand_ins(below > 0), x) if np.any(below) else x, below


def _marked(late: Finding, chains: tuple[int, ...]) -> np.ndarray:
    marked: np.ndarray = np.zeros(chains, dtype=bool)
    for chain in late.chains:
        marked[chain] = True
    return marked


def _nested(values: Any) -> Any:
    return tuple(map(_nested, values)) if isinstance(values, list) else values


class WarmUpPath(Recorder, eq=True):
    """What is tuned, and how the chains of each group fare, after every step of a warm-up."""

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
    """The hyper-parameters of particles that tune them at every step, and their mean acceptance probability, (*groups).

    The kernel that moves them has a name here, and rules by the names of its fields. A kernel itself would hold arrays,
    and ask for a compiled program of its own.
    """

    kernel: str
    rules: tuple[tuple[str, Rule], ...]
    name: str = "tuned"

    @classmethod
    def of(cls, tuning: Tuning) -> "TunedPath":
        """That of a kernel which tunes itself."""
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
