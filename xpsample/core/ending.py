"""What ends a block of steps early: a signal that came, and time that is over."""

import math
import time


class Ending:
    """Whether a block is to end after the step that is being made. A library that runs eagerly asks after every step.

    Attributes
    ----------
    signal : str or None
        What came: "Ctrl-C" or "SIGTERM".
    at : float
        When time is over, on the clock of ``time.perf_counter``.
    within : bool
        Whether a step is being made that a second signal may abandon, by `Abandoned`. Who sets it catches that, and
        the state is that of the last whole step.
    """

    __slots__ = ("at", "signal", "within")

    def __init__(self) -> None:
        self.signal: str | None = None
        self.at: float = math.inf
        self.within: bool = False

    def __call__(self) -> bool:
        return self.signal is not None or time.perf_counter() >= self.at


class Abandoned(KeyboardInterrupt):
    """A second signal ended a step."""
