"""How a run is cut into blocks of steps, between which it is saved and stopped."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from xpsample.core.ending import Abandoned, Ending

SECONDS = 1.0
"""How long a block of several steps takes at most, about."""

MOST_STEPS = 2**31
"""Of a block where nothing else is said."""

SHORT = 0.1
"""Seconds up to which nobody waits for a block to end, to measure it."""

SLOWER, LONGER = 4.0, 16
"""By how much a step is thought to be faster than in the block before, at most; and by how much a block is longer."""


class Pace:
    """Cuts segments of a run into blocks that take a second, where steps are slow. A block may be a single step.

    The draws do not depend on where blocks end. The first block is one step, which tells how slow steps are.

    Parameters
    ----------
    seconds : float
        A first guess at what a step takes.
    longest : int
        The most steps of a block.
    ending : Ending, optional
        Is told when a block has taken its time, for libraries that ask after every step.
    """

    def __init__(self, seconds: float = 0.0, longest: int = MOST_STEPS, ending: Ending | None = None) -> None:
        self._each, self._most, self._longest = seconds, 1, longest
        self._first, self._began, self._ending = 0, 0.0, ending or Ending()

    def blocks(self, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Steps [lo, hi) of one block after the other; `measure` says how far each came."""
        for lo, stop in segments:
            while lo < stop:
                few = min(self._longest, self._most, int(SECONDS / max(self._each, 1e-9)))
                self._first, self._began = lo, time.perf_counter()
                self._ending.at = self._began + SECONDS
                yield lo, min(stop, lo + max(1, few))
                lo = self._first

    def measure(self, end: int, synchronize: Callable[[], Any], agreed: Callable[[float], float] | None = None) -> None:
        """Take the time of the block that was made last, which may still be under way.

        Parameters
        ----------
        end : int
            The first step that was not made.
        synchronize : callable
            Waits for it.
        agreed : callable, optional
            Where several processes make the run, which have waited already: of the time of this one, that which all
            take, so that they cut the same blocks.
        """
        steps, self._first = end - self._first, end
        if not steps:
            return
        expected, taken = steps * self._each, time.perf_counter() - self._began
        if agreed is not None:
            taken = agreed(taken)
        elif self._most >= MOST_STEPS and max(expected, taken) < SHORT:
            return
        else:
            synchronize()
            taken = time.perf_counter() - self._began
        self._each = max(taken / steps, self._each / SLOWER)
        self._most = min(MOST_STEPS, LONGER * steps) if self._each * LONGER * steps > SHORT else MOST_STEPS


class Terminated(KeyboardInterrupt):
    """SIGTERM ended a command where it was no run."""

    by = "SIGTERM"


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


ENDING: Mapping[signal.Signals, tuple[str, tuple[Any, ...]]] = {
    signal.SIGINT: ("Ctrl-C", (signal.default_int_handler,)),
    signal.SIGTERM: ("SIGTERM", (signal.SIG_DFL, _terminate)),
}
"""Signals that ask a run to end: what messages call them, and what Python and `terminable` do with them."""


@contextmanager
def terminable() -> Iterator[None]:
    """A context in which SIGTERM raises `Terminated`, for a command of many runs. In a run see `interruptible`.

    In another thread than the main one, and where the program handles SIGTERM by itself, nothing is changed.
    """
    main = threading.current_thread() is threading.main_thread()
    own = main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if own:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if own:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def interruptible(ending: Ending | None = None) -> Iterator[Callable[[], str | None]]:
    """A context in which a first Ctrl-C or SIGTERM is only noted; a second one does what it always does.

    It gives a function that tells which of them came, or None. In another thread than the main one, and for a signal
    that the program handles by itself, nothing is changed.

    Parameters
    ----------
    ending : Ending, optional
        Is told of the first one. Where a step is being made that can be abandoned, the second one does that, and the
        third does what it always does.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: _usual(number, signal.getsignal(number)) for number in ENDING if main}
    own = {number: handler for number, handler in before.items() if handler in ENDING[number][1]}
    note = _Note(own, ending or Ending())
    for number in own:
        signal.signal(number, note)
    try:
        yield lambda: note.ending.signal
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)


class _Note:
    """Notes the first of some signals. A later one does what it always does, and so does each in a forked process."""

    def __init__(self, usual: Mapping[signal.Signals, Any], ending: Ending) -> None:
        self.usual, self.ending, self._process = usual, ending, os.getpid()

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was not brought here by a fork."""
        return self._process == os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.is_of_this_process or (self.ending.signal is not None and not self.ending.within):
            signal.signal(number, self.usual[signal.Signals(number)])
            signal.raise_signal(number)
        elif self.ending.signal is not None:
            self.ending.within = False
            raise Abandoned
        self.ending.signal = ENDING[signal.Signals(number)][0]


def _usual(number: signal.Signals, handler: Any) -> Any:
    """What is done with a signal, but for the notes of a process that this one was forked from."""
    return handler.usual[number] if isinstance(handler, _Note) and not handler.is_of_this_process else handler
