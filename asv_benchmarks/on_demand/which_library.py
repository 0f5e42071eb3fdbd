"""Which library is cheapest for how many chains of how many dimensions.

``python -m asv_benchmarks.on_demand.which_library`` prints a table.

The target is that of `growth`, a product of one-dimensional densities, which costs next to nothing, so that the
sampler decides. Moments are kept, in float32.
"""

import time
from contextlib import suppress

import numpy as np

import xpsample as xps
from asv_benchmarks.benchmarks.common import DEVICES, device_or_skip, put, step_seconds
from asv_benchmarks.on_demand.growth import quartic
from xpsample.kernels import Kernel

KERNELS: dict[str, Kernel] = {"mala": xps.MALA(0.1), "hmc": xps.HMC(0.1, 10)}
CHAINS, DIMS = (1, 10, 100, 1_000, 10_000), (1, 10, 100)


def step_times(
    kernel: str, device_dtypes: list[str], chains: int, dim: int, seconds: float = 0.06, rounds: int = 5
) -> dict[str, float]:
    """Nanoseconds of a step for each chain on each device, medians of runs in turns; large ones are run once."""
    host = 0.5 * np.random.default_rng(0).standard_normal((chains, dim))
    found = {}
    for clock, here in (
        (time.process_time, [device for device in device_dtypes if not on_gpu(device)]),
        (time.perf_counter, [device for device in device_dtypes if on_gpu(device)]),
    ):
        runs = [(quartic(), KERNELS[kernel], put(device, host)) for device in here]
        spent = step_seconds(runs, seconds, 1 if chains * dim >= 100_000 else rounds, clock)
        found.update((device, 1e9 * float(np.median(t)) / chains) for device, t in zip(here, spent, strict=True))
    return found


def on_gpu(device: str) -> bool:
    """Whether its steps are no CPU time."""
    return device == "cupy" or device.endswith("-cuda")


def present() -> list[str]:
    """The devices that are here."""
    found = []
    for device in DEVICES:
        with suppress(NotImplementedError):
            device_or_skip(device)
            found.append(device)
    return found


def marked(times: dict[str, float]) -> dict[str, str]:
    """As text, the least in bold."""
    least = min(times.values())
    return {device: f"**{t:,.0f}**" if t == least else f"{t:,.0f}" for device, t in times.items()}


if __name__ == "__main__":
    here = present()
    print(f"Not here: {', '.join(device for device in DEVICES if device not in here) or 'none'}.\n")
    head = " | ".join(f"{chains:,}" for chains in CHAINS)
    print(f"| kernel | dim | library | {head} |\n" + "| --- " * (3 + len(CHAINS)) + "|")
    for kernel in KERNELS:
        for dim in DIMS:
            columns = [marked(step_times(kernel, here, chains, dim)) for chains in CHAINS]
            for device in here:
                name = {"numpy": "NumPy", "jax": "JAX"}.get(device, device)
                cells = [kernel.upper(), str(dim), name, *(told[device] for told in columns)]
                print("| " + " | ".join(cells) + " |", flush=True)
