"""CuPy: the loop of NumPy's backend on a CUDA device, no host transfer inside it."""

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from xpsample.core import tree
from xpsample.core.backend import Backend, Buffers, Carry, Device, Driven, DrivenProgram, Source, StopFlag
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.sampling.eager import eager_drive, eager_repeat
from xpsample.sampling.noise import draw_chunks, seed_sequence
from xpsample_cupy import namespace as xp

Array = Any
"""An array of this library."""


class CupyBackend(Backend):
    """CuPy arrays."""

    name = "cupy"
    xp = xp
    autodiff = None

    def owns(self, array: object) -> bool:
        return isinstance(array, cupy.ndarray)

    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        low, high = np.finfo(like.dtype).tiny, np.nextafter(like.dtype.type(1), like.dtype.type(0))

        def draw(name: str, spec: Normal | Uniform, chunk: int, steps: int) -> Array:
            state = int(seed_sequence(seed, name, chunk).generate_state(1, np.uint64)[0])
            # As many streams on every device: by default they are as many as its threads, and the numbers others on
            # each model of GPU.
            generator = cupy.random.Generator(cupy.random.Philox4x3210(state, size=2**16))
            shape = (steps, *spec.shape)
            if isinstance(spec, Normal):
                return generator.standard_normal(shape, dtype=like.dtype)
            return cupy.clip(generator.random(shape, dtype=like.dtype), low, high)

        with like.device:
            return draw_chunks(draw, specs, start, stop, xp)

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
        like: Array = program.like(carry)
        with like.device:
            return eager_drive(program, carry, buffers, source, start, stop, stop_flag)

    def synchronize(self, value: tree.Tree, number: float = 0.0) -> float:
        devices = {leaf.device.id: leaf.device for leaf in tree.leaves(value) if self.owns(leaf)}
        for device in devices.values():
            with device:
                cupy.cuda.get_current_stream().synchronize()
        return number

    def to_host(self, array: Array) -> np.ndarray:
        return cupy.asnumpy(array)

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        with like.device:
            return cupy.asarray(array)

    def devices(self, array: Array | None = None) -> list[Device]:
        if array is not None:
            return [d for d in self.devices() if d.device == array.device]
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError:  # installed, and no driver or device here
            count = 0
        both = ("float32", "float64")
        handles = [cupy.cuda.Device(i) for i in range(count)]
        return [
            Device(
                f"cuda:{handle.id}",
                handle,
                both,
                context=handle,
                forks=False,
                model=cupy.cuda.runtime.getDeviceProperties(handle.id)["name"].decode(),
            )
            for handle in handles
        ]


BACKEND = CupyBackend()
