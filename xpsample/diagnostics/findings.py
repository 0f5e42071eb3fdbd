"""Findings: problems of a run as values, the order in which they are reported, and the rules for ESS and R-hat.

A *column* is one coordinate of one group of chains that belong together: ``(group, name)``, with the group's indices
along the chain axes that tell groups apart. A rule gives one `Finding` of all columns, or None. All arrays are the
host's.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from xpsample.diagnostics.advice import Advice
from xpsample.diagnostics.convergence import FEWEST_DRAWS, Mixing

# Vehtari et al. (2021), section 4: beyond it an estimate is not to be relied on.
LARGEST_RHAT = 1.01

# The least ESS is 100 for each chain, of up to four, so 400 for more: Vehtari et al. (2021), section 4.
# With 100 or 1,000 chains a standard error needs no more than 400 draws in all, and R-hat is the nested one.
ESS_PER_CHAIN, MOST_CHAINS_COUNTED = 100, 4

# Autocorrelation times: a batch of so many makes a standard error 5 % too small, and a shorter one much smaller.
SHORTEST_BATCH = 5


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a run; ``str()`` is one line.

    Attributes
    ----------
    kind : str
        A word for programs: ``"score"``, ``"precision"``, ``"underflow"``, ``"improper"``, ``"bound"``,
        ``"divergences"``, ``"not_finite"``, ``"stuck"``, ``"constant"``, ``"labels"``, ``"modes"``, ``"slow"``,
        ``"correlated"``, ``"depth"``, ``"tails"``, ``"rhat"``, ``"ess_bulk"``, ``"ess_tail"``, ``"resonance"``,
        ``"growth"``, ``"transient"``, ``"acceptance"``, ``"energy"``, ``"training"``, ``"tilt"``,
        ``"tilt_acceptance"``, ``"tilt_idle"``, ``"ladder"``, ``"round_trips"``, ``"few_draws"``, ``"batches"``,
        ``"annealing"``, ``"weights"``, ``"moves"``, ``"paths"``, ``"heat"``, ``"behind"``, ``"warmup"``,
        ``"restart"``, ``"until"``, or the kind of a recorder's finding.
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
        """Convert to JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Finding":
        """From what `to_json` gave, by way of a file."""
        indices = {name: tuple(map(tuple, fields[name])) for name in ("chains", "groups")}
        return cls(**fields | indices | {"coordinates": tuple(fields["coordinates"])})


