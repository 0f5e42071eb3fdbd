"""Signals that ask a run to end: Ctrl-C and SIGTERM."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from xpsample.core.ending import Abandoned, Ending


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


class Signals:
    """A watcher that ends a run when a signal came, which `ending` is told of meanwhile."""

    ending: Ending

    def __init__(self, ending: Ending) -> None:
        self.ending, self._handling = ending, ExitStack()

    def begin(self, view: Any) -> None:
        """Note signals from now on."""
        self._handling.enter_context(interruptible(self.ending))

    def between(self, view: Any) -> str | None:
        """The signal that came."""
        return self.ending.signal

    def end(self, view: Any) -> None:
        """Leave signals to what handles them usually."""
        self._handling.close()

    def agreed(self, largest: Callable[[float], float] | None) -> str | None:
        """The signal that came here or, by the largest number of several processes, to one of them."""
        names = [None, *(name for name, _ in ENDING.values())]
        here = names.index(self.ending.signal)
        return names[here if largest is None else int(largest(here))]


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

    It gives a function that tells which of them came, or None, and tells the `ending` of the first one. Where a step is
    being made that can be abandoned, the second one does that, and the third does what it always does. In another
    thread than the main one, and for a signal that the program handles by itself, nothing is changed.
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
