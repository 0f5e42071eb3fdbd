"""Annealing over noise levels, for targets that are given at every level of added Gaussian noise.

Sources: Song & Ermon, "Generative modeling by estimating gradients of the data distribution" (2019), Algorithm 1, which
is `Annealed` over `ULA`; Score-MH, Section 5 and Appendix D.2, where it is `MALA` with an acceptance function.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.checks import check_numbers
from xpsample.core.declared import Numbers, declared
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.fields import checked, count, numbers
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_annealing
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.compose import check_base, check_given, nested, unnested
from xpsample.kernels.kernel import Info, Kernel, with_position
from xpsample.kernels.schedules import row
from xpsample.kernels.traits import Trait
from xpsample.particles.ladders import ladder_array
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget, DataAndAcceptance, DerivedTarget, counter
from xpsample.targets.point import Capability, Costs, Point

ROUNDING = 1e-4  # Largest excess of a ladder over the levels that a target knows, as a share of them


class AnnealedState(NamedTuple):
    """The base kernel's state, in units of the last level; noise levels and units (levels,); steps made ``n`` (0-d)."""

    base: Any
    sigmas: Array
    units: Array
    n: Array

    @property
    def point(self) -> Point:
        """The current point under the target at the last step's noise level."""
        return self.base.point.base

    def findings(self) -> list[Finding]:
        """Check if the last level was reached."""
        steps, ladder = int(self.n), to_host(self.sigmas)
        left = max(0, len(ladder) - steps)
        return judge_annealing("noise level", float(ladder[len(ladder) - 1 - left]), float(ladder[-1]), left)


class Annealed(Kernel[AnnealedState, Info]):
    """A kernel that goes down a ladder of noise levels, with step sizes in units of the level.

    Step n makes ``steps`` steps of the base kernel on the target at noise level ``sigmas[n]``, or at the last level
    after the end of the ladder. The target's `data` are a dict; each step sets its entry ``"sigma"``, 0-d. A
    ``Target(None, score=lambda x, data: ..., data={"sigma": np.asarray(1.0), ...})`` is enough for an unadjusted base
    kernel and, with an ``acceptance``, for an adjusted one. If the data have an entry ``"levels"``, (n,), the ladder
    must not go beyond the largest and the smallest of them.

    The base kernel moves ``y = x / unit``, where the unit is ``units[n]`` or, by default, the level itself. One step
    size therefore serves all levels: `ULA` and `MALA` of step size c make steps of ``c sigma^2`` in x. Song & Ermon's
    steps ``alpha_i = epsilon sigma_i^2 / sigma_L^2`` are ``c = epsilon / (2 sigma_L^2)``. The steps
    ``2 (tau sigma_i)^2`` of Song et al. (2021), with a "signal-to-noise ratio" tau, are ``c = 2 tau^2``.

    Parameters
    ----------
    base : Kernel
        Its memory other than the position is in units of the level. `ParallelTempering`, whose hot rungs would lag
        behind, is refused.
    sigmas : sequence of float
        Noise levels, positive and never increasing, in units of x. `geometric_ladder` makes them.
    steps : int
        Number of steps of the base kernel at each level, at least 1.
    units : sequence of float, optional
        Positive, one for each level, in units of x.

    See Also
    --------
    TemperedSMC : A path in temperature and not in noise.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.zoo.mixture import smoothed_mixture
    >>> mixture = smoothed_mixture([0.8, 0.2], np.array([[-3.0], [3.0]]), 0.5, sigma=1.0)
    >>> target = xps.Target(None, score=mixture.score, data=mixture.data)  # a score at every noise level
    >>> sigmas = [6.0 * s for s in xps.geometric_ladder(16, 1 / 60)]
    >>> kernel = xps.Annealed(xps.ULA(0.1), sigmas, steps=10)
    >>> x0 = 7.0 * np.random.default_rng(0).standard_normal((500, 1))
    >>> trace = xps.sample(target, kernel, x0, 1, seed=1, burn_in=len(sigmas) - 1)
    >>> trace.draws.shape
    (1, 500, 1)
    """

    base: Kernel
    sigmas: Numbers = numbers(gt=0)
    steps: int = count(default=1)
    units: Numbers | None = checked(
        partial(check_numbers, low=0), default=None, factory=lambda annealed: annealed.sigmas
    )

    def __check_init__(self) -> None:
        check_base("Annealed", self.base, {Trait.MOVABLE: "levels change from step to step. Use the kernel inside it"})
        check_given("Annealed", self.base)
        if any(a < b for a, b in pairwise(self.sigmas)):
            raise HyperparameterError(f"sigmas must never increase; got {self.sigmas}")
        assert self.units is not None
        levels, units = len(self.sigmas), len(self.units)
        if units != levels:
            raise HyperparameterError(f"there must be a unit for each of the {levels} levels; got {units}")

    @declared
    def traits(self) -> Trait:  # its targets are its own levels
        return self.base.traits & Trait.STAYS_INSIDE

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.REAL

    def init(self, target: BoundTarget, x: Array) -> AnnealedState:
        own = _own(target)
        if not isinstance(own, dict) or "sigma" not in own:
            raise CapabilityError(
                'Annealed sets the entry "sigma" of the target\'s data: pass Target(..., data={"sigma": ..., ...})'
            )
        self._check_levels(own)
        sigmas, units = (ladder_array(target, ladder or (), x) for ladder in (self.sigmas, self.units))
        count = counter(target, x)
        level = _level(target, sigmas, units, count)
        return AnnealedState(self.base.init(level, x / level.unit), sigmas, units, count)

    def _check_levels(self, data: dict[str, Any]) -> None:
        """Raise unless the ladder keeps to the levels that a target says it knows."""
        if "levels" not in data:
            return
        known = to_host(data["levels"])
        low, high, highest, lowest = known.min(), known.max(), self.sigmas[0], self.sigmas[-1]
        if highest > high * (1 + ROUNDING) or lowest < low * (1 - ROUNDING):
            raise HyperparameterError(
                f"the target knows noise levels from {low:.6g} to {high:.6g}; sigmas go from {highest:.6g} to "
                f"{lowest:.6g}"
            )

    def noise(self, x: Array) -> Specs:
        return nested(self.base.noise(x), self.steps)

    def step(self, target: BoundTarget, state: AnnealedState, noise: dict[str, Array]) -> tuple[AnnealedState, Info]:
        xp, x = target.xp, state.point.x
        level = _level(target, state.sigmas, state.units, state.n)
        start = with_position(state.base, level.from_target(level.target.evaluate(x)))
        none = xp.zeros_like(xp.sum(x, axis=-1))

        def move(i: Any, carry: tuple[Any, Info]) -> tuple[Any, Info]:
            base, done = carry
            base, info = self.base.advance(level, base, unnested(noise, i))
            return base, done.plus(Info.of(info, self.steps))

        zero = xp.zeros_like(none, dtype=xp.int32)  # per chain, as some kernels count
        done = Info(none, none > 0.0, none > 0.0, Evaluations(zero, zero, zero))
        base, done = target.backend.repeat(self.steps, move, (start, done))
        return state._replace(base=base, n=state.n + 1), done._replace(
            evaluations=done.evaluations.plus(target.costs.evaluate_lazily)
        )


