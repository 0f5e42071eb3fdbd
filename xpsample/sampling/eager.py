"""The loop of the libraries that run eagerly: step, record, and stack the rows of a block."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Buffers, Carry, Driven, Source, Stepper
from xpsample.core.ending import Abandoned, Ending
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.sampling.noise import cut

STACKED = 128
"""Steps whose rows are stacked together: few, so that Python's garbage collector does not follow them for long."""


ADVICE = "take fewer draws, a larger thinning, or recorders=[Moments()], whose memory does not grow"


@contextmanager
def allocating(draws: int) -> Iterator[None]:
    """A context in which the memory for a run's rows is taken; HyperparameterError where there is none."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        raise HyperparameterError(f"there is no memory for {draws} draws ({error}): {ADVICE}") from error


def unstacked(block: Array) -> Sequence[Array]:
    """The rows of a block."""
    return [block[i, ...] for i in range(block.shape[0])]


def write_rows(rows: Any, arrays: Sequence[Array]) -> None:
    """Write arrays into the rows of a buffer, in place."""
    for i, array in enumerate(arrays):
        rows[i, ...] = array


def eager_repeat(
    n: int | Array, body: Callable[[Any, Any], Any], carry: Any, until: Callable[[Any], Array] | None = None
) -> Any:
    """`Backend.repeat` as a plain loop."""
    for i in range(int(n)):
        if until is not None and bool(until(carry)):
            break
        carry = body(i, carry)
    return carry


def eager_drive(
    program: Stepper,
    carry: Carry,
    buffers: Buffers,
    source: Source,
    start: int,
    stop: int,
    ending: Ending,
    *,
    step: Callable[..., tuple[Any, Any]] | None = None,
    unstack: Callable[[Any], Sequence[Any]] = unstacked,
    write: Callable[[Any, Sequence[Any]], None] = write_rows,
) -> Driven:
    """Drive steps [start, stop), or up to the one after which the block is to end: a plain loop.

    Parameters
    ----------
    program, carry, buffers, source, start, stop, ending
        As in `Backend.drive`.
    step : callable, optional
        ``step(state, noise)``, used instead of ``program.advance()``, such as that compiled.
    unstack : callable, optional
        ``unstack(block)`` gives the rows of a block of noise, where a library is faster than by indexing.
    write : callable, optional
        ``write(rows, arrays)`` puts arrays into the rows of a buffer, where a library is faster than row by row.

    Returns
    -------
    carry, buffers, sums, stop
    """
    if program.compile and step is None:
        name = program.backend.name
        raise CapabilityError(f"{name} arrays cannot run compiled; JAX arrays always do")
    step = step or program.advance()
    (state, recorder_states), schedule = carry, program.schedule
    recording = start >= schedule.burn_in
    made = _Made(program, buffers, start, write)
    for t, last, noise in _noise(program, carry, source, start, stop, unstack):
        # What a step gives is kept all at once, at its end: one that is abandoned leaves nothing.
        seen, row = recorder_states, None
        try:
            ending.within = True
            new, info = step(state, noise)
            if recording and schedule.is_recorded(t):
                seen, row = program.record(recorder_states, new, info)
            ending.within = False
        except Abandoned:
            break
        del noise  # so that two blocks are never in memory together
        state, recorder_states = new, seen
        made.add(info, row, last)
        if ending():
            break
    return Carry(state, recorder_states), *made.closed()


class _Made:
    """What the steps of a block gave, for `eager_drive`: the rows and the infos of some steps at a time are stacked."""

    def __init__(self, program: Stepper, buffers: Buffers, start: int, write: Callable[..., None]) -> None:
        self._program, self._buffers, self._step, self._write = program, buffers, start, write
        self._sums: Any = None
        self._infos: list[Any] = []
        self._rows: list[Any] = []

    def add(self, info: Any, row: tuple[Any, ...] | None, last: bool) -> None:
        """A step's, and its row where it is recorded; `last` where those so far are to be stacked."""
        self._infos.append(info)
        if row is not None:
            self._rows.append(row)
        if last:
            self._stack()

    def closed(self) -> tuple[Buffers, Any, int]:
        """Buffers, sums, and the first step that was not made."""
        self._stack()
        return self._buffers, self._sums, self._step

    def _stack(self) -> None:
        program, infos, kept = self._program, self._infos, self._rows
        held = program.schedule.held
        if kept and self._buffers is None:
            with allocating(held):
                self._buffers = tree.map(lambda a: empty_rows(program.backend.xp, held, a), kept[0])
        for part, some in _places(held, program.schedule.rows(self._step), kept):
            tree.map(lambda rows, *arrays: self._write(rows, arrays), _rows(self._buffers, part), *some)
        if infos:
            self._sums = add_sums(self._sums, program.sums(infos))
        self._step, self._infos, self._rows = self._step + len(infos), [], []


def _noise(
    program: Stepper,
    carry: Carry,
    source: Source,
    start: int,
    stop: int,
    unstack: Callable[[Any], Sequence[Any]],
) -> Iterator[tuple[int, bool, dict[str, Array]]]:
    """Steps [start, stop), whether each is the last of at most `STACKED` or of its block of noise, and its noise."""
    blocks = source.blocks(program.backend, program.specs(carry), start, stop, program.like(carry))
    for first, last, noise in blocks:
        for lo, hi in cut(first, last, STACKED):
            columns = [unstack(block[lo - first : hi - first, ...]) for block in noise.values()]
            # A kernel that takes no noise still makes hi - lo steps.
            numbers = zip(*columns, strict=True) if columns else itertools.repeat(())
            del columns
            for t, row in zip(range(lo, hi), numbers, strict=False):
                yield t, t == hi - 1, dict(zip(noise, row, strict=True))
            del numbers, row
        del noise


def _places(held: int, row: int, kept: list[Any]) -> Iterator[tuple[slice, list[Any]]]:
    """Which places of the buffers the rows from `row` on go to, a few at a time."""
    while kept:
        first = row % held
        some = kept[: held - first]
        yield slice(first, first + len(some)), some
        row, kept = row + len(some), kept[len(some) :]


def _rows(buffers: tree.Tree, part: slice) -> tree.Tree:
    return tree.map(lambda buffer: buffer[part, ...], buffers)


def empty_rows(xp: Any, draws: int, array: Array) -> Array:
    """A buffer for `draws` rows like `array`."""
    return xp.empty((draws, *array.shape), dtype=array.dtype, device=device_of(array))


def add_sums(sums: Any, more: Any) -> Any:
    """The sum of two trees of one structure; None stands for nothing."""
    return more if sums is None else tree.map(lambda a, b: a + b, sums, more)
