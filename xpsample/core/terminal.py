"""Output of commands: exit codes, and a line on stderr about the current work after a silence."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import final

SILENCE = 2.0  # Seconds after which a command that prints nothing says what it does

# Exit codes, as in a shell: nobody reads what is printed, Ctrl-C, and SIGTERM.
CLOSED_PIPE, INTERRUPTED, TERMINATED = 141, 130, 143


def ended_by(error: KeyboardInterrupt) -> tuple[str, int]:
    """Reason that ended a command, and its exit code."""
    by = getattr(error, "by", "Ctrl-C")
    return by, TERMINATED if by == "SIGTERM" else INTERRUPTED


def close_stdout() -> None:
    """Send what is printed from now on nowhere: after a `BrokenPipeError`, which else comes again at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@final
class Progress:
    """Prints lines, and where none came for two seconds says on stderr what it is `doing`.

    On a terminal that is one line, which counts the seconds and goes away; otherwise a line after 2, 10, 50, ...
    seconds.
    """

    def __init__(self, doing: str) -> None:
        self._doing: str | None = doing
        self._terminal = sys.stderr.isatty()
        self._lock, self._stop, self._shown = RLock(), Event(), False
        self._thread = Thread(target=self._watch, daemon=True)
        self._printed()

    def __enter__(self) -> "Progress":
        with suppress(RuntimeError):  # Python in a browser has no threads: no progress
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._clear()

    def say(self, text: str) -> None:
        """Print at once."""
        with self._lock:
            self._clear()
            print(text, flush=True)
            self._printed()

    @contextmanager
    def doing(self, what: str | None) -> Iterator[None]:
        """Description of the work in this block; None if something else shows it, such as a bar."""
        with self._lock:
            self._clear()
            before, self._doing = self._doing, what
            self._printed()
        try:
            yield
        finally:
            with self._lock:
                self._clear()
                self._doing = before
                self._printed()

    def _printed(self) -> None:
        self._since, self._next = time.monotonic(), SILENCE

    def _clear(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def _watch(self) -> None:
        with suppress(OSError):  # stderr is closed: nobody reads
            while not self._stop.wait(0.2):
                with self._lock:
                    self._tell(time.monotonic() - self._since)

    def _tell(self, seconds: float) -> None:
        if self._doing is None or seconds < self._next:
            return
        if self._terminal:
            self._clear()
            room = shutil.get_terminal_size().columns - 12
            print(f"  {self._doing[:room]} {seconds:.0f} s", end="", file=sys.stderr, flush=True)
            self._next, self._shown = seconds + 1, True
        else:
            print(f"  {self._doing}, {seconds:.0f} s", file=sys.stderr, flush=True)
            self._next *= 5