@dataclass(frozen=True, eq=False)
class Level(DerivedTarget):
    """A target at one noise level, in its own units: positions y = x / unit. `base` holds the target's points."""

    target: BoundTarget
    unit: Array

    @property
    def space(self) -> Space:
        """The underlying target's."""
        return self.target.space

    @property
    def requires(self) -> Capability:
        return self.target.requires

    @property
    def costs(self) -> Costs:
        return self.target.costs._replace(refresh=Evaluations())

    def evaluate(self, x: Array) -> Point:
        return self.from_target(self.target.evaluate(self.unit * x))

    def evaluate_lazily(self, x: Array) -> Point:
        return self.evaluate(x)

    def refresh(self, point: Point) -> Point:
        return point

    def from_target(self, point: Point) -> Point:
        """A point of the target, as one of this target."""
        score = None if point.score is None else self.unit * point.score
        return Point(point.x / self.unit, point.log_density, score, point)

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        # The unit cancels in the ratio.
        return self.target.acceptance_correction(proposal.base, current.base)

    def log_density(self, x: Array) -> Array:
        return self.target.log_density(self.unit * x)

    def score(self, x: Array) -> Array:
        return self.unit * self.target.score(self.unit * x)

    def hvp(self, x: Array, v: Array) -> Array:
        return self.unit * self.target.hvp(self.unit * x, self.unit * v)


def _level(target: BoundTarget, sigmas: Array, units: Array, n: Array) -> Level:
    """The target at the level of step n."""
    data: Any = {**_own(target), "sigma": row(target.xp, sigmas, n)}
    if isinstance(target.data, DataAndAcceptance):
        data = target.data._replace(own=data)
    return Level(target.with_data(data), row(target.xp, units, n))


def _own(target: BoundTarget) -> Any:
    """The data that the user gave the target."""
    return target.data.own if isinstance(target.data, DataAndAcceptance) else target.data
