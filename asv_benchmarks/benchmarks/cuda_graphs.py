"""What capturing steps as CUDA graphs gains. ``python -m benchmarks.cuda_graphs``, on a machine with a GPU.

The target is that of `growth`, with no product of matrices in it, which CuPy does not capture. Moments are kept, in
float32, and time is that of the clock, since most of it is not the CPU's.
"""

import os
import time
from contextlib import suppress
from typing import NamedTuple
from unittest import mock

import numpy as np

import xpsample as xps

from .common import in_turns, place_or_skip, put, ratio, runner
from .growth import quartic

SETTING = "XPSAMPLE_CUDA_GRAPHS"
KERNELS = {"mala": xps.MALA(0.1), "hmc": xps.HMC(0.1, 10)}
PLACES = ["torch-cuda", "cupy"]
CHAINS = [1, 10, 100, 1000]


class Gain(NamedTuple):
    """Microseconds of a step, as it is and captured, their ratio, and the seconds that the first captured run adds."""

    plain: float
    captured: float
    ratio: float
    first: float


class Captured:
    """Time of a captured step over that of one that is not, for 10 dimensions."""

    params = (PLACES, list(KERNELS), CHAINS)
    param_names = ("place", "kernel", "chains")
    unit = "of not captured"
    timeout = 300

    def setup(self, place: str, kernel: str, chains: int) -> None:
        place_or_skip(place)

    def track_ratio(self, place: str, kernel: str, chains: int) -> float:
        return gain(place, kernel, chains).ratio


def gain(place: str, kernel: str, chains: int, steps: int = 4096, rounds: int = 5) -> Gain:
    """At a place, which may be one without a GPU: then nothing is captured."""
    x0 = put(place, 0.5 * np.random.default_rng(0).standard_normal((chains, 10)))
    run = runner(quartic(), KERNELS[kernel], x0, steps)

    def switched(setting: str) -> None:
        with mock.patch.dict(os.environ, {SETTING: setting}):
            run()

    switched("0")
    began = time.perf_counter()
    switched("1")
    first = time.perf_counter() - began
    plain, captured = in_turns([lambda: switched("0"), lambda: switched("1")], rounds, time.perf_counter)
    each = 1e6 * np.median([plain, captured], axis=1) / steps
    return Gain(*each, ratio(captured, plain), first - float(np.median(captured)))


if __name__ == "__main__":
    here = []
    for place in PLACES:
        with suppress(NotImplementedError):
            place_or_skip(place)
            here.append(place)
    print(f"Not here: {', '.join(place for place in PLACES if place not in here) or 'none'}.\n")
    print("| place | kernel | chains | not captured, us | captured, us | ratio | capturing, s |")
    print("| --- " * 7 + "|")
    for place in here:
        for kernel in KERNELS:
            for chains in CHAINS:
                a = gain(place, kernel, chains)
                told = f"{a.plain:.0f} | {a.captured:.0f} | {a.ratio:.2f} | {a.first:.1f}"
                print(f"| {place} | {kernel} | {chains} | {told} |", flush=True)
