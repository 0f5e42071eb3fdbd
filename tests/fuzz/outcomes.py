"""How a call ends: fine, with one of our errors, raw, silent, or hanging."""

import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core.errors import XpsampleError

SECONDS = 60
"""A call that takes so much processor time hangs, or one that takes WAITS times as long: a busy machine is slow."""

WAITS = 20

OURS = ("/xpsample/", "/backends/xpsample_")


class Hangs(BaseException):
    """Raised where a call takes too long."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End a block that takes more processor time, or waits for long."""

    def stop(*_: Any) -> None:
        raise Hangs

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, WAITS * seconds)}
    before = {number: signal.signal(number, stop) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


def outcome(call: Callable[[], Any], argument: str, has_meaning: bool) -> tuple[str, str]:
    """How a call ends: fine, ours, raw, silent or hanging; and what it says."""
    try:
        with time_limit(SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            call()
    except XpsampleError as error:
        return "ours", str(error)
    except Hangs:
        return "hanging", ""
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        plain = isinstance(error, (TypeError, ValueError, OSError)) and argument in str(error)
        if plain and any(part in last.filename for part in OURS) and "raise" in (last.line or ""):
            return "ours", str(error)
        return "raw", f"{type(error).__name__}: {error} [{Path(last.filename).name}:{last.lineno}]"
    return ("fine" if has_meaning else "silent"), ""
