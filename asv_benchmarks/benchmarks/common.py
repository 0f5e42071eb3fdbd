"""What the benchmarks share: where they run, and how a step is timed."""

import importlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np

import xpsample as xps
from xpsample.core.backend import Backend
from xpsample.core.errors import BackendError
from xpsample.core.registry import backend_named, installed_backends
from xpsample.kernels import Kernel
from xpsample.targets import AbstractTarget

from .cases import Case

DEVICES = ["numpy", "torch", "jax", "torch-cuda", "jax-cuda", "cupy"]
"""A library, and its device where that is not the CPU (CuPy has no other than the GPU)."""

if __package__ == "benchmarks":  # asv imports this, and its fork server imports each library once and for all
    for _name in installed_backends():
        with suppress(BackendError):
            backend_named(_name)

SHORTEST = 32
"""Steps of a run that is timed, at least."""


def device_or_skip(device: str) -> tuple[Backend, Any]:
    """The backend, and its handle of a device; NotImplementedError, asv's word for a skip, where there is none."""
    name, _, kind = device.partition("-")
    try:
        backend = backend_named(name)
    except BackendError as error:
        raise NotImplementedError(str(error)) from error
    kinds = {"": ("cuda", "gpu") if name == "cupy" else ("cpu",), "cuda": ("cuda", "gpu")}[kind]
    for found in backend.devices():
        if name == "cupy" or found.name.startswith(kinds):
            return backend, found.device
    raise NotImplementedError(f"{name} finds no device for {device}")


def put(device: str, host: np.ndarray, dtype: str = "float32") -> Any:
    """A host array on a device."""
    backend, handle = device_or_skip(device)
    return backend.xp.asarray(host.astype(dtype), device=handle)


def start(case: Case, device: str, chains: int, dim: int = 10) -> Any:
    """Start positions of a case, (chains, dim), in float32."""
    return put(device, case.start(chains, dim))


def wide(device: str) -> AbstractContextManager:
    """Where the library needs a switch for float64, that switch."""
    if not device.startswith("jax"):
        return nullcontext()
    jax = importlib.import_module("jax")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64(True)


def runner(target: AbstractTarget, kernel: Kernel, x0: Any, steps: int, **settings: Any) -> Callable[[], Any]:
    """A run of some steps that keeps moments only, to call again and again; it has waited for its arrays."""

    def run() -> Any:
        return xps.sample(target, kernel, x0, steps, seed=1, recorders=(xps.Moments(),), progress=False, **settings)

    return run


def in_turns(
    runs: list[Callable[[], Any]], rounds: int = 5, clock: Callable[[], float] = time.process_time, warm: int = 1
) -> np.ndarray:
    """CPU seconds of some runs that take turns, shape (runs, rounds), after `warm` rounds that are not counted.

    Compared are runs of one round, and the median is of what that gives: a machine that is slow for some seconds is so
    for all of them.
    """
    seconds = np.empty((warm + rounds, len(runs)))
    for spent in seconds:
        for i, run in enumerate(runs):
            began = clock()
            run()
            spent[i] = clock() - began
    return seconds[warm:].T


def ratio(over: np.ndarray, under: np.ndarray) -> float:
    """The median of the ratios of two rows of `in_turns`."""
    return float(np.median(over / under))


def step_seconds(
    runs: list[tuple[AbstractTarget, Kernel, Any]],
    seconds: float,
    rounds: int = 5,
    clock: Callable[[], float] = time.process_time,
) -> np.ndarray:
    """CPU seconds of a step of each (target, kernel, start), in turns, shape (runs, rounds).

    A run takes about `seconds`, and `SHORTEST` steps at least, from which on steps are written down.
    """
    counts = []
    for run in runs:
        steps = SHORTEST
        runner(*run, steps)()  # compiles
        for _ in range(3):  # ever closer, since a run has a cost of its own
            began = clock()
            runner(*run, steps)()
            steps = int(min(max(SHORTEST, seconds * steps / (clock() - began)), 100_000))
            if steps == SHORTEST:
                break
        counts.append(steps)
    spent = in_turns([runner(*run, steps) for run, steps in zip(runs, counts, strict=True)], rounds, clock, warm=0)
    return spent / np.asarray(counts)[:, None]
