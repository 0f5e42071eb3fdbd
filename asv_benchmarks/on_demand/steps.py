"""Seconds: steps of every kernel, evaluations and ESS by the second, what a first run adds, and noise."""

import time
from typing import Any

import numpy as np

import xpsample as xps
from asv_benchmarks.benchmarks import kernels
from asv_benchmarks.benchmarks.cases import CASES, FEW
from asv_benchmarks.benchmarks.common import DEVICES, device_or_skip, start
from xpsample.core.registry import backend_of
from xpsample.core.specs import Normal, Uniform
from xpsample.sampling.noise import Native

DIM = 10


class EveryStep(kernels._Steps):
    """Every kernel, small."""

    params = (list(CASES), DEVICES, [1, 100], [DIM])


class LargeStep(kernels._Steps):
    """A few kernels, larger."""

    params = (FEW, DEVICES, [1000], [10, 100])


class Rate:
    """Of 100 chains in 10 dimensions: evaluations (of density, score and hvp together) and ESS by the second.

    The ESS is that of the worst coordinate, of all chains together; that of an unadjusted or a repellent chain says
    nothing of its bias.
    """

    params = (FEW, DEVICES)
    param_names = ("kernel", "device")
    timeout = 120

    def setup(self, kernel: str, device: str) -> None:
        device_or_skip(device)

    def track_evaluations_per_second(self, kernel: str, device: str) -> float:
        seconds, trace = _timed(kernel, device)
        return sum(trace.run_statistics.evaluations.values()) * kernels.STEPS * kernels.CHAINS / seconds

    def track_ess_per_second(self, kernel: str, device: str) -> float:
        seconds, trace = _timed(kernel, device)
        return kernels.worst_ess(trace) / seconds

    track_evaluations_per_second.unit = "evaluations/s"  # type: ignore[attr-defined]
    track_ess_per_second.unit = "ESS/s"  # type: ignore[attr-defined]


def _timed(kernel: str, device: str, rounds: int = 4) -> tuple[float, Any]:
    """Median wall seconds of a run of some steps, the first left out, and its trace."""
    case, seconds = CASES[kernel], []
    x0, target = start(case, device, kernels.CHAINS), case.target(DIM)
    for _ in range(rounds):
        began = time.perf_counter()
        trace = xps.sample(target, case.kernel, x0, kernels.STEPS, seed=1, recorders=(xps.Draws(),), progress=False)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[1:])), trace


class Compile:
    """Seconds that the first run of a kernel takes longer than the second: preparing, checking and compiling."""

    params = (FEW, DEVICES)
    param_names = ("kernel", "device")
    unit = "seconds"
    timeout = 120

    def setup(self, kernel: str, device: str) -> None:
        start(CASES[kernel], device, 4)

    def track_compile(self, kernel: str, device: str) -> float:
        case, seconds = CASES[kernel], []
        x0, target = start(case, device, 4), case.target(DIM)
        for _ in range(2):
            began = time.perf_counter()
            xps.sample(target, case.kernel, x0, 64, seed=1, progress=False)
            seconds.append(time.perf_counter() - began)
        return seconds[0] - seconds[1]


class Noise:
    """Seconds for 1024 steps of noise of 100 chains, by source."""

    params = (["Native", "Portable"], DEVICES)
    param_names = ("source", "device")
    warmup_time = 0
    number = 1
    repeat = (3, 7, 0.5)
    rounds = 1

    def setup(self, source: str, device: str) -> None:
        self.x0 = start(CASES["rwm"], device, 100)
        self.backend = backend_of(self.x0)
        self.source = xps.Portable(1) if source == "Portable" else Native(1)
        self.time_block(source, device)

    def time_block(self, source: str, device: str) -> None:
        specs = {"proposal": Normal((100, DIM)), "accept": Uniform((100,))}
        self.backend.synchronize(self.source.block(self.backend, specs, 0, 1024, self.x0))
