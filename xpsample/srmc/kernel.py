"""Score-repellent Monte Carlo: a kernel on a target that is tilted against the average of the scores it has seen.

Source: the SRMC paper, Algorithm 1 and Eqs. 1, 2, 5, 6.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.checks import check_instance, settle
from xpsample.core.hyperparameters import PER_CHAIN, POSITIONS, check_vector, per_coordinate
from xpsample.core.specs import Specs
from xpsample.core.tree import Tree
from xpsample.gradients.choices import FiniteDifference
from xpsample.kernels.compose import check_base
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.strength import Strength, as_strength, check_strength
from xpsample.kernels.traits import Trait
from xpsample.srmc.schedules import PowerLaw, Schedule
from xpsample.srmc.strength import Growing
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point
from xpsample.targets.tilted import Difference, Exact, Tilt, Tilted


class SRMCState(NamedTuple):
    """The base kernel's state, the history theta (*chains, dim), and the number of steps made (0-d).

    ``score`` (*chains, dim) is the tilt's score at the current position. ``alpha`` (*chains) is the strength of the
    next step's tilt, ``gamma`` (*chains) the step size of the last update of theta. ``schedule`` and ``strength`` are
    the memories of the schedule and of the rule for alpha, or None.
    """

    base: Any
    theta: Array
    score: Array
    n: Array
    alpha: Array
    gamma: Array
    schedule: Tree
    strength: Tree

    @property
    def point(self) -> Point:
        """The current point under the target that SRMC was given, without the tilt."""
        return self.base.point.base


@dataclass(frozen=True, eq=False)
class SRMC(Kernel[SRMCState, Any]):
    """A base kernel made score-repellent (Algorithm 1).

    At each step the base kernel moves on log pi(x) - alpha theta . s(x) with theta held fixed; then
    theta <- theta + gamma (s(x) - theta) with the untilted score.

    Parameters
    ----------
    base : Kernel
        Any kernel that samples its target, by the target's own densities and scores. Where the tilt leaves proposals as
        they are (`Untilted`, `Ratio`), it must accept or reject.
    alpha : float, array or Growing
        Repellence strength, at least 0; with 0 the steps are the base kernel's, bit for bit. An array broadcasts
        against the chain axes; `Adaptive` grows during a warm-up.
    schedule : Schedule
        Step sizes of the history.
    tilt : Tilt or FiniteDifference
        How the surrogate score (Eq. 5) is computed: `Exact` by Hessian-vector products, ``FiniteDifference(eps)`` by
        differences of scores (Eq. 6), `Shift` by one shifted score, `Untilted` not at all. If the base kernel needs no
        score, it is not computed. On discrete spaces the score is the gradient, or with `Ratio` the discrete score
        (Eq. 17).
    theta : array, shape (*chains, dim), optional
        The history to start from; zero when not given.
    """

    base: Kernel
    alpha: float | Array | Strength = field(metadata=PER_CHAIN)
    schedule: Schedule = PowerLaw()
    tilt: Tilt | FiniteDifference = Exact()
    theta: Array | None = field(default=None, metadata=POSITIONS)
    _strength: Strength = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settle(self, "alpha", check_strength, Growing)
        object.__setattr__(self, "_strength", as_strength(self.alpha))
        settle(self, "schedule", check_instance, Schedule, "PowerLaw()")
        settle(self, "tilt", check_instance, (Tilt, FiniteDifference), "Exact() or Shift()")
        settle(self, "theta", check_vector)
        needs = {
            Trait.SAMPLES: "SRMC tilts the target that the chains sample",
            Trait.EXACT: "the history would take up their noise and the tilt their differences; take the kernel on the "
            "whole data, or SRLD(Minibatch(...), ...)",
        }
        if not self._tilt.moves:
            needs[Trait.INVARIANT] = (
                f"with {type(self._tilt).__name__}() only an accept step sees the tilt; take Exact() or Shift()"
            )
        check_base("SRMC", self.base, needs)

    @property
    def requires(self) -> Capability:
        tilt = self._tilt.requires if Capability.SCORE in self.base.requires else Capability.NONE
        hvp = Capability.HVP if self.schedule.hvps else Capability.NONE
        return self.base.requires | self._tilt.needs | tilt | hvp

    @property
    def traits(self) -> Trait:
        return self.base.traits & (Trait.SAMPLES | Trait.MOVABLE | Trait.EXACT)

    @property
    def _tilt(self) -> Tilt:
        return Difference(self.tilt) if isinstance(self.tilt, FiniteDifference) else self.tilt

    def init(self, target: BoundTarget, x: Array) -> SRMCState:
        xp = target.xp
        zero = xp.zeros_like(target.as_floating(x))
        theta = zero if self.theta is None else zero + self.theta
        alpha, strength = self._strength.init(xp, xp.zeros_like(theta[..., 0]))
        base = self.base.init(self._tilted(target, theta, alpha), x)
        gamma = xp.zeros_like(theta[..., 0])
        score = self._tilt.feature(target, base.point.base)
        return SRMCState(base, theta, score, counter(target, x), alpha, gamma, self.schedule.init(target, x), strength)

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: SRMCState, noise: dict[str, Array]) -> tuple[SRMCState, Any]:
        xp = target.xp
        tilted = self._tilted(target, state.theta, state.alpha, state.point)
        base, info = self.base.step(tilted, state.base, noise)

        n, point = state.n + 1, base.point.base
        score = self._tilt.feature(target, point)
        time = xp.astype(n, state.theta.dtype)
        gamma, schedule = self.schedule.gamma(target, time, state.alpha, point, state.schedule)
        theta = state.theta + per_coordinate(gamma) * (score - state.theta)  # Eq. 1

        alpha, strength = state.alpha, state.strength
        if isinstance(self._strength, Growing):
            alpha, strength = self._strength.update(xp, n, alpha, score, theta, strength)
        spent = info.evaluations.plus(target.costs.hvp.times(self.schedule.hvps))
        state = SRMCState(base, theta, score, n, alpha, xp.zeros_like(alpha) + gamma, schedule, strength)
        return state, info._replace(evaluations=spent)

    def _tilted(self, target: BoundTarget, theta: Array, alpha: Array, origin: Point | None = None) -> Tilted:
        return Tilted(target, theta, alpha, self._tilt, self.base.requires, origin)