@runtime_checkable
class Diagnosing(Protocol):
    """A recorder that has its own findings."""

    def findings(self, result: Any) -> Sequence[Finding]:
        """Findings from the result in the trace."""


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

    The text may show the `worst`, and that column's entry of other arrays passed by name.
    """
    at = worst_first(where, badness)
    if not at.size:
        return None
    worst, shown = float(badness[at[0]]), {name: values[at[0]] for name, values in more.items()}
    return of_columns(kind, what.format(worst=worst, **shown), worst, advice, columns, at)


def worst_first(where: np.ndarray, badness: np.ndarray) -> np.ndarray:
    """The columns of a mask, (column,), largest badness first."""
    at = np.flatnonzero(where)
    return at[np.argsort(-badness[at], kind="stable")]


def least_ess(chains: int) -> int:
    """The total ESS below which estimates are not to be relied on."""
    return ESS_PER_CHAIN * min(chains, MOST_CHAINS_COUNTED)


# ---- of figures ------------------------------------------------------------------------------------------------------


def judge_figures(
    columns: Sequence[Column],
    sd: np.ndarray,
    found: Mixing,
    draws: int,
    chains: int,
    advice: Advice | None = None,
    still_by_chance: bool = False,
) -> list[Finding]:
    """Findings from the figures of a table.

    From columns, each a group and a name, and their standard deviations, (column,), not finite where draws are
    not, after so many draws per chain. On a discrete space a variable that has one value in all chains is (nearly)
    certain, which is no fault.
    """
    advice = advice or Advice()
    if draws < FEWEST_DRAWS:
        return [few_draws(draws)]
    total, least = draws * chains, least_ess(chains)
    bulk, tail, rhat = found
    with np.errstate(invalid="ignore"):
        still = np.isfinite(sd) & np.isnan(bulk) & (not (advice.discrete or still_by_chance))
        mix = "run longer, or use another kernel or a preconditioner"
        mix = advice.further if advice.discrete or len(advice.blocks) > 1 else mix
        cases = [
            ("not_finite", ~np.isfinite(sd), sd, "draws are not finite", advice.smaller),
            (
                "constant",
                still,
                sd,
                "no chain moves",
                f"{advice.smaller}. If the coordinate is fixed on purpose, ignore this",
            ),
            (
                "rhat",
                rhat > LARGEST_RHAT,
                -rhat,
                f"R-hat is {{worst:.4g}} at worst (limit {LARGEST_RHAT})",
                f"the chains have not mixed; {mix}",
            ),
            (
                "ess_bulk",
                bulk < least,
                bulk,
                f"ess_bulk is {{worst:.0f}} at worst (minimum {least})",
                "the mean is uncertain; run longer",
            ),
            (
                "ess_tail",
                tail < least,
                tail,
                f"ess_tail is {{worst:.0f}} at worst (minimum {least})",
                "the spread is uncertain; run longer",
            ),
            (
                "resonance",
                (bulk > total) & (tail < 0.1 * bulk),
                tail / bulk,
                f"chains swing from side to side: ess_bulk exceeds the {total} draws, but ess_tail is below a tenth of "
                "ess_bulk,",
                f"the spread may be wrong; {advice.less_regular}",
            ),
        ]
    findings = []
    for kind, where, badness, what, text in cases:
        at = worst_first(where, -badness)
        if at.size:
            worst = abs(float(badness[at[0]])) if kind not in ("not_finite", "constant") else float(at.size)
            findings.append(of_columns(kind, what.format(worst=worst), worst, text, columns, at))
    return findings


def judge_batches(columns: Sequence[Column], ess: np.ndarray, total: int, size: int) -> Finding | None:
    """Check whether batches of `size` draws, `total` of all chains, suffice for an ESS, (column,), by their means.

    If batches are too short, the ESS is too large, so the autocorrelation time ``total / ess`` that follows from it
    is too short. It is at most that length, and near it if batches are far too short.
    """
    with np.errstate(all="ignore"):
        times = np.nan_to_num(total / ess, posinf=0.0)
    short = SHORTEST_BATCH * times > size
    needed = math.ceil(2 * SHORTEST_BATCH * float(np.max(times, where=short, initial=0.0)))
    what = f"batches of about {size} draws are too short for an autocorrelation time of {{worst:.3g}} draws or more"
    advice = f"the standard error is too small and the ESS too large; set the size of BatchMeans to {needed} or more"
    return of_worst("batches", what, advice, columns, short, times)


def few_draws(draws: int) -> Finding:
    """Finding that there are too few draws to judge."""
    return Finding("few_draws", f"{draws} draws are too few for an ESS", draws, f"use {FEWEST_DRAWS} or more")


# ---- causes ----------------------------------------------------------------------------------------------------------

CAUSES = (
    *("annealing", "training", "score", "improper", "precision", "underflow", "bound", "tilt", "tilt_acceptance"),
    *(
        "not_finite",
        "growth",
        "behind",
        "stuck",
        "divergences",
        "ladder",
        "round_trips",
        "labels",
        "warmup",
        "modes",
        "transient",
    ),
    *("correlated", "heat", "resonance", "depth", "tails", "energy", "slow", "acceptance", "tilt_idle", "moves"),
    *("rhat", "ess_bulk", "ess_tail", "until"),
)
"""Kinds of findings, in the order in which they are reported: the first ones are causes of the later ones.

A kind that is not here has no cause and no effect, and is reported before R-hat.
"""

EFFECTS: dict[str, tuple[str, ...]] = {
    "annealing": ("heat",),
    "moves": (),
    "heat": ("resonance",),
    "behind": tuple(kind for kind in CAUSES if kind != "warmup"),
    "stuck": tuple(kind for kind in CAUSES if kind not in ("labels", "modes")),
}
"""Effects of kinds that do not cause all later ones: a longer warm-up may be what lagging chains need, and modes are
judged without the chains that never moved."""


def causes_first(findings: Iterable[Finding | None]) -> tuple[Finding, ...]:
    """Return one finding of each kind, causes first; one that follows from another has that in place of advice."""
    order = (*CAUSES[: CAUSES.index("rhat")], None, *CAUSES[CAUSES.index("rhat") :])
    told: dict[str, Finding] = {}
    for finding in sorted(
        filter(None, findings), key=lambda one: order.index(one.kind if one.kind in CAUSES else None)
    ):
        if finding.kind not in told:
            cause = next((one for one in told.values() if explains(one, finding)), None)
            told[finding.kind] = finding if cause is None else replace(finding, advice=follows_from(cause.kind))
    return tuple(told.values())


def explains(cause: Finding, finding: Finding) -> bool:
    """Return whether a finding follows from another one, in all groups that it is about."""
    if cause.groups and not (finding.groups and set(finding.groups) <= set(cause.groups)):
        return False
    later = CAUSES[CAUSES.index(cause.kind) + 1 :] if cause.kind in CAUSES else ()
    return finding.kind in later and finding.kind in EFFECTS.get(cause.kind, later)


def follows_from(kind: str) -> str:
    """Text in place of advice."""
    return f"this follows from {kind!r}, above"
