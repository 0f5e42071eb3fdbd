"""Helpers of the score-mh experiments: score and acceptance networks, several of each trained in one run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row, mean_and_error
from xpsample.optimize.optimizers import Adam, CosineDecay
from xpsample.score_mh import (
    ExactTrace,
    Learned,
    Proposal,
    ScoreBalance,
    acceptance_network,
    init_acceptance_network,
    init_score_network,
    score_network,
)
from xpsample.score_mh.losses import TrainingLoss
from xpsample.targets import Acceptance, LineIntegral, Taylor


class Training(NamedTuple):
    """Width of the hidden layers, residual blocks (of acceptances), epochs, rows of a batch, Adam's learning rate.

    Then the updates in an epoch. With `cycles` the rate falls to 0 over the epochs as a cosine does, and with a
    validation there are as many such cycles as it takes until one is `FLAT`, and at most so many.
    """

    hidden: int
    blocks: int
    epochs: int
    batch: int
    rate: float
    updates: int = 1
    cycles: int | None = None


CYCLE_SEEDS = 1_000_000
"""Between the seeds of two cycles."""
FLAT = 0.01
"""A validation loss is flat if a whole cycle, from the full rate to 0, lowers it by at most this share of its range."""


class Trained(NamedTuple):
    """Parameters (runs, ...), CPU seconds (compilation with them), and the losses of the epochs on new data, or None.

    With validation the parameters come from the best epoch. `gain` is the decrease of the least loss of new data in the
    last of several cycles, as a share of its total decrease.
    """

    parameters: tree.Tree
    seconds: float
    validation: np.ndarray | None
    gain: float | None = None


def train_scores(
    run: Run[Any], data: np.ndarray, runs: int, how: Training, validation: np.ndarray | None = None
) -> Trained:
    """Networks `score_network` of data (rows, dim), by score matching with the exact trace; each has its own batches.

    Positions are (..., runs, chains, dim). Rows for the validation are divided among them.
    """

    def network(x: Array, parameters: tree.Tree) -> Array:
        return _joined(score_network(_split(x, runs), parameters), x.shape)

    start = [init_score_network(data.shape[-1], how.hidden, run.seed * runs + r) for r in range(runs)]
    return _train(run, ExactTrace(network), start, data, how, run.seed, how.batch * runs, validation)


def train_columns(run: Run[Any], data: np.ndarray, runs: int, how: Training) -> Trained:
    """Networks for many data sets on the line, the columns of data (rows, sets): for each as many as `runs`.

    Parameters (sets * runs, ...).
    """
    sets = data.shape[-1]

    def network(x: Array, parameters: tree.Tree) -> Array:
        xp = array_namespace(x)
        columns = _joined(xp.matrix_transpose(x), (*x.shape[:-2], sets * runs, -1, 1))
        found = score_network(columns, parameters)
        return xp.matrix_transpose(_joined(found, (*x.shape[:-2], sets, x.shape[-2])))

    start = [init_score_network(1, how.hidden, run.seed * sets * runs + r) for r in range(sets * runs)]
    return _train(run, ExactTrace(network), start, data, how, run.seed, how.batch * runs)


def train_acceptances(
    run: Run[Any],
    data: np.ndarray,
    proposal: Proposal,
    score: Callable[..., Array],
    score_parameters: tree.Tree,
    runs: int,
    how: Training,
    *,
    validation: np.ndarray | None = None,
    regularization: float = 1.0,
    max_norm: float | None = 100.0,
    **settings: Any,
) -> Trained:
    """Networks `acceptance_network`, by score balance matching with the given settings of `ScoreBalance`.

    Regularized, clipped, with independent pairs, as Algorithms 1 and 2 have it; the numbers are not in the paper.
    `score` takes (..., runs, chains, dim) and its parameters (or nothing, where these are None).
    """

    def joint(x: Array, *parameters: tree.Tree) -> Array:
        return _joined(score(_split(x, runs), *parameters), x.shape)

    def network(x_new: Array, x: Array, parameters: tree.Tree) -> Array:
        return _joined(acceptance_network(_split(x_new, runs), _split(x, runs), parameters), x.shape[:-1])

    dim, blocks, seeds = data.shape[-1], how.blocks, range(run.seed * runs, (run.seed + 1) * runs)
    start = [init_acceptance_network(dim, how.hidden, seed, blocks=blocks) for seed in seeds]
    settings |= {"regularization": regularization, "max_norm": max_norm}
    loss = ScoreBalance(proposal, joint, score_parameters, network, **settings)
    return _train(run, loss, start, data, how, run.seed + 1, how.batch * runs, validation)


def train_acceptance_columns(
    run: Run[Any],
    data: np.ndarray,
    proposal: Proposal,
    score: Callable[..., Array],
    score_parameters: tree.Tree,
    how: Training,
    validation: np.ndarray,
) -> Trained:
    """Networks for many data sets on the line, one for each column of data (rows, sets), as `train_acceptances` trains.

    `score` takes (..., sets, chains, 1); the proposal takes (..., chains, sets, 1).
    """

    def joint(x: Array, *parameters: tree.Tree) -> Array:
        return _swapped(score(_swapped(x), *parameters))

    def network(x_new: Array, x: Array, parameters: tree.Tree) -> Array:
        logits = acceptance_network(_swapped(x_new), _swapped(x), parameters)
        return array_namespace(x).matrix_transpose(logits)

    sets = data.shape[-1]
    seeds = range(run.seed * sets, (run.seed + 1) * sets)
    start = [init_acceptance_network(1, how.hidden, seed, blocks=how.blocks) for seed in seeds]
    loss = ScoreBalance(proposal, joint, score_parameters, network, regularization=1.0, max_norm=100.0)
    return _train(run, Columns(loss), start, data, how, run.seed + 1, how.batch, validation)


class Columns(TrainingLoss, FrozenDataclass):
    """A loss of positions (rows, sets, 1), for data (rows, sets) whose columns are sets of numbers."""

    loss: TrainingLoss

    @property
    def constants(self) -> tree.Tree:
        """Constants of the loss."""
        return self.loss.constants

    def noise(self, rows: int, dim: int) -> Specs:
        return self.loss.noise(rows, dim)

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        numbers = {name: array[..., None] for name, array in noise.items()}
        return self.loss(parameters, x[..., None], numbers, constants, progress)


def _train(
    run: Run[Any],
    loss: Any,
    start: list[tree.Tree],
    data: np.ndarray,
    how: Training,
    seed: int,
    rows: int | None,
    validation: np.ndarray | None = None,
) -> Trained:
    began, array = time.process_time(), run.devices[0].array
    # One loss over all networks' rows: Adam does not see that each gradient is divided by their number.
    optimizer = Adam(how.rate) if how.cycles is None else CosineDecay(Adam(how.rate), how.epochs * how.updates)
    parameters, losses, new, gain = tree.map(_stacked, *start), np.zeros(0), np.zeros(0), None
    for cycle in range(1 if validation is None else how.cycles or 1):
        found = run.fit(
            loss,
            parameters,
            array(data),
            epochs=how.epochs,
            steps_per_epoch=how.updates,
            batch_size=rows,
            seed=seed + cycle * CYCLE_SEEDS,
            optimizer=optimizer,
            validation=None if validation is None else array(validation),
        )
        losses = np.concatenate([losses, found.losses])
        if found.validation_losses is None:
            parameters = found.parameters
            break
        before, new = new, np.concatenate([new, found.validation_losses])
        if not cycle or new.min() < before.min():
            parameters = found.parameters
        if cycle:
            fallen = new[0] - new.min()
            gain = float((before.min() - new.min()) / fallen) if fallen else 0.0
            if gain <= FLAT:
                break
    seconds, done = time.process_time() - began, len(losses)
    networks = f"acceptance networks of {how.blocks} blocks of" if how.blocks else "score networks of width"
    length = f"{done} epochs of {how.updates} updates" if how.updates > 1 else f"{done} updates"
    text = f"{len(start)} {networks} {how.hidden}, {length} of {how.batch} rows each: {seconds:.0f} CPU s"
    run.say(f"  {text}, loss {np.mean(losses[-max(1, done // 10) :]):.2f}")
    if len(new):
        parts = {f"after 1/{part}": new[: max(1, done // part)].min() for part in (16, 8, 4, 2)}
        so_far = ", ".join(f"{value:.3f} {label}" for label, value in parts.items())
        best = f"{np.min(new):.3f} at the best epoch, {np.argmin(new) + 1}"
        run.say(f"    least loss of new data: {so_far} of it, {best}")
    if gain is not None:
        verdict = "flat" if gain <= FLAT else "still falling"
        run.say(f"    {verdict}: the last of {done // how.epochs} cycles gave {gain:.2%} of all that it has fallen")
    return Trained(parameters, seconds, new if len(new) else None, gain)


def acceptances(learned: Learned) -> dict[str, Acceptance]:
    """A learned acceptance in both uses, and two that are made from the score alone."""
    ways = {"direct": replace(learned, direct=True), "ratio": replace(learned, direct=False)}
    return ways | {"line": LineIntegral(8), "Taylor": Taylor(1)}


def arranged(parameters: tree.Tree, *shape: int) -> tree.Tree:
    """Parameters (networks, ...) on the host, the networks along axes of this shape."""
    return tree.map(lambda leaf: to_host(leaf).reshape(*shape, *leaf.shape[1:]), parameters)


def repeated(parameters: tree.Tree, times: int) -> tree.Tree:
    """Parameters (networks, ...) on the host, all networks several times one after the other."""
    return tree.map(lambda leaf: np.concatenate([to_host(leaf)] * times), parameters)


def mean_text(row: Row, key: str, spec: str = ".3f") -> str:
    """A cell with its standard error, if the row has one; in powers of ten if chains escaped to large values."""
    spec = spec if abs(row[key]) < 1e4 else ".1e"
    error = f" +- {row[f'{key}_se']:{spec}}" if f"{key}_se" in row else ""
    return f"{row[key]:{spec}}{error}"


def mean_and_range(key: str, values: np.ndarray) -> Row:
    """The mean with its standard error, and the least and the largest value under ``KEY_low`` and ``KEY_high``."""
    return mean_and_error(key, values) | {f"{key}_low": np.min(values), f"{key}_high": np.max(values)}


def range_text(row: Row, key: str, spec: str = ".3f") -> str:
    """A cell of `mean_and_range`, if the row has one; in powers of ten if chains escaped to large values."""
    if key not in row:
        return ""
    mean, *ends = (row[name] for name in (key, f"{key}_low", f"{key}_high"))
    spec = spec if max(map(abs, (mean, *ends))) < 1e4 else ".1e"
    return f"{mean:{spec}} ({ends[0]:{spec}} to {ends[1]:{spec}})"


def _stacked(*leaves: np.ndarray) -> np.ndarray:
    """Weights (runs, in, out), biases (runs, 1, out)."""
    both = np.stack(leaves)
    return both if both.ndim == 3 else both[:, None, :]


def _split(x: Array, runs: int) -> Array:
    """Rows (..., runs * rows, dim) as (..., runs, rows, dim)."""
    return array_namespace(x).reshape(x, (*x.shape[:-2], runs, -1, x.shape[-1]))


def _swapped(x: Array) -> Array:
    """(..., chains, sets, 1) as (..., sets, chains, 1), and back."""
    return array_namespace(x).moveaxis(x, -2, -3)


def _joined(x: Array, shape: tuple[int, ...]) -> Array:
    return array_namespace(x).reshape(x, shape)
