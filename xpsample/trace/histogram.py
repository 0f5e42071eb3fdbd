"""A recorder of how often each state of a discrete space was seen."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.core.tree import Tree
from xpsample.spaces.discrete import Discrete
from xpsample.targets.bound import BoundTarget, counter
from xpsample.trace.recorders import Recorder


class _Counts(NamedTuple):
    rows: Array  # (states,): 0, 1, 2, ...
    counts: Array  # (*chains, states)


class Histogram(Recorder, eq=True):
    """Count of every chain's visits to each state of a discrete space, (*chains, states): memory does not grow.

    The states are the rows of the space's `states`. For spaces of few states: a step costs chains times states.

    See Also
    --------
    Moments : Mean and variance.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.Gibbs(), x0, 2000, seed=1, recorders=[xps.Histogram()])
    >>> trace.recorded["histogram"].shape
    (8, 8)
    """

    name: str = "histogram"
    chain_axis: ClassVar[int | None] = 0

    def init(self, target: BoundTarget, state: Any) -> Tree:
        x, space = state.point.x, target.space
        if not isinstance(space, Discrete):
            raise CapabilityError(f"a histogram of states needs a discrete space, not {type(space).__name__}()")
        states = np.arange(math.prod(space.sizes(x.shape[-1])), dtype=np.int32)
        rows = target.backend.from_host(states, x)
        counts = counter(target, x) + target.xp.zeros_like(_hits(target, x, rows))
        return _Counts(rows, counts)

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        return carry._replace(counts=carry.counts + _hits(target, state.point.x, carry.rows)), None

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return carry.counts


def _hits(target: BoundTarget, x: Array, rows: Array) -> Array:
    assert isinstance(target.space, Discrete)
    xp = target.xp
    return xp.astype(target.space.number(xp, x)[..., None] == rows, xp.int32)
