"""Noise on JAX: every number is a function of its stream's key, its step and its place within the step.

Therefore a step gets the same numbers drawn ahead or in place, on one device or on several.
"""

import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.sampling.noise import seed_sequence

Array = Any
"""An array of this library."""

PARTS = 4  # In which rows of noise are drawn ahead, so that short runs do not draw what they do not need

GROUP = 2**17  # Numbers of one stream, about, that are drawn at once within a step: more are in no cache

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def threefry(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Two random words for each counter, by Threefry2x32 with 20 rounds (Salmon et al. 2011).

    The function of `jax.random`, which on CPUs is a loop over whole arrays; this one becomes a part of what uses it.

    Parameters
    ----------
    key : array, shape (2,)
    high, low : array, shape (...)
        The counters' words. All are uint32.

    Returns
    -------
    tuple of array, shape (...)
        uint32.
    """
    keys = key[0], key[1], key[0] ^ key[1] ^ PARITY
    a, b = high + keys[0], low + keys[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation)))
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def numbers(key: Array, kind: type, dtype: Any, step: Array, place: Array) -> Array:
    """Numbers of a stream, in the shape of `step` and `place` together, rounded for narrow dtypes.

    Parameters
    ----------
    key : array, shape (2,)
        Key of the stream.
    kind : Normal or Uniform
    dtype : dtype
    step : array
        Integers.
    place : array
        Index within the step's numbers, in memory order; uint32.
    """
    high, low = jnp.broadcast_arrays(jnp.asarray(step).astype(np.uint32), place)
    uniform = _uniform(*threefry(key, high, low), wide=dtype == np.float64)
    if kind is Normal:
        return (math.sqrt(2) * jax.lax.erf_inv(2 * uniform - 1)).astype(dtype)
    if jnp.finfo(dtype).bits >= 32:
        return uniform
    least, most = jnp.finfo(dtype).tiny, 1 - jnp.finfo(dtype).epsneg
    return jnp.clip(uniform, least, most).astype(dtype)


def _uniform(a: Array, b: Array, wide: bool) -> Array:
    """The middles of 2^23 or, of both words, 2^52 equal parts of (0, 1): neither of its ends."""
    if wide:
        words = (a.astype(np.uint64) << np.uint64(32)) | b
        one_to_two = jax.lax.bitcast_convert_type((words >> np.uint64(12)) | np.uint64(0x3FF << 52), np.float64)
        return one_to_two - (1 - 2.0**-53)
    one_to_two = jax.lax.bitcast_convert_type((a >> np.uint32(9)) | np.uint32(0x7F << 23), np.float32)
    return one_to_two - np.float32(1 - 2.0**-24)


@jax.tree_util.register_pytree_node_class
class Keys:
    """Noise that is drawn in its place: one key for each named stream.

    Parameters
    ----------
    keys : dict of array, shape (2,)
        uint32.
    dtype : dtype
        Dtype of the numbers.
    spread : bool
        Whether they are on several devices.
    """

    def __init__(self, keys: dict[str, Array], dtype: Any, spread: bool) -> None:
        self.keys, self.dtype, self.spread = keys, dtype, spread

    @classmethod
    def of(cls, seed: int, specs: Specs, like: Array, step: int) -> "Keys":
        """Keys of a seed, where `like` lives if that is one device; each serves 2^32 steps, and here the step's."""
        devices = like.sharding.device_set
        device = next(iter(devices)) if len(devices) == 1 else None
        return cls({name: _key(seed, name, step >> 32, device) for name in specs}, like.dtype, len(devices) > 1)

    def draw(self, specs: Specs, t: Array) -> dict[str, Array]:
        """The noise of step t."""
        return {name: self._draw(self.keys[name], spec, t) for name, spec in specs.items()}

    def _draw(self, key: Array, spec: Normal | Uniform, t: Array) -> Array:
        draw = partial(numbers, key, type(spec), self.dtype, t)
        if self.spread:
            return draw(_places(spec.shape))
        # In a loop, whose result XLA stores: else it would draw the numbers again for each thing that is made of them.
        size = math.prod(spec.shape)
        count = max(2, -(-size // GROUP))
        each = -(-size // count)
        groups = jnp.arange(count * each, dtype=np.uint32).reshape(count, each)
        return jax.lax.map(draw, groups).reshape(-1)[:size].reshape(spec.shape)

    def tree_flatten(self) -> tuple:
        """Keys are leaves, the rest is static."""
        return (self.keys,), (self.dtype, self.spread)

    @classmethod
    def tree_unflatten(cls, static: tuple, children: tuple) -> "Keys":
        """The inverse of `tree_flatten`."""
        return cls(children[0], *static)


def _places(shape: tuple[int, ...]) -> Array:
    """Places within a step, of which each of several devices makes its own part."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    places = (jax.lax.broadcasted_iota(np.uint32, shape, k) * np.uint32(s) for k, s in enumerate(strides))
    return sum(places, start=jnp.zeros(shape, np.uint32))


@lru_cache(maxsize=64)  # for a run asks at every block
def _key(seed: int, name: str, number: int, device: Any) -> Array:
    """Data of one of a stream's keys: concrete numbers, also within a trace."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(seed_sequence(seed, name, number).generate_state(2), device)


def draw_rows(
    seed: int, specs: Specs, origin: int, length: int, like: Array, start: int, stop: int
) -> dict[str, Array]:
    """Flat noise of `length` steps from `origin` on, of all streams; only steps [start, stop) are drawn."""
    # The kinds are arguments, since specs of two kinds compare equal.
    streams = tuple((name, type(spec), math.prod(spec.shape)) for name, spec in specs.items())
    keys = Keys.of(seed, specs, like, origin).keys
    part = length // PARTS if length % PARTS == 0 else length
    first, last = (start - origin) // part, -(-(stop - origin) // part)
    within = np.uint32(origin % 2**32), np.int32(first), np.int32(last)
    with jax.disable_jit(False):  # which is for code of users
        return _draw_parts(streams, like.dtype, length, part, keys, *within)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _draw_parts(
    streams: tuple, dtype: Any, length: int, part: int, keys: dict[str, Array], origin: Array, first: Array, last: Array
) -> dict[str, Array]:
    """The parts [first, last) of the rows: flat, for XLA's loops over short last axes are slow on CPUs."""

    def draw(i: Array, rows: dict[str, Array]) -> dict[str, Array]:
        drawn = {}
        for name, kind, size in streams:
            at = jnp.arange(part * size, dtype=np.uint32)
            step, place = origin + (i * part).astype(np.uint32) + at // max(size, 1), at % max(size, 1)
            one = numbers(keys[name], kind, dtype, step, place)
            drawn[name] = jax.lax.dynamic_update_slice_in_dim(rows[name], one, i * part * size, 0)
        return drawn

    return jax.lax.fori_loop(first, last, draw, {name: jnp.zeros(length * size, dtype) for name, _, size in streams})
