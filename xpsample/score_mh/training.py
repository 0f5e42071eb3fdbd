"""Training: a loss is minimized over batches of rows, epoch by epoch."""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Abandoned, StopFlag
from xpsample.core.checks import check_count, check_flag, check_instance, errors_of_functions, given
from xpsample.core.devices import Processes, current_device
from xpsample.core.errors import GradientError, HyperparameterError, Interrupted, keeping
from xpsample.core.hyperparameters import arguments, check_array, check_range, check_reals
from xpsample.core.registry import backend_of, check_same_home, repeated, to_host
from xpsample.core.specs import Uniform
from xpsample.core.tree import dtype_name
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.optimize.optimizers import Adam, Optimizer, check_optimizer, first_parameters, to_use
from xpsample.particles.batches import take_rows
from xpsample.sampling.checkpoint import Checkpoint
from xpsample.sampling.interrupts import interruptible
from xpsample.sampling.noise import NoiseSource, Portable, as_noise_source, chunk_steps
from xpsample.sampling.progress import Bar
from xpsample.score_mh.losses import TrainingLoss
from xpsample.score_mh.saved_training import SavedTraining
from xpsample.spaces.space import Real
from xpsample.targets.prepared import placed

SECONDS = 1.0  # Approximate duration of a block of epochs: signals, progress and checkpoint are handled between blocks


class Fitted(NamedTuple):
    """The result of `fit`.

    ``parameters`` are the parameters of the epoch with the best validation loss, or of the last epoch without a
    validation; their averages with the optimizer `Averaged`. ``losses`` (epochs,), the means over the batches of each
    epoch, and ``validation_losses`` (epochs,), or None, are NumPy arrays.
    """

    parameters: tree.Tree
    losses: np.ndarray
    validation_losses: np.ndarray | None
    stopped_early: bool


