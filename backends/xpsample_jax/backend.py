"""JAX: one compiled loop per block, whose trip count is an argument, so that no block length compiles anew."""

import math
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from xpsample import tree
from xpsample.backend import Array, Autodiff, Backend, Device, info_sums
from xpsample.noise import (
    LEAST_STEPS,
    Native,
    NoiseSource,
    Normal,
    Portable,
    Specs,
    Uniform,
    chunk_steps,
    cut,
    seed_sequence,
    segment_steps,
)

FEW = 32
"""Chains on a CPU up to which products of positions and data dominate by their calls, not by their arithmetic.

Then data of a target that never change are part of the program, up to `CONSTANT` bytes, since XLA lays constants out
for their products; and products are calls of YNNPACK, alone (docs/backends.md).
"""

CONSTANT = 2**20

PARTS = 4
"""In which rows of noise are drawn, so that short runs do not draw what they do not need."""

KEPT = 16
"""Compiled programs kept for one target; the oldest goes first."""


@cache
def _options(few: bool = False) -> dict[str, str]:
    """What every program is compiled with: without the YNNPACK fusions of XLA's CPU compiler, where it has them.

    jaxlib 0.10.2 gets a reduction wrong whose result broadcasts against a further axis, from 16,385 chains on in
    float32 (a relative of https://github.com/jax-ml/jax/issues/39103). Products by themselves are right, and faster
    where chains are `FEW`. Versions without the option are left alone.
    """
    options = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT" if few else ""}
    try:
        jax.jit(lambda: jnp.int32(0), compiler_options=options)()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def _jit(f: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """``jax.jit`` with `_options`, which JAX takes at the outermost level only; inside a trace, ``jax.jit`` alone."""
    inner = jax.jit(f, **settings)
    outer = None

    def call(*args: Any) -> Any:
        nonlocal outer
        if _traced(args):
            return inner(*args)
        if outer is None:
            outer = jax.jit(f, compiler_options=_options(), **settings)
        return outer(*args)

    return call


def _traced(value: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


class JaxAutodiff(Autodiff):
    """Reverse mode for gradients, forward over it for hvps. Compiled, so eager calls are fast and traces shared."""

    def value_and_grad(self, f: Callable[..., Array]) -> Callable[..., tuple[Array, tree.Tree]]:
        def total(x: tree.Tree, *args: Any) -> tuple[Array, Array]:
            value = f(x, *args)
            return jnp.sum(value), value

        def both(x: tree.Tree, *args: Any) -> tuple[Array, tree.Tree]:
            (_, value), gradient = jax.value_and_grad(total, has_aux=True)(x, *args)
            return value, gradient

        return _jit(both)

    def hvp(self, score: Callable[..., Array]) -> Callable[..., Array]:
        # Compiled without the score, which costs half as much again where it comes out.
        return _jit(lambda x, v, *args: jax.jvp(lambda y: score(y, *args), (x,), (v,))[1])

    def score_and_hvp(self, score: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
        return _jit(lambda x, v, *args: jax.jvp(lambda y: score(y, *args), (x,), (v,)))

    def vmap(self, f: Callable[..., Array]) -> Callable[..., Array]:
        return lambda x, *args: jax.vmap(lambda one: f(one, *args))(x)


class Runner:
    """A program's compiled block of steps, whatever the block's length."""

    def __init__(self, program: Any, specs: Specs, dtype: Any, few: bool, constant: bool) -> None:
        kernel, target = program.kernel, program.target
        own = target.data
        self.dtype = dtype
        self.specs, self.ahead = specs, chunk_steps(specs) >= LEAST_STEPS
        self.length = segment_steps(specs) if self.ahead else chunk_steps(specs)

        # Inner functions are jitted for their trace alone: the shapes and the loop below share one.
        self.advance = jax.jit(lambda data, state, noise: kernel.step(target.with_data(data), state, noise))
        self.record = jax.jit(program.record)
        self._empty: dict = {}

        def block(
            keep: bool, data: Any, carry: Any, buffers: Any, noise: Any, origin: Array, start: Array, stop: Array
        ) -> Any:
            at = self._noise_at(noise, origin)
            data = own if constant else data

            def record(folds: Any, buffers: Any, state: Any, info: Any, t: Array) -> Any:
                folds, rows = self.record(folds, state, info)
                row = program.row(t)
                return folds, jax.tree.map(lambda b, a: _put(b, a, row), buffers, rows)

            def body(t: Array, loop: Any) -> Any:
                (state, folds), buffers, sums = loop
                state, info = self.advance(data, state, at(t))
                sums = info_sums(jnp, sums, info)
                if keep and program.thinning == 1:
                    folds, buffers = record(folds, buffers, state, info, t)
                elif keep:
                    folds, buffers = jax.lax.cond(
                        program.due(t),
                        lambda f, b: record(f, b, state, info, t),
                        lambda f, b: (f, b),
                        folds,
                        buffers,
                    )
                return type(carry)(state, folds), buffers, sums

            _, info = jax.eval_shape(self.advance, data, carry.state, at(start))
            zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(_sums, info))
            return jax.lax.fori_loop(start, stop, body, (carry, buffers, zeros))

        self.block = jax.jit(block, static_argnums=0, donate_argnums=(2, 3), compiler_options=_options(few))

    def allocate(self, draws: int, data: Any, carry: Any) -> Any:
        """Buffers for the rows of a run, sharded like the positions where their axes are the positions'."""
        x = carry.state.point.x
        if (draws, x.sharding, x.shape) not in self._empty:
            noise = {name: jax.ShapeDtypeStruct(spec.shape, self.dtype) for name, spec in self.specs.items()}
            state, info = jax.eval_shape(self.advance, data, carry.state, noise)
            rows = jax.eval_shape(self.record, carry.folds, state, info)[1]
            shardings = jax.tree.map(lambda row: _row_sharding(row.shape, x), rows)
            self._empty[draws, x.sharding, x.shape] = jax.jit(
                lambda: jax.tree.map(lambda row: jnp.zeros((draws, *row.shape), row.dtype), rows),
                out_shardings=shardings,
            )
        return self._empty[draws, x.sharding, x.shape]()

    def native(self, seed: int, start: int, stop: int, like: Array) -> tuple[Any, int]:
        """What a block of steps takes its noise from, and the step that this begins at.

        Rows drawn ahead, unless the positions are on several devices or the block reaches out of the rows' segment; a
        call of the program for each would allocate anew what its steps make.
        """
        origin = self.origin(start)
        if len(like.sharding.device_set) > 1 or not self.ahead or stop > origin + self.length:
            return Keys.of(seed, self.specs, like), 0
        return _draw_rows(seed, self.specs, origin, self.length, like, start, stop), origin

    def origin(self, start: int) -> int:
        """The first of the steps whose noise is drawn with a step's."""
        return start // self.length * self.length

    def _noise_at(self, noise: Any, origin: Array) -> Callable[[Array], dict[str, Array]]:
        if isinstance(noise, Keys):
            draw = _draw if noise.spread else _draw_flat
            return lambda t: {k: draw(noise.keys[k], spec, noise.dtype, t) for k, spec in self.specs.items()}
        return lambda t: {name: _take(rows, t - origin).reshape(self.specs[name].shape) for name, rows in noise.items()}


@jax.tree_util.register_pytree_node_class
class Keys:
    """One key for each named stream, the dtype of its numbers, and whether they are spread over devices."""

    def __init__(self, keys: dict[str, Array], dtype: Any, spread: bool) -> None:
        self.keys, self.dtype, self.spread = keys, dtype, spread

    @classmethod
    def of(cls, seed: int, specs: Specs, like: Array) -> "Keys":
        """Keys of a seed, where `like` lives if that is one device."""
        devices = like.sharding.device_set
        device = next(iter(devices)) if len(devices) == 1 else None
        return cls({name: _key(seed, name, device) for name in specs}, like.dtype, len(devices) > 1)

    def tree_flatten(self) -> tuple:
        """Keys are leaves, all else is static."""
        return (self.keys,), (self.dtype, self.spread)

    @classmethod
    def tree_unflatten(cls, static: tuple, children: tuple) -> "Keys":
        """The inverse of `tree_flatten`."""
        return cls(children[0], *static)


@lru_cache(maxsize=64)  # for a run asks at every block
def _key(seed: int, name: str, device: Any) -> Array:
    """The key of a stream."""
    return jax.device_put(jax.random.wrap_key_data(jnp.asarray(seed_sequence(seed, name, 0).generate_state(2))), device)


def _draw(key: Array, spec: Normal | Uniform, dtype: Any, t: Array) -> Array:
    """The noise of step t of one stream: the same whether it is drawn ahead or inside the loop."""
    key = jax.random.fold_in(key, t)
    if isinstance(spec, Normal):
        return jax.random.normal(key, spec.shape, dtype)
    return jax.random.uniform(key, spec.shape, dtype, minval=jnp.finfo(dtype).tiny)


def _draw_flat(key: Array, spec: Normal | Uniform, dtype: Any, t: Array) -> Array:
    """As `_draw`, the same numbers: XLA's loops over short last axes are slow."""
    return _draw(key, type(spec)((math.prod(spec.shape),)), dtype, t).reshape(spec.shape)


def _draw_rows(
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
    flat = {name: kind((math.prod(shape),)) for name, kind, shape in streams}

    def draw(i: Array, rows: dict[str, Array]) -> dict[str, Array]:
        steps = origin + i * part + jnp.arange(part)
        drawn = {k: jax.vmap(partial(_draw, keys[k], spec, dtype))(steps) for k, spec in flat.items()}
        return {k: jax.lax.dynamic_update_slice_in_dim(rows[k], drawn[k], i * part, 0) for k in flat}

    return jax.lax.fori_loop(first, last, draw, {k: jnp.zeros((length, *flat[k].shape), dtype) for k in flat})


def _take(rows: Array, i: Array) -> Array:
    """One row, without the checks of ``rows[i]``, which cost as much as a short step."""
    return jax.lax.dynamic_index_in_dim(rows, i, keepdims=False)


def _put(rows: Array, row: Array, i: Array) -> Array:
    """A row replaced; ``rows.at[i].set(row)`` would be a scatter."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, i, 0)


def _sums(info: Any) -> Any:
    return info_sums(jnp, None, info)


class JaxBackend(Backend):
    """JAX arrays, sharded ones included."""

    name = "jax"
    xp = jnp
    autodiff = JaxAutodiff()

    def owns(self, array: object) -> bool:
        return isinstance(array, jax.Array)

    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        rows = _draw_rows(seed, specs, start, stop - start, like, start, stop)
        return {name: jnp.reshape(rows[name], (stop - start, *spec.shape)) for name, spec in specs.items()}

    def repeat(self, n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
        if _traced(carry):
            return jax.lax.fori_loop(0, n, body, carry) if n else carry
        for i in range(n):  # a step by hand: a loop would be compiled anew at every call
            carry = body(i, carry)
        return carry

    def drive(
        self, program: Any, carry: Any, buffers: tuple | None, source: NoiseSource, start: int, stop: int
    ) -> tuple[Any, tuple | None, Any]:
        target, like = program.target, program.like(carry)
        specs = program.specs(carry)
        few = _few(like)
        constant = few and target.constant_data and _bytes(target.data) <= CONSTANT
        key = (
            program.kernel,
            program.recorders,
            program.burn_in,
            program.thinning,
            tuple(specs.items()),
            few,
            constant,
        )
        if key not in target.compiled:
            if len(target.compiled) >= KEPT:
                target.compiled.pop(next(iter(target.compiled)))
            target.compiled[key] = Runner(program, specs, like.dtype, few, constant)
        runner = target.compiled[key]

        keep = start >= program.burn_in
        if keep and buffers is None:
            buffers = runner.allocate(program.draws, target.data, carry)
        rest, total = () if not keep else buffers, None
        for lo, hi, noise, origin in self._blocks(runner, source, start, stop, like):
            carry, rest, sums = runner.block(
                keep, target.data, _distinct(carry), rest, noise, np.int32(origin), np.int32(lo), np.int32(hi)
            )
            total = sums if total is None else jax.tree.map(jnp.add, total, sums)
        return carry, (rest if keep else buffers), total

    def _blocks(
        self, runner: Runner, source: NoiseSource, start: int, stop: int, like: Array
    ) -> Iterator[tuple[int, int, Any, int]]:
        """Steps that one call makes, their noise, and the step that this begins at."""
        if isinstance(source, Native):
            yield start, stop, *runner.native(source.seed, start, stop, like)
            return
        for lo, hi in cut(start, stop, runner.length):
            origin = runner.origin(lo)
            if isinstance(source, Portable) and hi - lo > 1:  # which draws whole chunks in any case
                yield lo, hi, source.block(self, runner.specs, origin, origin + runner.length, like), origin
                continue
            noise = source.block(self, runner.specs, lo, hi, like)
            if hi - lo > 1:  # one length for all blocks, and one for single steps
                noise = {name: _pad(rows, runner.length) for name, rows in noise.items()}
            yield lo, hi, noise, lo

    def synchronize(self, value: Any) -> None:
        jax.block_until_ready(value)

    def to_host(self, array: Array) -> np.ndarray:
        return np.asarray(array)

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        sharding = like.sharding
        if tuple(array.shape) != tuple(like.shape) and isinstance(sharding, NamedSharding):
            sharding = NamedSharding(sharding.mesh, PartitionSpec())
        return jax.device_put(array, sharding)

    def devices(self, array: Array | None = None) -> list[Device]:
        wide = jax.config.jax_enable_x64
        dtypes = ("float32", "float64") if wide else ("float32",)
        note = "" if wide else "no float64, since JAX's 64-bit types are off (JAX_ENABLE_X64=1 switches them on)"
        found = jax.devices() if array is None else sorted(array.devices(), key=lambda d: d.id)
        return [Device(f"{d.platform}:{d.id}" if d.id else d.platform, d, dtypes, note) for d in found]


def _few(x: Array) -> bool:
    """Whether positions are those of `FEW` chains, on one CPU."""
    devices = x.sharding.device_set
    return x.size <= FEW * x.shape[-1] and len(devices) == 1 and next(iter(devices)).platform == "cpu"


def _bytes(data: Any) -> int:
    return sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(data))


def _row_sharding(shape: tuple[int, ...], x: Array) -> Any:
    """Of stacked rows: rows (*chains) or (*chains, dim) follow the positions, anything else is replicated."""
    if not isinstance(x.sharding, NamedSharding):
        return x.sharding
    names = (*x.sharding.spec, *(None,) * (x.ndim - len(x.sharding.spec)))
    spec = PartitionSpec(None, *names[: len(shape)]) if shape in (x.shape, x.shape[:-1]) else PartitionSpec()
    return NamedSharding(x.sharding.mesh, spec)


@partial(jax.jit, static_argnums=1)
def _pad(rows: Array, length: int) -> Array:
    missing = max(0, length - rows.shape[0])
    return jnp.concat([rows, jnp.zeros((missing, *rows.shape[1:]), rows.dtype)])


def _distinct(carry: Any) -> Any:
    """Copies of leaves that occur twice: a donated buffer may be given away once only."""
    seen: set[int] = set()

    def once(leaf: Array) -> Array:
        if id(leaf) in seen:
            return jnp.copy(leaf)
        seen.add(id(leaf))
        return leaf

    return jax.tree.map(once, carry)


BACKEND = JaxBackend()
