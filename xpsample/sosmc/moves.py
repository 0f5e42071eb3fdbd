"""How particles follow a moving pi_theta, and the incremental weights that this gives them (Eq. 8, App. A).

Parameters went from theta_{k-1}, whose member of the family is `before`, to theta_k, `after`.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.hyperparameters import PER_CHAIN, check_range, per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.kernels.compose import check_base
from xpsample.kernels.kernel import Info, Kernel, normal_like, select, with_position
from xpsample.kernels.traits import Trait
from xpsample.particles.weights import NEEDED_TO_WEIGH
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

Drift = Callable[[BoundTarget, Point], Array]


class Move(ABC):
    """One propagation of all particles. Final subclasses are frozen dataclasses.

    SOSMC calls `weigh`, resamples where it must, and calls `step`. A move weighs in one of the two, or in neither.

    Attributes
    ----------
    requires : Capability
        What the target must give.
    step_size : float or array
        The step size that SOSMC may adapt.
    """

    if TYPE_CHECKING:  # subclasses have it as a dataclass field or as a property

        @property
        def step_size(self) -> float | Array | None: ...

    @property
    @abstractmethod
    def requires(self) -> Capability:
        """A class attribute of moves that always need the same."""

    @abstractmethod
    def init(self, target: BoundTarget, x: Array) -> Any:
        """The state at the particles x, (*runs, particles, dim): a NamedTuple of arrays with a ``point``."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers that one step consumes."""

    @abstractmethod
    def with_step_size(self, step_size: Any) -> "Move":
        """The same move with another step size, which may be traced and is not checked."""

    @abstractmethod
    def weigh(self, after: BoundTarget, state: Any) -> tuple[Any, Array | None]:
        """Before resampling: (state, log incremental weights (*runs, particles), or None)."""

    @abstractmethod
    def step(
        self, before: BoundTarget, after: BoundTarget, state: Any, noise: dict[str, Array]
    ) -> tuple[Any, Array | None, Info]:
        """After resampling: (state with its point under `after`, log incremental weights or None, info)."""


class LangevinState(NamedTuple):
    """The particles, and the drift there (*runs, particles, dim) where it is not the score."""

    point: Point
    drift: Any = None


