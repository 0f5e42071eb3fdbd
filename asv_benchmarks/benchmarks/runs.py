"""Whole runs: how often a step is traced and compiled, and that memory does not grow."""

import importlib
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import xpsample as xps

from .cases import CASES
from .common import DEVICES, device_or_skip, runner, start

DIM, KEPT = 10, 500


class Memory:
    """Peak memory of the process, with runs of one chain that keep moments; the two lengths should need the same."""

    params = (["rwm", "hmc"], DEVICES, [1_000, 5_000])
    param_names = ("kernel", "device", "steps")
    timeout = 120

    def setup(self, kernel: str, device: str, steps: int) -> None:
        case = CASES[kernel]
        self.run = runner(case.target(DIM), case.kernel, start(case, device, 1), steps)

    def peakmem_moments(self, kernel: str, device: str, steps: int) -> None:
        self.run()


class Allocated:
    """Peak bytes that NumPy and Python allocate in a run of `KEPT` steps, in those of one position array (5000, 10).

    Of draws, `KEPT` such arrays are the result. What a diagnosis looks at is bounded, and small beside them.
    """

    params = (["mala", "srmc", "gwg"], ["moments", "draws"])
    param_names = ("kernel", "kept")
    unit = "position arrays"

    def track_peak(self, kernel: str, kept: str) -> float:
        return allocated(kernel, kept)


class Traces:
    """Times that Python runs a step in a run of 2100 steps, with burn-in, and in another one of the same length.

    On a library that compiles, that is how often the step is traced, however long the run is, and the second run should
    compile nothing. Those that run every step in Python are left out. Beside it: programs that JAX compiles.
    """

    params = (["mala", "srmc", "gwg"], ["jax", "jax-cuda"], ["first", "second"])
    param_names = ("kernel", "device", "run")
    timeout = 120

    def setup(self, kernel: str, device: str, run: str) -> None:
        device_or_skip(device)

    def track_traces(self, kernel: str, device: str, run: str) -> int:
        return traces_and_compilations(kernel, device)[run][0]

    def track_compilations(self, kernel: str, device: str, run: str) -> int:
        return traces_and_compilations(kernel, device)[run][1]

    track_traces.unit = "traces"  # type: ignore[attr-defined]
    track_compilations.unit = "programs"  # type: ignore[attr-defined]


def allocated(kernel: str, kept: str) -> float:
    """The peak of a run on NumPy, in position arrays: the highest of three; blocks are shorter on a busy machine."""
    case = CASES[kernel]
    x0, target = start(case, "numpy", 5000), case.target(DIM)
    recorders = (xps.Moments(),) if kept == "moments" else (xps.Draws(),)

    def run(steps: int) -> None:
        xps.sample(target, case.kernel, x0, steps, seed=1, recorders=recorders, progress=False)

    run(10)
    tracemalloc.start()
    try:
        for _ in range(3):
            run(KEPT)
        return tracemalloc.get_traced_memory()[1] / x0.nbytes
    finally:
        tracemalloc.stop()


def traces_and_compilations(kernel: str, device: str) -> dict[str, tuple[int, int]]:
    """Of the first and of the second run of a kernel and a target that have not run before."""
    case = CASES[kernel]
    target, x0, found = case.target(DIM), start(case, device, 4), {}
    for run, seed in (("first", 1), ("second", 2)):
        before = programs_compiled()
        with counted_steps(case.kernel) as calls:
            xps.sample(target, case.kernel, x0, 2000, burn_in=100, seed=seed, progress=False)
        found[run] = (len(calls), programs_compiled() - before)
    return found


@contextmanager
def counted_steps(kernel: Any) -> Iterator[list[None]]:
    """A list that grows by one with every call of the kernel's `step`."""
    calls: list[None] = []
    kind, plain = type(kernel), type(kernel).step

    def counted(*args: Any) -> Any:
        calls.append(None)
        return plain(*args)

    kind.step = counted
    try:
        yield calls
    finally:
        kind.step = plain


def programs_compiled() -> int:
    """How many programs JAX has compiled, or taken from its cache on disk, since the first call of this."""
    return len(_programs())


@cache
def _programs() -> list[str]:
    programs: list[str] = []

    def listen(event: str, duration: float, **more: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    importlib.import_module("jax.monitoring").register_event_duration_secs_listener(listen)
    return programs
