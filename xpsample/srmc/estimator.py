"""The estimator of SRMC's theory: a mean weighted by the step sizes of the history (Eq. 7)."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import CapabilityError, FunctionError
from xpsample.core.fields import function
from xpsample.core.tree import Tree
from xpsample.srmc.kernel import SRMCState
from xpsample.targets.bound import BoundTarget, counter
from xpsample.trace.recorders import Recorder, check_rows


class Estimates(NamedTuple):
    """Estimates of the mean of f, each (*chains, ...): mu_n of Eq. 7, and the plain average over the kept steps."""

    weighted: Array
    average: Array


class _EstimatorMeans(NamedTuple):
    seen: Array
    weight: Array
    weighted: Array
    average: Array


def _identity(x: Array) -> Array:
    """f(x) = x."""
    return x


class Estimator(Recorder):
    """mu_{n+1} = mu_n + gamma_{n+1} (f(X_{n+1}) - mu_n) with the gamma of the history (Eq. 7), and the plain average.

    The start and the burn-in have no weight: mu is divided by the total weight of the kept steps, which tends to one.
    With thinning, only the kept steps count, each with its own gamma. If all of them have a gamma of 0 (`Frozen`, or
    a `Stable` schedule that allows none) both are the plain average. Memory does not grow.

    Parameters
    ----------
    function : callable
        f: positions (*chains, dim) -> (*chains) or (*chains, m); pure. The identity when not given.

    Notes
    -----
    With gamma_n = 1 / (n + 1) and no burn-in both are the same. If gamma falls more slowly, mu_n forgets the start and
    averages over fewer steps: for rho < 1 its variance falls as gamma_n, the plain average's as 1 / n.
    """

    function: Callable[[Array], Array] = function("(x)", default=_identity)
    name: str = "estimate"
    chain_axis: ClassVar[int | None] = 0

    def init(self, target: BoundTarget, state: Any) -> _EstimatorMeans:
        if not isinstance(state, SRMCState):
            raise CapabilityError(
                f"Estimator weights by the step sizes of SRMC's history; the state is a {type(state).__name__}. "
                "Moments gives plain means"
            )
        xp, value = target.xp, check_rows("Estimator", self.function, state.point.x, state.theta)
        if tuple(getattr(value, "shape", ())[: state.gamma.ndim]) != tuple(state.gamma.shape):
            raise FunctionError(
                "the function of Estimator must give (*chains) or (*chains, m), for chains "
                f"{tuple(state.gamma.shape)}; got {given(value)}"
            )
        zeros = [xp.zeros_like(a) for a in (state.gamma, value, value)]
        return _EstimatorMeans(counter(target, state.theta), *zeros)

    def update(
        self, target: BoundTarget, carry: _EstimatorMeans, state: SRMCState, info: Any
    ) -> tuple[_EstimatorMeans, None]:
        xp, value, gamma = target.xp, self.function(state.point.x), state.gamma
        seen = carry.seen + 1
        weight = carry.weight + gamma * (1 - carry.weight)
        weighted = carry.weighted + _like(gamma, value) * (value - carry.weighted)
        average = carry.average + (value - carry.average) / xp.astype(seen, value.dtype)
        return _EstimatorMeans(seen, weight, weighted, average), None

    def result(self, target: BoundTarget, carry: _EstimatorMeans, rows: Tree) -> Estimates:
        xp, weight = target.xp, _like(carry.weight, carry.weighted)
        some = weight > 0
        return Estimates(xp.where(some, carry.weighted / xp.where(some, weight, 1.0), carry.average), carry.average)


def _like(chains: Array, value: Array) -> Array:
    """(*chains) made to broadcast against (*chains) or (*chains, m)."""
    return chains[..., None] if value.ndim > chains.ndim else chains
