"""Stein self-repulsive dynamics: a Langevin-type kernel repelled by its own past.

Source: Ye, Ren & Liu, "Stein Self-Repulsive Dynamics: Benefits from Past Samples" (2020), Eqs. 3 and 6.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.fields import checked, flag, instance
from xpsample.core.hyperparameters import ROWS_OF_POSITIONS, per_coordinate
from xpsample.core.specs import Specs
from xpsample.core.tree import Tree
from xpsample.diagnostics.diagnosis import findings_of
from xpsample.diagnostics.findings import Finding
from xpsample.gradients.choices import FiniteDifference
from xpsample.kernels.adapted import warming
from xpsample.kernels.compose import check_base
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.schedules import with_field
from xpsample.kernels.strength import Strength, Waiting, strength
from xpsample.kernels.traits import Trait
from xpsample.metrics.stein import PAIRS, RBF, Bandwidth, Median, PairKernel, check_kernel, stein_force
from xpsample.srld.history import History, Past, Rolling, begin, check_past, pooled, repeated
from xpsample.srld.strength import Balanced, Measured
from xpsample.targets.bound import BoundTarget, SameRatioTarget
from xpsample.targets.point import Capability, Costs, Point


class SRLDState(NamedTuple):
    """The base kernel's state, the memory of the past, and the number of steps since its first position (0-d).

    ``alpha`` (*chains) is the strength of the last step's repulsion, once there is a past. ``strength`` is the memory
    of the rule for alpha, or None. ``sigma`` (*chains) is the bandwidth of the past that repels the next step, or None
    if the bandwidth is a number or depends on where the chain is. ``past`` is one `Past`, or as many as `Rolling` has.
    """

    base: Any
    past: Any
    n: Array
    alpha: Array
    strength: Tree
    sigma: Array | None

    @property
    def point(self) -> Point:
        """The current point under the target that SRLD was given, without the repulsion."""
        return self.base.point.base

    def findings(self) -> list[Finding]:
        """Name the repulsion as the cause of heat."""
        advice = "the repulsion heats them, as do long steps: use a smaller alpha or step size, or compare with alpha=0"
        return [replace(found, advice=advice) for found in findings_of(self.base) if found.kind == "heat"]


@dataclass(frozen=True, eq=False)
class Repelled(SameRatioTarget):
    """A bound target whose score is s(x) + alpha g(x; past); its density is the target's own.

    Points carry the plain point in `base`. The scores of the past are stored, so a call costs the target's evaluations
    and no more.

    Parameters
    ----------
    target : BoundTarget
        Must require a score.
    past : Past
        What repels, (*chains, M, dim); chain axes broadcast.
    alpha : array, shape (*chains)
        If it is 0, the score is the target's bit for bit.
    kernel : PairKernel
    sigma : float, array or None
        The kernel's bandwidth if it does not depend on the point, otherwise None.
    requires : Capability
        What the kernel on top requires.
    """

    target: BoundTarget
    past: Past
    alpha: Array
    kernel: PairKernel
    sigma: float | Array | None
    requires: Capability

    @property
    def costs(self) -> Costs:
        costs = self.target.costs
        return costs._replace(hvp=costs.score.times(2))

    def from_base(self, base: Point) -> Point:
        return Point(base.x, base.log_density, self._repelled(base.x, base.score), base)

    def _repelled(self, x: Array, score: Array) -> Array:
        return _repel(self.xp, self.kernel, x, score, self.past, self.alpha, self.sigma)

    def log_density(self, x: Array) -> Array:
        return self.target.log_density(x)

    def score(self, x: Array) -> Array:
        return self._repelled(x, self.target.score(x))

    def hvp(self, x: Array, v: Array) -> Array:
        return FiniteDifference().along(self.score, x, v)


class SRLD(Kernel[SRLDState, Any]):
    """A Langevin-type kernel whose score is s(x) + alpha g(x; past), g Stein's force from its past positions (Eq. 3).

    ``SRLD(ULA(eta), alpha, Rolling(M, c))`` is the paper's. During the first M c steps it is the base kernel.

    Parameters
    ----------
    base : Kernel
        A kernel that moves along the score: ULA or UnderdampedLangevin, on minibatches or not. MALA and HMC accept or
        reject by the target's own density, so that the past changes only their proposals.
    alpha : float, array or Measured, optional
        Repulsion strength, without unit, at least 0; with 0 the steps are the base kernel's, bit for bit. An array
        broadcasts against the chain axes; `Balanced` measures it, over 10 M steps when not given.
    history : History
        Which past positions repel: `Rolling(M, c)`, as in Eq. 3, or `Thinned(M, c)`.
    kernel : PairKernel
        K and its bandwidth.
    shared : bool
        Whether every chain is repelled by the past of all chains of the last chain axis (``M * chains`` positions)
        instead of its own. The groups of leading axes stay apart.
    past : array, shape (M, dim) or (M, *chains, dim), optional
        M given positions, such as draws of an earlier run, the oldest first. They repel from the first step
        on, as if the chain had been at one of them every c steps before its start; each leaves as a position of the
        chain itself enters. Their scores cost M evaluations at the start. None: the past begins empty.

    See Also
    --------
    SRMC : Repels an average of scores.
    Rolling : A past.
    Thinned : A past.

    Notes
    -----
    If something in the base kernel is tuned, the warm-up runs without repulsion, and the past begins after it.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(None, score=lambda x: -x)
    >>> kernel = xps.SRLD(xps.ULA(0.1), alpha=2.0, history=xps.Rolling(size=10, every=10))
    >>> trace = xps.sample(target, kernel, np.random.default_rng(0).normal(size=(20, 2)), 1000, seed=1, burn_in=200)
    >>> trace.draws.shape
    (1000, 20, 2)
    """

    base: Kernel
    alpha: float | Array | Strength | None = strength(
        Measured, default=None, factory=lambda srld: Balanced(10 * srld.history.size)
    )
    history: History = instance(History, "Rolling(10, 20)", default=Rolling(10, 10))
    kernel: PairKernel = checked(check_kernel, default=RBF())
    shared: bool = flag(default=False)
    past: Array | None = field(default=None, metadata=ROWS_OF_POSITIONS)

    def __check_init__(self) -> None:
        if self.past is not None:
            check_past("past", self.past, self.history.size)
        check_base(
            "SRLD",
            self.base,
            {
                Trait.SAMPLES: "its past would not be of the target",
                Trait.DRIFTS: "use ULA or UnderdampedLangevin, on minibatches or not",
            },
        )

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.SCORE | Capability.REAL

    @declared
    def traits(self) -> Trait:
        together = Trait.SEPARATE if self.shared else Trait.NONE
        return self.base.traits & ~(Trait.INVARIANT | together)

    @property
    def _strength(self) -> Strength:
        strength: Strength = self.derived("alpha")
        return strength

    def init(self, target: BoundTarget, x: Array) -> SRLDState:
        xp = target.xp
        zeros = xp.zeros_like(x[..., 0])
        alpha, strength = self._strength.init(xp, zeros)
        memory, n = begin(target, x, self.history, self.past, self._keeps_distances)
        past, _ = self._past(xp, memory, n)
        sigma = self._measured(xp, past)
        repelled = Repelled(target, past, zeros, self.kernel, self._bandwidth(sigma), self.base.requires)
        return SRLDState(self.base.init(repelled, x), memory, n, alpha, strength, sigma)

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x)

    def step(self, target: BoundTarget, state: SRLDState, noise: dict[str, Array]) -> tuple[SRLDState, Any]:
        xp, point = target.xp, state.point
        past, ready = self._past(xp, state.past, state.n)
        sigma = self._bandwidth(state.sigma)
        alpha, strength = self._strength.now(state.alpha), state.strength
        if isinstance(self._strength, Measured):
            force = stein_force(xp, self.kernel, point.x, past.x, past.score, sigma)
            alpha, strength = self._strength.update(xp, ready, alpha, point.score, force, strength)
        alpha_now = xp.where(ready, alpha, 0.0)
        repelled = Repelled(target, past, alpha_now, self.kernel, sigma, self.base.requires)
        base, info = self.base.advance(repelled, state.base, noise)
        if isinstance(self._strength, Waiting):  # a warm-up: the past has not begun
            return state._replace(base=base), info
        memory, sigma = self._remember(target, state, point)
        return SRLDState(base, memory, state.n + 1, alpha, strength, sigma), info

    def drift(self, state: SRLDState) -> Array:
        """s(x) + alpha g(x; past), ``(*chains, dim)``, at the state's position: what the next step moves along (Eq. 3).

        It takes the alpha of the last step, which a rule may change at the next one.
        """
        xp, point = array_namespace(state.point.x), state.point
        past, ready = self._past(xp, state.past, state.n)
        alpha = xp.where(ready, state.alpha, 0.0)
        return _repel(xp, self.kernel, point.x, point.score, past, alpha, self._bandwidth(state.sigma))

    def _remember(self, target: BoundTarget, state: SRLDState, point: Point) -> tuple[Any, Array | None]:
        """The memory after the step that began at `point`, and the bandwidth of the past that repels the next one."""
        xp, n = target.xp, state.n

        def enter(i: Any, old: tuple[Any, Array | None]) -> tuple[Any, Array | None]:
            memory = self.history.push(xp, old[0], n, point)
            return memory, self._measured(xp, self._past(xp, memory, n + 1)[0])

        changes = self.history.changes(n)
        if isinstance(changes, bool):
            return enter(0, (state.past, state.sigma))
        found: tuple[Any, Array | None] = target.backend.repeat(changes, enter, (state.past, state.sigma))
        return found

    @property
    def _keeps_distances(self) -> bool:
        """Return whether a past's median distance is over pairs of the chain's own stored positions."""
        pairs = self.history.size * (self.history.size - 1) // 2
        own = not (self.shared or self.history.padded)
        return own and isinstance(self.kernel.bandwidth, Median) and 0 < pairs <= PAIRS

    def _measured(self, xp: Any, past: Past) -> Array | None:
        """The bandwidth of a past (*chains) if its rule depends on the past alone, otherwise None."""
        rule = self.kernel.bandwidth
        if not isinstance(rule, Bandwidth) or rule.local:
            return None
        if isinstance(rule, Median) and self._keeps_distances:
            return rule.of_pairs(xp, past.pairs(xp), self.history.size)
        return rule.at(xp, None, past.x)

    def _bandwidth(self, sigma: Array | None) -> float | Array | None:
        """The bandwidth of the force: what was measured, or the number that was set; None depends on the point."""
        rule = self.kernel.bandwidth
        return sigma if isinstance(rule, Bandwidth) else rule

    def _past(self, xp: Any, memory: Any, n: Array) -> tuple[Past, Array]:
        """The positions that repel at step n, and whether there are enough."""
        history = self.history
        past, count = history.stored(memory, n)
        ready = n >= history.size * history.every
        if history.padded:
            past, ready = repeated(xp, past, count), count >= 1
        return (pooled(xp, past) if self.shared else past), ready


def _repel(
    xp: Any, kernel: PairKernel, x: Array, score: Array, past: Past, alpha: Array, sigma: float | Array | None
) -> Array:
    """The score s(x) plus alpha times the force of the past."""
    alpha = per_coordinate(alpha)
    force = stein_force(xp, kernel, x, past.x, past.score, sigma)
    # A choice, not a product with 0: the force may be nan before there is a past.
    return xp.where(alpha > 0, score + alpha * force, score)


@warming.register
def _warming(kernel: SRLD) -> Any:
    return with_field(kernel, "alpha", Waiting(kernel._strength))
