"""Moves of particles that follow pi_theta, and their incremental weights (Eq. 8, App. A).

The parameters go from theta_{k-1}, with the member `before` of the family, to theta_k, with the member `after`.
"""

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from xpsample.core.arrays import Array
from xpsample.core.checks import check_result
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, flag, function, instance, number, parameter
from xpsample.core.hyperparameters import per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.adapted import AdaptedKernel
from xpsample.kernels.compose import check_base
from xpsample.kernels.following import follow, following
from xpsample.kernels.kernel import Info, Kernel, State, normal_like, select, with_position
from xpsample.kernels.traits import Trait
from xpsample.particles.weights import NEEDED_TO_WEIGH
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

Drift = Callable[[BoundTarget, Point], Array]
Stepper = TypeVar("Stepper")


class Move(FrozenDataclass, Generic[State]):
    """One propagation of all particles, generic in its state. Final subclasses are frozen dataclasses.

    SOSMC calls `weigh`, resamples where needed, and calls `step`. A move gives weights in one of the two, or in
    neither.

    Attributes
    ----------
    requires : Capability
        What the target must give.
    step_size : float or array
        The step size that SOSMC may adapt.
    tuning_inside : Kernel or None
        A kernel that tunes itself at every step; None where none does.
    """

    if TYPE_CHECKING:  # subclasses have it as a dataclass field or as a property

        @property
        def step_size(self) -> float | Array | None: ...

        requires: ClassVar[Capability]
        tuning_inside: ClassVar[Kernel[Any, Any] | None]
    else:
        tuning_inside = None

        @property
        @abstractmethod
        def requires(self) -> Capability:
            """A class attribute of moves that always need the same."""

    @abstractmethod
    def init(self, target: BoundTarget, x: Array) -> State:
        """The state at the particles x, (*runs, particles, dim): a NamedTuple of arrays with a ``point``."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers that one step consumes."""

    @abstractmethod
    def with_step_size(self, step_size: Array) -> "Move[State]":
        """The same move with another step size, which may be traced, so it is not checked."""

    @abstractmethod
    def weigh(self, after: BoundTarget, state: State) -> tuple[State, Array | None, Evaluations]:
        """Before resampling: (state, log incremental weights (*runs, particles) or None, what was spent on each)."""

    @abstractmethod
    def step(
        self, before: BoundTarget, after: BoundTarget, state: State, noise: dict[str, Array]
    ) -> tuple[State, Array | None, Info]:
        """After resampling: (state with its point under `after`, log incremental weights or None, info)."""


class WeighedAfterwards(Move[State]):
    """A move whose weights depend on where the particles go, and whose own field is its ``step_size``."""

    def with_step_size(self, step_size: Array) -> "WeighedAfterwards[State]":
        return replace_step_size(self, step_size)

    def weigh(self, after: BoundTarget, state: State) -> tuple[State, None, Evaluations]:
        return state, None, Evaluations()


class LangevinState(NamedTuple):
    """The particles, and their drift (*runs, particles, dim), or None if it is the score."""

    point: Point
    drift: Array | None = None


class LangevinMove(WeighedAfterwards[LangevinState]):
    """The unadjusted move ``x' = x + gamma d_{k-1}(x) + sqrt(2 gamma) sigma xi``, weighted by App. A.1 and Alg. 2.

    The forward kernel has the drift of theta_{k-1}, the backward kernel the drift of theta_k; Remark 2 allows for
    either in both places. With the score as the drift d this is ULA; other drifts give other Gaussian moves, such as
    MYULA. The weights are exact for any drift.

    Parameters
    ----------
    step_size : float or array
        gamma, in units of x squared; broadcasts against (*runs, particles).
    noise_scale : float
        sigma; 1 gives the Langevin diffusion of the target.
    drift : callable, optional
        ``drift(target, point) -> (*runs, particles, dim)``, in units of one over x; pure. The score when not given.
    forward_after, backward_before : bool
        Whether the forward kernel has the drift of theta_k, and the backward kernel the drift of theta_{k-1}. Each
        costs a further evaluation.

    Notes
    -----
    A particle that leaves the finite numbers stays where it was with weight 0, until resampling replaces it.
    """

    step_size: Any = parameter(default=None, gt=0)
    noise_scale: float = number(default=1.0, gt=0)
    drift: Drift | None = function("(target, point)", default=None)
    forward_after: bool = flag(default=False)
    backward_before: bool = flag(default=False)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL

    def __check_init__(self) -> None:
        if self.step_size is None:
            raise HyperparameterError(
                "LangevinMove needs a step_size: it accepts every move, so no warm-up can tune it. Set 0.1 times the "
                "smallest variance, or use SOSMC(adapt_move=Adaptation())."
            )

    def init(self, target: BoundTarget, x: Array) -> LangevinState:
        return self._at(target, x)

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(
        self, before: BoundTarget, after: BoundTarget, state: LangevinState, noise: dict[str, Array]
    ) -> tuple[LangevinState, Array, Info]:
        xp, xi, current = before.xp, noise["proposal"], state.point
        gamma = per_coordinate(self.step_size)
        forward = _drift_of(self._at(after, current.x) if self.forward_after else state)
        new = self._at(after, current.x + gamma * forward + (self.noise_scale * sqrt(xp, 2.0 * gamma)) * xi)
        backward = _drift_of(self._at(before, new.point.x) if self.backward_before else new)
        # The way back takes the noise -back.
        back = xi + sqrt(xp, 0.5 * gamma) / self.noise_scale * (forward + backward)
        increments = new.point.log_density - current.log_density + 0.5 * xp.sum(xi * xi - back * back, axis=-1)
        finite = xp.all(xp.isfinite(new.point.x) & xp.isfinite(_drift_of(new)), axis=-1) & ~xp.isnan(increments)
        spent = after.costs.evaluate.times(1 + self.forward_after + self.backward_before)
        info = Info(xp.astype(finite, current.x.dtype), finite, ~finite, spent)
        return select(xp, finite, new, state), xp.where(finite, increments, -math.inf), info

    def _at(self, target: BoundTarget, x: Array) -> LangevinState:
        point = target.evaluate(x)
        drift = None if self.drift is None else self.drift(target, point)
        return LangevinState(
            point, None if drift is None else check_result("the function drift", drift, tuple(x.shape))
        )


