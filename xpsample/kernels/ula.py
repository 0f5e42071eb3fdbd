"""The unadjusted Langevin algorithm (Parisi 1981; Roberts & Tweedie 1996)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.backend import Array
from xpsample.hyperparameters import MATRIX, PER_CHAIN, per_coordinate, sqrt
from xpsample.kernels.kernel import ChainState, Info, Kernel, freeze, none_frozen, normal_like
from xpsample.kernels.linear import LinearMap, factor
from xpsample.kernels.step_sizes import StepSizes, check_step_size
from xpsample.noise import Specs
from xpsample.special import add_scaled
from xpsample.targets.target import BoundTarget, Capability, Point, counter


class ULAState(NamedTuple):
    """Where the chains are, and which of them have left the finite numbers and are frozen, (*chains).

    ``n`` is the number of steps made, 0-d, where the step size has a schedule, else None.
    """

    point: Point
    frozen: Array
    n: Any = None


@dataclass(frozen=True, eq=False)
class ULA(Kernel):
    """Unadjusted Langevin: x + eta C s(x) + sqrt(2 eta) A xi with A A^T = C the preconditioner.

    Needs a score only. Biased by O(eta): on N(0, v) it samples the variance v / (1 - eta / (2 v)).

    Parameters
    ----------
    step_size : float, array or StepSizes
        eta, in units of x squared over C; an array broadcasts against the chain axes, a schedule such as
        `PolynomialDecay` gives that of every step.
    preconditioner : array, shape (dim,) or (dim, dim), optional
        C; the identity when not given.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    preconditioner: Array | None = field(default=None, metadata=MATRIX)
    _map: LinearMap = field(init=False, repr=False)

    requires = Capability.SCORE

    def __post_init__(self) -> None:
        check_step_size(self.step_size)
        object.__setattr__(self, "_map", factor("preconditioner", self.preconditioner))

    def init(self, target: BoundTarget, x: Array) -> ULAState:
        n = counter(target, x) if isinstance(self.step_size, StepSizes) else None
        return ULAState(target.at(x), none_frozen(target.xp, x), n)

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(self, target: BoundTarget, state: ULAState, noise: dict[str, Array]) -> tuple[ULAState, Info]:
        xp = target.xp
        current = target.refresh(state.point)
        eta, n = self.step_size, state.n
        if isinstance(eta, StepSizes):
            n = n + 1
            eta = eta.at(xp.astype(n, current.x.dtype))
        eta = per_coordinate(eta)
        move = add_scaled(xp, sqrt(xp, 2 * eta) * noise["proposal"], eta, self._map.transpose(current.score))
        new = target.visit(current.x + self._map.apply(move))
        spent = target.costs.refresh.plus(target.costs.visit)
        kept, frozen, info = freeze(xp, ChainState(new), ChainState(current), state.frozen, spent)
        return ULAState(kept.point, frozen, n), info
