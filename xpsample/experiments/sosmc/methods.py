"""Helpers of the SOSMC experiments: a method made of a move and its settings, and colors."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass
from xpsample.core.registry import to_host
from xpsample.optimize.optimizers import Optimizer, norm_of_runs
from xpsample.particles.resampling import Resampling
from xpsample.sosmc import SOSMC, Adaptation

THRESHOLD = 0.9
"""Resample where the effective sample size is at most this share of the particles."""
# Okabe-Ito colors, safe for color-blind readers.
COLOURS = {
    "ImpDiff": "#6b6b6b",
    "SOUL": "#E69F00",
    "SOSMC-ULA": "#B3440A",
    "SOSMC-MALA": "#00568A",
    "SOSMC-RWM": "#009E73",
    "SOSMC-HMC": "#CC79A7",
}


class Method(NamedTuple):
    """A move, when to resample (0: never), and how the move's step adapts."""

    move: Any
    threshold: float = 0.0
    adapt: Adaptation | None = None

    def kernel(self, loss: Any, optimizer: Any, resampling: Resampling) -> SOSMC:
        """The kernel that minimizes a loss."""
        return SOSMC(loss, self.move, optimizer, threshold=self.threshold, resampling=resampling, adapt_move=self.adapt)


class Norms(NamedTuple):
    """An optimizer's state, its updates so far (0-d), and sums (runs,) of the gradients' norms and of their squares."""

    optimizer: tree.Tree
    updates: Array
    total: Array
    squares: Array

    def mean_and_sd(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the standard deviation of each run's norms, (runs,), over its updates."""
        updates, total, squares = (to_host(a).astype(np.float64) for a in self[1:])
        mean = total / updates
        return mean, np.sqrt(np.maximum(squares / updates - mean**2, 0.0))


class WithNorms(FrozenDataclass, eq=True):
    """An optimizer of parameters (runs, ...) whose state also has the norms of the gradients."""

    optimizer: Optimizer

    def init(self, parameters: tree.Tree) -> Norms:
        """The optimizer's own state, and no updates."""
        zeros = 0 * norm_of_runs(parameters, 1)
        return Norms(self.optimizer.init(parameters), zeros[0, ...], zeros, zeros)

    def update(self, gradients: tree.Tree, state: Norms, parameters: tree.Tree) -> tuple[tree.Tree, Norms]:
        """The optimizer's step."""
        step, optimizer = self.optimizer.update(gradients, state.optimizer, parameters)
        norm = norm_of_runs(gradients, 1)
        return step, Norms(optimizer, state.updates + 1, state.total + norm, state.squares + norm**2)
