"""A program's compiled block of steps: one loop, whose trip count is an argument."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from xpsample.core.backend import Carry, DrivenProgram
from xpsample.core.specs import Specs
from xpsample.core.tree import Tree
from xpsample.sampling.eager import add_sums
from xpsample.sampling.noise import LEAST_STEPS, chunk_steps, segment_steps
from xpsample_jax.noise import Keys, draw_rows
from xpsample_jax.programs import Compiled

Array = Any
"""An array of this library."""

Noise = Keys | dict[str, Array]
"""Noise of a block of steps: keys to draw it by, or rows drawn ahead."""


class Runner:
    """A program's compiled block of steps, whatever the block's length.

    Parameters
    ----------
    program : DrivenProgram
    specs : Specs
        The noise of one step.
    dtype : dtype
        Dtype of the noise.
    few : bool
        Whether chains are few (`compiler_options`).
    """

    def __init__(self, program: DrivenProgram, specs: Specs, dtype: Any, few: bool) -> None:
        self.dtype, self.specs = dtype, specs
        self.ahead = chunk_steps(specs) >= LEAST_STEPS
        self.length = segment_steps(specs) if self.ahead else chunk_steps(specs)
        self._empty: dict[Any, Compiled] = {}
        schedule = program.schedule

        def advance(data: Tree, values: dict[str, Array], state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
            return program.advance(data, values)(state, noise)

        def record(data: Tree, recorder_states: tuple, state: Any, info: Any) -> tuple[tuple, Any]:
            return program.record(recorder_states, state, info, data)

        # Compiled for their trace alone, which the shapes of rows and the loop share.
        self._advance, self._record = step, keep_row = Compiled(advance), Compiled(record)

        def block(
            data: Tree,
            values: dict[str, Array],
            carry: Carry,
            buffers: tuple | None,
            noise: Noise,
            origin: Array,
            start: Array,
            stop: Array,
        ) -> tuple[Carry, tuple | None, Any]:
            at, keep = _noise_at(specs, noise, origin), buffers is not None

            def put(recorder_states: tuple, buffers: Any, state: Any, info: Any, t: Array) -> tuple[tuple, Any]:
                recorder_states, rows = keep_row(data, recorder_states, state, info)
                row = schedule.row(t)
                return recorder_states, jax.tree.map(lambda b, a: _put(b, a, row), buffers, rows)

            def body(t: Array, loop: tuple[Carry, Any, Any]) -> tuple[Carry, Any, Any]:
                (state, recorder_states), buffers, sums = loop
                state, info = step(data, values, state, at(t))
                sums = add_sums(sums, program.sums([info]))
                if keep and schedule.thinning == 1:
                    recorder_states, buffers = put(recorder_states, buffers, state, info, t)
                elif keep:
                    recorder_states, buffers = jax.lax.cond(
                        schedule.is_recorded(t),
                        lambda f, b: put(f, b, state, info, t),
                        lambda f, b: (f, b),
                        recorder_states,
                        buffers,
                    )
                return Carry(state, recorder_states), buffers, sums

            _, info = jax.eval_shape(partial(step, data), values, carry.state, at(start))
            zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(program.sums, [info]))
            return jax.lax.fori_loop(start, stop, body, (carry, buffers, zeros))

        self.block = Compiled(block, donate=(2, 3), few=few)
        """The carry, the buffers (None where nothing is kept) and the sums after a block of steps."""

    def allocate(self, draws: int, data: Tree, values: dict[str, Array], carry: Carry, x: Array) -> tuple:
        """Buffers for the rows of a run, sharded like the positions if they have the axes of x."""
        if (draws, x.sharding, x.shape) not in self._empty:
            noise = {name: jax.ShapeDtypeStruct(spec.shape, self.dtype) for name, spec in self.specs.items()}
            state, info = jax.eval_shape(partial(self._advance, data), values, carry.state, noise)
            rows = jax.eval_shape(partial(self._record, data), carry.recorder_states, state, info)[1]
            shardings = jax.tree.map(lambda row: _row_sharding(row.shape, x), rows)
            self._empty[draws, x.sharding, x.shape] = Compiled(
                lambda: jax.tree.map(lambda row: jnp.zeros((draws, *row.shape), row.dtype), rows), shardings=shardings
            )
        return self._empty[draws, x.sharding, x.shape]()

    def native(self, seed: int, start: int, stop: int, like: Array) -> tuple[Noise, int]:
        """Noise source of a block of steps, and the step at which it begins.

        Rows drawn ahead, unless the positions are on several devices or the block reaches out of the rows' segment; a
        call of the program for each would allocate anew what its steps make.
        """
        origin = self.origin(start)
        if len(like.sharding.device_set) > 1 or not self.ahead or stop > origin + self.length:
            return Keys.of(seed, self.specs, like, start), 0
        return draw_rows(seed, self.specs, origin, self.length, like, start, stop), origin

    def origin(self, start: int) -> int:
        """The first of the steps whose noise is drawn with a step's."""
        return start // self.length * self.length


def _noise_at(specs: Specs, noise: Noise, origin: Array) -> Callable[[Array], dict[str, Array]]:
    if isinstance(noise, Keys):
        return partial(noise.draw, specs)
    return lambda t: {k: _take(noise[k].reshape(-1), t - origin, spec.shape) for k, spec in specs.items()}


def _take(flat: Array, i: Array, shape: tuple[int, ...]) -> Array:
    """One step's numbers, without the checks of ``rows[i]``, which cost as much as a short step."""
    size = math.prod(shape)
    return jax.lax.dynamic_slice_in_dim(flat, i * size, size).reshape(shape)


def _put(rows: Array, row: Array, i: Array) -> Array:
    """Row i replaced, counted round the buffer; ``rows.at[i].set(row)`` would be a scatter."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, i % rows.shape[0], 0)


def like_rows(buffers: tuple, x: Array) -> tuple:
    """Buffers sharded as `Runner.allocate` makes them."""
    if not isinstance(x.sharding, NamedSharding):
        return buffers
    return jax.tree.map(lambda rows: jax.device_put(rows, _row_sharding(rows.shape[1:], x)), buffers)


def _row_sharding(shape: tuple[int, ...], x: Array) -> Sharding:
    """Sharding of stacked rows: rows (*chains) or (*chains, dim) follow the positions, others are replicated."""
    if not isinstance(x.sharding, NamedSharding):
        return x.sharding
    names = (*x.sharding.spec, *(None,) * (x.ndim - len(x.sharding.spec)))
    spec = PartitionSpec(None, *names[: len(shape)]) if shape in (x.shape, x.shape[:-1]) else PartitionSpec()
    return NamedSharding(x.sharding.mesh, spec)
