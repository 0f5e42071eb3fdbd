"""A step of tempered SMC on NumPy beside the same written by hand, in turns.

``python -m asv_benchmarks.peers.by_hand_smc`` from the root of the checkout prints CPU microseconds of a step. Both go
from N(0, 9 I) to N(1, I) in two dimensions, by a random walk. By hand particles are resampled only where they have to.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

import xpsample as xps

STEPS, STEP_SIZE = 200, 0.7
BETAS = np.linspace(0.0, 1.0, STEPS + 1)


def wide(x: np.ndarray) -> np.ndarray:
    """log N(0, 9 I), without its constant."""
    return -np.sum(x**2, axis=-1) / 18


def narrow(x: np.ndarray) -> np.ndarray:
    """log N(1, I), without its constant."""
    return -0.5 * np.sum((x - 1.0) ** 2, axis=-1)


def by_hand(x: np.ndarray, seed: int) -> float:
    """The estimate of log Z_1 - log Z_0."""
    rng, n, log_z = np.random.default_rng(seed), len(x), 0.0
    logs, first, last = np.full(n, -math.log(n)), wide(x), narrow(x)
    for before, beta in pairwise(BETAS):
        logs = logs + (beta - before) * (last - first)
        top = logs.max()
        weights = np.exp(logs - top)
        total = weights.sum()
        log_z += top + math.log(total)
        weights /= total
        logs = np.log(weights)
        if 1.0 / np.sum(weights * weights) <= 0.5 * n:
            index = np.minimum(np.searchsorted(np.cumsum(weights), rng.random(n), side="right"), n - 1)
            x, first, last, logs = x[index], first[index], last[index], np.full(n, -math.log(n))
        y = x + STEP_SIZE * rng.standard_normal(x.shape)
        new_first, new_last = wide(y), narrow(y)
        accept = np.log(rng.random(n)) < (1.0 - beta) * (new_first - first) + beta * (new_last - last)
        x = np.where(accept[:, None], y, x)
        first, last = np.where(accept, new_first, first), np.where(accept, new_last, last)
    return log_z


def ours(x: np.ndarray, seed: int) -> float:
    """The same."""
    bridge = xps.Bridge(xps.Target(wide), xps.Target(narrow))
    kernel = xps.TemperedSMC(xps.RWM(STEP_SIZE), BETAS, moves=1)
    trace = xps.sample(bridge, kernel, x, 1, seed=seed, burn_in=STEPS - 1, recorders=(), progress=False)
    return float(xps.particle_log_normalizer(trace.state).value)


def microseconds(run: Callable[[np.ndarray, int], float], x: np.ndarray, seed: int) -> float:
    """Of CPU time, for a step."""
    began = time.process_time()
    run(x, seed)
    return 1e6 * (time.process_time() - began) / STEPS


def main() -> int:
    """Print a line for each number of particles: medians of seven pairs of runs, of which the first is left out."""
    for particles in (100, 1_000, 10_000):
        x = 3.0 * np.random.default_rng(0).standard_normal((particles, 2))
        pairs = [(microseconds(ours, x, seed), microseconds(by_hand, x, seed)) for seed in range(8)][1:]
        mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{particles:6} particles: ours {mine:6.0f} us, by hand {theirs:6.0f} us, ratio {ratio:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