@dataclass(frozen=True, eq=False)
class LangevinMove(Move):
    """The unadjusted move ``x' = x + gamma d_{k-1}(x) + sqrt(2 gamma) sigma xi``, weighted by App. A.1 and Alg. 2.

    The backward kernel is the same move under theta_k. With the score for the drift d this is ULA; with another drift
    any such Gaussian move, MYULA among them. The weights are exact for the target whatever the drift.

    Parameters
    ----------
    step_size : float or array
        gamma, in units of x squared; broadcasts against (*runs, particles).
    noise_scale : float
        sigma; 1 gives the Langevin diffusion of the target itself.
    drift : callable, optional
        ``drift(target, point) -> (*runs, particles, dim)``, in units of one over x; pure. The score when not given.

    Notes
    -----
    A particle that leaves the finite numbers stays where it was with weight 0, until resampling replaces it.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    noise_scale: float = 1.0
    drift: Drift | None = None

    requires = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL

    def __post_init__(self) -> None:
        check_range("step_size", self.step_size, 0)
        check_range("noise_scale", self.noise_scale, 0)

    def init(self, target: BoundTarget, x: Array) -> LangevinState:
        return self._at(target, x)

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def with_step_size(self, step_size: Any) -> "LangevinMove":
        return _with_step_size(self, step_size)

    def weigh(self, after: BoundTarget, state: LangevinState) -> tuple[LangevinState, None]:
        return state, None

    def step(
        self, before: BoundTarget, after: BoundTarget, state: LangevinState, noise: dict[str, Array]
    ) -> tuple[LangevinState, Array, Info]:
        xp, xi, current = before.xp, noise["proposal"], state.point
        gamma = per_coordinate(self.step_size)
        forward = _drift_of(state)
        new = self._at(after, current.x + gamma * forward + (self.noise_scale * sqrt(xp, 2.0 * gamma)) * xi)
        # The way back takes the noise -back.
        back = xi + sqrt(xp, 0.5 * gamma) / self.noise_scale * (forward + _drift_of(new))
        increments = new.point.log_density - current.log_density + 0.5 * xp.sum(xi * xi - back * back, axis=-1)
        finite = xp.all(xp.isfinite(new.point.x) & xp.isfinite(_drift_of(new)), axis=-1) & ~xp.isnan(increments)
        info = Info(xp.astype(finite, current.x.dtype), finite, ~finite, after.costs.evaluate)
        return select(xp, finite, new, state), xp.where(finite, increments, -math.inf), info

    def _at(self, target: BoundTarget, x: Array) -> LangevinState:
        point = target.evaluate(x)
        return LangevinState(point, None if self.drift is None else self.drift(target, point))


def _drift_of(state: LangevinState) -> Array:
    return state.point.score if state.drift is None else state.drift


@dataclass(frozen=True, eq=False)
class Unweighted(Move):
    """Another move, without its weights: persistent particles that lag behind pi_theta.

    Of `LangevinMove` it makes SOSMC the implicit diffusion of Marion et al. (2025), Algorithm 3, and with the loss
    `EnergyModel` persistent contrastive divergence.

    Parameters
    ----------
    move : Move
    """

    move: Move

    @property
    def requires(self) -> Capability:
        return self.move.requires

    @property
    def step_size(self) -> Any:
        """That of the move."""
        return self.move.step_size

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.move.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.move.noise(x)

    def with_step_size(self, step_size: Any) -> "Unweighted":
        return Unweighted(self.move.with_step_size(step_size))

    def weigh(self, after: BoundTarget, state: Any) -> tuple[Any, None]:
        return self.move.weigh(after, state)[0], None

    def step(
        self, before: BoundTarget, after: BoundTarget, state: Any, noise: dict[str, Array]
    ) -> tuple[Any, None, Info]:
        state, _, info = self.move.step(before, after, state, noise)
        return state, None, info


@dataclass(frozen=True, eq=False)
class Reversible(Move):
    """A kernel that leaves pi_theta invariant, such as MALA, RWM or HMC: ``log G = U_{k-1}(x) - U_k(x)`` (App. A.2).

    The weights depend on the particles before they move, so they are weighed, resampled and then moved under theta_k.

    Parameters
    ----------
    kernel : Kernel
        It leaves its target invariant. SOSMC can adapt its field ``step_size``.
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        langevin = "its weights would be wrong; LangevinMove(step_size, drift=...) weighs unadjusted moves"
        check_base("SOSMC", self.kernel, NEEDED_TO_WEIGH | {Trait.INVARIANT: langevin})

    @property
    def requires(self) -> Capability:
        return self.kernel.requires | Capability.LOG_DENSITY

    @property
    def step_size(self) -> Any:
        """The kernel's, or None where it has none."""
        return getattr(self.kernel, "step_size", None)

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.kernel.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.kernel.noise(x)

    def with_step_size(self, step_size: Any) -> "Reversible":
        return Reversible(_with_step_size(self.kernel, step_size))

    def weigh(self, after: BoundTarget, state: Any) -> tuple[Any, Array]:
        point = after.evaluate(state.point.x)
        return with_position(state, point), point.log_density - state.point.log_density

    def step(
        self, before: BoundTarget, after: BoundTarget, state: Any, noise: dict[str, Array]
    ) -> tuple[Any, None, Info]:
        state, info = self.kernel.step(after, state, noise)
        return state, None, info._replace(evaluations=info.evaluations.plus(after.costs.evaluate))


def _with_step_size(value: Any, step_size: Any) -> Any:
    # A plain copy: the checks of a new value cannot read a traced step size.
    value = copy.copy(value)
    object.__setattr__(value, "step_size", step_size)
    return value
