"""Training: a loss minimised over batches, by the same drivers that run chains."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj

from xpsample import tree
from xpsample.backend import Array, check_same_home, to_host
from xpsample.errors import GradientError, HyperparameterError
from xpsample.gradients.choices import Auto, Evaluations, GradientChoice
from xpsample.kernels.kernel import Info, Kernel
from xpsample.noise import NoiseSource, Portable, Specs, Uniform, as_source, chunk_steps
from xpsample.recorders import Record
from xpsample.sampling import Program, progress_bar
from xpsample.score_mh.losses import Loss
from xpsample.sosmc.optimizers import Adam
from xpsample.targets.discrete import as_index
from xpsample.targets.target import BoundTarget, Capability, Point, Target, counter
from xpsample.tree import dtype_name


class Fitted(NamedTuple):
    """What `fit` found.

    ``parameters`` are those of the epoch with the best validation loss, or the last ones without a validation;
    ``losses`` (epochs,), means over the batches of an epoch, and ``validation_losses`` (epochs,), or None, are NumPy
    arrays.
    """

    parameters: tree.Tree
    losses: np.ndarray
    validation_losses: np.ndarray | None
    stopped_early: bool


def fit(
    loss: Loss,
    parameters: tree.Tree,
    data: Array,
    *,
    epochs: int,
    seed: int | NoiseSource,
    optimizer: Any = None,
    batch_size: int | None = None,
    steps_per_epoch: int | None = None,
    validation: Array | None = None,
    patience: int | None = None,
    gradient: GradientChoice | None = None,
    progress: bool | None = None,
) -> Fitted:
    """Minimise a loss over rows of data.

    Parameters
    ----------
    loss : Loss
        Such as `Sliced` or `ScoreBalance`.
    parameters : tree of arrays
        Where to start; NumPy arrays are put into the library of the data.
    data : array, shape (rows, dim)
        It decides library, dtype and device.
    epochs : int
    seed : int or NoiseSource
        Of the batches and of the loss's own random numbers.
    optimizer : Optimizer, optional
        One of `xpsample.sosmc`, or an optax one for JAX arrays; ``Adam(1e-3)`` when not given.
    batch_size : int, optional
        Rows of a batch, drawn with replacement; all of them when not given.
    steps_per_epoch : int, optional
        Updates in an epoch; as many as batches fit into the data when not given. The random numbers of a whole epoch
        are drawn at once.
    validation : array, shape (any, dim), optional
        Rows whose loss, with the same random numbers every time, is computed after every epoch.
    patience : int, optional
        Stop when the validation loss was not better for so many epochs.
    gradient : GradientChoice, optional
        In the parameters; `Auto` when not given. `Via` for NumPy and CuPy arrays.
    progress : bool, optional
        A progress bar (tqdm); by default when tqdm is installed and stderr is a terminal.

    Returns
    -------
    Fitted

    Raises
    ------
    HyperparameterError
        For settings out of range.
    GradientError
        If the loss leaves the finite numbers, or there is no derivative.
    """
    if not is_array_api_obj(data) or data.ndim != 2 or not data.shape[0]:
        raise HyperparameterError(f"data have shape (rows, dim); got {getattr(data, 'shape', type(data).__name__)}")
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("steps_per_epoch", steps_per_epoch)):
        _check_count(name, value)
    _check_count("patience", patience)
    if patience is not None and validation is None:
        raise HyperparameterError("patience is counted in validation losses: pass validation=rows as well")
    if validation is not None:
        check_same_home("validation", validation, data)
        if tuple(validation.shape[1:]) != tuple(data.shape[1:]) or not validation.shape[0]:
            raise HyperparameterError(f"validation has shape {tuple(validation.shape)}, the data {tuple(data.shape)}")
    steps = steps_per_epoch or (max(1, data.shape[0] // batch_size) if batch_size else 1)

    # The rows and the constants are the target's data, which drivers hand to a compiled program as arguments.
    start = data[:1, 0]
    held = {"rows": data, "constants": loss.constants, "start": parameters, "validation": None, "noise": None}
    target = Target(None, score=_no_score, data=held).prepare(start, Capability.NONE)
    if validation is not None:
        fixed = Portable(0).block(target.backend, loss.noise(*validation.shape), 0, 1, start)
        noise = {name: numbers[0, ...] for name, numbers in fixed.items()}
        target = target.with_data({**target.data, "validation": validation, "noise": noise})
    chosen = gradient if gradient is not None else Auto()
    if isinstance(chosen, Auto):
        chosen = Auto.resolve(target.backend, dtype_name(data))
    kernel = _Epoch(
        loss,
        chosen.value_and_gradient(target.backend, loss),
        Adam(1e-3) if optimizer is None else optimizer,
        batch_size,
        (data.shape[0], data.shape[1]),
        steps,
        epochs,
    )
    program = Program(kernel, target, (Record("losses", _losses),), 0, 1, epochs)
    state, buffers, done = _run(program, start, as_source(seed), patience, progress)
    losses, validated = (to_host(rows)[:done] for rows in buffers[0])
    if validation is None:
        return Fitted(state.parameters, losses, None, False)
    return Fitted(state.best, losses, validated, done < epochs)


class _State(NamedTuple):
    """After an epoch; ``point`` holds one number, for the dtype and the place of the noise."""

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
class _Epoch(Kernel):
    """One epoch as a step."""

    loss: Loss
    derivative: Callable[..., tuple[Array, tree.Tree]]
    optimizer: Any
    batch: int | None
    shape: tuple[int, int]
    steps: int
    epochs: int

    requires = Capability.NONE

    def init(self, target: BoundTarget, x: Array) -> _State:
        parameters = tree.map(lambda leaf: 1 * leaf, target.data["start"])
        zero, none = 0.0 * target.xp.sum(x), counter(target, x)
        validated = target.data["validation"] is not None
        return _State(
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

    def step(self, target: BoundTarget, state: _State, noise: dict[str, Array]) -> tuple[_State, Info]:
        xp, data = target.xp, target.data
        one = xp.ones_like(state.loss)
        progress = xp.astype(state.epoch, one.dtype) / max(self.epochs - 1, 1)

        def update(i: Any, carry: tuple[tree.Tree, tree.Tree, Array]) -> tuple[tree.Tree, tree.Tree, Array]:
            parameters, optimizer, total = carry
            rows = data["rows"] if self.batch is None else _take(xp, data["rows"], noise["row"][i, ...])
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
            found = self.derivative(parameters, data["validation"], data["noise"], data["constants"], one)[0]
            better = found < state.best_loss
            state = state._replace(
                validation_loss=found,
                best=tree.map(lambda new, old: xp.where(better, new, old), parameters, state.best),
                best_loss=xp.where(better, found, state.best_loss),
                waited=xp.where(better, xp.zeros_like(state.waited), state.waited + 1),
            )
        finite = xp.isfinite(state.loss)
        return state, Info(xp.astype(finite, one.dtype), finite, ~finite, Evaluations())


def _run(
    program: Program, start: Array, source: NoiseSource, patience: int | None, progress: bool | None
) -> tuple[_State, Any, int]:
    """The last state, the buffers of losses, and the number of epochs made."""
    backend = program.target.backend
    carry, buffers, done, stalled = program.init(start), None, 0, False
    block = chunk_steps(program.specs(carry))
    with progress_bar(progress, program.steps, unit="epoch") as bar:
        while done < program.steps and not stalled:
            stop = min(done + 1 if patience else (done // block + 1) * block, program.steps)
            carry, buffers, _ = backend.drive(program, carry, buffers, source, done, stop)
            state = carry.state
            if not np.isfinite(to_host(state.loss)):
                raise GradientError(
                    f"the loss left the finite numbers by epoch {stop}: lower the learning rate, or clip the gradients"
                )
            stalled = patience is not None and int(to_host(state.waited)) >= patience
            if bar is not None:
                bar.update(stop - done)
            done = stop
    return carry.state, buffers, done


def _losses(state: _State) -> tuple[Array, Array]:
    return state.loss, state.validation_loss


def _take(xp: Any, rows: Array, uniforms: Array) -> Array:
    """Rows chosen by uniforms, with replacement."""
    count = rows.shape[0]
    place = xp.floor(uniforms * count)
    return xp.take(rows, as_index(xp, xp.where(place < count, place, count - 1.0)), axis=0)


def _check_count(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1):
        raise HyperparameterError(f"{name} must be a positive integer; got {value!r}")


def _no_score(x: Array, data: Any) -> Array:
    """That of the target that only carries the data; nothing calls it."""
    return x
