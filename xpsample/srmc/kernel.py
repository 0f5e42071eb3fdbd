"""Score-repellent Monte Carlo: any kernel, on a target tilted against the average of the scores it has seen.

Source: the SRMC paper, Algorithm 1 and Eqs. 1, 2, 5, 6.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.backend import Array
from xpsample.gradients.choices import FiniteDifference
from xpsample.hyperparameters import PER_CHAIN, POSITIONS, check_range, per_coordinate
from xpsample.kernels.kernel import Kernel
from xpsample.noise import Specs
from xpsample.srmc.schedules import PowerLaw, Schedule
from xpsample.targets.target import BoundTarget, Capability, Point, counter
from xpsample.targets.tilted import Difference, Exact, Tilt, Tilted


class SRMCState(NamedTuple):
    """The base kernel's state, the history theta (*chains, dim), and the number of steps made (0-d)."""

    base: Any
    theta: Array
    n: Array

    @property
    def point(self) -> Point:
        """The current point under the target that SRMC was given, without the tilt."""
        return self.base.point.aux


@dataclass(frozen=True, eq=False)
class SRMC(Kernel):
    """A base kernel made score-repellent (Algorithm 1).

    At each step the base kernel moves on log pi(x) - alpha theta . s(x) with theta held fixed; then
    theta <- theta + gamma (s(x) - theta) with the untilted score.

    Parameters
    ----------
    base : Kernel
        Any kernel.
    alpha : float or array
        Repellence strength, at least 0; 0 gives the base kernel bit for bit. Broadcasts against the chain axes.
    schedule : Schedule
        Step sizes of the history.
    tilt : Tilt or FiniteDifference
        How the surrogate score (Eq. 5) is computed: `Exact` by Hessian-vector products, ``FiniteDifference(eps)`` by
        differences of scores (Eq. 6), `Shift` by one shifted score. Kernels that need no score do not pay for it.
    theta : array, shape (*chains, dim), optional
        The history to start from; zero when not given.
    """

    base: Kernel
    alpha: Any = field(metadata=PER_CHAIN)
    schedule: Schedule = PowerLaw()
    tilt: Tilt | FiniteDifference = Exact()
    theta: Array | None = field(default=None, metadata=POSITIONS)

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0, closed=True)

    @property
    def requires(self) -> Capability:  # type: ignore[override]
        tilt = self._tilt.requires if Capability.SCORE in self.base.requires else Capability.NONE
        return self.base.requires | Capability.SCORE | tilt

    @property
    def _tilt(self) -> Tilt:
        return Difference(self.tilt) if isinstance(self.tilt, FiniteDifference) else self.tilt

    def init(self, target: BoundTarget, x: Array) -> SRMCState:
        xp = target.xp
        theta = xp.zeros_like(x) if self.theta is None else xp.zeros_like(x) + self.theta
        base = self.base.init(self._tilted(target, theta), x)
        return SRMCState(base, theta, counter(target, x))

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: SRMCState, noise: dict[str, Array]) -> tuple[SRMCState, Any]:
        xp = target.xp
        base, info = self.base.step(self._tilted(target, state.theta), state.base, noise)
        n = state.n + 1
        gamma = per_coordinate(self.schedule.gamma(xp, xp.astype(n, state.theta.dtype)))
        theta = state.theta + gamma * (base.point.aux.score - state.theta)
        return SRMCState(base, theta, n), info

    def _tilted(self, target: BoundTarget, theta: Array) -> Tilted:
        return Tilted(target, theta, self.alpha, self._tilt, self.base.requires)
