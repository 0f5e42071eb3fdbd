"""The epochs of a training, as the engine drives them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend, Carry, Step
from xpsample.core.checks import errors_of_functions
from xpsample.core.schedule import Schedule
from xpsample.core.specs import Specs, Uniform
from xpsample.optimize.optimizers import Optimizer, first_parameters, to_use
from xpsample.particles.batches import take_rows
from xpsample.sampling.noise import Native
from xpsample.sampling.program import as_one
from xpsample.score_mh.losses import TrainingLoss
from xpsample.trace.recorders import Record, Recorder


class EpochState(NamedTuple):
    """After an epoch."""

    parameters: tree.Tree
    optimizer: tree.Tree
    epoch: Array
    loss: Array
    validation_loss: Array
    best: tree.Tree
    best_loss: Array
    waited: Array


@dataclass(frozen=True, eq=False)
class Epochs:
    """A training: its steps are epochs, and a row has the losses of one.

    ``derivative(parameters, x, noise, constants, progress)`` gives the loss and its gradient in the parameters. Batches
    have so many rows, or all where it is None. The data are trees of arrays: ``rows`` (rows, dim); ``constants``, those
    of the loss; ``start``, the first parameters; ``validation`` and ``noise``, the rows and random numbers of the
    validation loss, or None.
    """

    backend: Backend
    loss: TrainingLoss
    derivative: Callable[..., tuple[Array, tree.Tree]]
    optimizer: Optimizer
    batch: int | None
    updates: int
    schedule: Schedule
    data: dict[str, Any]
    compiled: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    recorders: ClassVar = (Record("losses", lambda state: (state.loss, state.validation_loss)),)
    compile = False

    def like(self, carry: Carry) -> Array:
        """One number of the data."""
        return one_number(self.data["rows"])

    def specs(self, carry: Carry) -> Specs:
        """The noise of one epoch."""
        rows = self.data["rows"]
        own = self.loss.noise(rows.shape[0] if self.batch is None else self.batch, math.prod(rows.shape[1:]))
        drawn: dict[str, Any] = {} if self.batch is None else {"row": Uniform((self.updates, self.batch))}
        return drawn | {f"loss_{name}": type(spec)((self.updates, *spec.shape)) for name, spec in own.items()}

    def start(self) -> Carry:
        """The carry before the first epoch, whose arrays are no others'."""

        def begin(number: Array) -> EpochState:
            parameters, zero = first_parameters(self.data["start"]), 0.0 * self.backend.xp.sum(number)
            none = self.backend.from_host(np.zeros((), dtype=np.int64), number)
            return EpochState(
                parameters=parameters,
                optimizer=self.optimizer.init(parameters),
                epoch=none,
                loss=zero,
                validation_loss=zero,
                best=None if self.data["validation"] is None else parameters,
                best_loss=zero + math.inf,
                waited=none,
            )

        with errors_of_functions("the training failed at its first parameters"):
            return Carry(as_one(self.backend, begin, one_number(self.data["rows"])), (None,))

    def advance(self, data: tree.Tree = None, values: Any = None) -> Step:
        """An epoch as a step."""
        return partial(self._epoch, self.data if data is None else data)

    def values(self, is_array: Callable[[object], bool]) -> dict[str, Any]:
        """None: hyper-parameters are those of the optimiser, and stay."""
        return {}

    def sums(self, infos: Sequence[Any]) -> Any:
        """Nothing is summed."""

    def record(
        self, recorder_states: tuple[Any, ...], state: EpochState, info: Any, data: tree.Tree = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The losses of an epoch, as a row."""
        return recorder_states, tuple(recorder.function(state) for recorder in self.recorders)

    def result(self, recorder: Recorder, recorder_state: Any, rows: Any) -> Any:
        """The rows."""
        return rows

    def fingerprint(self, carry: Carry) -> dict[str, tree.Tree]:
        """The loss of some rows, its gradient, and the update that the optimizer makes of it."""
        state, rows = carry.state, self.data["rows"][:16, ...]
        specs = self.loss.noise(rows.shape[0], math.prod(rows.shape[1:]))
        block = Native(0).block(self.backend, specs, 0, 1, self.like(carry))
        noise = {name: numbers[0, ...] for name, numbers in block.items()}
        half = 0.5 * self.backend.xp.ones_like(state.loss)
        loss, gradient = self.derivative(state.parameters, rows, noise, self.data["constants"], half)
        update, _ = self.optimizer.update(gradient, state.optimizer, state.parameters)
        return {"loss": loss, "gradient": gradient, "update": update}

    def _epoch(self, data: dict[str, Any], state: EpochState, noise: dict[str, Array]) -> tuple[EpochState, None]:
        xp = self.backend.xp
        one = xp.ones_like(state.loss)
        progress = xp.astype(state.epoch, one.dtype) / max(self.schedule.steps - 1, 1)

        def update(i: Any, carry: tuple[tree.Tree, tree.Tree, Array]) -> tuple[tree.Tree, tree.Tree, Array]:
            parameters, optimizer, total = carry
            rows = data["rows"] if self.batch is None else take_rows(xp, data["rows"], noise["row"][i, ...])
            own = {name.removeprefix("loss_"): n[i, ...] for name, n in noise.items() if name != "row"}
            loss, gradient = self.derivative(parameters, rows, own, data["constants"], progress)
            updates, optimizer = self.optimizer.update(gradient, optimizer, parameters)
            return tree.map(lambda a, b: a + b, parameters, updates), optimizer, total + loss

        start = state.parameters, state.optimizer, 0.0 * state.loss
        parameters, optimizer, total = self.backend.repeat(self.updates, update, start)
        state = state._replace(
            parameters=parameters, optimizer=optimizer, loss=total / self.updates, epoch=state.epoch + 1
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
        return state, None


def one_number(rows: Array) -> Array:
    """The first of the data, (1,): its library, dtype and device are those of a training."""
    return rows[(slice(1), *(0,) * (rows.ndim - 1))]
