"""First-order optimisers over trees of parameters, in optax's form: ``init(parameters)``, ``update(gradients, ...)``.

``update`` gives what to add to the parameters. With JAX arrays an optax optimiser can take the place of these.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_number, given, settle
from xpsample.core.errors import HyperparameterError


class Optimizer(Protocol):
    """What a kernel or a training asks of an optimiser."""

    def init(self, parameters: tree.Tree, /) -> tree.Tree:
        """The state at the first parameters: a tree of arrays, or None."""

    def update(self, gradients: tree.Tree, state: tree.Tree, parameters: tree.Tree, /) -> tuple[tree.Tree, tree.Tree]:
        """(what to add to the parameters, new state)."""


def check_optimizer(name: str, value: Any) -> Any:
    """A value with ``init`` and ``update``, such as `SGD` or an optax optimiser."""
    if isinstance(value, type) or not all(callable(getattr(value, part, None)) for part in ("init", "update")):
        raise HyperparameterError(f"{name} must have init and update, such as SGD(0.01); got {given(value)}")
    return value


@dataclass(frozen=True)
class SGD:
    """Gradient descent with heavy-ball momentum: ``v = momentum v + g``, ``theta -= learning_rate v``.

    Parameters
    ----------
    learning_rate : float
        Positive, in units of theta squared over those of the loss.
    momentum : float
        In [0, 1).
    """

    learning_rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        settle(self, "learning_rate", check_number, 0)
        settle(self, "momentum", check_number, 0, 1, closed=True, below=True)

    def init(self, parameters: tree.Tree) -> tree.Tree:
        """Zero velocities, or None without momentum."""
        return tree.map(_zeros, parameters) if self.momentum else None

    def update(self, gradients: tree.Tree, state: tree.Tree, parameters: tree.Tree) -> tuple[tree.Tree, tree.Tree]:
        """One step against the gradients."""
        if self.momentum:
            state = gradients = tree.map(lambda g, v: g + self.momentum * v, gradients, state)
        return tree.map(lambda g: -self.learning_rate * g, gradients), state


class AdamState(NamedTuple):
    """Running means of gradients and of their squares, and the powers (0-d) of the decays for the bias correction."""

    first: tree.Tree
    second: tree.Tree
    power1: Array
    power2: Array


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015), with its bias correction; the defaults are those of optax.

    Parameters
    ----------
    learning_rate : float
        Positive, in units of theta.
    beta1, beta2 : float
        Decays of the means of gradients and of their squares, in [0, 1).
    epsilon : float
        Added to the root of the mean square, positive, in units of the gradient.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        settle(self, "learning_rate", check_number, 0)
        settle(self, "epsilon", check_number, 0)
        settle(self, "beta1", check_number, 0, 1, closed=True, below=True)
        settle(self, "beta2", check_number, 0, 1, closed=True, below=True)

    def init(self, parameters: tree.Tree) -> AdamState:
        """Zero means."""
        zeros = tree.map(_zeros, parameters)
        one = _one(tree.leaves(parameters)[0])
        return AdamState(zeros, zeros, one, one)

    def update(self, gradients: tree.Tree, state: AdamState, parameters: tree.Tree) -> tuple[tree.Tree, AdamState]:
        """One step against the corrected means."""
        b1, b2 = self.beta1, self.beta2
        first = tree.map(lambda g, m: b1 * m + (1.0 - b1) * g, gradients, state.first)
        second = tree.map(lambda g, v: b2 * v + (1.0 - b2) * g * g, gradients, state.second)
        power1, power2 = b1 * state.power1, b2 * state.power2

        def step(m: Array, v: Array) -> Array:
            return -self.learning_rate * (m / (1.0 - power1)) / ((v / (1.0 - power2)) ** 0.5 + self.epsilon)

        return tree.map(step, first, second), AdamState(first, second, power1, power2)


@dataclass(frozen=True)
class Clipped:
    """Another optimiser, whose gradients are first scaled down to a global norm if they exceed it.

    Parameters
    ----------
    optimizer : Optimizer
    max_norm : float
        Positive. The norm is over all entries of all leaves of one run.
    runs : int
        Leading axes of the leaves that are independent runs; each run has its own norm.
    """

    optimizer: Optimizer
    max_norm: float
    runs: int = 0

    def __post_init__(self) -> None:
        settle(self, "optimizer", check_optimizer)
        settle(self, "max_norm", check_number, 0)
        settle(self, "runs", check_count, 0)

    def init(self, parameters: tree.Tree) -> tree.Tree:
        """The optimiser's own state."""
        return self.optimizer.init(parameters)

    def update(self, gradients: tree.Tree, state: tree.Tree, parameters: tree.Tree) -> tuple[tree.Tree, tree.Tree]:
        """One step with clipped gradients."""
        if any(leaf.ndim < self.runs for leaf in tree.leaves(gradients)):
            shapes = [tuple(leaf.shape) for leaf in tree.leaves(gradients)]
            raise HyperparameterError(f"runs is {self.runs}, and a leaf of the parameters has fewer axes: {shapes}")
        squares = [_sum_of_squares(leaf, self.runs) for leaf in tree.leaves(gradients)]
        norm = sum(squares[1:], squares[0]) ** 0.5
        xp = array_namespace(norm)
        scale = xp.where(norm > self.max_norm, self.max_norm / norm, xp.ones_like(norm))
        clipped = tree.map(lambda g: g * scale[(..., *(None,) * (g.ndim - self.runs))], gradients)
        return self.optimizer.update(clipped, state, parameters)


