"""The move of SOUL: one chain run for many steps at every theta, whose later positions count equally.

Source: De Bortoli, Durmus, Pereyra & Fernandez Vidal, "Efficient stochastic optimisation by unadjusted Langevin Monte
Carlo" (2021); the SOSMC paper, App. C and E.1.
"""

import math
from typing import Any, ClassVar

import array_api_extra as xpx
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import count, parameter
from xpsample.core.hyperparameters import per_coordinate, sqrt
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, normal_like
from xpsample.sosmc.moves import WeighedAfterwards
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class SingleChain(WeighedAfterwards[ChainState]):
    """ULA from the last particle, as many steps as there are particles, which become the chain's positions in order.

    The first `burn_in` of them get weight 0, the others equal weights. SOSMC needs ``threshold=0``: a time average is
    not resampled.

    Parameters
    ----------
    step_size : float or array
        gamma, in units of x squared; broadcasts against (*runs, 1).
    burn_in : int
        At least 0 and below the number of particles; the paper takes half of it.
    """

    step_size: Any = parameter(default=None, gt=0)
    burn_in: int = count(default=0, ge=0)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL

    def __check_init__(self) -> None:
        if self.step_size is None:
            raise HyperparameterError(
                "SingleChain needs a step_size: its target changes at every step, so no warm-up can tune it. Start "
                "with ULA's: sample(target, ULA(), ...).kernel.step_size"
            )

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        check_count("burn_in", self.burn_in, 0, x.shape[-2] - 1)
        return ChainState(target.evaluate(x))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(
        self, before: BoundTarget, after: BoundTarget, state: ChainState, noise: dict[str, Array]
    ) -> tuple[ChainState, Array, Info]:
        xp, xi, x = before.xp, noise["proposal"], state.point.x
        gamma, length = per_coordinate(self.step_size), x.shape[-2]
        scale = sqrt(xp, 2.0 * gamma)

        def one(i: Any, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            path, now = carry
            new = now + gamma * after.score(now) + scale * xi[..., i, :][..., None, :]
            now = xp.where(xp.all(xp.isfinite(new), axis=-1, keepdims=True), new, now)
            # The path was made in this step, so nobody else holds the array that is written into.
            return xpx.at(path, (..., i, slice(None))).set(now[..., 0, :]), now

        path, _ = before.backend.repeat(length, one, (xp.zeros_like(x), x[..., -1:, :]))
        point = after.evaluate(path)
        late = xp.arange(length, device=device_of(x)) >= self.burn_in
        increments = xp.where(late, xp.zeros_like(point.log_density), -math.inf)
        moved = xp.all(xp.isfinite(point.x), axis=-1)
        info = Info(xp.astype(moved, x.dtype), moved, ~moved, after.costs.score.plus(after.costs.evaluate))
        return ChainState(point), increments, info
