"""Findings: what is wrong with a run's draws, as values; and the rules that judge. All arrays are the host's.

A *column* is one coordinate of one group of chains that belong together: ``(group, name)``, with the group's indices
along the chain axes that tell groups apart. A rule gives one `Finding` of all columns, or None.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from xpsample.metrics.convergence import FEWEST_DRAWS
from xpsample.metrics.ranks import Mixing

LARGEST_RHAT = 1.01
"""Vehtari et al. (2021), section 4: beyond it an estimate is not to be relied on."""

ESS_PER_CHAIN, MOST_CHAINS_COUNTED = 100, 4
"""The least ESS is 100 for each chain, of up to four, so 400 for more: Vehtari et al. (2021), section 4.

With 100 or 1,000 chains a standard error needs no more than 400 draws in all, and R-hat is the nested one.
"""

MOST_REJECTED, STEPS_PER_RUNG = 0.8, 20
"""Of swaps between neighbours; 0.5 is best, and a round trip takes 2.5 times as long at 0.8 (Syed et al. 2021)."""

SHORTEST_BATCH = 5
"""Autocorrelation times: a batch of so many makes a standard error 5 % too small, and a shorter one much smaller."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a run; ``str()`` is one line.

    Attributes
    ----------
    kind : str
        A word for programs: ``"precision"``, ``"underflow"``, ``"improper"``, ``"bound"``, ``"divergences"``,
        ``"not_finite"``, ``"stuck"``, ``"constant"``, ``"labels"``, ``"modes"``, ``"slow"``, ``"correlated"``,
        ``"depth"``, ``"rhat"``, ``"ess_bulk"``, ``"ess_tail"``, ``"resonance"``, ``"growth"``, ``"transient"``,
        ``"acceptance"``, ``"energy"``,
        ``"tilt"``, ``"tilt_acceptance"``, ``"tilt_idle"``, ``"ladder"``, ``"round_trips"``, ``"few_draws"``,
        ``"batches"``, ``"annealing"``, ``"weights"``, ``"moves"``, ``"paths"``, ``"heat"``, ``"behind"``, ``"warmup"``,
        ``"restart"``, ``"until"``, or that of a recorder's own.
    what : str
        What was found.
    value : float
        How bad: the worst R-hat, the least ESS, the number of divergences, ...
    advice : str
        What to try.
    coordinates : tuple of str
        Names of the coordinates, the worst first.
    chains : tuple of tuple of int
        Indices of the chains, along the chain axes of the positions; empty where all are meant.
    groups : tuple of tuple of int
        Indices of the groups, along the chain axes that tell groups apart; empty where there is one.
    """

    kind: str
    what: str
    value: float
    advice: str
    coordinates: tuple[str, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        where = f" in {_listed(self.coordinates)}" if self.coordinates else ""
        chains = [str(i[0] if len(i) == 1 else i) for i in self.chains]
        if chains:
            where += f" ({'chain' if len(chains) == 1 else 'chains'} {_listed(chains)})"
        groups = [str(i[0] if len(i) == 1 else i) for i in self.groups]
        if groups:
            where += f", {'group' if len(groups) == 1 else 'groups'} {_listed(groups)}"
        return f"{self.what}{where}: {self.advice}"

    def to_json(self) -> dict[str, Any]:
        """As values that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Finding":
        """From what `to_json` gave, by way of a file."""
        indices = {name: tuple(map(tuple, fields[name])) for name in ("chains", "groups")}
        return cls(**fields | indices | {"coordinates": tuple(fields["coordinates"])})


@runtime_checkable
class Diagnosing(Protocol):
    """A recorder that has findings of its own."""

    def findings(self, result: Any) -> Sequence[Finding]:
        """Of what the trace shows of it."""


