"""NumPy: a Python loop over noise drawn in blocks. The reference that other backends are compared with."""

from collections.abc import Callable
from typing import Any

import numpy as np

from xpsample.core.backend import Backend, Buffers, Carry, Device, Driven, DrivenProgram, Source, StopFlag
from xpsample.core.errors import BackendError
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.core.tree import Tree
from xpsample.sampling.eager import eager_drive, eager_repeat
from xpsample.sampling.noise import draw_chunks, open_interval, seed_sequence
from xpsample_numpy import namespace as xp

Array = Any
"""An array of this library."""


class NumpyBackend(Backend):
    """NumPy arrays."""

    name = "numpy"
    xp = xp
    autodiff = None

    def owns(self, array: object) -> bool:
        if isinstance(array, np.ma.MaskedArray):
            raise BackendError("a masked array would lose its mask in a run: pass array.filled(value), or other data")
        return isinstance(array, (np.ndarray, np.generic))  # operators on 0-d arrays give scalars

    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        def draw(name: str, spec: Normal | Uniform, chunk: int, steps: int) -> np.ndarray:
            generator = np.random.Generator(np.random.SFC64(seed_sequence(seed, name, chunk)))
            shape = (steps, *spec.shape)
            if isinstance(spec, Normal):
                return generator.standard_normal(shape, dtype=like.dtype)
            return open_interval(generator.random(shape, dtype=like.dtype))

        return draw_chunks(draw, specs, start, stop, xp, 1)

    def repeat(
        self, n: int | Array, body: Callable[[Any, Any], Any], carry: Any, until: Callable[[Any], Array] | None = None
    ) -> Any:
        return eager_repeat(n, body, carry, until)

    def drive(
        self,
        program: DrivenProgram,
        carry: Carry,
        buffers: Buffers,
        source: Source,
        start: int,
        stop: int,
        stop_flag: StopFlag,
    ) -> Driven:
        # A diverging chain overflows on its way out; that is counted, so NumPy need not say it as well.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return eager_drive(program, carry, buffers, source, start, stop, stop_flag, unstack=list)

    def synchronize(self, value: Tree, number: float = 0.0) -> float:
        return number

    def to_host(self, array: Array) -> np.ndarray:
        return array

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        return array

    def devices(self, array: Array | None = None) -> list[Device]:
        return [Device("cpu", "cpu", ("float32", "float64"))]


BACKEND = NumpyBackend()
