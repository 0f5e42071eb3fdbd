"""Causes before what follows from them: in which order findings are told, and which of them explains which."""

from collections.abc import Iterable
from dataclasses import replace

from xpsample.metrics.findings import Finding

UNMIXED = frozenset({"rhat", "ess_bulk", "ess_tail", "until"})
"""What any bad run shows in the end."""

UNTUNED = UNMIXED | {"modes", "slow", "correlated", "transient", "energy", "acceptance", "depth", "warmup", "resonance"}
"""And what steps show that do not suit the target."""

BROKEN = UNTUNED | {"divergences", "stuck", "constant", "not_finite", "growth", "labels", "behind"}
"""And what a density shows that is not what it should be."""

EXPLAINS: dict[str, frozenset[str]] = {
    "annealing": frozenset({"heat"}),
    "precision": BROKEN | {"underflow", "bound", "improper"},
    "underflow": BROKEN | {"bound", "improper"},
    "improper": BROKEN | {"bound"},
    "bound": BROKEN,
    "tilt": BROKEN | {"tilt_acceptance", "tilt_idle"},
    "tilt_acceptance": BROKEN,
    "tilt_idle": UNMIXED,
    "not_finite": BROKEN,
    "growth": BROKEN,
    "behind": UNTUNED - {"warmup"} | {"stuck", "divergences"},
    "stuck": UNMIXED | {"constant", "acceptance", "energy", "warmup", "slow", "divergences", "moves"},
    "divergences": UNTUNED,
    "constant": frozenset({"acceptance"}),
    "ladder": UNMIXED | {"round_trips", "modes", "slow"},
    "round_trips": UNMIXED | {"modes", "slow"},
    "labels": UNTUNED,
    "warmup": UNMIXED | {"heat", "modes", "transient", "acceptance", "slow", "depth", "energy", "correlated"},
    "modes": UNMIXED | {"acceptance", "energy", "depth", "resonance", "slow", "correlated"},
    "transient": UNMIXED | {"heat", "slow", "acceptance", "energy", "correlated"},
    "correlated": UNMIXED | {"slow", "acceptance", "depth", "energy", "resonance"},
    "resonance": UNMIXED | {"slow", "energy", "acceptance"},
    "depth": UNMIXED | {"slow", "energy"},
    "energy": UNMIXED | {"slow"},
    "slow": UNMIXED | {"acceptance"},
    "acceptance": UNMIXED,
    "rhat": UNMIXED,
    "ess_bulk": frozenset({"ess_tail", "until"}),
    "ess_tail": frozenset({"until"}),
}
"""Kinds from the first cause to the last effect, and what each explains. A kind that is not here explains nothing, and
is told before R-hat."""


def causes_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding of each kind, causes first; what follows from one of them says so, in place of advice of its own."""
    order = list(EXPLAINS)
    place = {kind: i for i, kind in enumerate(order)}
    ahead = order.index("rhat") - 0.5
    told: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: place.get(finding.kind, ahead)):
        if finding.kind in told:
            continue
        cause = next((one for one in told.values() if _explains(one, finding)), None)
        told[finding.kind] = finding if cause is None else replace(finding, advice=follows_from(cause.kind))
    return tuple(told.values())


def follows_from(kind: str) -> str:
    """What stands in place of advice."""
    return f"this follows from {kind!r}, above"


def _explains(cause: Finding, finding: Finding) -> bool:
    """Whether a finding follows from another one, in all groups that it is about."""
    everywhere = not cause.groups or (bool(finding.groups) and set(finding.groups) <= set(cause.groups))
    return everywhere and finding.kind in EXPLAINS.get(cause.kind, ())
