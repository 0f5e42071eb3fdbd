"""The automatic cyclical sampler: discrete Langevin steps whose size and balance go through cycles."""

from functools import partial
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import Rule
from xpsample.core.arrays import Array
from xpsample.core.checks import check_instance
from xpsample.core.fields import checked
from xpsample.core.specs import Specs
from xpsample.kernels.discrete.cycles import Cycle, CycleSearch
from xpsample.kernels.discrete.dlp import langevin_noise, langevin_step
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point


class ACSState(NamedTuple):
    """Positions of the chains, and the number of steps made (0-d)."""

    point: Point
    n: Array


class ACS(Kernel[ACSState, Info]):
    """The automatic cyclical sampler (Pynadath, Bhattacharya, Hariharan & Zhang 2024).

    Step n is `DMALA`'s with the step size and the balance of step ``n mod length`` of the cycle. Forward and backward
    proposals use the same two numbers, so every step leaves the target invariant. Large steps find modes, small steps
    explore them.

    Parameters
    ----------
    cycle : Cycle, optional
        `Cosine`, or `Table`. When not given, the warm-up finds a table of 20 steps, by acceptance rates; `CycleSearch`
        in its place says how many steps.

    See Also
    --------
    DMALA : With one step size.
    CycleSearch : Finds its cycle.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.ACS(), x0, 2000, seed=1)
    >>> trace.draws.shape
    (2000, 8, 3)
    """

    cycle: Any = checked(
        partial(check_instance, kind=(Cycle, Rule), example="Cosine(0.5, 20)"), default=None, tune=CycleSearch()
    )

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.DISCRETE
    traits = ADJUSTED

    def init(self, target: BoundTarget, x: Array) -> ACSState:
        return ACSState(target.evaluate(x), counter(target, x))

    def noise(self, x: Array) -> Specs:
        return langevin_noise(x)

    def step(self, target: BoundTarget, state: ACSState, noise: dict[str, Array]) -> tuple[ACSState, Info]:
        step_size, balance = self.cycle.at(target.xp, state.n % self.cycle.length, state.point.score)
        point, info = langevin_step(target, state.point, noise, step_size, balance)
        return ACSState(point, state.n + 1), info