def fit(
    loss: TrainingLoss,
    parameters: tree.Tree,
    data: Array,
    *,
    epochs: int,
    seed: int | NoiseSource,
    optimizer: Optimizer | None = None,
    batch_size: int | None = None,
    steps_per_epoch: int | None = None,
    validation: Array | None = None,
    patience: int | None = None,
    gradient: GradientChoice | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool | None = None,
) -> Fitted:
    """Minimize a loss over rows of data.

    Parameters
    ----------
    loss : TrainingLoss
        Such as `Sliced` or `ScoreBalance`.
    parameters : tree of arrays
        The first ones; NumPy arrays are put into the library of the data.
    data : array, shape (rows, dim), or (rows, *shape)
        They determine library, dtype and device. Rows with more axes, such as images, are supported by: `Denoising`,
        `AnnealedDenoising`, `NoisePrediction`.
    epochs : int
    seed : int or NoiseSource
        For the batches and the random numbers of the loss.
    optimizer : Optimizer, optional
        One of `xpsample.optimize`, an optax one for JAX arrays, or one of `from_optim` for torch tensors;
        ``Adam(1e-3)`` when not given.
    batch_size : int, optional
        Rows of a batch, drawn with replacement; all rows when not given.
    steps_per_epoch : int, optional
        Updates in an epoch; as many as there are batches in the data when not given. The random numbers of an epoch
        are drawn at once.
    validation : array, shape (any, dim) or (any, *shape), optional
        Rows whose loss is computed after every epoch, always with the same random numbers.
    patience : int, optional
        Stop if the validation loss has not improved for this many epochs.
    gradient : GradientChoice, optional
        How derivatives in the parameters are obtained; `Auto` when not given. `Via` for NumPy and CuPy arrays.
    checkpoint : path or Checkpoint, optional
        A directory. The same call, made again, resumes from the last epoch saved there and gives the result of an
        uninterrupted call. A checkpoint of another training is refused: settings and data are compared, as well as
        the loss, the norm of its gradient and the norm of an update, at the first and at the saved parameters.
    progress : bool, optional
        A progress bar (tqdm); by default when tqdm is installed, in a terminal or a notebook.

    Returns
    -------
    Fitted

    Raises
    ------
    HyperparameterError
        For settings out of range.
    GradientError
        If the loss leaves the finite numbers, or no derivative can be had.
    Interrupted
        On Ctrl-C or SIGTERM, after the current epoch or, if epochs are short, after about a second of them. Like any
        other error after the first epoch, it has an attribute ``fitted`` with the training so far.
    """
    check_instance("loss", loss, TrainingLoss, "Sliced()")
    epochs = check_count("epochs", epochs)
    batch_size, steps_per_epoch, patience = (
        None if value is None else check_count(name, value)
        for name, value in (("batch_size", batch_size), ("steps_per_epoch", steps_per_epoch), ("patience", patience))
    )
    optimizer = Adam(1e-3) if optimizer is None else check_optimizer("optimizer", optimizer)
    check_instance("gradient", gradient, GradientChoice, "FiniteDifference()", optional=True)
    if progress is not None:
        check_flag("progress", progress)
    _check_data(loss, data, validation, patience)
    stop_flag, saved = StopFlag(), None

    with current_device(data), np.errstate(over="ignore", invalid="ignore", divide="ignore"), ExitStack() as stack:
        arrays = {"rows": data, "start": parameters, "validation": validation}
        counts = batch_size, steps_per_epoch, epochs, patience
        training = _Training(loss, optimizer, gradient, arrays, seed, *counts)
        with errors_of_functions("the training failed at its first parameters"):
            state = repeated(training.backend, training.start)(training.data)
        losses = np.empty((2, 0), dtype_name(data))  # of training and validation, after each epoch
        if checkpoint is not None:
            saved = SavedTraining(checkpoint, training)
            stack.enter_context(saved.keeper.locked())
            state, losses = saved.load(state, losses)
        stack.enter_context(keeping(fitted=lambda: training.fitted(state, losses)))
        stack.enter_context(interruptible(stop_flag))
        bar = Bar(progress, epochs, unit="epoch")
        bar.on_start(SimpleNamespace(step=losses.shape[1]))
        stack.callback(bar.on_end, None)
        for new, rows in training.blocks(state, losses.shape[1], stop_flag):
            state, losses = new, np.concatenate([losses, rows], axis=1)
            if not np.isfinite(losses[0, -1]):
                at = f"the loss left the finite numbers by epoch {losses.shape[1]}"
                raise GradientError(f"{at}: lower the learning rate, or clip the gradients")
            bar.on_block(SimpleNamespace(step=losses.shape[1], made=rows.shape[1], sums=None))
            if saved is not None and time.monotonic() - saved.last >= saved.every:
                saved.save(state, losses)
        if saved is not None:
            saved.save(state, losses)

    if stop_flag.signal is not None:
        where = "this error's fitted (sys.last_value.fitted in a console); a training with a checkpoint could resume"
        if saved is not None:
            where = f"{saved.path}, from where the same call continues"
        message = f"{stop_flag.signal} after {losses.shape[1]} of {epochs} epochs; what was trained is in {where}"
        raise Interrupted(message, fitted=training.fitted(state, losses), by=stop_flag.signal)
    return training.fitted(state, losses)


def _check_data(loss: TrainingLoss, data: Array, validation: Array | None, patience: int | None) -> None:
    """Validate the rows of a training, and the arrays of its loss."""
    check_reals("data", data, "an array (rows, dim)")
    if data.ndim < 2 or 0 in data.shape:
        raise HyperparameterError(f"data have shape (rows, dim), or (rows, *shape); got {given(data)}")
    if data.ndim > 2 and not loss.any_shape:
        raise HyperparameterError(f"{type(loss).__name__} takes rows that are vectors, (rows, dim); got {given(data)}")
    check_range("data", data)
    for name, value in arguments(loss, is_array).items():
        if is_array(value):
            check_array(f"loss.{name}", value, data, {})  # the loss knows its shape
    if validation is None:
        if patience is not None:
            raise HyperparameterError("patience is counted in validation losses: pass validation=rows as well")
    else:
        check_reals("validation", validation, "an array (rows, dim)")
        check_same_home("validation", validation, data)
        if tuple(validation.shape[1:]) != tuple(data.shape[1:]) or not validation.shape[0]:
            raise HyperparameterError(f"validation has shape {tuple(validation.shape)}, the data {tuple(data.shape)}")
        check_range("validation", validation)
    if (processes := Processes.of(data)) is not None:
        processes.refuse("fit", "pass data that this process holds whole")


class _State(NamedTuple):
    """State of a training after an epoch; ``best`` is None without a validation."""

    parameters: tree.Tree
    optimizer: tree.Tree
    epoch: Array
    loss: Array
    validation_loss: Array
    best: tree.Tree
    best_loss: Array
    waited: Array


