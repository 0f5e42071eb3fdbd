"""Generators: state on the device where they were made, seeds of 32 bits, streams that depend on the threads."""

from typing import Any

import numpy as np

from cupy import _core
from cupy.cuda import runtime


class Philox4x3210:
    """A counter-based generator, with a stream for each of `size` threads; as many as the device runs by default."""

    def __init__(self, seed: Any = None, *, size: int = -1) -> None:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._current_device_id = runtime.getDevice()
        self._seed = int(sequence.generate_state(1, np.uint32)[0])
        if size < 0:
            size = 2048 * runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, self._current_device_id)
        self._numbers = np.random.Generator(np.random.Philox(np.random.SeedSequence((self._seed, size))))

    def _check_device(self) -> None:
        if runtime.getDevice() != self._current_device_id:
            raise RuntimeError("This Generator state is allocated in a different device")


class Generator:
    """Random numbers of a bit generator."""

    def __init__(self, bit_generator: Philox4x3210) -> None:
        self.bit_generator = bit_generator

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> _core.ndarray:
        """Uniform numbers."""
        return self._filled("random", size, dtype)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> _core.ndarray:
        """Normal numbers."""
        return self._filled("standard_normal", size, dtype)

    def _filled(self, name: str, size: Any, dtype: Any) -> _core.ndarray:
        self.bit_generator._check_device()
        drawn = "d" if np.dtype(dtype).char == "d" else "f"
        return _core.box(
            getattr(self.bit_generator._numbers, name)(() if size is None else size, dtype=drawn).astype(dtype)
        )


def default_rng(seed: Any = None) -> Generator:
    """A generator of a seed; CuPy's default is another one than Philox."""
    return Generator(Philox4x3210(seed))