def _listed(names: Sequence[str]) -> str:
    """The first names and how many more."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


Column = tuple[tuple[int, ...], str]


def of_columns(kind: str, what: str, value: float, advice: str, columns: Sequence[Column], at: np.ndarray) -> Finding:
    """A finding in the columns `at`, the worst first."""
    found = [columns[i] for i in at]
    groups = tuple(sorted({group for group, _ in found if group}))
    return Finding(kind, what, value, advice, tuple(dict.fromkeys(name for _, name in found)), groups=groups)


def of_worst(
    kind: str, what: str, advice: str, columns: Sequence[Column], where: np.ndarray, badness: np.ndarray, **more: Any
) -> Finding | None:
    """A finding in the columns of a mask, (column,), with the worst badness as its value; None where there is none.

    The text may show the `worst`, and of that column the entry of what else is given by name.
    """
    at = worst_first(where, badness)
    if not at.size:
        return None
    worst, shown = float(badness[at[0]]), {name: values[at[0]] for name, values in more.items()}
    return of_columns(kind, what.format(worst=worst, **shown), worst, advice, columns, at)


def worst_first(where: np.ndarray, badness: np.ndarray) -> np.ndarray:
    """The columns of a mask, (column,), those of the largest badness first."""
    at = np.flatnonzero(where)
    return at[np.argsort(-badness[at], kind="stable")]


def least_ess(chains: int) -> int:
    """The total ESS below which estimates are not to be relied on."""
    return ESS_PER_CHAIN * min(chains, MOST_CHAINS_COUNTED)


# ---- of figures ------------------------------------------------------------------------------------------------------


def judge_figures(columns: Sequence[Column], sd: np.ndarray, found: Mixing, draws: int, chains: int) -> list[Finding]:
    """What the figures of a table show.

    Of columns, each a group and a name, and their standard deviations, (column,), which are not finite where draws are
    not, after so many draws per chain.
    """
    if draws < FEWEST_DRAWS:
        return [few_draws(draws)]
    total, least = draws * chains, least_ess(chains)
    bulk, tail, rhat = found
    with np.errstate(invalid="ignore"):
        still = np.isfinite(sd) & np.isnan(bulk)
        cases = [
            ("not_finite", ~np.isfinite(sd), sd, "draws that are not finite", "use a smaller step size"),
            ("constant", still, sd, "no chain moves", "use a smaller step size, unless the coordinate is fixed"),
            (
                "rhat",
                rhat > LARGEST_RHAT,
                -rhat,
                f"R-hat above {LARGEST_RHAT}, {{worst:.4g}} at worst,",
                "the chains have not mixed: run longer, or try another kernel or a preconditioner",
            ),
            (
                "ess_bulk",
                bulk < least,
                bulk,
                f"ess_bulk below {least}, {{worst:.0f}} at worst,",
                "the mean is uncertain: run longer",
            ),
            (
                "ess_tail",
                tail < least,
                tail,
                f"ess_tail below {least}, {{worst:.0f}} at worst,",
                "the spread is uncertain: run longer",
            ),
            (
                "resonance",
                (bulk > total) & (tail < 0.1 * bulk),
                tail / bulk,
                f"ess_bulk above the {total} draws and ess_tail below a tenth of it",
                "the chains swing from side to side and the spread may be wrong: give HMC a length in place of steps, "
                "or leave both out, so that trajectories have different lengths",
            ),
        ]
    findings = []
    for kind, where, badness, what, advice in cases:
        at = worst_first(where, -badness)
        if at.size:
            worst = abs(float(badness[at[0]])) if kind not in ("not_finite", "constant") else float(at.size)
            findings.append(of_columns(kind, what.format(worst=worst), worst, advice, columns, at))
    return findings


def judge_batches(columns: Sequence[Column], ess: np.ndarray, total: int, size: int) -> Finding | None:
    """Whether batches of `size` draws, `total` of all chains, are long enough for an ESS, (column,), by their means.

    Of batches that are too short the ESS is too large, so the autocorrelation time ``total / ess`` that follows from it
    is too short. It is that of the batches at most, and near theirs where they are far too short.
    """
    with np.errstate(all="ignore"):
        times = np.nan_to_num(total / ess, posinf=0.0)
    short = SHORTEST_BATCH * times > size
    needed = math.ceil(2 * SHORTEST_BATCH * float(np.max(times, where=short, initial=0.0)))
    what = f"batches of about {size} draws are too short for draws that are correlated over {{worst:.3g}} or more"
    advice = f"the standard error is too small and the ESS too large: give BatchMeans a larger size, {needed} or more"
    return of_worst("batches", what, advice, columns, short, times)


def few_draws(draws: int) -> Finding:
    """That nothing can be said."""
    return Finding("few_draws", f"{draws} draws are too few for an ESS", draws, f"{FEWEST_DRAWS} or more are needed")


# ---- of ladders ----------------------------------------------------------------------------------------------------


def judge_ladder(barrier: np.ndarray, round_trips: np.ndarray, steps: int) -> list[Finding]:
    """Whether a ladder of temperatures has too few rungs, and whether positions travel along it.

    By the communication barrier from the first rung to each, (rungs,), sums of mean rejection probabilities, and the
    round trips, (*chains). Fewer than 20 steps for each rung say nothing.
    """
    rungs, found = len(barrier), []
    if steps < STEPS_PER_RUNG * rungs:
        return []
    total, worst = float(barrier[-1]), float(np.max(np.diff(barrier)))
    if worst > MOST_REJECTED:
        needed = max(rungs + 1, 1 + math.ceil(2 * total))
        advice = "leave betas out, or give Ladder(...), to have them tuned"
        if total > MOST_REJECTED * (rungs - 1):
            advice = f"take {needed} rungs or more, such as by Ladder(rungs={needed})"
        what = f"neighbours on the ladder of {rungs} temperatures reject {worst:.0%} of their swaps at worst"
        found.append(Finding("ladder", what, worst, advice))
    if (trips := float(np.mean(round_trips))) < 1:
        what = f"{trips:.2g} round trips of a chain between the ends of the ladder in {steps} steps"
        advice = "modes hardly mix: run longer, take a base kernel that moves further, or a better ladder"
        found.append(Finding("round_trips", what, trips, advice))
    return found


def judge_annealing(name: str, at: float, end: float, left: int | None = None) -> list[Finding]:
    """Whether particles were still on their way down a ladder of `name` when the run ended.

    `left` is the number of steps still to be made, where that is known.
    """
    if at == end or left == 0:
        return []
    what = f"the run ended at {name} {at:.3g} on the way to {end:.3g}: nothing that it gives is of the target yet"
    more = "more steps" if left is None else f"{left} more step{'s' * (left != 1)}"
    return [Finding("annealing", what, at, f"make {more}, by draws or burn_in")]
