"""Whole runs: what compiling costs and how often it happens, what noise costs, and that memory does not grow."""

import time

import xpsample as xps
from xpsample.core.registry import backend_of
from xpsample.core.specs import Normal, Uniform

from .cases import CASES, FEW
from .common import PLACES, place_or_skip, start

DIM = 10


class Memory:
    """Peak memory of runs of one chain that keep moments only; the two lengths should need the same."""

    params = (["rwm", "hmc"], PLACES, [1_000, 20_000])
    param_names = ("kernel", "place", "steps")
    timeout = 120

    def setup(self, kernel: str, place: str, steps: int) -> None:
        self.x0, self.target = start(CASES[kernel], place, 1), CASES[kernel].target(DIM)

    def peakmem_moments(self, kernel: str, place: str, steps: int) -> None:
        xps.sample(
            self.target, CASES[kernel].kernel, self.x0, steps, seed=1, recorders=(xps.Moments(),), progress=False
        )


class Compile:
    """Seconds that the first run of a kernel takes longer than the second: preparing, checking and compiling."""

    params = (FEW, PLACES)
    param_names = ("kernel", "place")
    unit = "seconds"
    timeout = 120

    def setup(self, kernel: str, place: str) -> None:
        start(CASES[kernel], place, 4)

    def track_compile(self, kernel: str, place: str) -> float:
        case, seconds = CASES[kernel], []
        x0, target = start(case, place, 4), case.target(DIM)
        for _ in range(2):
            began = time.perf_counter()
            xps.sample(target, case.kernel, x0, 64, seed=1, progress=False)
            seconds.append(time.perf_counter() - began)
        return seconds[0] - seconds[1]


class Traces:
    """Times that Python runs a step in a run of 2100 steps, with burn-in, and in another one of the same length.

    On a library that compiles, that is how often the step is traced, however long the run is, and the second run should
    not trace it at all. Those that run every step in Python are left out.
    """

    params = (["mala", "srmc", "gwg"], PLACES, ["first", "second"])
    param_names = ("kernel", "place", "run")
    unit = "traces"
    timeout = 120

    def setup(self, kernel: str, place: str, run: str) -> None:
        backend, _ = place_or_skip(place)
        if backend.name != "jax":
            raise NotImplementedError(f"{backend.name} runs every step in Python")

    def track_traces(self, kernel: str, place: str, run: str) -> int:
        case = CASES[kernel]
        target, x0, counts = case.target(DIM), start(case, place, 4), []
        calls = 0
        plain = type(case.kernel).step

        def counted(*args):
            nonlocal calls
            calls += 1
            return plain(*args)

        type(case.kernel).step = counted  # type: ignore[method-assign]
        try:
            for seed in (1, 2):
                calls = 0
                xps.sample(target, case.kernel, x0, 2000, burn_in=100, seed=seed, progress=False)
                counts.append(calls)
        finally:
            type(case.kernel).step = plain  # type: ignore[method-assign]
        return counts[0 if run == "first" else 1]


class Noise:
    """Seconds for 1024 steps of noise of 100 chains, by source."""

    params = (["Native", "Portable"], PLACES)
    param_names = ("source", "place")
    warmup_time = 0
    number = 1
    repeat = (3, 7, 0.5)
    rounds = 1

    def setup(self, source: str, place: str) -> None:
        self.x0 = start(CASES["rwm"], place, 100)
        self.backend = backend_of(self.x0)
        self.source = xps.Portable(1) if source == "Portable" else xps.noise.Native(1)
        self.time_block(source, place)

    def time_block(self, source: str, place: str) -> None:
        specs = {"proposal": Normal((100, DIM)), "accept": Uniform((100,))}
        self.backend.synchronize(self.source.block(self.backend, specs, 0, 1024, self.x0))
