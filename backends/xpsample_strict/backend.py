"""array-api-strict: the standard and nothing else, with make-believe devices. For tests; never fast."""

from collections.abc import Callable
from typing import Any

import array_api_strict as xp
import numpy as np
from array_api_compat import numpy as numpy_xp

from xpsample.core.backend import Backend, Buffers, Carry, Device, Driven, DrivenProgram, Source, StopFlag
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.core.tree import Tree, dtype_name
from xpsample.sampling.eager import eager_drive, eager_repeat
from xpsample.sampling.noise import draw_chunks, open_interval, seed_sequence

Array = Any
"""An array of this library."""

CPU = xp.Device("CPU_DEVICE")


class StrictBackend(Backend):
    """array-api-strict arrays."""

    name = "array_api_strict"
    xp = xp
    autodiff = None

    def owns(self, array: object) -> bool:
        return isinstance(array, type(xp.empty(())))

    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        dtype = np.dtype(dtype_name(like))

        def draw(name: str, spec: Normal | Uniform, chunk: int, steps: int) -> np.ndarray:
            generator = np.random.Generator(np.random.SFC64(seed_sequence(seed, name, chunk)))
            shape = (steps, *spec.shape)
            if isinstance(spec, Normal):
                return generator.standard_normal(shape, dtype=dtype)
            return open_interval(generator.random(shape, dtype=dtype))

        drawn = draw_chunks(draw, specs, start, stop, numpy_xp, 1)
        return {name: self.from_host(np.asarray(rows), like) for name, rows in drawn.items()}

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
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return eager_drive(program, carry, buffers, source, start, stop, stop_flag)

    def synchronize(self, value: Tree, number: float = 0.0) -> float:
        return number

    def to_host(self, array: Array) -> np.ndarray:
        return np.asarray(array.to_device(CPU))

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        return xp.asarray(array, device=like.device)

    def devices(self, array: Array | None = None) -> list[Device]:
        both = ("float32", "float64")
        found = [Device("cpu", CPU, both), Device("device1", xp.Device("device1"), both)]
        return found if array is None else [d for d in found if d.device == array.device]


BACKEND = StrictBackend()