class _Training:
    """Epochs of a training, as functions of its state and of arrays, which are arguments of compiled programs.

    The arrays are ``rows``; ``constants`` of the loss; ``start``, the first parameters; ``validation`` and ``noise``,
    the rows and random numbers of the validation loss, or None; and ``places``, the numbers 0, 1, ... of the epochs
    whose random numbers are drawn at once.
    """

    def __init__(
        self,
        loss: TrainingLoss,
        optimizer: Optimizer,
        gradient: GradientChoice | None,
        arrays: dict[str, Any],
        seed: int | NoiseSource,
        batch_size: int | None,
        steps_per_epoch: int | None,
        epochs: int,
        patience: int | None,
    ) -> None:
        data, validation = arrays["rows"], arrays["validation"]
        like = data[(slice(1), *(0,) * (data.ndim - 1))]  # a number of the library, dtype and device of the data
        backend, batch, dim = backend_of(data), batch_size or data.shape[0], math.prod(data.shape[1:])
        Real().check(backend.xp, like)
        updates = steps_per_epoch or max(1, data.shape[0] // batch)
        specs: dict[str, Any] = {} if batch_size is None else {"row": Uniform((updates, batch))}
        specs |= {f"loss_{name}": type(s)((updates, *s.shape)) for name, s in loss.noise(batch, dim).items()}
        arrays |= {"noise": None, "places": np.arange(min(chunk_steps(specs), epochs)), "constants": loss.constants}
        if validation is not None:  # the same random numbers after every epoch
            drawn = Portable(0).block(backend, loss.noise(validation.shape[0], dim), 0, 1, like)
            arrays["noise"] = {name: numbers[0, ...] for name, numbers in drawn.items()}
        if gradient is None or isinstance(gradient, Auto):
            gradient = Auto.resolve(backend, dtype_name(data))
        # (parameters, x, noise, constants, progress) -> (loss, its gradient in the parameters)
        self.derivative = gradient.value_and_gradient(backend, loss)
        self.data, self.backend, self.optimizer = placed("data", arrays, backend, like), backend, optimizer
        self.source, self.specs, self.like = as_noise_source(seed), specs, like
        self.batch_size, self.updates, self.epochs, self.patience = batch_size, updates, epochs, patience
        self.identity = {"loss": loss, "optimizer": optimizer, "noise": self.source.describe(), "data": self.data}
        self.identity |= {
            "batch_size": batch_size,
            "steps_per_epoch": updates,
            "epochs": epochs,
            "backend": backend.name,
        }

    def noise(self, start: int, stop: int) -> dict[str, Array]:
        """Random numbers of epochs [start, stop)."""
        return self.source.block(self.backend, self.specs, start, stop, self.like)

    def start(self, data: dict[str, Any]) -> _State:
        """State before the first epoch."""
        parameters, zero = first_parameters(data["start"]), 0.0 * self.backend.xp.sum(data["rows"][0, ...])
        best, none = None if data["validation"] is None else parameters, data["places"][0, ...]
        return _State(parameters, self.optimizer.init(parameters), none, zero, zero, best, zero + math.inf, none)

    def finished(self, state: _State) -> bool:
        """Return whether all epochs are made, or the validation loss has not improved for `patience` of them."""
        made, waited = int(to_host(state.epoch)), int(to_host(state.waited))
        return made >= self.epochs or (self.patience is not None and waited >= self.patience)

    def fitted(self, state: _State, losses: np.ndarray) -> Fitted:
        """Return the result of a training so far."""
        best, validated = state.best, losses[1]
        if best is None:
            best, validated = to_use(state.parameters, state.optimizer), None
        return Fitted(best, losses[0], validated, losses.shape[1] < self.epochs and self.finished(state))

    def blocks(self, state: _State, done: int, stop_flag: StopFlag) -> Iterator[tuple[_State, np.ndarray]]:
        """Make epochs in blocks of about a second, one call each; yield the state and losses (2, epochs) after each."""
        block, count, start, length = repeated(self.backend, self.block), 1, -1, self.data["places"].shape[0]
        while not self.finished(state) and stop_flag.signal is None:
            # The last chunk of noise begins earlier instead of being shorter, so that one compiled program serves all.
            if start != (start := min(done // length * length, self.epochs - length)):
                noise = self.noise(start, start + length)
            few, began = min(count, start + length - done), time.perf_counter()
            try:
                stop_flag.within = True  # a second signal abandons the block
                with errors_of_functions(f"the training failed between epochs {done} and {done + few}"):
                    new, rows = block(state, self.data, noise, done - start, few)
                    made, rows = int(to_host(new.epoch)) - done, to_host(rows)
                stop_flag.within = False
            except Abandoned:
                return
            yield new, rows[:, done - start : done - start + made]
            state, done = new, done + made
            count = max(1, min(16 * made, int(SECONDS * made / (time.perf_counter() - began))))

    def batch(self, parameters: tree.Tree, epoch: Array, data: dict[str, Any], noise: dict[str, Array], i: Any) -> Any:
        """Loss of batch `i` of an epoch, and its gradient."""
        xp, rows = self.backend.xp, data["rows"]
        progress = xp.astype(epoch, rows.dtype) / max(self.epochs - 1, 1)
        rows = take_rows(xp, rows, noise["row"][i, ...]) if self.batch_size is not None else rows
        own = {name.removeprefix("loss_"): n[i, ...] for name, n in noise.items() if name != "row"}
        return self.derivative(parameters, rows, own, data["constants"], progress)

    def epoch(self, state: _State, data: dict[str, Any], noise: dict[str, Array]) -> _State:
        """Make the updates of one epoch, then compute the validation loss."""
        xp = self.backend.xp

        def update(i: Any, carry: tuple[tree.Tree, tree.Tree, Array]) -> tuple[tree.Tree, tree.Tree, Array]:
            parameters, optimizer, total = carry
            loss, gradient = self.batch(parameters, state.epoch, data, noise, i)
            updates, optimizer = self.optimizer.update(gradient, optimizer, parameters)
            return tree.map(lambda a, b: a + b, parameters, updates), optimizer, total + loss

        first = state.parameters, state.optimizer, 0.0 * state.loss
        parameters, optimizer, total = self.backend.repeat(self.updates, update, first)
        epoch, loss = state.epoch + 1, total / self.updates
        state = state._replace(parameters=parameters, optimizer=optimizer, epoch=epoch, loss=loss)
        if state.best is None:
            return state
        used, one = to_use(parameters, optimizer), xp.ones_like(loss)
        found = self.derivative(used, data["validation"], data["noise"], data["constants"], one)[0]
        better = found < state.best_loss
        return state._replace(
            validation_loss=found,
            best=tree.map(lambda new, old: xp.where(better, new, old), used, state.best),
            best_loss=xp.where(better, found, state.best_loss),
            waited=xp.where(better, xp.zeros_like(state.waited), state.waited + 1),
        )

    def block(self, state: _State, data: dict[str, Any], noise: dict[str, Array], first: Any, count: Any) -> Any:
        """Make `count` epochs, fewer if the training ends; `first` is the place of the first one in the noise.

        Returns the state, and the training and validation losses of the epochs at their places, (2, places).
        """
        xp, places = self.backend.xp, data["places"]

        def one(i: Any, carry: tuple[_State, Array]) -> tuple[_State, Array]:
            state, losses = carry
            state = self.epoch(state, data, {name: numbers[first + i, ...] for name, numbers in noise.items()})
            column = xp.stack([state.loss, state.validation_loss])[:, None]
            return state, xp.where(places == first + i, column, losses)

        def ended(carry: tuple[_State, Array]) -> Array:
            state, _ = carry
            bad = ~xp.isfinite(state.loss)
            return bad if self.patience is None else bad | (state.waited >= self.patience)

        zeros = xp.astype(0 * places, state.loss.dtype)
        return self.backend.repeat(count, one, (state, xp.stack([zeros, zeros])), ended)

    def probe(self, state: _State, data: dict[str, Any], noise: dict[str, Array]) -> Array:
        """Numbers by which a checkpoint knows the functions of a training, (3,).

        These are the loss of the first batch, the norm of its gradient, and the norm of the optimizer's update for a
        gradient of ones.
        """
        xp = self.backend.xp
        numbers = {name: n[0, ...] for name, n in noise.items()}
        loss, gradient = self.batch(state.parameters, state.epoch, data, numbers, 0)
        update, _ = self.optimizer.update(tree.map(xp.ones_like, gradient), state.optimizer, state.parameters)
        squares = [sum(xp.astype(xp.sum(a * a), loss.dtype) for a in tree.leaves(part)) for part in (gradient, update)]
        return xp.stack([loss, squares[0] ** 0.5, squares[1] ** 0.5])
