"""Kernels tuned by short runs before the run that counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpsample.backend import Array, backend_of, to_host
from xpsample.errors import HyperparameterError
from xpsample.hyperparameters import check_range
from xpsample.kernels.acs import ACS, Table
from xpsample.kernels.dlp import DMALA
from xpsample.sampling import sample
from xpsample.targets.space import as_floating
from xpsample.targets.target import AbstractTarget

KNOTS = 10


def tune_acs(
    target: AbstractTarget,
    x0: Array,
    length: int,
    *,
    seed: int,
    acceptance: float = 0.5,
    balance: float = 0.95,
    step_sizes: Sequence[float] = tuple(np.geomspace(0.05, 50.0, 24)),
    steps: int = 50,
) -> ACS:
    """The automatic cyclical sampler with its cycle tuned to a target, by acceptance rates (Pynadath et al. 2024).

    The largest step size is the largest at which `DMALA` with the balance `balance` accepts as much as asked for, the
    smallest the largest at which it does so with balance 1/2. In between the step sizes of a cycle follow half a
    cosine, and each has the balance with which it accepts most, falling from step to step. The published algorithm
    searches one candidate after another; here all candidates of a stage are one batched run.

    Parameters
    ----------
    target : AbstractTarget
    x0 : array, shape (*chains, dim)
        Start positions of the short runs; a hundred chains or more make the rates precise.
    length : int
        Steps of a cycle.
    seed : int
        Of the short runs.
    acceptance : float
        Mean acceptance probability asked for, in (0, 1).
    balance : float
        beta of the largest steps, at least 1/2.
    step_sizes : sequence of float
        Candidates, in units of x squared. Those of {0, 1}^dim by default: take 4 times these on {-1, 1}^dim.
    steps : int
        Steps of each short run.

    Returns
    -------
    ACS
        With a `Table`, in the library of x0.
    """
    check_range("length", length, 1, closed=True)
    check_range("steps", steps, 1, closed=True)
    check_range("acceptance", acceptance, 0, 1)
    check_range("balance", balance, 0.5, closed=True)
    candidates = np.sort(np.asarray(step_sizes, dtype=np.float64))
    if candidates.ndim != 1 or not len(candidates) or candidates[0] <= 0:
        raise HyperparameterError(f"step_sizes must be positive numbers; got {step_sizes}")
    rates, x = _rates(target, x0, candidates, np.full(len(candidates), balance), steps, seed)
    largest, x = _largest(candidates, rates, acceptance, x)
    rates, x = _rates(target, x, candidates, np.full(len(candidates), 0.5), steps, seed + 1)
    smallest, x = _largest(candidates, rates, acceptance, x)
    smallest = min(smallest, largest)

    knots = np.geomspace(smallest, largest, KNOTS)
    balances = np.linspace(0.5, balance, KNOTS)
    grid = np.repeat(knots, KNOTS), np.tile(balances, KNOTS)
    rates, _ = _rates(target, x, *grid, steps, seed + 2)
    best = np.maximum.accumulate(balances[np.argmax(rates.reshape(KNOTS, KNOTS), axis=1)])

    share = np.cos(0.5 * np.pi * np.arange(length) / length) ** 2
    cycle = np.maximum(largest * share, smallest)
    balanced = np.interp(np.log(cycle), np.log(knots), best) if largest > smallest else np.full(length, best[-1])
    return ACS(Table(_beside(x0, cycle), _beside(x0, balanced)))


def _rates(
    target: AbstractTarget, x: Array, step_sizes: np.ndarray, balances: np.ndarray, steps: int, seed: int
) -> tuple[np.ndarray, Array]:
    """Mean acceptance of each candidate (candidates,), and where its chains ended (candidates, *chains, dim)."""
    xp = backend_of(x).xp
    shape = (len(step_sizes), *(1,) * (x.ndim - 1))
    kernel = DMALA(_beside(x, step_sizes.reshape(shape)), _beside(x, balances.reshape(shape)))
    start = xp.asarray(xp.broadcast_to(x, (len(step_sizes), *x.shape)), copy=True)
    run = sample(target, kernel, start, steps, seed=seed, recorders=(), progress=False)
    rates = np.asarray(run.tally.acceptance_probability).reshape(len(step_sizes), -1)
    return np.mean(rates, axis=1), run.state.point.x


def _largest(candidates: np.ndarray, rates: np.ndarray, acceptance: float, x: Array) -> tuple[float, Any]:
    """The largest candidate that accepts enough, or the one that accepts most; and where its chains are."""
    enough = np.flatnonzero(rates >= acceptance)
    chosen = int(enough[-1]) if len(enough) else int(np.argmax(rates))
    return float(candidates[chosen]), x[chosen, ...]


def _beside(x: Array, values: np.ndarray) -> Array:
    """Host numbers where x lives, in its dtype or its library's default floating one."""
    backend = backend_of(x)
    dtype = to_host(as_floating(backend.xp, x[..., :1])).dtype
    return backend.from_host(values.astype(dtype), x)
