"""The repulsion strength alpha: a number, or the ratio of the two forces, measured once (App. A)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.backend import Array
from xpsample.errors import HyperparameterError
from xpsample.hyperparameters import PER_CHAIN, check_range
from xpsample.tree import Tree


class Strength(ABC):
    """A repulsion strength that may be set along a chain, passed as `SRLD`'s ``alpha``.

    Attributes
    ----------
    measures : bool
        Whether `update` needs the force at the current point.
    """

    measures: bool

    @abstractmethod
    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        """(alpha, memory), alpha of the shape and dtype of `zeros`, (*chains); no two arrays the same object."""

    @abstractmethod
    def update(self, xp: Any, ready: Array, alpha: Array, score: Array, force: Any, memory: Tree) -> tuple[Array, Tree]:
        """(alpha, memory) for a step from a point with a score s and, where measured, a force g, (*chains, dim).

        `ready` (0-d) is whether there is a past to repel.
        """


@dataclass(frozen=True, eq=False)
class Fixed(Strength):
    """The same alpha at every step; what a number or an array passed as ``alpha`` means.

    Parameters
    ----------
    value : float or array
        At least 0; broadcasts against the chain axes.
    """

    value: Any = field(metadata=PER_CHAIN)
    measures = False

    def __post_init__(self) -> None:
        check_range("alpha", self.value, 0, closed=True)

    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        return zeros + self.value, None

    def update(self, xp: Any, ready: Array, alpha: Array, score: Array, force: Any, memory: Tree) -> tuple[Array, Tree]:
        return alpha, None


class Sums(NamedTuple):
    """Steps measured, and the sums of the lengths of s and g over them, each (*chains)."""

    steps: Array
    score: Array
    force: Array


@dataclass(frozen=True, eq=False)
class Balanced(Strength):
    """``alpha = sum |s(theta_k)| / sum |g(theta_k)|`` over a number of steps, then held; 0 until then (App. A).

    The paper sums over the first M c steps, during which the past of its own g does not exist yet. Here the base kernel
    alone makes the first M c steps and `steps` more, over which the sums run.

    Parameters
    ----------
    steps : int
        Steps to measure over.
    scale : float or array
        Multiplies the ratio, at least 0; broadcasts against the chain axes.
    """

    steps: int
    scale: Any = field(default=1.0, metadata=PER_CHAIN)
    measures = True

    def __post_init__(self) -> None:
        check_range("scale", self.scale, 0, closed=True)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise HyperparameterError(f"steps must be a positive integer; got {self.steps!r}")

    def init(self, xp: Any, zeros: Array) -> tuple[Array, Sums]:
        return zeros + 0.0, Sums(zeros + 0.0, zeros + 0.0, zeros + 0.0)

    def update(self, xp: Any, ready: Array, alpha: Array, score: Array, force: Any, memory: Sums) -> tuple[Array, Sums]:
        done = memory.steps >= self.steps
        measured = memory.force > 0
        ratio = self.scale * memory.score / xp.where(measured, memory.force, 1.0)
        counts = ready & ~done
        sums = Sums(
            memory.steps + xp.astype(counts, alpha.dtype),
            memory.score + xp.where(counts, _norm(xp, score), 0.0),
            memory.force + xp.where(counts, _norm(xp, force), 0.0),
        )
        return xp.where(done & measured, ratio, 0.0), sums


def _norm(xp: Any, a: Array) -> Array:
    return xp.sqrt(xp.sum(a * a, axis=-1))
