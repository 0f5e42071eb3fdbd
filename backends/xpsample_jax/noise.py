"""Noise on JAX: a key for every step, by which its numbers are drawn in its place or ahead of it, the same ones."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xpsample.backend import Array
from xpsample.noise import Normal, Specs, Uniform, seed_sequence

PARTS = 4
"""In which rows of noise are drawn ahead, so that short runs do not draw what they do not need."""

GROUP = 2**17
"""Numbers of one stream, about, that a CPU draws at once within a step: more are in no cache."""


def on_one_cpu(x: Array) -> bool:
    """Whether an array is, whole, on a CPU."""
    devices = x.sharding.device_set
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


@jax.tree_util.register_pytree_node_class
class Keys:
    """Noise that is drawn in its place: one key for each named stream, and how it is laid out.

    Parameters
    ----------
    keys : dict of array
        The keys' data: to make a key of one takes as long as a hundred short steps, outside of a compiled program.
    dtype : dtype
        Of the numbers.
    spread : bool
        Whether they are on several devices.
    in_turn : bool
        Whether groups are drawn one after the other: a CPU's cache holds one.
    """

    def __init__(self, keys: dict[str, Array], dtype: Any, spread: bool, in_turn: bool) -> None:
        self.keys, self.dtype, self.spread, self.in_turn = keys, dtype, spread, in_turn

    @classmethod
    def of(cls, seed: int, specs: Specs, like: Array) -> "Keys":
        """Keys of a seed, where `like` lives if that is one device."""
        devices = like.sharding.device_set
        device = next(iter(devices)) if len(devices) == 1 else None
        return cls({k: _key(seed, k, device) for k in specs}, like.dtype, len(devices) > 1, on_one_cpu(like))

    def draw(self, specs: Specs, t: Array) -> dict[str, Array]:
        """The noise of step t."""
        each, flat = _in_turn if self.in_turn else jax.vmap, not self.spread
        keys = {name: jax.random.wrap_key_data(data) for name, data in self.keys.items()}
        return {name: draw_step(keys[name], spec, self.dtype, t, flat, each) for name, spec in specs.items()}

    def tree_flatten(self) -> tuple:
        """Keys are leaves, all else is static."""
        return (self.keys,), (self.dtype, self.spread, self.in_turn)

    @classmethod
    def tree_unflatten(cls, static: tuple, children: tuple) -> "Keys":
        """The inverse of `tree_flatten`."""
        return cls(children[0], *static)


def draw_step(
    key: Array,
    spec: Normal | Uniform,
    dtype: Any,
    t: Array,
    flat: bool = False,
    each: Callable[..., Callable[..., Array]] = jax.vmap,
) -> Array:
    """The noise of step t of one stream: the same whether it is drawn ahead or inside the loop.

    Large shapes are drawn in groups along the first axis, each by a key of its own, with ``each(f)(groups)``; and all
    of them in `flat` rows where that can be: XLA's loops over short last axes are slow.
    """
    key, groups = jax.random.fold_in(key, t), _groups(spec.shape)
    shape = spec.shape if groups == 1 else (spec.shape[0] // groups, *spec.shape[1:])
    if flat:
        shape = (math.prod(shape),)

    def numbers(key: Array) -> Array:
        if isinstance(spec, Normal):
            return jax.random.normal(key, shape, dtype)
        return jax.random.uniform(key, shape, dtype, minval=jnp.finfo(dtype).tiny)

    drawn = numbers(key) if groups == 1 else each(lambda g: numbers(jax.random.fold_in(key, g)))(jnp.arange(groups))
    return drawn.reshape(spec.shape)


def _groups(shape: tuple[int, ...]) -> int:
    """Of about `GROUP` numbers each: a divisor of the first axis, which is 1 where none is near."""
    least = math.prod(shape) // GROUP
    return next((n for n in range(least, min(4 * least, shape[0]) + 1) if shape[0] % n == 0), 1) if least > 1 else 1


def _in_turn(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return partial(jax.lax.map, f)


@lru_cache(maxsize=64)  # for a run asks at every block
def _key(seed: int, name: str, device: Any) -> Array:
    """The data of a stream's key."""
    return jax.device_put(seed_sequence(seed, name, 0).generate_state(2), device)


def draw_rows(
    seed: int, specs: Specs, origin: int, length: int, like: Array, start: int, stop: int
) -> dict[str, Array]:
    """Flat rows for `length` steps from `origin` on of all streams; of which those of [start, stop) are drawn."""
    # The kinds are arguments, since specs of two kinds compare equal.
    streams = tuple((name, type(spec), tuple(spec.shape)) for name, spec in specs.items())
    keys = Keys.of(seed, specs, like).keys
    part = length // PARTS if length % PARTS == 0 else length
    first, last = (start - origin) // part, -(-(stop - origin) // part)
    return _draw_parts(streams, like.dtype, length, part, keys, *map(np.int32, (origin, first, last)))


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _draw_parts(
    streams: tuple, dtype: Any, length: int, part: int, keys: dict[str, Array], origin: Array, first: Array, last: Array
) -> dict[str, Array]:
    """The parts [first, last) of the rows."""
    specs = {name: kind(shape) for name, kind, shape in streams}

    def draw(i: Array, rows: dict[str, Array]) -> dict[str, Array]:
        steps = origin + i * part + jnp.arange(part)
        drawn = {k: jax.vmap(partial(_row, wrapped[k], spec, dtype))(steps) for k, spec in specs.items()}
        return {k: jax.lax.dynamic_update_slice_in_dim(rows[k], drawn[k], i * part, 0) for k in specs}

    wrapped = {name: jax.random.wrap_key_data(data) for name, data in keys.items()}
    empty = {k: jnp.zeros((length, math.prod(spec.shape)), dtype) for k, spec in specs.items()}
    return jax.lax.fori_loop(first, last, draw, empty)


def _row(key: Array, spec: Normal | Uniform, dtype: Any, t: Array) -> Array:
    return draw_step(key, spec, dtype, t, flat=True).reshape(-1)
