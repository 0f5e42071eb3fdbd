"""MALA and HMC written for NumPy by hand: noise in blocks, score and density together, arrays reused."""

import numpy as np

from asv_benchmarks.peers.density_numpy import both, score
from asv_benchmarks.peers.problems import LEAPFROGS, Work

LIBRARY, DTYPE = "numpy", "float64"
SCORES = [("analytic", "analytic")]
MOST_CHAINS = 1000
BLOCK = 2**18
"""Numbers drawn at once."""


def build(work: Work, score_by: str):
    start, rows = work.start.astype(DTYPE), work.rows.astype(DTYPE)
    chains, dim = start.shape
    advance = _mala if work.kernel == "mala" else _hmc
    block = max(1, BLOCK // start.size)

    def run(seed: int):
        generator = np.random.Generator(np.random.SFC64(seed))
        draws = np.empty((work.draws, chains, dim), DTYPE)
        acceptance, moved, diverged = np.zeros(chains), np.zeros(chains), np.zeros(chains)
        x = start.copy()
        log_density, gradient = both(x, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, work.draws, block):
                steps = min(block, work.draws - first)
                normals = generator.standard_normal((steps, chains, dim), dtype=DTYPE)
                log_uniforms = np.log1p(-generator.random((steps, chains), dtype=DTYPE))
                for i in range(steps):
                    y, y_log_density, y_gradient, log_ratio = advance(
                        x, log_density, gradient, rows, normals[i], work.step_size
                    )
                    accept = log_uniforms[i] < log_ratio
                    np.copyto(x, y, where=accept[:, None])
                    np.copyto(log_density, y_log_density, where=accept)
                    np.copyto(gradient, y_gradient, where=accept[:, None])
                    draws[first + i] = x
                    acceptance += np.exp(np.minimum(log_ratio, 0))
                    moved += accept
                    diverged += ~(log_ratio > -1000)
        return draws, acceptance / work.draws

    return run


def _mala(x, log_density, gradient, rows, xi, eta):
    half = (0.5 * eta) ** 0.5
    y = eta * gradient
    y += x
    y += (2 * eta) ** 0.5 * xi
    y_log_density, y_gradient = both(y, rows)
    back = gradient + y_gradient
    back *= half
    back += xi
    log_ratio = y_log_density - log_density
    log_ratio += 0.5 * (np.einsum("ij,ij->i", xi, xi) - np.einsum("ij,ij->i", back, back))
    return y, y_log_density, y_gradient, log_ratio


def _hmc(x, log_density, gradient, rows, momentum, eta):
    p = momentum + 0.5 * eta * gradient
    y = x + eta * p
    for _ in range(LEAPFROGS - 1):
        p += eta * score(y, rows)
        y += eta * p
    y_log_density, y_gradient = both(y, rows)
    p += 0.5 * eta * y_gradient
    log_ratio = y_log_density - log_density
    log_ratio += 0.5 * (np.einsum("ij,ij->i", momentum, momentum) - np.einsum("ij,ij->i", p, p))
    return y, y_log_density, y_gradient, log_ratio
