"""JAX: one compiled loop per block, whose trip count is an argument, so that no block length compiles anew."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xpsample.core import tree
from xpsample.core.backend import (
    Autodiff,
    Backend,
    Buffers,
    Carry,
    Device,
    Driven,
    DrivenProgram,
    Source,
    StopFlag,
    Unpacked,
)
from xpsample.core.errors import BackendError
from xpsample.core.specs import Specs
from xpsample.sampling.eager import allocating, eager_repeat
from xpsample.sampling.noise import Native, Portable, Replay, cut
from xpsample_jax.noise import draw_rows
from xpsample_jax.programs import OWN_MODES, Compiled, errors_of_host, remembered
from xpsample_jax.runner import Noise, Runner, like_rows

Array = Any
"""An array of this library."""

# Chains on a CPU up to which products of positions and data dominate by their calls, not by their arithmetic.
# Products are then calls of YNNPACK, alone (docs/measurements/2026-11-backends.md).
FEW = 32


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

        return Compiled(both)

    def hvp(self, score: Callable[..., Array]) -> Callable[..., Array]:
        # Compiled without the score, which costs half as much again where it comes out.
        return Compiled(lambda x, v, *args: jax.jvp(lambda y: score(y, *args), (x,), (v,))[1])

    def score_and_hvp(self, score: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
        return Compiled(lambda x, v, *args: jax.jvp(lambda y: score(y, *args), (x,), (v,)))

    def vmap(self, f: Callable[..., Array]) -> Callable[..., Array]:
        return lambda x, *args: jax.vmap(lambda one: f(one, *args))(x)

    def compiled(self, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
        return Compiled(f)

    def repeated(self, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
        program = Compiled(f, few=True)  # as steps of few chains: it takes longer to compile, and runs faster

        def call(*args: Any) -> Any:
            args = tuple(np.asarray(arg) if isinstance(arg, int) else arg for arg in args)  # and no constants
            arrays = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.Array)]
            if all(len(leaf.sharding.device_set) == 1 for leaf in arrays):
                # As results are: JAX compiles another program for arrays that are not committed to a device.
                args = jax.tree.map(lambda a: jax.device_put(a, a.sharding) if isinstance(a, jax.Array) else a, args)
            return program(*args)

        return call

    def on_host(self, f: Callable[[np.ndarray], tree.Tree], row: tree.Tree, numbers: Array) -> tree.Tree:
        if not _traced(numbers):
            return tree.map(lambda a: BACKEND.from_host(a, numbers), f(np.asarray(numbers)))

        # As bytes: JAX rounds results of a callback to float32 if jax.enable_x64 is on in other threads only.
        def as_bytes(at: Any) -> tree.Tree:
            return tree.map(lambda a: np.ascontiguousarray(a)[..., None].view(np.uint8), f(np.asarray(at)))

        shapes = tree.map(lambda a: jax.ShapeDtypeStruct((*numbers.shape, *a.shape, a.itemsize), np.uint8), row)
        found = jax.pure_callback(remembered(as_bytes), shapes, numbers, vmap_method="expand_dims")

        def restored(a: np.ndarray, found: Array) -> Array:
            return jnp.reshape(jax.lax.bitcast_convert_type(found, a.dtype), (*numbers.shape, *a.shape))

        return tree.map(restored, row, found)

    def coarsest(self, f: Callable[..., Array], x: Array) -> tuple[str, float] | None:
        with OWN_MODES:
            found = max(_dtypes(jax.make_jaxpr(f)(x).jaxpr), key=lambda dtype: jnp.finfo(dtype).eps, default=x.dtype)
        eps = float(jnp.finfo(found).eps)
        return (str(found), eps) if eps > jnp.finfo(x.dtype).eps else None

    def unpack(self, value: object) -> Unpacked | None:
        if jax.tree_util.all_leaves([value]):
            return None
        pairs, structure = jax.tree_util.tree_flatten_with_path(value)
        leaves = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in pairs}
        if len(leaves) < len(pairs):
            raise BackendError(f"two leaves of a {type(value).__name__} have the same path; there are {list(leaves)}")
        return Unpacked(leaves, partial(jax.tree.unflatten, structure))


class JaxBackend(Backend):
    """JAX arrays, sharded ones included."""

    name = "jax"
    xp = jnp
    autodiff = JaxAutodiff()

    def owns(self, array: object) -> bool:
        return isinstance(array, jax.Array)

    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        with OWN_MODES:
            rows = draw_rows(seed, specs, start, stop - start, like, start, stop)
            return {name: jnp.reshape(rows[name], (stop - start, *spec.shape)) for name, spec in specs.items()}

    def repeat(
        self, n: int | Array, body: Callable[[Any, Any], Any], carry: Any, until: Callable[[Any], Array] | None = None
    ) -> Any:
        if not _traced((n, carry)):  # a step by hand: a loop would be compiled anew at every call
            return eager_repeat(n, body, carry, until)
        if until is None:
            n = n if isinstance(n, int) else n.astype(jnp.int32) if n.dtype == bool else n
            return carry if isinstance(n, int) and n == 0 else jax.lax.fori_loop(0, n, body, carry)
        _, carry = jax.lax.while_loop(
            lambda counted: (counted[0] < n) & ~until(counted[1]),
            lambda counted: (counted[0] + 1, body(*counted)),
            (jnp.zeros((), dtype=_index()), carry),
        )
        return carry

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
        with OWN_MODES, errors_of_host():
            return *self._drive(program, carry, buffers, source, start, stop), stop

    def _drive(
        self, program: DrivenProgram, carry: Carry, buffers: tuple | None, source: Source, start: int, stop: int
    ) -> tuple[Carry, tuple | None, Any]:
        like: Array = program.like(carry)
        like = like if like.committed else jax.device_put(like, like.sharding)  # as what a block returns, see `_own`
        specs = program.specs(carry)
        few = _on_one_cpu(like) and like.size <= FEW * like.shape[-1]
        data, values = program.data, program.values(self.owns)
        values = {path: v if self.owns(v) else np.asarray(v, like.dtype) for path, v in values.items()}
        key = (program.form, tuple(specs.items()), few)
        if key not in program.compiled:
            # A copy, which does not hold the runner: in a cycle of references, traces would outlive the run.
            program.compiled[key] = Runner(replace(cast(Any, program), compiled={}), specs, like.dtype, few)
        runner = program.compiled[key]

        keep = start >= program.schedule.burn_in
        if keep and buffers is None:
            with allocating(program.schedule.held):
                buffers = jax.block_until_ready(runner.allocate(program.schedule.held, data, values, carry, like))
        elif keep and buffers is not None:
            buffers = like_rows(buffers, like)  # buffers of a checkpoint are not sharded
        rest, total = buffers if keep else None, None
        for lo, hi, noise, origin in self._blocks(runner, source, start, stop, like):
            numbers = map(_index(), (origin, lo, hi))
            carry, rest, sums = runner.block(data, values, _own(carry, like), rest, noise, *numbers)
            total = sums if total is None else jax.tree.map(jnp.add, total, sums)
        return carry, (rest if keep else buffers), total

    def _blocks(
        self, runner: Runner, source: Source, start: int, stop: int, like: Array
    ) -> Iterator[tuple[int, int, Noise, int]]:
        """Steps that one call makes, their noise, and the step that this begins at."""
        if isinstance(source, Native):
            yield start, stop, *runner.native(source.seed, start, stop, like)
            return
        for lo, hi in cut(start, stop, runner.length):
            origin = runner.origin(lo)
            if isinstance(source, Portable):  # a part, filled up, would be a program for each length
                yield lo, hi, source.block(self, runner.specs, origin, origin + runner.length, like), origin
                continue
            noise = source.block(self, runner.specs, lo, hi, like)
            if not (isinstance(source, Replay) and source.is_one_step):  # one length for all blocks
                noise = {name: _pad(rows, runner.length) for name, rows in noise.items()}
            yield lo, hi, noise, lo

    def synchronize(self, value: tree.Tree, number: float = 0.0) -> float:
        with errors_of_host():
            jax.block_until_ready(value)
        apart = next((leaf for leaf in jax.tree.leaves(value) if not _is_here(leaf)), None)
        if apart is None:
            return number
        devices = sorted(apart.sharding.device_set, key=lambda d: d.id)
        each = NamedSharding(Mesh(np.asarray(devices), ("devices",)), PartitionSpec("devices"))
        numbers = jax.make_array_from_callback((len(devices),), each, lambda _: np.asarray([number], np.float32))
        return float(np.max(self.to_host(numbers)))

    def to_host(self, array: Array) -> np.ndarray:
        _check_concrete(array)
        with errors_of_host():
            return np.asarray(array if _is_here(array) else process_allgather(array, tiled=True))

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        if isinstance(like, jax.core.Tracer):
            return jnp.asarray(array)
        sharding = like.sharding
        if tuple(array.shape) != tuple(like.shape) and isinstance(sharding, NamedSharding):
            sharding = NamedSharding(sharding.mesh, PartitionSpec())
        if not like.committed:  # nor is the copy: programs differ in this
            with jax.default_device(next(iter(sharding.device_set))):
                return jax.device_put(array)
        if _is_here(like):
            return jax.device_put(array, sharding)
        return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])

    def devices(self, array: Array | None = None) -> list[Device]:
        wide = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        dtypes = ("float32", "float64") if wide else ("float32",)
        if array is not None:
            with OWN_MODES:
                _check_concrete(array, now=True)
        note = "" if wide else "no float64, since JAX's 64-bit types are off (JAX_ENABLE_X64=1 switches them on)"
        found = jax.local_devices() if array is None else sorted(array.devices(), key=lambda d: d.id)
        return [
            Device(
                f"{d.platform}:{d.id}" if d.id else d.platform,
                d,
                dtypes,
                note,
                OWN_MODES,
                d.process_index,
                forks=False,
                model=d.device_kind,
            )
            for d in found
        ]


def _dtypes(jaxpr: Any) -> Iterator[Any]:
    """Floating dtypes in which a trace and the traces within it compute."""
    for equation in jaxpr.eqns:
        results = (getattr(atom.aval, "dtype", None) for atom in equation.outvars)
        yield from (dtype for dtype in results if dtype is not None and jnp.issubdtype(dtype, jnp.floating))
        for leaf in jax.tree.leaves(list(equation.params.values())):
            if hasattr(leaf, "eqns"):
                yield from _dtypes(getattr(leaf, "jaxpr", leaf))


def _check_concrete(array: Array, now: bool = False) -> None:
    """Raise BackendError for arrays that hold no numbers (any more), or, with `now`, where results would hold none."""
    if isinstance(array, jax.core.Tracer) or (now and _traced(jnp.zeros(()))):
        raise BackendError(
            "arrays inside jit, vmap and grad hold no numbers. Call sample and prepare outside, with a leading axis "
            "in place of vmap; in a custom loop, use bound.with_data(data) inside."
        )
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise BackendError(f"an array of {array.dtype} holds no numbers. Pass an array of float32 or float64.")
    if array.is_deleted():
        raise BackendError("an array was deleted or donated and holds no numbers any more. Pass a copy, jnp.array(x).")


def _index() -> type[np.signedinteger]:
    """The integers that count steps: of 64 bits where JAX has them."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.int64)).type


def _is_here(array: Array) -> bool:
    """Return whether all devices of an array are this process's; if not, all processes must make the same calls."""
    return array.is_fully_addressable


def _on_one_cpu(x: Array) -> bool:
    """Return whether an array is, whole, on a CPU."""
    devices = x.sharding.device_set
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


@partial(jax.jit, static_argnums=1)
def _pad(rows: Array, length: int) -> Array:
    missing = max(0, length - rows.shape[0])
    return jnp.concat([rows, jnp.zeros((missing, *rows.shape[1:]), rows.dtype)])


def _own(carry: Carry, x: Array) -> Carry:
    """A carry to give away: what occurs twice is copied, and all of it is committed to the devices of x.

    The results of a block are committed, and JAX compiles another program for uncommitted arguments.
    """
    seen: set[int] = set()
    spread = len(x.sharding.device_set) > 1

    def once(leaf: Array) -> Array:
        if id(leaf) in seen:
            leaf = jnp.copy(leaf)
        seen.add(id(leaf))
        if leaf.committed:
            return leaf
        return BACKEND.from_host(np.asarray(leaf), x) if spread else jax.device_put(leaf, leaf.sharding)

    return jax.tree.map(once, carry)


BACKEND = JaxBackend()
