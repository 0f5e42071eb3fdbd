"""Is the repellence too strong? What a run shows of its history and tilt, and its findings."""

from typing import Any, ClassVar, NamedTuple

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.core.fields import number, text
from xpsample.core.tree import Tree
from xpsample.diagnostics.findings import Finding
from xpsample.srmc.kernel import SRMCState
from xpsample.srmc.watch import LEAST_ACCEPTANCE, LIMIT, SHARE, Watch, judge, watch
from xpsample.targets.bound import BoundTarget, counter
from xpsample.trace.recorders import Recorder


def theta_norm(state: SRMCState) -> Array:
    """``|theta_n|``, shape (*chains), in one over the units of x; for ``Record("theta_norm", theta_norm)``."""
    xp = array_namespace(state.theta)
    return xp.sqrt(xp.sum(state.theta * state.theta, axis=-1))


def exponent_scale(state: SRMCState) -> Array:
    """``alpha_n |s(X_n) . theta_n|``, shape (*chains): how much the tilt changes the log density at X_n."""
    xp = array_namespace(state.theta)
    return state.alpha * xp.abs(xp.sum(state.score * state.theta, axis=-1))


class RepellenceReport(NamedTuple):
    """For each chain, (*chains), over the kept steps: the mean exponent scale, the share of steps in which it was above
    the limit, and the mean acceptance probability; and ``|theta|``, alpha and gamma at the end."""

    exponent_scale: Array
    above: Array
    acceptance_probability: Array
    theta_norm: Array
    alpha: Array
    gamma: Array


class _Seen(NamedTuple):
    watch: Watch
    theta_norm: Array
    alpha: Array
    gamma: Array


class Repellence(Recorder, eq=True):
    """Strength of the tilt of an SRMC run, chain by chain, and its findings at other limits. Memory does not grow.

    Every run of SRMC has the findings at these limits, with all its steps counted; here the burn-in is not.

    Parameters
    ----------
    limit : float
        Exponent scale ``alpha |s . theta|`` above which a step counts as too strong; the paper's tau.
    share : float
        A run warns if more than this share of a chain's kept steps were above the limit. Runs that gain much may be
        above 1 in half of their steps; diverging or trapped ones are above it nearly always.
    least_acceptance : float
        A run warns if the mean acceptance probability of a chain is below this.
    """

    limit: float = number(default=LIMIT, gt=0)
    share: float = number(default=SHARE, gt=0, le=1)
    least_acceptance: float = number(default=LEAST_ACCEPTANCE, ge=0, le=1)
    name: str = text(default="repellence")
    chain_axis: ClassVar[int | None] = 0

    def init(self, target: BoundTarget, state: Any) -> _Seen:
        if not isinstance(state, SRMCState):
            raise CapabilityError(f"Repellence records SRMC runs; the state is a {type(state).__name__}")
        zeros = target.xp.zeros_like(state.alpha)
        return _Seen(watch(counter(target, state.theta), zeros), zeros + 0.0, zeros + 0.0, zeros + 0.0)

    def update(self, target: BoundTarget, carry: _Seen, state: SRMCState, info: Any) -> tuple[_Seen, None]:
        seen = carry.watch.after(target.xp, exponent_scale(state), info.acceptance_probability, self.limit)
        return _Seen(seen, theta_norm(state), state.alpha, state.gamma), None

    def result(self, target: BoundTarget, carry: _Seen, rows: Tree) -> RepellenceReport:
        return RepellenceReport(*carry.watch.means(target.xp), carry.theta_norm, carry.alpha, carry.gamma)

    def findings(self, result: RepellenceReport) -> list[Finding]:
        """Findings that the tilt was too strong, that next to nothing was accepted, or that nothing repels."""
        exponent, above, accepted, norm, alpha, gamma = result
        return judge(exponent, above, accepted, norm == 0, alpha, gamma, self.limit, self.share, self.least_acceptance)
