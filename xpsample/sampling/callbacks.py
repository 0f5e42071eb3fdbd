"""State of a run between two blocks, and what looks at it: callbacks, and sinks that keep it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from xpsample.core.backend import Buffers, Carry
from xpsample.core.checks import check_instance
from xpsample.core.errors import HyperparameterError
from xpsample.trace.trace import Trace

MOST_STEPS = 2**31  # Default number of steps of a block


@dataclass(frozen=True, eq=False)
class RunState:
    """A run between two blocks of steps, as callbacks see it.

    Attributes
    ----------
    step : int
        Steps made. Those of the warm-up are not among them.
    steps : int
        Total number of steps.
    carry : Carry
        State of the kernel and of the recorders.
    buffers : tuple or None
        Rows recorded so far, in memory for all of them.
    made : int
        Steps of the last block.
    sums : Info or None
        Sums over the last block.
    """

    step: int
    steps: int
    carry: Carry
    buffers: Buffers = None
    made: int = 0
    sums: Any = None
    make_trace: Callable[["RunState"], Trace] | None = None

    @cached_property
    def trace(self) -> Trace:
        """Trace of the draws so far, as `sample` returns it; made when it is first read."""
        assert self.make_trace is not None
        return self.make_trace(self)


@runtime_checkable
class Callback(Protocol):
    """Object that is called during a run. It may end the run, and cannot change the chain."""

    def on_start(self, run: RunState) -> str | None:
        """Return None, or a reason to make no step. Called before the first block."""

    def on_block(self, run: RunState) -> str | None:
        """Return None, or a reason to end the run. Called after every block."""

    def on_end(self, run: RunState) -> None:
        """Clean up. Called after the last block, or when the run fails."""


def check_callbacks(callbacks: Any, sharded: bool) -> None:
    """Raise HyperparameterError unless `callbacks` is a sequence of callbacks, of a run that can have some."""
    if isinstance(callbacks, str) or not isinstance(callbacks, Sequence):
        raise HyperparameterError(f"callbacks must be a sequence, such as (EveryMinute(),); got {callbacks!r}")
    for callback in callbacks:
        check_instance("a callback", callback, Callback, "one with on_start(run), on_block(run) and on_end(run)")
    if callbacks and sharded:
        raise HyperparameterError("callbacks= cannot be used with shards=, because each shard is a separate run")


class Sink(Protocol):
    """Place where rows or states are kept, such as a store of draws or a checkpoint."""

    @property
    def longest(self) -> int:
        """Largest number of steps between two calls of `keep`."""

    def keep(self, run: RunState, last: bool) -> None:
        """Keep what the last block made; `last` if no other block follows."""
