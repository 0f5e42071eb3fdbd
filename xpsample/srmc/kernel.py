"""Score-repellent Monte Carlo: a kernel on a target that is tilted against the average of the scores it has seen.

Source: the SRMC paper, Algorithm 1 and Eqs. 1, 2, 5, 6.
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from xpsample.adaptation import unset
from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.errors import CapabilityError, FunctionError, HyperparameterError
from xpsample.core.fields import checked, instance
from xpsample.core.hyperparameters import POSITIONS, check_range, per_coordinate, show
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.core.tree import Tree
from xpsample.diagnostics.findings import Finding
from xpsample.gradients.choices import FiniteDifference
from xpsample.kernels.adapted import warming
from xpsample.kernels.blocks import has_blocks
from xpsample.kernels.compose import check_base
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.schedules import with_field
from xpsample.kernels.strength import Strength, Waiting, strength
from xpsample.kernels.traits import Trait
from xpsample.spaces.named import is_real
from xpsample.spaces.space import Space
from xpsample.srmc.pilot import LowestError, PilotInfo, check_schedule
from xpsample.srmc.schedules import PowerLaw, Schedule
from xpsample.srmc.strength import Growing
from xpsample.srmc.watch import Watch, judge, watch
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point
from xpsample.targets.tilted import Difference, Exact, Ratio, Tilt, Tilted, Untilted

# Default schedule. The offset costs little after some hundred steps.
# It takes away the first, large steps of the history, which break chains where scores are not Lipschitz.
LATE = PowerLaw(offset=100.0)

LEAST_STEPS = 20  # Fewest steps of a run that is judged


class SRMCState(NamedTuple):
    """The base kernel's state, the history theta (*chains, dim), and the number of steps made (0-d).

    ``score`` (*chains, dim) is the tilt's score at the current position. ``alpha`` (*chains) is the strength of the
    next step's tilt, ``gamma`` (*chains) the step size of the last update of theta. ``schedule`` and ``strength`` are
    the memories of the schedule and of the rule for alpha, or None. ``watch`` is what the findings are made from.
    """

    base: Any
    theta: Array
    score: Array
    n: Array
    alpha: Array
    gamma: Array
    schedule: Tree
    strength: Tree
    watch: Watch

    def findings(self) -> list[Finding]:
        """Return whether the tilt of the run was too strong."""
        if not to_host(self.watch.steps) >= LEAST_STEPS:
            return []
        xp = array_namespace(self.theta)
        at_zero = xp.all(self.theta == 0, axis=-1)
        exponent, above, accepted = self.watch.means(xp)
        # A frozen history is as its user wants it.
        exponent, above = (xp.where(self.gamma > 0, a, 0.0) for a in (exponent, above))
        accepted = xp.where((self.gamma > 0) | at_zero, accepted, 1.0)
        return judge(exponent, above, accepted, at_zero, self.alpha, self.gamma)

    @property
    def point(self) -> Point:
        """The current point under the target that SRMC was given, without the tilt."""
        return self.base.point.base


def default_tilt(base: Kernel) -> Tilt:
    """One whose scores have mean 0 on the space that the kernel is for, where there is one."""
    discrete = bool(base.requires & (Capability.DISCRETE | Capability.DIFFERENCES))
    if discrete or (has_blocks(base) and Trait.INVARIANT in base.traits):
        return Ratio()
    return Untilted() if Trait.INVARIANT in base.traits else Exact()


class SRMC(Kernel[SRMCState, Any]):
    """A base kernel made score-repellent (Algorithm 1).

    At each step the base kernel moves on log pi(x) - alpha theta . s(x) with theta held fixed; then
    theta <- theta + gamma (s(x) - theta) with the untilted score.

    Parameters
    ----------
    base : Kernel
        Any kernel that samples its target, by the target's own densities and scores. If the tilt leaves proposals as
        they are (`Untilted`, `Ratio`), it must accept or reject.
    alpha : float, array or Growing, optional
        Repellence strength, at least 0; with 0 the steps are the base kernel's, bit for bit. An array broadcasts
        against the chain axes; `Adaptive` grows along the chain. Tuned to the lowest error of the mean that is
        predicted when not given, by `LowestError`; see the notes.
    schedule : Schedule
        Step sizes of the history; the paper's are ``PowerLaw()``, which starts with larger ones.
    tilt : Tilt or FiniteDifference, optional
        How the surrogate score (Eq. 5) is computed: `Exact` by Hessian-vector products, ``FiniteDifference(eps)`` by
        differences of scores (Eq. 6), `Shift` by one shifted score, `Untilted` not at all. If the base kernel needs no
        score, it is not computed. When not given, `Untilted` over a base that accepts or rejects, and `Exact` over the
        others; on discrete spaces, and for the discrete parameters of a `Model`, `Ratio`, the discrete score (Eq. 17).
        On these, all others use the gradient, as the paper's relaxed forms do: its mean is not 0, and the draws stay
        biased.
    theta : array, shape (*chains, dim), optional
        The history to start from; zero when not given.

    See Also
    --------
    SRLD : Repels positions and not averages.
    Untilted : A tilt.
    Ratio : A tilt.
    Exact : A tilt.
    PowerLaw : Step sizes of the history.

    Notes
    -----
    If something is tuned, here or in the base kernel, the warm-up runs without repellence, and the history begins
    after it.

    The mean of the scores must be 0, so a target with hard constraints is refused, but on a discrete space with
    `Ratio`. The theory (Lemma 3.2) asks for a score that is Lipschitz, which does not hold for a log-scaled parameter:
    in that case do not set alpha, and check the findings of the run.

    alpha is tuned over a base that repels nothing itself, and with tilts that leave proposals as they are, or over a
    base that takes every move. For all else it must be given.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> kernel = xps.SRMC(xps.MALA(), alpha=0.5)  # step size and preconditioner are tuned, alpha is given
    >>> trace = xps.sample(target, kernel, np.random.default_rng(0).normal(size=(4, 2)), 2000, seed=1)
    >>> bool(abs(trace.draws.mean()) < 0.1)
    True
    """

    base: Kernel
    alpha: float | Array | Strength | None = strength(Growing, default=None, tune=LowestError())
    schedule: Schedule = instance(Schedule, "PowerLaw()", default=LATE)
    tilt: Tilt | FiniteDifference | None = instance((Tilt, FiniteDifference), "Exact() or Shift()", default=None)
    theta: Array | None = checked(check_range, default=None, kind=POSITIONS)

    def __check_init__(self) -> None:
        needs = {
            Trait.SAMPLES: "SRMC tilts the target that the chains sample",
            Trait.EXACT: "their noise would enter the history, and their differences the tilt; use the kernel on the "
            "whole data, or SRLD(Minibatch(...), ...)",
            Trait.SEPARATE: "each chain has its own history and target; use a kernel whose chains are "
            "independent, such as RWM",
            Trait.ANY_DEPENDENCE: "take Gibbs()",
        }
        check_base("SRMC", self.base, needs)
        if not self._tilt.moves:
            shown = type(self._tilt).__name__
            instead = f"with {shown}() only an accept step sees the tilt; use Exact() or Shift()"
            check_base("SRMC", self.base, {Trait.INVARIANT: instead})
        if isinstance(self._strength, Waiting):
            self._check_tuned()

    def _check_tuned(self) -> None:
        """Raise unless the rule for alpha knows enough of the base kernel, the tilt and the schedule."""
        check_schedule(self.schedule)
        if Trait.UNTILTED not in self.base.traits:
            raise HyperparameterError(
                "SRMC cannot tune alpha over a kernel that is itself repelled, since a warm-up runs without repulsion. "
                "Set alpha."
            )
        if self._tilt.moves and Trait.TAKES_ESTIMATES not in self.base.traits:
            raise HyperparameterError(
                f"SRMC cannot tune alpha with {show(self._tilt)} over {type(self.base).__name__}, where a warm-up does "
                "not show which strengths break chains. Set alpha, or use the default tilt."
            )

    @declared
    def requires(self) -> Capability:
        tilt = self._tilt.requires if Capability.SCORE in self.base.requires else Capability.NONE
        hvp = Capability.HVP if self.schedule.hvps else Capability.NONE
        return self.base.requires | self._tilt.needs | tilt | hvp

    @declared
    def traits(self) -> Trait:
        kept = Trait.SAMPLES | Trait.MOVABLE | Trait.EXACT | Trait.SEPARATE | Trait.ANY_DEPENDENCE
        return self.base.traits & (kept | Trait.STAYS_INSIDE if isinstance(self._tilt, Ratio) else kept)

    @declared
    def optimal_acceptance(self) -> float | None:
        return self.base.optimal_acceptance

    @property
    def _tilt(self) -> Tilt:
        if isinstance(self.tilt, FiniteDifference):
            return Difference(self.tilt)
        return default_tilt(self.base) if self.tilt is None else self.tilt

    @property
    def _strength(self) -> Strength:
        strength: Strength = self.derived("alpha")
        return strength

    def init(self, target: BoundTarget, x: Array) -> SRMCState:
        self._check_space(target.space)
        xp = target.xp
        zero = xp.zeros_like(target.as_floating(x))
        theta = zero if self.theta is None else zero + self.theta
        alpha, strength = self._strength.init(xp, xp.zeros_like(theta[..., 0]))
        base = self.base.init(self._tilted(target, theta, alpha), x)
        gamma = xp.zeros_like(theta[..., 0])
        score = self._tilt.feature(target, base.point.base)
        _check_tilt(self._tilt, theta, feature=score, score=base.point.score)
        memory, begun = self.schedule.init(target, x), watch(counter(target, x), xp.zeros_like(alpha))
        return SRMCState(base, theta, score, counter(target, x), alpha, gamma, memory, strength, begun)

    def _check_space(self, space: Space) -> None:
        """Raise unless the mean of the scores is 0, or the user set a tilt whose scores have another mean."""
        if is_real(space) or isinstance(self._tilt, Ratio):
            return
        shown = show(self._tilt)
        where = f"the mean of the scores is not 0 on {type(space).__name__} with {shown}"
        if self.tilt is None:
            raise CapabilityError(
                f"{where}, so the draws would stay biased. Use Ratio() over a discrete kernel that accepts or rejects, "
                f"or no SRMC; tilt={shown} runs and stays biased."
            )
        if isinstance(self._strength, Waiting) and self._strength.then is None:
            raise HyperparameterError(f"SRMC cannot tune alpha, since {where}: set alpha, or use Ratio()")

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: SRMCState, noise: dict[str, Array]) -> tuple[SRMCState, Any]:
        xp, alpha = target.xp, self._strength.now(state.alpha)
        tilted = self._tilted(target, state.theta, alpha, state.point)
        base, info = self.base.advance(tilted, state.base, noise)

        n, point = state.n + 1, base.point.base
        score = self._tilt.feature(target, point)
        if isinstance(self._strength, Waiting):  # a warm-up: the history has not begun
            return state._replace(base=base, score=score), PilotInfo(*Info.of(info), before=state.score, after=score)
        time = xp.astype(n, state.theta.dtype)
        gamma, schedule = self.schedule.gamma(target, time, alpha, point, state.schedule)
        theta = state.theta + per_coordinate(gamma) * (score - state.theta)  # Eq. 1

        strength = state.strength
        if isinstance(self._strength, Growing):
            alpha, strength = self._strength.update(xp, n, alpha, score, theta, strength)
        spent = info.evaluations.plus(target.costs.hvp.times(self.schedule.hvps))
        exponent = alpha * xp.abs(xp.sum(score * theta, axis=-1))
        seen = state.watch.after(xp, exponent, info.acceptance_probability)
        state = SRMCState(base, theta, score, n, alpha, xp.zeros_like(alpha) + gamma, schedule, strength, seen)
        return state, info._replace(evaluations=spent)

    def _tilted(self, target: BoundTarget, theta: Array, alpha: Array, origin: Point | None = None) -> Tilted:
        return Tilted(target, theta, alpha, self._tilt, self.base.requires, origin)


def _check_tilt(tilt: Tilt, theta: Array, **found: Array | None) -> None:
    """Raise if a user's tilt has another shape than the history, with which it may silently broadcast."""
    for name, values in found.items():
        if values is not None and tuple(values.shape) != tuple(theta.shape):
            raise FunctionError(
                f"{name} of {show(tilt)} must return an array of shape {tuple(theta.shape)}; got shape "
                f"{tuple(values.shape)}"
            )


@warming.register
def _warming(kernel: SRMC) -> Any:
    return with_field(kernel, "alpha", Waiting(None if unset(kernel) else kernel._strength))
