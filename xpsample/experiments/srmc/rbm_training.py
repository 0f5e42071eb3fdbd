"""Maximum likelihood for restricted Boltzmann machines: persistent contrastive divergence (Tieleman, 2008)."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.errors import ConvergenceWarning, HyperparameterError
from xpsample.core.registry import backend_of
from xpsample.core.special import accurate_sigmoid
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.core.tree import dtype_name
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Info, Kernel
from xpsample.sampling.checkpoint import Checkpoint
from xpsample.sampling.noise import Portable
from xpsample.sampling.sampler import sample
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point
from xpsample.targets.target import Target
from xpsample.zoo.rbm import RBM, gibbs_sweep


def train_rbm(
    rows: Array,
    hidden: int,
    updates: int,
    seed: int,
    rate: float = 0.05,
    batch: int = 100,
    sweeps: int = 1,
    decay: float = 1e-4,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool | None = None,
) -> RBM:
    """Fit an RBM to rows of zeros and ones.

    Every update draws a batch of rows and moves as many persistent Gibbs chains by `sweeps` sweeps. The weights move
    along the difference of the two means of ``v h'``, at a rate that falls linearly to 0.

    Parameters
    ----------
    rows : array of floating numbers, shape (rows, visible)
        Rows of any library; the parameters are in the same library.
    hidden : int
    updates : int
    seed : int
        Seed of `Portable` noise: the same result on every library, up to rounding.
    rate : float
        Rate of the first update.
    batch : int
        Rows and chains.
    sweeps : int
        Per update.
    decay : float
        Weight decay, per update and unit of rate.
    checkpoint, progress : optional
        As in `xpsample.sample`.

    Returns
    -------
    RBM
        In the library of the rows; `rbm` takes NumPy arrays.

    Raises
    ------
    HyperparameterError
        If the rows are not a table of zeros and ones, or a number is not positive.
    """
    backend = backend_of(rows)
    xp = backend.xp
    if rows.ndim != 2 or not bool(xp.all((rows == 0.0) | (rows == 1.0))):
        raise HyperparameterError(f"rows must be zeros and ones of shape (rows, visible); got shape {rows.shape}")
    if min(hidden, updates, batch, sweeps) < 1 or not rate > 0:
        raise HyperparameterError("hidden, updates, batch, sweeps and rate must be positive")
    count, visible = rows.shape
    source = Portable(seed)
    start = source.block(backend, {"weights": Normal((visible, hidden))}, 0, 1, rows)["weights"][0, ...]
    share = (xp.sum(rows, axis=0) + 1.0) / (count + 2.0)
    model = RBM(0.01 * start, xp.log(share / (1.0 - share)), 0.0 * start[0, :])
    rates = backend.from_host((rate * (1.0 - np.arange(updates) / updates)).astype(dtype_name(rows)), rows)
    chains = backend.from_host(np.zeros((batch, visible), dtype=dtype_name(rows)), rows)
    target = Target(None, score=_no_score, data={"rows": rows, "model": model, "rates": rates})
    kernel = PersistentGibbs(hidden, sweeps, decay)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the chains follow a target that moves
        trace = sample(
            target, kernel, chains, updates, seed=source, recorders=(), checkpoint=checkpoint, progress=progress
        )
    return RBM(*trace.state.model)


class TrainingState(NamedTuple):
    """The chains, the machine and the updates made."""

    point: Point
    model: RBM
    n: Array


class PersistentGibbs(Kernel[TrainingState, Info]):
    """An update of an RBM for `train_rbm`. The target only carries the rows, the first machine and the rates."""

    hidden: int
    sweeps: int
    decay: float

    @declared
    def requires(self) -> Capability:
        return Capability.NONE

    def init(self, target: BoundTarget, x: Array) -> TrainingState:
        return TrainingState(Point(x, None, None), target.data["model"], counter(target, x))

    def noise(self, x: Array) -> Specs:
        batch, visible = x.shape
        return {
            "rows": Uniform((batch,)),
            "hidden": Uniform((self.sweeps, batch, self.hidden)),
            "visible": Uniform((self.sweeps, batch, visible)),
        }

    def step(self, target: BoundTarget, state: TrainingState, noise: dict[str, Array]) -> tuple[TrainingState, Info]:
        xp, rows, chains = target.xp, target.data["rows"], state.point.x
        data = xp.take(rows, xp.astype(xp.floor(noise["rows"] * rows.shape[0]), xp.int32), axis=0)
        for k in range(self.sweeps):
            chains = gibbs_sweep(state.model, chains, noise["hidden"][k, ...], noise["visible"][k, ...])
        rate = xp.take(target.data["rates"], xp.reshape(state.n, (1,)), axis=0)
        model = _update(xp, state.model, data, chains, rate, self.decay)
        moved = xp.any(chains != state.point.x, axis=-1)
        info = Info(xp.ones_like(chains[:, 0]), moved, xp.zeros_like(moved), Evaluations())
        return TrainingState(Point(chains, None, None), model, state.n + 1), info


def _no_score(x: Array, data: Any) -> Array:
    """For the target; nothing calls it."""
    return x


def _update(xp: Any, model: RBM, data: Array, chains: Array, rate: Array, decay: float) -> RBM:
    weights, visible_bias, hidden_bias = model
    h_data, h_chains = (accurate_sigmoid(hidden_bias + v @ weights) for v in (data, chains))
    slope = data.T @ h_data / data.shape[0] - chains.T @ h_chains / chains.shape[0]
    return RBM(
        weights + rate * (slope - decay * weights),
        visible_bias + rate * (xp.mean(data, axis=0) - xp.mean(chains, axis=0)),
        hidden_bias + rate * (xp.mean(h_data, axis=0) - xp.mean(h_chains, axis=0)),
    )
