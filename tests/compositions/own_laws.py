"""What kernels without an accept step sample on a small discrete space: by the matrix of their transitions.

Written from the papers and not by the kernels: discrete Langevin proposals (Zhang, Liu & Liu 2022), and a sweep of HiSS
around one step of them, integrated over its logistic noise by a product of midpoint rules.
"""

from collections.abc import Callable

import numpy as np

import xpsample as xps
from xpsample.kernels import Kernel

POINTS = 12
"""Of each rule; with 20 no mean of the table changes by more than 0.001 of a standard deviation."""


def proposals(states: np.ndarray, score: np.ndarray, step: float) -> np.ndarray:
    """Probabilities (..., from, to) of all variables at once, for scores (..., from, dim)."""
    total = np.zeros((*score.shape[:-1], len(states)))
    for j in range(states.shape[1]):
        values = np.unique(states[:, j])

        def weight(v: np.ndarray, j: int = j) -> np.ndarray:
            way = v - states[:, j, None]
            return 0.5 * score[..., j, None] * way - way**2 / (2 * step)

        total += weight(states[:, j]) - np.log(np.sum(np.exp(weight(values)), axis=-1, keepdims=True))
    return np.exp(total)


def adjusted(log_density: np.ndarray, proposed: np.ndarray) -> np.ndarray:
    """Proposals (..., from, to) with Metropolis's accept step, for log densities (..., state)."""
    back = np.swapaxes(proposed, -1, -2)
    ratio = np.exp(log_density[..., None, :] - log_density[..., :, None]) * back / proposed
    moved = proposed * np.minimum(1.0, ratio)
    n = np.arange(moved.shape[-1])
    moved[..., n, n] = 0.0
    moved[..., n, n] = 1.0 - moved.sum(axis=-1)
    return moved


def langevin(kernel: Kernel, states: np.ndarray, log_density: np.ndarray, score: np.ndarray) -> np.ndarray:
    """A step of DULA or DMALA."""
    proposed = proposals(states, score, kernel.step_size)
    return adjusted(log_density, proposed) if isinstance(kernel, xps.DMALA) else proposed


def sweep(kernel: xps.HiSS, states: np.ndarray, log_density: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Noise, values from the noise's density alone, and one step of the inner kernel given the noise."""
    u = (np.arange(POINTS) + 0.5) / POINTS
    noise = np.stack(np.meshgrid(*[np.log(u / (1 - u))] * states.shape[1], indexing="ij"), axis=-1)
    noise = noise.reshape(-1, states.shape[1])
    matrix = np.empty((len(states), len(states)))
    for i, x in enumerate(states):
        z = (x + kernel.scale * noise[:, None, :] - states) / kernel.scale  # (point, state, dim)
        given = -np.sum(np.abs(z) + 2 * np.log1p(np.exp(-np.abs(z))), axis=-1)
        values = np.exp(given - given.max(axis=-1, keepdims=True))
        values /= values.sum(axis=-1, keepdims=True)
        if kernel.adjusted:
            values *= np.minimum(1.0, np.exp(log_density - log_density[i]))
            values[:, i] += 1.0 - values.sum(axis=-1)
        inner = langevin(kernel.base, states, log_density + given, score + np.tanh(0.5 * z) / kernel.scale)
        matrix[i] = np.mean(np.einsum("ps,pst->pt", values, inner), axis=0)
    return matrix


def probabilities(
    kernel: Kernel, states: np.ndarray, log_density: np.ndarray, score: np.ndarray, steps: range
) -> np.ndarray | None:
    """The mean over some steps of the probabilities of the states, from exact draws; None where it is not known."""
    own = xps.DULA | xps.DMALA
    known: Callable | None = langevin if isinstance(kernel, xps.DULA) else None
    if isinstance(kernel, xps.HiSS) and (kernel.sweeps, kernel.refinements) == (1, 1) and isinstance(kernel.base, own):
        known = sweep
    if known is None:
        return None
    matrix = known(kernel, states, log_density, score)
    p = np.exp(log_density - log_density.max())
    return np.mean([p / p.sum() @ np.linalg.matrix_power(matrix, t) for t in steps], axis=0)
