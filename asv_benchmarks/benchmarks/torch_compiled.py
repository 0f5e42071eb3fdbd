"""What compiling torch's steps gains, and what it costs.

``python -m asv_benchmarks.benchmarks.torch_compiled`` prints a table.
"""

import importlib
import time
from typing import NamedTuple

import numpy as np

import xpsample as xps
from xpsample.gradients import NativeGradient

from .cases import logistic
from .common import device_or_skip, in_turns, put, ratio, runner

KERNELS = {"mala": xps.MALA(0.03), "hmc": xps.HMC(0.12, 10)}


class Gain(NamedTuple):
    """CPU microseconds of a step, eager and compiled, their ratio, and the seconds that the first compiled run adds."""

    eager: float
    compiled: float
    ratio: float
    wall: float
    cpu: float


class Compiled:
    """CPU time of a compiled step over that of an eager one, for one chain of MALA with an analytic score."""

    unit = "of eager"
    timeout = 300

    def setup(self) -> None:
        device_or_skip("torch")

    def track_ratio(self) -> float:
        return gain("mala", "analytic", 1).ratio


def gain(kernel: str, score: str, chains: int, steps: int = 512, rounds: int = 5) -> Gain:
    """On the 10-dimensional logistic regression of the peers; nothing is taken from the compiler's caches."""
    target = logistic()
    if score == "autodiff":
        target = target.without_own_derivatives(NativeGradient())
    x0 = put("torch", 0.1 * np.random.default_rng(0).standard_normal((chains, 10)))
    step_by_step = runner(target, KERNELS[kernel], x0, steps)
    in_full = runner(target, KERNELS[kernel], x0, steps, compile=True)
    config = importlib.import_module("torch.compiler.config")
    with config.patch(force_disable_caches=True):
        began, cpu = time.perf_counter(), time.process_time()
        in_full()
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        eager, compiled = in_turns([step_by_step, in_full], rounds)
    each, own = 1e6 * np.median([eager, compiled], axis=1) / steps, float(np.median(compiled))
    return Gain(*each, ratio(compiled, eager), wall - own, cpu - own)


if __name__ == "__main__":
    print("| kernel | score | chains | eager, us | compiled, us | ratio | compiling, s | its CPU |")
    print("| --- " * 8 + "|")
    for kernel in KERNELS:
        for score in ("analytic", "autodiff"):
            for chains in (1, 10, 100):
                a = gain(kernel, score, chains)
                told = f"{a.eager:.0f} | {a.compiled:.0f} | {a.ratio:.2f} | {a.wall:.0f} | {a.cpu:.0f}"
                print(f"| {kernel} | {score} | {chains} | {told} |", flush=True)
