"""Whole runs: what compiling costs, what drawing noise costs, and that memory does not grow with the length."""

import xpsample as xps
from xpsample.backend import backend_of
from xpsample.noise import Normal, Uniform

from .common import BACKENDS, DIM, gaussian, positions

KERNEL = xps.RWM(0.3)


class Memory:
    """Peak memory of runs that keep moments only; the two lengths should need the same."""

    params = (["numpy", "jax"], [10_000, 1_000_000])
    param_names = ("backend", "steps")
    timeout = 600

    def setup(self, backend: str, steps: int) -> None:
        self.x0, self.target = positions(backend, 1), gaussian()

    def peakmem_moments(self, backend: str, steps: int) -> None:
        xps.sample(self.target, KERNEL, self.x0, steps, seed=1, recorders=(xps.Moments(),))


class First:
    """Seconds of a first, short run: preparing, checking and, where the library does, compiling."""

    params = (BACKENDS,)
    param_names = ("backend",)
    number = 1
    warmup_time = 0

    def setup(self, backend: str) -> None:
        self.x0 = positions(backend, 4)

    def time_first(self, backend: str) -> None:
        xps.sample(gaussian(), xps.HMC(0.2, 5), self.x0, 10, seed=1)


class Noise:
    """Seconds for 1024 steps of noise of 100 chains, by source."""

    params = (["Native", "Portable"], BACKENDS)
    param_names = ("source", "backend")

    def setup(self, source: str, backend: str) -> None:
        self.x0 = positions(backend, 100)
        self.backend = backend_of(self.x0)
        self.source = xps.Portable(1) if source == "Portable" else xps.noise.Native(1)
        self.time_block(source, backend)

    def time_block(self, source: str, backend: str) -> None:
        specs = {"proposal": Normal((100, DIM)), "accept": Uniform((100,))}
        self.backend.synchronize(self.source.block(self.backend, specs, 0, 1024, self.x0))
