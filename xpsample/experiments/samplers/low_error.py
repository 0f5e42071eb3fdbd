"""Number of steps until second moments are accurate: the rule of a published comparison of samplers.

The rule is taken from github.com/reubenharry/sampler-benchmarks (Robnik, Cohn-Gordon and Seljak, "Metropolis adjusted
microcanonical Hamiltonian Monte Carlo", 2025): for each chain separately the squared error of the running mean of y^2,
over the variance of y^2, in the worst coordinate; of these the median over the chains; and the last time at which it is
above 0.01. One independent draw of one coordinate has an error of 1, so that 0.01 is the error of 100.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.fields import text
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.targets.bound import BoundTarget
from xpsample.trace.recorders import Recorder

LOW_ERROR = 0.01


class SquareErrors(NamedTuple):
    """Result of `RecordSquareErrors`: errors (draw, *chains), and the values from which a later run continues.

    ``count`` (0-d) and ``total`` (*chains, dim) are the number of draws, and the sum of their y^2.
    """

    errors: Array
    count: Array
    total: Array


class _Carry(NamedTuple):
    count: Array
    total: Array
    square: Array
    variance: Array


class RecordSquareErrors(Recorder):
    """Per kept step the squared error of each chain's running mean of y^2, over Var y^2, in the worst coordinate.

    `square` and `variance` are E y^2 and Var y^2 of the target, (dim,). `parameters` takes positions (*chains, dim) to
    y of the same shape; y is the position when not given. `since` continues an earlier run of the same chains.
    """

    square: np.ndarray
    variance: np.ndarray
    parameters: Callable[[Array], Array] | None = None
    since: SquareErrors | None = None
    name: str = text(default="square_errors")

    def init(self, target: BoundTarget, state: Any) -> Tree:
        x = target.as_floating(state.point.x)

        def like(value: Any) -> Array:
            return target.backend.from_host(np.asarray(value).astype(to_host(x[..., :0]).dtype), x)

        if self.since is None:
            count, total = like(0.0), target.xp.zeros_like(x)
        else:
            count, total = like(to_host(self.since.count)), like(to_host(self.since.total))
        return _Carry(count, total, like(self.square), like(self.variance))

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        y = target.as_floating(state.point.x)
        y = y if self.parameters is None else self.parameters(y)
        count, total = carry.count + 1.0, carry.total + y * y
        errors = target.xp.max((total / count - carry.square) ** 2 / carry.variance, axis=-1)
        return carry._replace(count=count, total=total), errors

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return SquareErrors(rows, carry.count, carry.total)


def draws_to_low_error(errors: np.ndarray, low: float = LOW_ERROR) -> float:
    """Number of draws that a chain needs: up to the last at which the median over the chains is above `low`.

    By the errors (draw, *chains) of `RecordSquareErrors`, from the first draw on; nan counts as infinite. It is
    infinity if the last median is above `low`. 0.01 is the error of 100 independent draws in one coordinate.
    """
    errors = np.asarray(errors, dtype=np.float64)
    errors = np.where(np.isnan(errors), np.inf, errors).reshape(len(errors), -1)
    median = np.median(errors, axis=1)
    above = np.flatnonzero(median > low)
    if not len(above):
        return 1.0
    return float(above[-1] + 1) if median[-1] < low else float("inf")
