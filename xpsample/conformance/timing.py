"""The time of a step, and what a run costs by itself, on every device: a benchmark that ends when its time is up."""

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.kernels import HMC, MALA, NUTS, RWM, Kernel
from xpsample.sampling.sampler import sample
from xpsample.targets import Target

DIM = 10
KERNELS: dict[str, Kernel] = {
    "RWM": RWM(0.5),
    "MALA": MALA(0.8),
    "HMC, 10 steps": HMC(0.3, steps=10),
    "HMC by length": HMC(0.3, length=3.0),
    "NUTS": NUTS(0.5, max_depth=5),
}
"""On a standard normal of `DIM` coordinates, so that the library takes the time and not the density."""

CHAINS = tuple(10**power for power in range(7))
SHORT, MOST = 8, 2**18
"""Steps of the short run, and of the long one at most."""

ENOUGH = 0.2
"""Seconds that the long run takes at least, and twice the short one."""

RUNS = 20
"""What a measurement takes where steps take all of it, as multiples of the short run."""


class Timed(NamedTuple):
    """Seconds of a step, of a run by itself, and of a first run, which may compile.

    Those of a run by itself are nan where the steps of the long run took longer than those of the short one: the
    machine was busy.
    """

    kernel: str
    device: DeviceDtype
    chains: int
    step: float
    run: float
    first: float


def _log_density(x: Array) -> Array:
    return -0.5 * array_namespace(x).sum(x * x, axis=-1)


def timed(devices: Sequence[DeviceDtype], seconds: float) -> Iterator[Timed]:
    """Times of all kernels, in float32 where a device has it: with more and more chains, until the time is up.

    What would take longer than is left, judged by a tenth of the chains, is left out.
    """
    end = time.monotonic() + seconds
    expected: dict[tuple[str, str, str], float] = {}
    widest_first = sorted(devices, key=lambda device: device.dtype, reverse=True)
    places = {(device.backend.name, device.name): device for device in widest_first}
    for chains, name, place in itertools.product(CHAINS, KERNELS, places):
        begun = time.monotonic()
        if expected.get((name, *place), 0.0) >= end - begun:
            continue
        found = _time(name, places[place], chains)
        yield found
        ahead = 10 * found.step * SHORT * RUNS
        expected[name, *place] = time.monotonic() - begun + ahead


def _time(name: str, device: DeviceDtype, chains: int) -> Timed:
    x0 = device.array(np.random.default_rng(0).standard_normal((chains, DIM)))
    target = Target(_log_density, score=lambda x: -x)

    def run(steps: int) -> float:
        """Seconds of a run that records nothing."""
        begun = time.perf_counter()
        trace = sample(target, KERNELS[name], x0, steps, seed=1, recorders=(), progress=False)
        device.backend.synchronize(trace.state)
        return time.perf_counter() - begun

    first, short, long, steps = run(SHORT), run(SHORT), 0.0, SHORT
    while long < 2 * short + ENOUGH and steps < MOST:
        steps *= 8
        long = run(steps)
    short, long = min(short, run(SHORT)), min(long, run(steps))
    step = (long - short) / (steps - SHORT)
    alone = short - SHORT * step
    return Timed(name, device, chains, step, alone if alone > 0 else math.nan, first)
