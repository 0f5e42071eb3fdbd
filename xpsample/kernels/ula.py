"""The unadjusted Langevin algorithm (Parisi 1981; Roberts & Tweedie 1996)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.backend import Array
from xpsample.hyperparameters import MATRIX, PER_CHAIN, check_range, per_coordinate, sqrt
from xpsample.kernels.kernel import ChainState, Info, Kernel, freeze, none_frozen, normal_like
from xpsample.kernels.linear import LinearMap, factor
from xpsample.noise import Specs
from xpsample.targets.target import BoundTarget, Capability, Point


class ULAState(NamedTuple):
    """Where the chains are, and which of them have left the finite numbers and are frozen, (*chains)."""

    point: Point
    frozen: Array


@dataclass(frozen=True, eq=False)
class ULA(Kernel):
    """Unadjusted Langevin: x + eta C s(x) + sqrt(2 eta) A xi with A A^T = C the preconditioner.

    Needs a score only. Biased by O(eta): on N(0, v) it samples the variance v / (1 - eta / (2 v)).

    Parameters
    ----------
    step_size : float or array
        eta, in units of x squared over C; broadcasts against the chain axes.
    preconditioner : array, shape (dim,) or (dim, dim), optional
        C; the identity when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    preconditioner: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.SCORE

    def __post_init__(self) -> None:
        check_range("step_size", self.step_size, 0)
        object.__setattr__(self, "_map", factor("preconditioner", self.preconditioner))

    def init(self, target: BoundTarget, x: Array) -> ULAState:
        return ULAState(target.at(x), none_frozen(target.xp, x))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(self, target: BoundTarget, state: ULAState, noise: dict[str, Array]) -> tuple[ULAState, Info]:
        xp = target.xp
        current = target.refresh(state.point)
        eta = per_coordinate(self.step_size)
        move = eta * self._map.transpose(current.score) + sqrt(xp, 2 * eta) * noise["proposal"]
        new = target.at(current.x + self._map.apply(move))
        spent = target.costs.refresh.plus(target.costs.at)
        kept, frozen, info = freeze(xp, ChainState(new), ChainState(current), state.frozen, spent)
        return ULAState(kept.point, frozen), info
