"""Runs in shards: the efficiency of more workers at fixed work for each, and what a shard costs beside its steps.

``python -m asv_benchmarks.benchmarks.workers`` prints both tables.
"""

import math
import site
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import xpsample as xps

CHAINS, DIM, STEPS = 16, 20, 1500
"""Of a shard."""

ROUNDS = 5
"""Of which the fastest counts, for each number of workers."""

SECONDS, SLOW_STEPS = 0.01, 200
"""What a call of the density waits for where workers are only pretended, and the steps of such a run."""


def log_density(x: Any) -> Any:
    """A density that keeps a processor busy for a while."""
    for _ in range(20):
        x = np.sin(x) + x - np.sin(x)
    return -0.5 * np.sum(x**2, axis=-1)


def waiting(x: Any) -> Any:
    """A density that waits, as if another machine computed it."""
    time.sleep(SECONDS)
    return -0.5 * np.sum(x**2, axis=-1)


def seconds(target: Any, shards: int, steps: int, pool: Executor | None) -> float:
    """Of a run with so many shards, each with the same work."""
    x0 = np.random.default_rng(0).normal(size=(shards * CHAINS, DIM))
    kernel, kept = xps.RWM(0.1), (xps.Moments(),)
    began = time.perf_counter()
    xps.sample(target, kernel, x0, steps, seed=1, recorders=kept, shards=shards, executor=pool, progress=False)
    return time.perf_counter() - began


class Efficiency:
    """Seconds of one worker with one shard over those of n workers with n shards."""

    params = ([1, 2],)
    param_names = ("workers",)
    unit = "of ideal"
    timeout = 600

    def track_processes(self, workers: int) -> float:
        return processes(workers)


def processes(workers: int, rounds: int = ROUNDS, steps: int = STEPS) -> float:
    """The efficiency of processes, which are begun before the time is taken; runs in turns."""
    target, best = xps.Target(log_density), {1: math.inf, workers: math.inf}
    folder = str(Path(__file__).parents[1])  # where asv imports this module from, which the processes are not told
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=site.addsitedir, initargs=(folder,)) as pool:
        seconds(target, 4 * workers, 10, pool)
        for _ in range(rounds):
            for shards in best:
                best[shards] = min(best[shards], seconds(target, shards, steps, pool))
    return best[1] / best[workers]


def pretended(workers: int, steps: int = SLOW_STEPS) -> float:
    """The efficiency of threads whose density waits: what the process that collects the shards loses."""
    target = xps.Target(waiting)
    with ThreadPoolExecutor(workers) as pool:
        one, many = (seconds(target, shards, steps, pool) for shards in (1, workers))
    return one / many


def cost_of_a_shard(shards: int = 2000) -> float:
    """Seconds that the process spends on a shard of one step, its own work included."""
    with ThreadPoolExecutor(1) as pool:
        cost = partial(seconds, xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1)), pool=pool)
        return (cost(shards, 1) - cost(shards // 2, 1)) / (shards - shards // 2)


if __name__ == "__main__":
    print("| workers | efficiency |\n| --- | --- |")
    for n in (1, 2):
        print(f"| {n}, processes | {processes(n):.2f} |", flush=True)
    for n in (8, 64):
        print(f"| {n}, pretended | {pretended(n):.2f} |", flush=True)
    print(f"\na shard of one step: {1e3 * cost_of_a_shard():.2f} ms")
