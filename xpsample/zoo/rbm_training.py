"""Maximum likelihood for restricted Boltzmann machines: persistent contrastive divergence (Tieleman, 2008)."""

from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.elementwise import accurate_sigmoid
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import backend_of
from xpsample.core.specs import Normal, Uniform
from xpsample.core.tree import dtype_name
from xpsample.run.noise import Portable, chunk_steps
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
) -> RBM:
    """Fit an RBM to rows of zeros and ones.

    Every update draws a batch of rows and moves as many persistent Gibbs chains by `sweeps` sweeps. The weights move
    along the difference of the two means of ``v h'``, at a rate that falls linearly to 0.

    Parameters
    ----------
    rows : array of floating numbers, shape (rows, visible)
        Of any library; the parameters are of the same.
    hidden : int
    updates : int
    seed : int
        Of `Portable` noise: the same result on every library, up to rounding.
    rate : float
        Of the first update.
    batch : int
        Rows and chains.
    sweeps : int
        Per update.
    decay : float
        Weight decay, per update and unit of rate.

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
    specs = {
        "rows": Uniform((batch,)),
        "hidden": Uniform((sweeps, batch, hidden)),
        "visible": Uniform((sweeps, batch, visible)),
    }
    chains = backend.from_host(np.zeros((batch, visible), dtype=dtype_name(rows)), rows)
    length = chunk_steps(specs)
    for first in range(0, updates, length):
        noise = source.block(backend, specs, first, min(first + length, updates), rows)
        for t in range(first, min(first + length, updates)):
            drawn = {name: values[t - first, ...] for name, values in noise.items()}
            data = xp.take(rows, xp.astype(xp.floor(drawn["rows"] * count), xp.int32), axis=0)
            for k in range(sweeps):
                chains = gibbs_sweep(model, chains, drawn["hidden"][k, ...], drawn["visible"][k, ...])
            model = _update(xp, model, data, chains, rate * (1.0 - t / updates), decay)
    return model


def _update(xp: Any, model: RBM, data: Array, chains: Array, rate: float, decay: float) -> RBM:
    weights, visible_bias, hidden_bias = model
    h_data, h_chains = (accurate_sigmoid(xp, hidden_bias + v @ weights) for v in (data, chains))
    slope = data.T @ h_data / data.shape[0] - chains.T @ h_chains / chains.shape[0]
    return RBM(
        weights + rate * (slope - decay * weights),
        visible_bias + rate * (xp.mean(data, axis=0) - xp.mean(chains, axis=0)),
        hidden_bias + rate * (xp.mean(h_data, axis=0) - xp.mean(h_chains, axis=0)),
    )
