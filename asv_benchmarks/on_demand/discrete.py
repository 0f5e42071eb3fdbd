"""Discrete samplers on Ising lattices: steps per second, and the cost of a step as the lattice grows."""

import time
from typing import Any

import numpy as np

import xpsample as xps
from asv_benchmarks.benchmarks.common import DEVICES, device_or_skip
from xpsample.core.backend import Backend
from xpsample.zoo.ising import ising_lattice

CRITICAL = 0.5 * np.log(1 + np.sqrt(2))
KERNELS = {"gwg": xps.GWG(), "dmala": xps.DMALA(0.4), "srmc_gwg": xps.SRMC(xps.GWG(), alpha=0.5, tilt=xps.Untilted())}
SIDES = [10, 32, 100]


def spins(name: str, chains: int, side: int) -> tuple[Backend, Any]:
    """A backend, and start positions (chains, side * side) in float32."""
    backend, device = device_or_skip(name)
    host = np.random.default_rng(0).choice([-1.0, 1.0], size=(chains, side * side)).astype("float32")
    return backend, backend.xp.asarray(host, device=device)


class Lattice:
    """Steps of a critical periodic lattice, the last position kept; compilation left out.

    Per second on 10 x 10 with 100 chains; and how the CPU time of a step of 10 chains grows with the number of sites,
    which should be in proportion, or less where calls cost more than arithmetic (from 32 x 32 to 64 x 64 here).
    """

    params = (list(KERNELS), DEVICES)
    param_names = ("kernel", "backend")
    timeout = 600

    def setup(self, kernel: str, backend: str) -> None:
        device_or_skip(backend)

    def track_steps_per_second(self, kernel: str, backend: str) -> float:
        return 1 / _step_time(kernel, backend, chains=100, side=10, clock=time.perf_counter)

    track_steps_per_second.unit = "steps/s"  # type: ignore[attr-defined]

    def track_growth(self, kernel: str, backend: str) -> float:
        times = [_step_time(kernel, backend, chains=10, side=side, clock=time.process_time) for side in (32, 64)]
        return float(np.log(times[1] / times[0]) / np.log(4))

    track_growth.unit = "log-log slope of CPU time in sites"  # type: ignore[attr-defined]


def _step_time(kernel: str, name: str, chains: int, side: int, clock: Any) -> float:
    """Seconds for a step: the median of five runs."""
    backend, x0 = spins(name, chains, side)
    target = ising_lattice((side, side), CRITICAL)
    steps = max(20, 200_000 // (chains * side * side) * 10)
    times = []
    for _ in range(6):  # the first one compiles
        start = clock()
        trace = xps.sample(target, KERNELS[kernel], x0, 1, burn_in=steps, seed=1, progress=False)
        backend.synchronize(trace.draws)
        times.append((clock() - start) / steps)
    return float(np.median(times[1:]))


if __name__ == "__main__":
    print("kernel    backend  steps/s (100 chains, 10 x 10)   us per step with 10 chains on", SIDES, "  slope")
    for kernel in KERNELS:
        for name in DEVICES:
            try:
                rate = 1 / _step_time(kernel, name, 100, 10, time.perf_counter)
                times = [_step_time(kernel, name, 10, side, time.process_time) for side in SIDES]
            except NotImplementedError as skipped:
                print(f"{kernel:9} {name:8} skipped: {skipped}")
                continue
            slope = np.polyfit(np.log(np.square(SIDES)), np.log(times), 1)[0]
            told = "  ".join(f"{1e6 * t:8.0f}" for t in times)
            print(f"{kernel:9} {name:8} {rate:8.0f}   {told}   {slope:.2f}")
