"""What tuning adds to a step: CPU time of a step of the warm-up over that of a step after it, in turns.

``python -m asv_benchmarks.benchmarks.warm_up`` prints a table.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import xpsample as xps

from .cases import Case, gaussian, logistic
from .common import DEVICES, device_or_skip, in_turns, put, ratio, runner

KERNELS = {
    "rwm": xps.RWM(),
    "mala": xps.MALA(),
    "hmc, 10 steps": xps.HMC(steps=10),
    "hmc": xps.HMC(),
    "nuts": xps.NUTS(),
    "mams": xps.MAMS(),
}
TARGETS = {"gaussian": gaussian, "logistic": logistic}
CHAINS, DIM = 100, 10

STEPS = {"numpy": 200, "torch": 100, "jax": 3000}
"""Whose time is taken."""

LEAST = 50
"""Steps of the runs whose time is taken off: what a run costs beside its steps."""


class Overhead:
    """A step of the warm-up over a step of the tuned kernel, 100 chains of 10 coordinates: the median of five.

    The density is a Gaussian's, which costs next to nothing: with another one the ratio is lower. Where a kernel has a
    length, it is changed after the warm-up so that both make as many scores. What is left of a difference is divided
    out.
    """

    params = (list(KERNELS), DEVICES)
    param_names = ("kernel", "device")
    unit = "times the step after"
    timeout = 300

    def setup(self, kernel: str, device: str) -> None:
        device_or_skip(device)

    def track_overhead(self, kernel: str, device: str) -> float:
        return overhead(kernel, "gaussian", device)


def overhead(kernel: str, target: str, device: str, steps: int | None = None, rounds: int = 5) -> float:
    """The ratio, from runs that are `steps` longer than others."""
    bound, x0 = TARGETS[target](), put(device, Case(lambda: KERNELS[kernel]).start(CHAINS, DIM))
    steps = STEPS[device.partition("-")[0]] if steps is None else steps

    def warm_up(length: int) -> Callable[[], Any]:
        return runner(bound, KERNELS[kernel], x0, 1, warmup=length)

    found = warm_up(LEAST + steps)()
    scores, tuned = float(np.mean(np.asarray(found.warmup["scores"]))), found.kernel

    def after(length: int) -> Callable[[], Any]:
        return runner(bound, tuned, found.state.point.x, length)

    work = 1.0
    if scores > 0:
        work = scores / _scores(after(steps)())
        if getattr(tuned, "length", None) is not None:  # trajectories as long, on average, as in the warm-up
            tuned = replace(tuned, length=work * tuned.length)
            work = scores / _scores(after(steps)())
    spent = in_turns([warm_up(LEAST + steps), warm_up(LEAST), after(LEAST + steps), after(LEAST)], rounds)
    return ratio(spent[0] - spent[1], spent[2] - spent[3]) / work


def _scores(trace: Any) -> float:
    """Of a step of one chain, on average."""
    return trace.run_statistics.evaluations["score"]


if __name__ == "__main__":
    print("| density | kernel | " + " | ".join(DEVICES[:3]) + " |\n" + "| --- " * 5 + "|")
    for density in TARGETS:
        for name in KERNELS:
            told = [f"{overhead(name, density, device):.2f}" for device in DEVICES[:3]]
            print(f"| {density} | {name} | " + " | ".join(told) + " |", flush=True)
