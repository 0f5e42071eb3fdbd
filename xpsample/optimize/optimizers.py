"""First-order optimizers over trees of parameters, in optax's form: ``init(parameters)``, ``update(gradients, ...)``.

``update`` returns the change of the parameters. With JAX arrays an optax optimizer can be used instead, and with torch
tensors ``xpsample_torch.from_optim.optimizer`` wraps an optimizer of torch.
"""

import math
from typing import Any, NamedTuple, Protocol

from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, count, number
from xpsample.core.tree import dtype_name


class Optimizer(Protocol):
    """Interface of the optimizers that kernels and trainings use."""

    def init(self, parameters: tree.Tree, /) -> tree.Tree:
        """Return the state at the first parameters: a tree of arrays, or None."""

    def update(self, gradients: tree.Tree, state: tree.Tree, parameters: tree.Tree, /) -> tuple[tree.Tree, tree.Tree]:
        """(what to add to the parameters, new state)."""


def check_optimizer(name: str, value: Any) -> Any:
    """A value with ``init`` and ``update``, such as `SGD` or an optax optimizer."""
    if isinstance(value, type) or not all(callable(getattr(value, part, None)) for part in ("init", "update")):
        raise HyperparameterError(
            f"{name} must have init and update, such as SGD(0.01), got {given(value)}. For torch.optim, "
            "use xpsample_torch.from_optim.optimizer."
        )
    return value


def first_parameters(parameters: tree.Tree) -> tree.Tree:
    """A copy of the parameters that an optimizer starts from; all of them are arrays of floating numbers."""
    for path, leaf in tree.items(parameters):
        if not is_array(leaf) or not dtype_name(leaf).startswith("float"):
            raise HyperparameterError(
                f"{path or 'the parameter'} is {given(leaf)}, but an optimizer moves floating arrays only. Separate "
                "the rest with from_module.parameters or equinox.partition."
            )
    return tree.map(lambda leaf: 1 * leaf, parameters)


def norm_of_runs(gradients: tree.Tree, runs: int) -> Array:
    """The norm over all entries of all leaves, of each run: the first `runs` axes of a leaf."""
    leaves = tree.leaves(gradients)
    xp = array_namespace(*leaves)
    squares = [xp.sum(g * g, axis=tuple(range(runs, g.ndim))) for g in leaves]
    return sum(squares[1:], squares[0]) ** 0.5


class SGD(FrozenDataclass, eq=True):
    """Gradient descent with heavy-ball momentum: ``v = momentum v + g``, ``theta -= learning_rate v``.

    Parameters
    ----------
    learning_rate : float
        Positive, in units of theta squared per unit of the loss.
    momentum : float
        In [0, 1).
    """

    learning_rate: float = number(gt=0)
    momentum: float = number(default=0.0, ge=0, lt=1)

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


class Adam(FrozenDataclass, eq=True):
    """Adam (Kingma & Ba 2015), with its bias correction and optax's defaults.

    Parameters
    ----------
    learning_rate : float
        Positive, in units of theta.
    beta1, beta2 : float
        Decays of the means of gradients and of their squares, in [0, 1).
    epsilon : float
        Added to the root of the mean square, positive, in units of the gradient.
    """

    learning_rate: float = number(gt=0)
    beta1: float = number(default=0.9, ge=0, lt=1)
    beta2: float = number(default=0.999, ge=0, lt=1)
    epsilon: float = number(default=1e-08, gt=0)

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


class Clipped(FrozenDataclass, eq=True):
    """Another optimizer, whose gradients are first scaled down to a global norm if they exceed it.

    Parameters
    ----------
    optimizer : Optimizer
    max_norm : float
        Positive. The norm is over all entries of all leaves of one run.
    runs : int
        Leading axes of the leaves that are independent runs; each run has its own norm.
    """

    optimizer: Optimizer = checked(check_optimizer)
    max_norm: float = number(gt=0)
    runs: int = count(default=0, ge=0)

    def init(self, parameters: tree.Tree) -> tree.Tree:
        """The optimizer's own state."""
        return self.optimizer.init(parameters)

    def update(self, gradients: tree.Tree, state: tree.Tree, parameters: tree.Tree) -> tuple[tree.Tree, tree.Tree]:
        """One step with clipped gradients."""
        if any(leaf.ndim < self.runs for leaf in tree.leaves(gradients)):
            shapes = [tuple(leaf.shape) for leaf in tree.leaves(gradients)]
            raise HyperparameterError(f"runs is {self.runs}, and a leaf of the parameters has fewer axes: {shapes}")
        xp, norm = array_namespace(*tree.leaves(gradients)), norm_of_runs(gradients, self.runs)
        scale = xp.where(norm > self.max_norm, self.max_norm / norm, xp.ones_like(norm))
        clipped = tree.map(lambda g: g * scale[(..., *(None,) * (g.ndim - self.runs))], gradients)
        return self.optimizer.update(clipped, state, parameters)


