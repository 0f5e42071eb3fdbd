"""Is the repellence too strong? What a run shows of its history and tilt, and its findings."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_number, check_text, settle
from xpsample.core.errors import CapabilityError
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.metrics.findings import Finding
from xpsample.run.recorders import Recorder
from xpsample.run.summary import RunStatistics
from xpsample.srmc.kernel import SRMCState
from xpsample.targets.bound import BoundTarget, counter


def theta_norm(state: SRMCState) -> Array:
    """``|theta_n|``, shape (*chains), in one over the units of x; for ``Record("theta_norm", theta_norm)``."""
    xp = array_namespace(state.theta)
    return xp.sqrt(xp.sum(state.theta * state.theta, axis=-1))


def exponent_scale(state: SRMCState) -> Array:
    """``alpha_n |s(X_n) . theta_n|``, shape (*chains): how much the tilt changes the log density at X_n."""
    xp = array_namespace(state.theta)
    return state.alpha * xp.abs(xp.sum(state.score * state.theta, axis=-1))


def hvp_share(run_statistics: RunStatistics, hvp_cost: float = 1.0) -> float:
    """Share of a run's gradient work that was Hessian-vector products, in [0, 1].

    Parameters
    ----------
    run_statistics : RunStatistics
        ``trace.run_statistics``.
    hvp_cost : float
        What one product costs, in scores.
    """
    hvps = hvp_cost * run_statistics.evaluations["hvp"]
    work = run_statistics.evaluations["score"] + hvps
    return hvps / work if work else 0.0


class RepellenceReport(NamedTuple):
    """For each chain, (*chains), over the kept steps: the mean exponent scale, the share of steps in which it was above
    the limit, and the mean acceptance probability; and ``|theta|``, alpha and gamma at the end."""

    exponent_scale: Array
    above: Array
    acceptance_probability: Array
    theta_norm: Array
    alpha: Array
    gamma: Array


class _RepellenceSums(NamedTuple):
    steps: Array
    exponent: Array
    above: Array
    acceptance: Array
    theta_norm: Array
    alpha: Array
    gamma: Array


@dataclass(frozen=True)
class Repellence(Recorder):
    """How strong the tilt of an SRMC run was, with a `RepellenceWarning` if it was too strong. Memory does not grow.

    Parameters
    ----------
    limit : float
        Exponent scale ``alpha |s . theta|`` above which a step counts as too strong; the paper's tau.
    share : float
        A run warns if more than this share of a chain's kept steps were above the limit. Runs that gain much may be
        above 1 in half of their steps; those that diverge or are trapped are above it nearly always.
    least_acceptance : float
        A run warns if the mean acceptance probability of a chain is below this.
    """

    limit: float = 1.0
    share: float = 0.75
    least_acceptance: float = 0.05
    name: str = "repellence"
    chain_axis: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        settle(self, "name", check_text)
        settle(self, "limit", check_number, 0)
        settle(self, "share", check_number, 0, 1)
        settle(self, "least_acceptance", check_number, 0, 1, closed=True)

    def init(self, target: BoundTarget, state: Any) -> _RepellenceSums:
        if not isinstance(state, SRMCState):
            raise CapabilityError(f"Repellence records SRMC runs; the state is a {type(state).__name__}")
        xp = target.xp
        zeros = [xp.zeros_like(state.alpha) for _ in range(6)]
        return _RepellenceSums(counter(target, state.theta), *zeros)

    def update(
        self, target: BoundTarget, carry: _RepellenceSums, state: SRMCState, info: Any
    ) -> tuple[_RepellenceSums, None]:
        xp = target.xp
        scale = exponent_scale(state)
        above = xp.astype(~(scale <= self.limit), scale.dtype)  # counts nan, too
        new = _RepellenceSums(
            carry.steps + 1,
            carry.exponent + scale,
            carry.above + above,
            carry.acceptance + info.acceptance_probability,
            theta_norm(state),
            state.alpha,
            state.gamma,
        )
        return new, None

    def result(self, target: BoundTarget, carry: _RepellenceSums, rows: Tree) -> RepellenceReport:
        xp = target.xp
        steps = xp.astype(carry.steps, carry.alpha.dtype)
        return RepellenceReport(
            carry.exponent / steps,
            carry.above / steps,
            carry.acceptance / steps,
            carry.theta_norm,
            carry.alpha,
            carry.gamma,
        )

    def findings(self, result: RepellenceReport) -> list[Finding]:
        """That the tilt was too strong, that next to nothing was accepted, or that nothing repels."""
        above, accepted, norm, alpha, gamma = (
            to_host(a)
            for a in (result.above, result.acceptance_probability, result.theta_norm, result.alpha, result.gamma)
        )
        count = np.size(alpha)
        found = []
        strong = int(np.sum((above > self.share) & (alpha > 0)))
        if strong:
            what = (
                f"the tilt is too strong in {strong} of {count} chains, with alpha |s . theta| above {self.limit:g} in "
                f"more than {self.share:.0%} of their steps"
            )
            advice = (
                "take a smaller alpha or alpha=Adaptive(...), smaller first steps of the history "
                "(schedule=Stable(...), a larger offset or smaller scale), tilt=Untilted() over a kernel that accepts "
                "or rejects, or more burn-in"
            )
            found.append(Finding("tilt", what, strong, advice))
        stuck = int(np.sum(~(accepted >= self.least_acceptance) & (alpha > 0)))
        if stuck:
            what = (
                f"the acceptance collapsed in {stuck} of {count} chains, to below {self.least_acceptance:g} on average"
            )
            advice = "take a smaller alpha, or a smaller step size if the base kernel alone accepts as little"
            found.append(Finding("tilt_acceptance", what, stuck, advice))
        idle = int(np.sum((norm == 0) & (gamma == 0) & (alpha > 0)))
        if idle:
            what = f"nothing repels in {idle} of {count} chains, whose gamma and theta are 0"
            advice = (
                "a Stable schedule allows no step where the base kernel may be in resonance, so give it the spectrum, "
                "or change steps or step_size"
            )
            found.append(Finding("tilt_idle", what, idle, advice))
        return found
