"""Diagnosis of a trace: facts about its kernel, findings of its recorders, and evaluations of its target."""

from dataclasses import replace
from typing import Any

from xpsample.diagnostics.findings import Finding, causes_first
from xpsample.diagnostics.target import FEWEST_STEPS, OF_A_BOUND, OF_NO_END, judge_target
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.named import is_real
from xpsample.spaces.permutations import Permutations
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget
from xpsample.trace.trace import Trace

OF_ANOTHER_TARGET = Trait.TAKES_ESTIMATES | Trait.SEPARATE
"""Of chains that sample another density than the target that they are given, as those of MYULA do."""


def about(kernel: Kernel, space: Space, dim: int) -> dict[str, Any]:
    """What a diagnosis needs to know of a run beside its results, as JSON values."""
    return {
        "chains": bool(kernel.traits & Trait.SAMPLES) or OF_ANOTHER_TARGET in kernel.traits,
        "adjusted": bool(kernel.traits & Trait.INVARIANT),
        "tilted": bool(kernel.traits & Trait.SAMPLES) and not kernel.traits & Trait.UNTILTED,
        "exact": bool(kernel.traits & Trait.EXACT),
        "optimal_acceptance": kernel.optimal_acceptance,
        "categorical": _is_categorical(space, dim),
        "ensembles": bool(kernel.traits & Trait.SAMPLES) and not kernel.traits & Trait.SEPARATE,
        "leapfrog_steps": _whole(kernel, "steps"),
        "deepest": _whole(kernel, "deepest"),
    }


def _whole(kernel: Any, name: str) -> int | None:
    """A whole number that the kernel has, or the one inside; None where there is none."""
    while isinstance(kernel, Kernel):
        if hasattr(kernel, "step_size") and isinstance(value := getattr(kernel, name, None), int):
            return value
        kernel = getattr(kernel, "base", None)
    return None


def _is_categorical(space: Space, dim: int) -> bool:
    """Whether coordinates are names of states, whose order and distances mean nothing."""
    if isinstance(space, Permutations):
        return True
    return isinstance(space, Discrete) and space.choices > 2 and space.variables(dim) == dim


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
    found = list(judge_target(target, trace.draws, kinds))
    if not found:
        return trace, findings
    known = trace.metadata["diagnosis"]
    told = [*known.get("findings", ()), *(finding.to_json() for finding in found)]
    trace = replace(trace, metadata=trace.metadata | {"diagnosis": known | {"findings": told}})
    return trace, causes_first((*found, *trace.diagnose()))
