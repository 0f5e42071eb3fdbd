"""A repulsion strength alpha that is measured: the ratio of the two forces (App. A)."""

from abc import abstractmethod
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass, count, parameter
from xpsample.core.tree import Tree
from xpsample.kernels.strength import Strength


class Measured(Strength):
    """A repulsion strength that is set by the forces along a chain, passed as `SRLD`'s ``alpha``."""

    def now(self, alpha: Array) -> Array:
        return alpha

    @abstractmethod
    def update(
        self, xp: Any, ready: Array, alpha: Array, score: Array, force: Array, memory: Tree
    ) -> tuple[Array, Tree]:
        """(alpha, memory) for a step from a point with score s and force g, (*chains, dim).

        `ready` (0-d) tells whether there is a past that repels.
        """


class ForceSums(NamedTuple):
    """Steps measured, and the sums over them of the norms of s and g, each (*chains)."""

    steps: Array
    score: Array
    force: Array


class Balanced(Measured, FrozenDataclass):
    """``alpha = sum |s(theta_k)| / sum |g(theta_k)|`` over a number of steps, then held; 0 until then (App. A).

    The paper sums over the first M c steps, when there is no past yet for g. Here the base kernel makes the first M c
    steps and ``steps`` more; the sums run over the latter.

    Parameters
    ----------
    steps : int
        Steps to measure over.
    scale : float or array
        Multiplies the ratio, at least 0; broadcasts against the chain axes.
    """

    steps: int = count()
    scale: float | Array = parameter(default=1.0, ge=0)

    def init(self, xp: Any, zeros: Array) -> tuple[Array, ForceSums]:
        return zeros + 0.0, ForceSums(zeros + 0.0, zeros + 0.0, zeros + 0.0)

    def update(
        self, xp: Any, ready: Array, alpha: Array, score: Array, force: Array, memory: ForceSums
    ) -> tuple[Array, ForceSums]:
        done = memory.steps >= self.steps
        measured = memory.force > 0
        ratio = self.scale * memory.score / xp.where(measured, memory.force, 1.0)
        counts = ready & ~done
        sums = ForceSums(
            memory.steps + xp.astype(counts, alpha.dtype),
            memory.score + xp.where(counts, _norm(xp, score), 0.0),
            memory.force + xp.where(counts, _norm(xp, force), 0.0),
        )
        return xp.where(done & measured, ratio, 0.0), sums


def _norm(xp: Any, a: Array) -> Array:
    return xp.sqrt(xp.sum(a * a, axis=-1))
