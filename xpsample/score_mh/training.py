"""Training: a loss is minimised over batches, by the engine that makes runs."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Carry
from xpsample.core.checks import check_count, check_flag, check_instance, given
from xpsample.core.describe import describe
from xpsample.core.devices import current_device
from xpsample.core.ending import Ending
from xpsample.core.errors import GradientError, HyperparameterError, Interrupted
from xpsample.core.hyperparameters import arguments, check_array, check_range, check_reals
from xpsample.core.registry import backend_of, check_same_home, to_host
from xpsample.core.schedule import Schedule
from xpsample.core.tree import dtype_name
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.optimize.optimizers import Adam, Optimizer, check_optimizer, to_use
from xpsample.sampling.blocks import MOST_STEPS
from xpsample.sampling.checkpoint import Checkpoint, Store
from xpsample.sampling.interrupts import Signals
from xpsample.sampling.loop import View, run
from xpsample.sampling.noise import NoiseSource, Portable, as_noise_source, segments
from xpsample.sampling.opening import Unsaved, opened
from xpsample.sampling.processes import Processes
from xpsample.sampling.progress import Bar
from xpsample.sampling.totals import Totals
from xpsample.score_mh.epochs import Epochs, EpochState, one_number
from xpsample.score_mh.losses import TrainingLoss
from xpsample.spaces.space import Real, check_positions
from xpsample.targets.placing import placed


class Fitted(NamedTuple):
    """The result of `fit`.

    ``parameters`` are those of the epoch with the best validation loss, or of the last epoch without a validation;
    their averages with the optimiser `Averaged`.
    ``losses`` (epochs,), the means over the batches of each epoch, and ``validation_losses`` (epochs,), or None, are
    NumPy arrays.
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
    """Minimise a loss over rows of data.

    Parameters
    ----------
    loss : TrainingLoss
        Such as `Sliced` or `ScoreBalance`.
    parameters : tree of arrays
        The first ones; NumPy arrays are put into the library of the data.
    data : array, shape (rows, dim), or (rows, *shape)
        They decide library, dtype and device. Rows of more axes, such as images, are for losses that take them:
        `Denoising`, `AnnealedDenoising`, `NoisePrediction`.
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
        A directory. The same call, made again, goes on from the last epoch saved there and gives the result of an
        uninterrupted call. A checkpoint of another training is refused.
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
        On Ctrl-C or SIGTERM, after the block of epochs that is under way. Its `fitted` holds what was trained.
    """
    check_loss_and_data(loss, data)
    epochs = check_count("epochs", epochs)
    batch_size, steps_per_epoch, patience = (
        None if value is None else check_count(name, value)
        for name, value in (("batch_size", batch_size), ("steps_per_epoch", steps_per_epoch), ("patience", patience))
    )
    optimizer = Adam(1e-3) if optimizer is None else check_optimizer("optimizer", optimizer)
    check_instance("gradient", gradient, GradientChoice, "FiniteDifference()", optional=True)
    if progress is not None:
        check_flag("progress", progress)
    check_validation(validation, patience, data)
    Processes.of(data).check_one("fit", "pass data that this process holds whole")
    updates = steps_per_epoch or max(1, data.shape[0] // (batch_size or data.shape[0]))
    with current_device(data):
        held, source = _held(loss, parameters, data, validation), as_noise_source(seed)
        derivative = _derivative(loss, gradient, data)
        program = Epochs(backend_of(data), loss, derivative, optimizer, batch_size, updates, Schedule(epochs), held)
        carry, ending = program.start(), Ending()
        about = _identity(program, source) if checkpoint is not None else {}
        with opened(checkpoint, program, carry, about) as saved:
            training = _Training(saved, patience)
            view = training.start(program, carry)
            cut = segments(program.specs(carry), view.step, epochs)
            bar = Bar(progress, epochs, unit="epoch")
            view = run(program, view, source, cut, (training,), (training, bar, Signals(ending)), ending=ending)
        if view.buffers is None:  # a second signal, before anything was trained
            raise KeyboardInterrupt
        fitted = _fitted(program, view, patience)
        if ending.signal is not None:
            where = "this error's fitted (sys.last_value.fitted in a console); a training with a checkpoint could go on"
            if saved.where is not None:
                where = f"{saved.where}, from where the same call goes on"
            message = f"{ending.signal} after {view.step} of {epochs} epochs; what was trained is in {where}"
            raise Interrupted(message, fitted=fitted, by=ending.signal)
        return fitted


def check_loss_and_data(loss: TrainingLoss, data: Array) -> None:
    """Check a loss, what it holds, and the data that it is taken over."""
    check_instance("loss", loss, TrainingLoss, "Sliced()")
    check_reals("data", data, "an array (rows, dim)")
    if data.ndim < 2 or 0 in data.shape:
        raise HyperparameterError(f"data have shape (rows, dim), or (rows, *shape); got {given(data)}")
    if data.ndim > 2 and not loss.any_shape:
        raise HyperparameterError(f"{type(loss).__name__} takes rows that are vectors, (rows, dim); got {given(data)}")
    check_range("data", data)
    for name, value in arguments(loss, is_array).items():
        if is_array(value):
            check_array(f"loss.{name}", value, data, {})  # of what shape, the loss knows


def check_validation(validation: Array | None, patience: int | None, data: Array) -> None:
    """Check rows whose loss is computed after every epoch, where there are some."""
    if validation is None:
        if patience is not None:
            raise HyperparameterError("patience is counted in validation losses: pass validation=rows as well")
        return
    check_reals("validation", validation, "an array (rows, dim)")
    check_same_home("validation", validation, data)
    if tuple(validation.shape[1:]) != tuple(data.shape[1:]) or not validation.shape[0]:
        raise HyperparameterError(f"validation has shape {tuple(validation.shape)}, the data {tuple(data.shape)}")
    check_range("validation", validation)


def _held(loss: TrainingLoss, parameters: tree.Tree, data: Array, validation: Array | None) -> dict[str, Any]:
    """The data of `Epochs`, where a compiled program takes them as arguments."""
    number = one_number(data)
    backend = check_positions(number)
    Real().check(backend.xp, number)
    noise: dict[str, Array] | None = None
    if validation is not None:
        drawn = Portable(0).block(backend, loss.noise(validation.shape[0], math.prod(data.shape[1:])), 0, 1, number)
        noise = {name: numbers[0, ...] for name, numbers in drawn.items()}
    held = {"rows": data, "constants": loss.constants, "start": parameters, "validation": validation, "noise": noise}
    return placed("data", held, backend, number)


def _derivative(loss: TrainingLoss, choice: GradientChoice | None, data: Array) -> Callable[..., tuple[Array, Any]]:
    """The loss with its derivative in the parameters."""
    backend, choice = backend_of(data), Auto() if choice is None else choice
    if isinstance(choice, Auto):
        choice = Auto.resolve(backend, dtype_name(data))
    return choice.value_and_gradient(backend, loss)


def _fitted(program: Epochs, view: View, patience: int | None) -> Fitted:
    """The result of the epochs that were made."""
    state, done = view.carry.state, view.step
    assert view.buffers is not None
    losses, validated = (to_host(rows)[:done] for rows in view.buffers[0])
    if program.data["validation"] is None:
        return Fitted(to_use(state.parameters, state.optimizer), losses, None, False)
    return Fitted(state.best, losses, validated, _stalled(state, patience) and done < program.schedule.steps)


class _Training:
    """Watches a training, and keeps it where it has a checkpoint."""

    def __init__(self, saved: Store | Unsaved, patience: int | None) -> None:
        self._saved, self._patience, self.keep = saved, patience, saved.keep
        self.longest = 1 if saved.sinks or patience is not None else MOST_STEPS

    def start(self, program: Epochs, carry: Carry) -> View:
        """Where it begins, or goes on from its checkpoint."""
        view = self._saved.load(carry, Totals())
        if view.step < program.schedule.steps and not self.begin(view):
            self._saved.check(lambda: None)
        return view._replace(buffers=self._saved.buffers(lambda: program.record((), carry.state, None)[1]))

    def begin(self, view: View) -> str | None:
        """That the validation loss does not improve any more."""
        return "patience" if _stalled(view.carry.state, self._patience) else None

    def between(self, view: View) -> str | None:
        """As `begin`; raises GradientError."""
        if not np.isfinite(to_host(view.carry.state.loss)):
            raise GradientError(
                f"the loss left the finite numbers by epoch {view.step}: lower the learning rate, or clip the gradients"
            )
        return self.begin(view)

    def end(self, view: View) -> None:
        """Nothing is left to do."""


def _stalled(state: EpochState, patience: int | None) -> bool:
    return patience is not None and int(to_host(state.waited)) >= patience


def _identity(program: Epochs, source: NoiseSource) -> dict[str, Any]:
    """What makes a training this one, as JSON values."""
    return {
        "loss": describe(program.loss),
        "optimizer": describe(program.optimizer),
        "batch_size": program.batch,
        "steps_per_epoch": program.updates,
        "epochs": program.schedule.draws,
        "noise": source.describe(),
        "backend": program.backend.name,
        **{f"data {path}": describe(leaf) for path, leaf in tree.items(program.data)},
    }
