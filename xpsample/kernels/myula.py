"""Moreau-Yosida unadjusted Langevin, for log densities with a part that is not smooth (Durmus et al. 2018)."""

from collections.abc import Callable
from typing import Any, ClassVar

from xpsample.adaptation import BoundedBias, MoreauSmoothing
from xpsample.core.arrays import Array
from xpsample.core.checks import check_instance, errors_of_functions
from xpsample.core.fields import checked, parameter
from xpsample.core.hyperparameters import PER_CHAIN, check_range, per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import Info, Kernel, freeze, none_frozen, normal_like
from xpsample.kernels.traits import Trait
from xpsample.kernels.ula import ULAState
from xpsample.prox import Regularizer
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


def _check_strength(name: str, value: Any) -> Any:
    of_data = callable(value) and not isinstance(value, type)
    return value if of_data else check_range(name, value, 0, closed=True)


class MYULA(Kernel[ULAState, Info]):
    """``x' = x + eta s(x) - (eta / lambda) (x - prox(x)) + sqrt(2 eta) xi``, for exp(-f(x) - strength g(x)).

    s = -grad f is the target's score, *the score of the smooth part alone*; prox is the proximal map of lambda strength
    g. This is ULA
    with the Moreau envelope in the place of strength g: biased by the step size, as ULA, and by lambda. Source:
    Durmus, Moulines & Pereyra (2018); App. E.4 of the SOSMC paper.

    Parameters
    ----------
    step_size : float or array, optional
        eta, in units of x squared; broadcasts against the chain axes. Stable below 2 / (L + 1 / lambda), with L the
        Lipschitz constant of s; Durmus et al. recommend at most 1 / (L + 1 / lambda). When not given, 0.1 / (L + 1 /
        lambda) with L from the warm-up, as `ULA` on the smoothed density.
    regularizer : Regularizer
        g.
    smoothing : float or array, optional
        lambda, in units of x squared; broadcasts against the chain axes. The bias vanishes with it. If unset, 1 / L, as
        in Durmus et al.
    strength : float, array or callable
        Factor of g; broadcasts against the chain axes. A callable receives the target's data (the parameters, for a
        `Parametric` target) and returns such a number.

    See Also
    --------
    ULA : For smooth densities.
    IsotropicTV : A regularizer.
    L1 : A regularizer.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(None, score=lambda x: 2.0 - x)  # N(2, 1) times the prior exp(-|x|)
    >>> kernel = xps.MYULA(0.02, regularizer=xps.L1(), smoothing=0.05)
    >>> trace = xps.sample(target, kernel, np.zeros((200, 1)), 500, seed=1, burn_in=300)
    >>> bool(abs(trace.draws.mean() - 1.15) < 0.1)
    True
    """

    step_size: Any = parameter(default=None, gt=0, tune=BoundedBias(smoothing="smoothing"))
    regularizer: Any = None
    smoothing: Any = parameter(default=None, gt=0, tune=MoreauSmoothing())
    strength: Array | float | Callable[[Any], Any] = checked(_check_strength, default=1.0, kind=PER_CHAIN)

    requires: ClassVar[Capability] = Capability.SCORE | Capability.REAL
    # Those of f alone, whose target it does not sample.
    traits: ClassVar[Trait] = Trait.MOVABLE | Trait.EXACT | Trait.TAKES_ESTIMATES | Trait.SEPARATE

    def __check_init__(self) -> None:
        check_instance("regularizer", self.regularizer, Regularizer, "L1()")

    def init(self, target: BoundTarget, x: Array) -> ULAState:
        if callable(self.strength):
            with errors_of_functions("the function strength failed at the start positions"):
                strength = self.strength(target.data)
            check_range("what the function strength gives", strength, 0, closed=True)
        point = target.evaluate(x)
        return ULAState(point, none_frozen(target.xp, x), None, target.xp.zeros_like(point.score[..., 0]))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def drift(self, target: BoundTarget, point: Point) -> Array:
        """s(x) - (x - prox(x)) / lambda, (*chains, dim): the move's mean is x + eta drift, its variance 2 eta."""
        strength = self.strength(target.data) if callable(self.strength) else self.strength
        prox = self.regularizer.prox(target.backend, point.x, self.smoothing * strength)
        return point.score + (prox - point.x) / per_coordinate(self.smoothing)

    def step(self, target: BoundTarget, state: ULAState, noise: dict[str, Array]) -> tuple[ULAState, Info]:
        xp = target.xp
        current = state.point
        eta = per_coordinate(self.step_size)
        drift = self.drift(target, current)
        new = target.evaluate_lazily(current.x + eta * drift + sqrt(xp, 2 * eta) * noise["proposal"])
        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate_lazily)
        return ULAState(point, frozen, None, 0.5 * xp.sum(eta * drift * drift, axis=-1)), info