class AverageState(NamedTuple):
    """The average so far, the sum (0-d) of its weights, and the state of the optimizer inside."""

    average: tree.Tree
    total: Array
    optimizer: tree.Tree


class Averaged(FrozenDataclass, eq=True):
    """Another optimizer, plus an exponential moving average of the parameters that it reaches.

    The average is ``sum_k decay^(n - k) theta_k`` after n steps, divided by the sum of those weights: the first
    parameters have none. The optimizer's steps stay what they are. `fit` gives the average as its result; in the state
    of `SOSMC` and `PCD` it is ``state.optimizer.average``.

    Parameters
    ----------
    optimizer : Optimizer
    decay : float
        In [0, 1). Steps that are 1 / (1 - decay) back weigh 1 / e.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.optimize import SGD, Averaged
    >>> optimizer = Averaged(SGD(0.5), decay=0.5)
    >>> theta = np.asarray([1.0])
    >>> state = optimizer.init(theta)
    >>> for _ in range(2):
    ...     step, state = optimizer.update(theta, state, theta)
    ...     theta = theta + step
    >>> theta, state.average
    (array([0.25]), array([0.33333333]))
    """

    optimizer: Optimizer = checked(check_optimizer)
    decay: float = number(default=0.999, ge=0, lt=1)

    def init(self, parameters: tree.Tree) -> AverageState:
        """No average yet: the parameters stand in its place."""
        return AverageState(parameters, 0.0 * _one(tree.leaves(parameters)[0]), self.optimizer.init(parameters))

    def update(
        self, gradients: tree.Tree, state: AverageState, parameters: tree.Tree
    ) -> tuple[tree.Tree, AverageState]:
        """The optimizer's step; the parameters after it enter the average."""
        updates, inner = self.optimizer.update(gradients, state.optimizer, parameters)
        total = self.decay * state.total + 1.0
        average = tree.map(lambda a, p, u: a + (p + u - a) / total, state.average, parameters, updates)
        return updates, AverageState(average, total, inner)


class CosineState(NamedTuple):
    """The decayed optimizer's state, and the number (0-d) of steps made."""

    optimizer: tree.Tree
    step: Array


class CosineDecay(FrozenDataclass, eq=True):
    """Another optimizer, whose steps shrink to 0 as half a period of a cosine (Loshchilov & Hutter 2017, Eq. 5).

    Step t = 0, 1, ... is multiplied by ``(1 + cos(pi t / steps)) / 2``, and by 0 from t = ``steps`` on.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer, but not an `Averaged`, which would average steps that are not made: ``Averaged(CosineDecay(...))``.
    steps : int
        Total number of training steps.

    Examples
    --------
    For `fit` with 50 epochs of 78 updates:

    >>> from xpsample.optimize import Adam, CosineDecay
    >>> optimizer = CosineDecay(Adam(1e-2), 50 * 78)
    """

    optimizer: Optimizer = checked(check_optimizer)
    steps: int = count()

    def __check_init__(self) -> None:
        inside: Any = self.optimizer
        while isinstance(inside, (Clipped, CosineDecay)):
            inside = inside.optimizer
        if isinstance(inside, Averaged):
            raise HyperparameterError(
                "Averaged averages the steps that are made: put it around CosineDecay, not inside"
            )

    def init(self, parameters: tree.Tree) -> CosineState:
        """The optimizer's own state, and no step made."""
        return CosineState(self.optimizer.init(parameters), 0.0 * _one(tree.leaves(parameters)[0]))

    def update(self, gradients: tree.Tree, state: CosineState, parameters: tree.Tree) -> tuple[tree.Tree, CosineState]:
        """One step of the optimizer, made shorter."""
        updates, inner = self.optimizer.update(gradients, state.optimizer, parameters)
        xp = array_namespace(state.step)
        scale = xp.where(
            state.step < self.steps, 0.5 * (1.0 + xp.cos(math.pi * state.step / self.steps)), xp.zeros_like(state.step)
        )
        return tree.map(lambda u: scale * u, updates), CosineState(inner, state.step + 1.0)


def to_use(parameters: tree.Tree, state: tree.Tree) -> tree.Tree:
    """Return the resulting parameters of an optimizer and its state: their average, if it has one."""
    return state.average if isinstance(state, AverageState) else parameters


def _zeros(leaf: Array) -> Array:
    return array_namespace(leaf).zeros_like(leaf)


def _one(leaf: Array) -> Array:
    """1, 0-d, with the dtype and on the device of a leaf."""
    xp = array_namespace(leaf)
    return xp.ones_like(xp.sum(leaf))