def _drift_of(state: LangevinState) -> Array:
    return state.point.score if state.drift is None else state.drift


class Unweighted(Move[Any]):
    """Another move without its weights: persistent particles that lag behind pi_theta.

    With ``Unweighted(LangevinMove(...))`` SOSMC is the implicit diffusion of Marion et al. (2025), Algorithm 3, and
    with the loss `EnergyModel` persistent contrastive divergence.

    Parameters
    ----------
    move : Move
    """

    move: Move[Any] = instance(Move, "LangevinMove(0.1)")

    @declared
    def requires(self) -> Capability:
        return self.move.requires

    @property
    def step_size(self) -> float | Array | None:
        """Step size of the move."""
        return self.move.step_size

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.move.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.move.noise(x)

    @declared
    def tuning_inside(self) -> Any:
        """The inner kernel of the move."""
        return self.move.tuning_inside

    def with_step_size(self, step_size: Array) -> "Unweighted":
        return Unweighted(self.move.with_step_size(step_size))

    def weigh(self, after: BoundTarget, state: Any) -> tuple[Any, None, Evaluations]:
        state, _, spent = self.move.weigh(after, state)
        return state, None, spent

    def step(
        self, before: BoundTarget, after: BoundTarget, state: Any, noise: dict[str, Array]
    ) -> tuple[Any, None, Info]:
        state, _, info = self.move.step(before, after, state, noise)
        return state, None, info


class Reversible(Move[Any]):
    """A kernel that leaves pi_theta invariant, such as MALA, RWM or HMC: ``log G = U_{k-1}(x) - U_k(x)`` (App. A.2).

    The weights depend on the particles before the move, so particles are weighted, resampled, and then moved under
    theta_k. They do not depend on the kernel, which may therefore be tuned by the particles so far.

    Parameters
    ----------
    kernel : Kernel
        Kernel that leaves its target invariant. Its unset hyperparameters are tuned at every iteration, for each run:
        its metric is estimated from the particles, its step size follows their acceptance. SOSMC can adapt a
        ``step_size`` that is set.
    """

    kernel: Kernel

    def __check_init__(self) -> None:
        langevin = "its weights would be wrong; LangevinMove(step_size, drift=...) weighs unadjusted moves"
        check_base("SOSMC", self.kernel, NEEDED_TO_WEIGH | {Trait.INVARIANT: langevin})
        following("SOSMC", self.kernel)

    @declared
    def requires(self) -> Capability:
        return self.kernel.requires | Capability.LOG_DENSITY

    @property
    def step_size(self) -> float | Array | None:
        """The kernel's, or None if it has none."""
        return getattr(self.kernel, "step_size", None)

    @declared
    def tuning_inside(self) -> Kernel[Any, Any] | None:
        """The kernel with its rules, if it has unset hyperparameters."""
        kernel = self._moving
        return kernel if isinstance(kernel, AdaptedKernel) else None

    @cached_property
    def _moving(self) -> Kernel:
        return following("SOSMC", self.kernel)

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self._moving.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.kernel.noise(x)

    def with_step_size(self, step_size: Array) -> "Reversible":
        return Reversible(replace_step_size(self.kernel, step_size))

    def weigh(self, after: BoundTarget, state: Any) -> tuple[Any, Array, Evaluations]:
        point = after.evaluate(state.point.x)
        increments = point.log_density - state.point.log_density
        return with_position(state, point), increments, after.costs.evaluate_lazily

    def step(
        self, before: BoundTarget, after: BoundTarget, state: Any, noise: dict[str, Array]
    ) -> tuple[Any, None, Info]:
        state = follow(self._moving, after, state, state.point)
        state, info = self._moving.advance(after, state, noise)
        return state, None, info


def replace_step_size(value: Stepper, step_size: Array) -> Stepper:
    """A copy of a move or kernel with another step size. It is not checked: the checks cannot read a traced one."""
    value = copy.copy(value)
    object.__setattr__(value, "step_size", step_size)
    return value
