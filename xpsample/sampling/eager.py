"""The loop of the libraries that run eagerly: step, record, and stack the rows of a block."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Abandoned, Buffers, Carry, Driven, DrivenProgram, Source, StopFlag
from xpsample.core.errors import CapabilityError, FunctionError, HyperparameterError
from xpsample.sampling.noise import cut

# Steps whose rows are stacked together: few, so that Python's garbage collector does not follow them for long.
STACKED = 128


ADVICE = "use fewer draws, a larger thinning, or recorders=[Moments()], whose memory does not grow"


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


def write_rows(buffer: Any, place: slice, arrays: Sequence[Array]) -> Any:
    """Write arrays into some rows of a buffer, in place, and return the buffer."""
    for i, array in enumerate(arrays, place.start):
        buffer[i, ...] = array
    return buffer


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
    program: DrivenProgram,
    carry: Carry,
    buffers: Buffers,
    source: Source,
    start: int,
    stop: int,
    stop_flag: StopFlag,
    *,
    step: Callable[..., tuple[Any, Any]] | None = None,
    unstack: Callable[[Any], Sequence[Any]] = unstacked,
    write: Callable[[Any, slice, Sequence[Any]], Any] = write_rows,
) -> Driven:
    """Drive steps [start, stop), or up to the one after which the block is to end: a plain loop.

    Parameters
    ----------
    program, carry, buffers, source, start, stop, stop_flag
        As in `Backend.drive`.
    step : callable, optional
        ``step(state, noise)``, used instead of ``program.advance()``, such as that compiled.
    unstack : callable, optional
        ``unstack(block)`` gives the rows of a block of noise, where a library is faster than by indexing.
    write : callable, optional
        ``write(buffer, place, arrays)`` returns a buffer with the arrays in the rows `place`, a slice: for libraries
        whose arrays cannot be written, or that are faster than row by row.

    Returns
    -------
    carry, buffers, sums, stop
    """
    if program.compile and step is None:
        name = program.backend.name
        raise CapabilityError(f"{name} arrays cannot run compiled; JAX arrays always do")
    step = step or program.advance()
    (state, recorder_states), schedule, sums = carry, program.schedule, None
    failure: BaseException | None = None
    recording = start >= schedule.burn_in
    for lo, noise in _noise(program, carry, source, start, stop, unstack):
        infos: list[Any] = []
        kept: list[Any] = []
        for t, numbers in enumerate(noise, lo):
            # What a step gives is kept all at once, at its end: one that is abandoned leaves nothing.
            try:
                stop_flag.within = True
                new, info = step(state, numbers)
                seen, rows = recorder_states, []
                if recording and schedule.is_recorded(t):
                    seen, row = program.record(recorder_states, new, info)
                    rows = [row]
                stop_flag.within = False
            except BaseException as error:
                stop_flag.within, failure = False, error
                break
            state, recorder_states = new, seen
            infos.append(info)
            kept += rows
            if stop_flag():
                break
        _check_dtype(state, carry)
        buffers = _with_rows(program, buffers, schedule.rows(lo), kept, write)
        if infos:
            sums = add_sums(sums, program.sums(infos))
        start = lo + len(infos)
        if failure is not None or stop_flag():
            break
    made = Carry(state, recorder_states), buffers, sums, start
    if failure is None or isinstance(failure, Abandoned):
        return made
    stop_flag.made = made
    raise failure


def _noise(
    program: DrivenProgram,
    carry: Carry,
    source: Source,
    start: int,
    stop: int,
    unstack: Callable[[Any], Sequence[Any]],
) -> Iterator[tuple[int, Iterator[dict[str, Array]]]]:
    """Noise of at most `STACKED` steps at a time: the first of them, and an iterator over the noise of each."""
    for first, last, block in source.blocks(program.backend, program.specs(carry), start, stop, program.like(carry)):
        for lo, hi in cut(first, last, STACKED):
            columns = [unstack(rows[lo - first : hi - first, ...]) for rows in block.values()]
            # A kernel that takes no noise still makes hi - lo steps.
            numbers = zip(*columns, strict=True) if columns else itertools.repeat((), hi - lo)
            del columns  # so that two blocks are never in memory together
            yield lo, (dict(zip(block, row, strict=True)) for row in numbers)
            del numbers
        del block


def _check_dtype(state: Any, carry: Carry) -> None:
    """Raise FunctionError for a kernel whose steps change the dtype of the positions."""
    now, before = state.point.x.dtype, carry.state.point.x.dtype
    if now != before:
        raise FunctionError(
            f"a step of the kernel changed the positions from {before} to {now}. np.sqrt of a Python number gives "
            "float64: write value**0.5, or convert the result."
        )


def _with_rows(
    program: DrivenProgram, buffers: Buffers, row: int, kept: list[Any], write: Callable[..., Any]
) -> Buffers:
    """Buffers with the rows `kept`, of which the first one is row number `row`; made if there are none."""
    held = program.schedule.held
    if buffers is None and kept:
        with allocating(held):
            buffers = tree.map(lambda a: empty_rows(program.backend.xp, held, a), kept[0])
    while kept:
        first = row % held
        some = kept[: held - first]
        place = slice(first, first + len(some))
        buffers = tree.map(lambda buffer, *arrays: write(buffer, place, arrays), buffers, *some)  # noqa: B023
        row, kept = row + len(some), kept[len(some) :]
    return buffers


def empty_rows(xp: Any, draws: int, array: Array) -> Array:
    """A buffer for `draws` rows like `array`."""
    return xp.empty((draws, *array.shape), dtype=array.dtype, device=device_of(array))


def add_sums(sums: Any, more: Any) -> Any:
    """The sum of two trees of one structure; None stands for nothing."""
    return more if sums is None else tree.map(lambda a, b: a + b, sums, more)
