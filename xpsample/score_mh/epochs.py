"""One epoch of training as the step of a kernel."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.specs import Specs, Uniform
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import Trait
from xpsample.optimize.optimizers import Optimizer, first_parameters, to_use
from xpsample.particles.batches import take_rows
from xpsample.score_mh.losses import TrainingLoss
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point


class EpochState(NamedTuple):
    """After an epoch. ``point`` holds one number, for the dtype and the device of the noise."""

    point: Point
    parameters: tree.Tree
    optimizer: tree.Tree
    epoch: Array
    loss: Array
    validation_loss: Array
    best: tree.Tree
    best_loss: Array
    waited: Array


@dataclass(frozen=True, eq=False)
class Epoch(Kernel[EpochState, Info]):
    """One epoch as a step, on a target whose data are a dict.

    Its entries are ``rows`` (rows, dim); ``constants``, those of the loss; ``start``, the first parameters;
    ``validation`` and ``noise``, the rows and random numbers of the validation loss, or None.

    Parameters
    ----------
    loss : TrainingLoss
    derivative : callable
        ``derivative(parameters, x, noise, constants, progress)`` -> (loss, gradient in the parameters).
    optimizer : Optimizer
    batch : int or None
        Rows of a batch; None for all.
    shape : (int, int)
        Of the rows.
    steps, epochs : int
        Updates in an epoch; epochs of the training.
    """

    loss: TrainingLoss
    derivative: Callable[..., tuple[Array, tree.Tree]]
    optimizer: Optimizer
    batch: int | None
    shape: tuple[int, int]
    steps: int
    epochs: int

    requires = Capability.NONE
    traits = Trait.NONE  # it moves parameters

    def init(self, target: BoundTarget, x: Array) -> EpochState:
        parameters = first_parameters(target.data["start"])
        zero, none = 0.0 * target.xp.sum(x), counter(target, x)
        validated = target.data["validation"] is not None
        return EpochState(
            point=Point(x, None, None),
            parameters=parameters,
            optimizer=self.optimizer.init(parameters),
            epoch=none,
            loss=zero,
            validation_loss=zero,
            best=parameters if validated else None,
            best_loss=zero + math.inf,
            waited=none,
        )

    def noise(self, x: Array) -> Specs:
        rows, dim = self.shape
        own = self.loss.noise(rows if self.batch is None else self.batch, dim)
        drawn: dict[str, Any] = {} if self.batch is None else {"row": Uniform((self.steps, self.batch))}
        return drawn | {f"loss_{name}": type(spec)((self.steps, *spec.shape)) for name, spec in own.items()}

    def step(self, target: BoundTarget, state: EpochState, noise: dict[str, Array]) -> tuple[EpochState, Info]:
        xp, data = target.xp, target.data
        one = xp.ones_like(state.loss)
        progress = xp.astype(state.epoch, one.dtype) / max(self.epochs - 1, 1)

        def update(i: Any, carry: tuple[tree.Tree, tree.Tree, Array]) -> tuple[tree.Tree, tree.Tree, Array]:
            parameters, optimizer, total = carry
            rows = data["rows"] if self.batch is None else take_rows(xp, data["rows"], noise["row"][i, ...])
            own = {name.removeprefix("loss_"): n[i, ...] for name, n in noise.items() if name != "row"}
            loss, gradient = self.derivative(parameters, rows, own, data["constants"], progress)
            updates, optimizer = self.optimizer.update(gradient, optimizer, parameters)
            return tree.map(lambda a, b: a + b, parameters, updates), optimizer, total + loss

        start = state.parameters, state.optimizer, 0.0 * state.loss
        parameters, optimizer, total = target.backend.repeat(self.steps, update, start)
        state = state._replace(
            parameters=parameters, optimizer=optimizer, loss=total / self.steps, epoch=state.epoch + 1
        )
        if state.best is not None:
            used = to_use(parameters, optimizer)
            found = self.derivative(used, data["validation"], data["noise"], data["constants"], one)[0]
            better = found < state.best_loss
            state = state._replace(
                validation_loss=found,
                best=tree.map(lambda new, old: xp.where(better, new, old), used, state.best),
                best_loss=xp.where(better, found, state.best_loss),
                waited=xp.where(better, xp.zeros_like(state.waited), state.waited + 1),
            )
        finite = xp.isfinite(state.loss)
        return state, Info(xp.astype(finite, one.dtype), finite, ~finite, Evaluations())