class CosineState(NamedTuple):
    """The decayed optimiser's state, and the number (0-d) of steps made."""

    optimizer: tree.Tree
    step: Array


@dataclass(frozen=True)
class CosineDecay:
    """Another optimiser, whose steps shrink to 0 as half a period of a cosine (Loshchilov & Hutter 2017, Eq. 5).

    Step t = 0, 1, ... is multiplied by ``(1 + cos(pi t / steps)) / 2``, and by 0 from t = ``steps`` on.

    Parameters
    ----------
    optimizer : Optimizer
    steps : int
        Of the whole training.

    Examples
    --------
    For `fit` with 50 epochs of 78 updates:

    >>> from xpsample.optimize import Adam, CosineDecay
    >>> optimizer = CosineDecay(Adam(1e-2), 50 * 78)
    """

    optimizer: Optimizer
    steps: int

    def __post_init__(self) -> None:
        settle(self, "optimizer", check_optimizer)
        settle(self, "steps", check_count)

    def init(self, parameters: tree.Tree) -> CosineState:
        """The optimiser's own state, and no step made."""
        return CosineState(self.optimizer.init(parameters), 0.0 * _one(tree.leaves(parameters)[0]))

    def update(self, gradients: tree.Tree, state: CosineState, parameters: tree.Tree) -> tuple[tree.Tree, CosineState]:
        """One step of the optimiser, made shorter."""
        updates, inner = self.optimizer.update(gradients, state.optimizer, parameters)
        xp = array_namespace(state.step)
        scale = xp.where(
            state.step < self.steps, 0.5 * (1.0 + xp.cos(math.pi * state.step / self.steps)), xp.zeros_like(state.step)
        )
        return tree.map(lambda u: scale * u, updates), CosineState(inner, state.step + 1.0)


def _zeros(leaf: Array) -> Array:
    return array_namespace(leaf).zeros_like(leaf)


def _one(leaf: Array) -> Array:
    """1, 0-d, with the dtype and on the device of a leaf."""
    xp = array_namespace(leaf)
    return xp.ones_like(xp.sum(leaf))


def _sum_of_squares(leaf: Array, runs: int) -> Array:
    return array_namespace(leaf).sum(leaf * leaf, axis=tuple(range(runs, leaf.ndim)))
