"""Sources of the random numbers of a run.

The noise of step t is a pure function of (seed, name, t) and of the shapes that the kernel declares, so a run can be
stopped, resumed or extended at any step and sees the same numbers.
"""

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_seed
from xpsample.core.errors import NoiseError
from xpsample.core.fields import FrozenDataclass, checked, count, instance
from xpsample.core.hyperparameters import check_reals
from xpsample.core.registry import check_same_home
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.core.tree import dtype_name

CHUNK_ELEMENTS = 2**18
CHUNK_STEPS = 1024
LEAST_STEPS, MOST_STEPS = 16, 4096  # Least and most steps of a segment, which a run drives with one call


def chunk_steps(specs: Specs) -> int:
    """Steps whose noise is drawn at once: a power of two that depends on the declared shapes only."""
    return min(CHUNK_STEPS, _steps_of_chunk(specs))


def segment_steps(specs: Specs) -> int:
    """The longest segment that a run drives with one call: a power of two, and one chunk or several."""
    return max(LEAST_STEPS, min(MOST_STEPS, _steps_of_chunk(specs)))


def segments(specs: Specs, start: int, stop: int, *cuts: int) -> Iterator[tuple[int, int]]:
    """Cut steps [start, stop) into segments, which are driven with one call each, and at `cuts`.

    Segments get longer along the run: a call of a driver costs as much as hundreds of small steps, and the user of a
    slow run should see and save its first part early. The ends of segments depend on the shapes and `cuts` alone.
    """
    length, most = max(LEAST_STEPS, chunk_steps(specs)), segment_steps(specs)
    while start < stop:
        while length < min(most, start + 1):
            length *= 2
        end = min([(start // length + 1) * length, stop, *(at for at in cuts if at > start)])
        yield start, end
        start = end


def _steps_of_chunk(specs: Specs) -> int:
    size = sum(math.prod(spec.shape) for spec in specs.values())
    return 1 << max(0, (CHUNK_ELEMENTS // max(size, 1)).bit_length() - 1)


def cut(start: int, stop: int, steps: int) -> Iterator[tuple[int, int]]:
    """Steps [start, stop) cut at the multiples of `steps`."""
    while start < stop:
        end = min((start // steps + 1) * steps, stop)
        yield start, end
        start = end


def seed_sequence(seed: int, name: str, chunk: int) -> "np.random.SeedSequence":  # NumPy imports that when asked
    """The NumPy seed sequence of one chunk of one named stream."""
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()), chunk))


def draw_chunks(
    draw: Callable[[str, Normal | Uniform, int, int], Any],
    specs: Specs,
    start: int,
    stop: int,
    xp: Any,
    multiple: int = CHUNK_STEPS,
) -> dict[str, Any]:
    """Steps [start, stop) of every stream, drawn chunk by chunk.

    Parameters
    ----------
    draw : callable
        ``draw(name, spec, chunk, steps) -> (steps, *shape)``, the first steps of a chunk.
    specs, start, stop
        As in `NoiseSource.block`.
    xp : module
        Namespace of the arrays that `draw` returns.
    multiple : int
        Draw no more of the last chunk than is needed, in multiples of this many steps. Only for generators whose first
        numbers do not depend on how many are drawn. When not given, chunks are drawn whole.
    """
    length = chunk_steps(specs)
    first, last = start // length, -(-stop // length)
    block = {}
    for name, spec in specs.items():
        parts = []
        for chunk in range(first, last):
            needed = -(-(stop - chunk * length) // multiple) * multiple
            parts.append(draw(name, spec, chunk, min(length, needed)))
        whole = parts[0] if len(parts) == 1 else xp.concat(parts)
        block[name] = whole[start - first * length : stop - first * length, ...]
    return block


class NoiseSource(ABC):
    """Source of a run's random numbers."""

    @abstractmethod
    def block(self, backend: Backend, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Any]:
        """Noise of steps [start, stop), each array of shape ``(stop - start, *spec.shape)``, in `like`'s dtype."""

    def blocks(
        self, backend: Backend, specs: Specs, start: int, stop: int, like: Array
    ) -> Iterator[tuple[int, int, dict[str, Array]]]:
        """`block` of each part of steps [start, stop) that lies in one chunk, with its first step and its end."""
        for lo, hi in cut(start, stop, chunk_steps(specs)):
            yield lo, hi, self.block(backend, specs, lo, hi, like)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON values that identify this source (kept in checkpoints)."""


class Native(NoiseSource, FrozenDataclass, eq=True):
    """The array library's own fastest generator.

    Parameters
    ----------
    seed : int
        Non-negative. The same seed gives the same chain on the same library and kind of device.
    """

    seed: int = checked(check_seed)

    def block(self, backend: Backend, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Any]:
        return backend.noise(self.seed, specs, start, stop, like)

    def describe(self) -> dict[str, Any]:
        return {"source": "Native", "seed": int(self.seed)}


class Portable(NoiseSource, FrozenDataclass, eq=True):
    """NumPy's Philox on the host, moved block by block: the same numbers on every library, dtype and device.

    The numbers are drawn in float64 and rounded to the dtype of the positions.

    Parameters
    ----------
    seed : int
        Non-negative.

    See Also
    --------
    Replay : Numbers that are given.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(0.5), x0, 1000, seed=xps.Portable(1))  # the same chain on torch and JAX
    """

    seed: int = checked(check_seed)

    def block(self, backend: Backend, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Any]:
        dtype = np.dtype(dtype_name(like))

        def draw(name: str, spec: Normal | Uniform, chunk: int, steps: int) -> np.ndarray:
            generator = np.random.Generator(np.random.Philox(seed_sequence(self.seed, name, chunk)))
            shape = (steps, *spec.shape)
            if isinstance(spec, Normal):
                return generator.standard_normal(shape).astype(dtype)
            return open_interval(generator.random(shape).astype(dtype))

        drawn = draw_chunks(draw, specs, start, stop, array_namespace(np.empty(0)), 1)
        return {name: backend.from_host(np.asarray(rows), like) for name, rows in drawn.items()}

    def describe(self) -> dict[str, Any]:
        return {"source": "Portable", "seed": int(self.seed)}


class Replay(NoiseSource, FrozenDataclass):
    """Noise given as arrays, in the library and on the device of the positions.

    Parameters
    ----------
    arrays : mapping of str to array
        For every name that the kernel declares an array ``(steps, *shape)``.
    first : int
        The step that row 0 belongs to.

    See Also
    --------
    Portable : The same numbers on every library.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> noise = np.random.default_rng(1)
    >>> arrays = {"proposal": noise.normal(size=(10, 4, 2)), "accept": noise.uniform(size=(10, 4))}
    >>> sorted(xps.RWM(1.0).noise(x0))
    ['accept', 'proposal']
    >>> trace = xps.sample(target, xps.RWM(1.0), x0, 10, seed=xps.Replay(arrays), recorders=[xps.Moments()])
    """

    arrays: Mapping[str, Array] = instance(Mapping, '{"proposal": ...}')
    first: int = count(default=0, ge=0, le=2**63 - 1)

    def __check_init__(self) -> None:
        for name, array in self.arrays.items():
            check_reals(f"noise {name!r}", array, "an array (steps, ...)")

    @property
    def is_one_step(self) -> bool:
        """Return whether it holds the numbers of a single step."""
        return all(array.shape[0] == 1 for array in self.arrays.values())

    def block(self, backend: Backend, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Any]:
        block = {}
        for name, spec in specs.items():
            if name not in self.arrays:
                raise NoiseError(f"the kernel asks for noise {name!r}; Replay holds {sorted(self.arrays)}")
            array = self.arrays[name]
            check_same_home(f"noise {name!r}", array, like)
            if tuple(array.shape[1:]) != tuple(spec.shape):
                raise NoiseError(
                    f"noise {name!r} has shape {tuple(array.shape)}; the kernel asks for (steps, *{tuple(spec.shape)})"
                )
            if start < self.first or stop > self.first + array.shape[0]:
                raise NoiseError(
                    f"Replay holds steps {self.first} to {self.first + array.shape[0]} of noise {name!r}; "
                    f"steps {start} to {stop} were requested"
                )
            block[name] = array[start - self.first : stop - self.first, ...]
        return block

    def describe(self) -> dict[str, Any]:
        from xpsample.core.describe import describe  # needed by checkpoints alone

        arrays = {name: describe(array) for name, array in sorted(self.arrays.items())}
        return {"source": "Replay", "arrays": arrays, "first": int(self.first)}


def derived(source: Native | Portable, name: str) -> Native | Portable:
    """Return a source of the same kind, independent of `source` and of sources derived under other names."""
    words = np.random.SeedSequence(source.seed, spawn_key=(zlib.crc32(name.encode()),)).generate_state(2)
    return replace(source, seed=int(words[0]) << 32 | int(words[1]))


def open_interval(uniforms: np.ndarray) -> np.ndarray:
    """Move uniforms in [0, 1] off both ends, to the nearest numbers of their dtype (NumPy arrays)."""
    tiny, below_one = np.finfo(uniforms.dtype).tiny, np.nextafter(uniforms.dtype.type(1), uniforms.dtype.type(0))
    return np.clip(uniforms, tiny, below_one)


def as_noise_source(seed: "int | NoiseSource") -> NoiseSource:
    """``Native(seed)`` for an integer; a source as it is."""
    return seed if isinstance(seed, NoiseSource) else Native(seed)
