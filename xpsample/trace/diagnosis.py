"""Diagnosis of a trace: facts about its kernel, findings of its recorders, and evaluations of its target."""

from dataclasses import replace
from typing import Any

from xpsample.core.covariance import LowRankCovariance
from xpsample.diagnostics.findings import Finding, causes_first
from xpsample.diagnostics.target import FEWEST_STEPS, judge_data_precision, judge_target
from xpsample.kernels.blocks import Blocks, blocks_of
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.spaces.discrete import Discrete, Permutations
from xpsample.spaces.named import is_real
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget, on_some_rows
from xpsample.trace.trace import Trace


def about(kernel: Kernel, space: Space, dim: int, learned: bool = False) -> dict[str, Any]:
    """Facts about a run that its diagnosis needs besides the results, as JSON values.

    Moves are accepted with a `learned` probability if the target's acceptance is whole.
    """
    traits = kernel.traits
    of_another_target = Trait.TAKES_ESTIMATES | Trait.SEPARATE  # such as chains of MYULA
    return {
        "chains": bool(traits & Trait.SAMPLES) or of_another_target in traits,
        "adjusted": bool(traits & Trait.INVARIANT),
        "tilted": bool(traits & Trait.SAMPLES) and not traits & Trait.UNTILTED,
        "exact": bool(traits & Trait.EXACT),
        "optimal_acceptance": kernel.optimal_acceptance,
        # coordinates are names of states, whose order and distances mean nothing
        "categorical": isinstance(space, Permutations)
        or (isinstance(space, Discrete) and space.choices > 2 and space.variables(dim) == dim),
        "ensembles": bool(traits & Trait.SAMPLES) and not traits & Trait.SEPARATE,
        "leapfrog_steps": _whole(kernel, "steps"),
        "deepest": _whole(kernel, "deepest"),
        "moves": _moves(kernel, dim) | {"discrete": isinstance(space, (Discrete, Permutations)), "learned": learned},
    }


def _moves(kernel: Kernel, dim: int) -> dict[str, Any]:
    """Facts of `Advice` about the kernel that moves the chains, which may be inside others."""
    wrappers = []
    while isinstance(base := getattr(kernel, "base", None), Kernel):
        wrappers.append(type(kernel).__name__)
        kernel = base
    blocks = blocks_of(kernel.sweep) if isinstance(kernel, Blocks) else []
    of = blocks[0].base if blocks else kernel
    step = next((name for name in ("step_size", "width", "beta") if hasattr(of, name)), None)
    metric = next((name for name in ("mass", "preconditioner", "covariance") if hasattr(of, name)), None)
    value = None if metric is None else getattr(of, metric)
    full = isinstance(value, LowRankCovariance) or tuple(getattr(value, "shape", ()))[-2:] == (dim, dim)
    return {
        "kernel": type(of).__name__,
        "step": step,
        "metric": None if step == "beta" else metric,
        "dense": full and dim > 1,
        "blocks": [list(block.names) for block in blocks],
        "wrappers": wrappers,
    }


def _whole(kernel: Any, name: str) -> int | None:
    """A whole number that the kernel has, or the one inside; None where there is none."""
    while isinstance(kernel, Kernel):
        if hasattr(kernel, "step_size") and isinstance(value := getattr(kernel, name, None), int):
            return value
        kernel = getattr(kernel, "base", None)
    return None


def examined(trace: Trace, target: BoundTarget) -> tuple[Trace, tuple[Finding, ...]]:
    """Return the trace of a run with all findings: if it is bad, its target is evaluated around the draws, too.

    A run does not look bad if float32 data have too few digits, or if the score of an unadjusted kernel is wrong, so
    these are always checked. Only targets on real spaces are evaluated, and only for long runs in one process that
    keep draws.
    """
    findings, known = trace.diagnose(), trace.metadata.get("diagnosis", {})
    here = trace.draws is not None and "processes" not in trace.metadata and is_real(target.space)
    if not here or trace.run_statistics.steps < FEWEST_STEPS or not known.get("chains", True):
        return trace, findings
    few = on_some_rows(target)
    rounding = judge_data_precision(target, trace.draws) if few is target else None
    if not findings and rounding is None and known.get("adjusted", True):
        return trace, findings
    kinds, names = {finding.kind for finding in findings}, [f"x[{i}]" for i in range(trace.draws.shape[-1])]
    if len(trace._labels(len(names))) == len(names):  # a simplex has fewer coordinates than values
        names = list(trace._labels(len(names)))
    found, one_mode, evaluations = judge_target(few, trace.draws, kinds, names, few is target)
    found += [] if rounding is None else [rounding]
    told = [*known.get("findings", ()), *(finding.to_json() for finding in found)]
    known = known | {"findings": told, "one_mode": one_mode, "evaluations": evaluations}
    trace = replace(trace, metadata=trace.metadata | {"diagnosis": known})
    return trace, causes_first((*found, *trace.diagnose()))
