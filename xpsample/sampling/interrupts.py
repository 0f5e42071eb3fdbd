"""Signals that ask a run to end: Ctrl-C and SIGTERM."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from xpsample.core.backend import Abandoned, StopFlag


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

    Outside the main thread, or if the program has its own SIGTERM handler, nothing changes.
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
def interruptible(stop_flag: StopFlag | None = None) -> Iterator[Callable[[], str | None]]:
    """A context in which a first Ctrl-C or SIGTERM is only noted; a second one does what it always does.

    It yields a function that returns which of them came, or None. The first one sets `stop_flag`. If a step is being
    made that can be abandoned, the second one does that, and the third does what it always does. In another thread than
    the main one, and for a signal that the program handles by itself, nothing is changed.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: _usual(number, signal.getsignal(number)) for number in ENDING if main}
    own = {number: handler for number, handler in before.items() if handler in ENDING[number][1]}
    note = _Note(own, stop_flag or StopFlag())
    for number in own:
        signal.signal(number, note)
    try:
        yield lambda: note.stop_flag.signal
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)


class _Note:
    """Notes the first of some signals. A later one, and each in a forked process, has its usual effect."""

    def __init__(self, usual: Mapping[signal.Signals, Any], stop_flag: StopFlag) -> None:
        self.usual, self.stop_flag, self._process = usual, stop_flag, os.getpid()

    @property
    def is_of_this_process(self) -> bool:
        """Return whether the current process created it, rather than a fork."""
        return self._process == os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.is_of_this_process or (self.stop_flag.signal is not None and not self.stop_flag.within):
            signal.signal(number, self.usual[signal.Signals(number)])
            signal.raise_signal(number)
        elif self.stop_flag.signal is not None:
            self.stop_flag.within = False
            raise Abandoned
        self.stop_flag.signal = ENDING[signal.Signals(number)][0]


def _usual(number: signal.Signals, handler: Any) -> Any:
    """Usual handler of a signal, without notes of a process that this one was forked from."""
    return handler.usual[number] if isinstance(handler, _Note) and not handler.is_of_this_process else handler
