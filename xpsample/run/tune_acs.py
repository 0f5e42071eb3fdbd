"""Tune the automatic cyclical sampler by short runs."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_number, check_numbers
from xpsample.core.errors import ConvergenceWarning
from xpsample.core.registry import backend_of, to_host
from xpsample.kernels.discrete.acs import ACS, Table
from xpsample.kernels.discrete.dlp import DMALA
from xpsample.run.checkpoint import Checkpoint
from xpsample.run.sampling import sample
from xpsample.spaces.space import as_floating
from xpsample.targets.target import AbstractTarget, check_target

BALANCES = 6


def tune_acs(
    target: AbstractTarget,
    x0: Array,
    length: int,
    *,
    seed: int,
    acceptance: float = 0.5,
    balance: float = 0.95,
    step_sizes: Sequence[float] = tuple(np.geomspace(0.05, 50.0, 16)),
    steps: int = 50,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool | None = None,
) -> ACS:
    """The automatic cyclical sampler with its cycle tuned by acceptance rates, as Pynadath et al. (2024) do.

    `DMALA` is run with every pair of a step size and a balance in [1/2, `balance`]. The smallest step size of the cycle
    is the largest that accepts as often as asked for with balance 1/2; the largest is the largest that does so with
    some balance. In between the step sizes follow half a cosine, and each has the balance with which it accepts most,
    falling along the cycle. The published search goes through candidates one after another; here they are one batched
    run. Where no larger step is accepted often enough, the cycle is constant: such a target has no use for one.

    Parameters
    ----------
    target : AbstractTarget
    x0 : array, shape (*chains, dim)
        Start positions of the short runs, 96 copies of which are run at once by default. A hundred chains make the
        rates precise.
    length : int
        Steps of a cycle.
    seed : int
        Of the short runs.
    acceptance : float
        Mean acceptance probability asked for, in (0, 1).
    balance : float
        The largest beta, at least 1/2.
    step_sizes : sequence of float
        Candidates, in units of x squared. For {0, 1}^dim by default: take 4 times these on {-1, 1}^dim.
    steps : int
        Steps over which rates are averaged, after as many to leave the start.
    checkpoint, progress : optional
        Of the short runs, as in `sample`.

    Returns
    -------
    ACS
        With a `Table`, in the library of x0.

    See Also
    --------
    ACS : The kernel that it tunes.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> kernel = xps.tune_acs(target, x0, 6, seed=1)
    >>> len(kernel.cycle.step_sizes)
    6
    """
    check_target("target", target).prepare(x0, DMALA.requires)
    length, steps = check_count("length", length), check_count("steps", steps)
    acceptance = check_number("acceptance", acceptance, 0, 1)
    balance = check_number("balance", balance, 0.5, closed=True)
    sizes, balances = np.unique(check_numbers("step_sizes", step_sizes, 0)), np.linspace(0.5, balance, BALANCES)
    rates = _rates(target, x0, sizes, balances, steps, seed=seed, checkpoint=checkpoint, progress=progress)
    largest, smallest = _largest(sizes, np.max(rates, axis=1), acceptance), _largest(sizes, rates[:, 0], acceptance)
    best = np.maximum.accumulate(balances[np.argmax(rates, axis=1)])
    share = np.cos(0.5 * np.pi * np.arange(length) / length) ** 2
    cycle = np.maximum(largest * share, smallest)
    return ACS(Table(_beside(x0, cycle), _beside(x0, np.interp(np.log(cycle), np.log(sizes), best))))


def _rates(
    target: AbstractTarget, x0: Array, sizes: np.ndarray, balances: np.ndarray, steps: int, **options: Any
) -> np.ndarray:
    """Mean acceptance probability of every pair, (sizes, balances)."""
    xp, ones = backend_of(x0).xp, (1,) * (x0.ndim - 1)
    kernel = DMALA(_beside(x0, sizes.reshape(-1, 1, *ones)), _beside(x0, balances.reshape(1, -1, *ones)))
    start = xp.asarray(xp.broadcast_to(x0, (len(sizes), len(balances), *x0.shape)), copy=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some pairs accept nothing
        run = sample(target, kernel, start, steps, burn_in=steps, recorders=(), **options)
    rates = np.asarray(run.run_statistics.acceptance_probability)
    return np.mean(rates.reshape(len(sizes), len(balances), -1), axis=-1)


def _largest(sizes: np.ndarray, rates: np.ndarray, acceptance: float) -> float:
    """The largest step size that accepts often enough, or the one that accepts most."""
    enough = np.flatnonzero(rates >= acceptance)
    return float(sizes[enough[-1] if len(enough) else np.argmax(rates)])


def _beside(x: Array, values: np.ndarray) -> Array:
    """Host numbers where x lives, in its dtype or its library's default floating one."""
    backend = backend_of(x)
    dtype = to_host(as_floating(backend.xp, x[..., :1])).dtype
    return backend.from_host(values.astype(dtype), x)
