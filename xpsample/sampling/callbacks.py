"""Watchers that a user hands in: what they see of a run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xpsample.core.checks import check_instance
from xpsample.core.errors import HyperparameterError
from xpsample.sampling.loop import View, Watcher
from xpsample.trace.trace import Trace


@dataclass(frozen=True)
class RunView:
    """A run between two blocks of steps, as a user's watcher sees it.

    Parameters
    ----------
    step, steps : int
        Those made, and those of the whole run; the warm-up's are not among them.
    make : callable
        Makes the trace.
    """

    step: int
    steps: int
    make: Callable[[], Trace]

    @cached_property
    def trace(self) -> Trace:
        """What was drawn so far, as `sample` returns it; made when it is asked for."""
        return self.make()


class Watched:
    """A user's watchers as one of the engine's, in a run of so many steps; ``trace(view)`` is what was made so far."""

    def __init__(self, watchers: Sequence[Watcher], steps: int, trace: Callable[[View], Trace]) -> None:
        self._watchers, self._steps, self._trace = watchers, steps, trace
        self.reasons: list[str] = []

    def begin(self, view: View) -> str | None:
        """Let all begin."""
        return self._noted([watcher.begin(self._seen(view)) for watcher in self._watchers])

    def between(self, view: View) -> str | None:
        """Let all look, at one view."""
        seen = self._seen(view)
        return self._noted([watcher.between(seen) for watcher in self._watchers])

    def end(self, view: View) -> None:
        """Let all end."""
        for watcher in self._watchers:
            watcher.end(self._seen(view))

    def _seen(self, view: View) -> RunView:
        return RunView(view.step, self._steps, lambda: self._trace(view))

    def _noted(self, found: Sequence[str | None]) -> str | None:
        self.reasons += [str(reason) for reason in found if reason is not None]
        return self.reasons[0] if self.reasons else None


def check_watchers(watchers: Any, shards: bool) -> tuple[Watcher, ...]:
    """A sequence of watchers; raises HyperparameterError else."""
    if isinstance(watchers, str) or not isinstance(watchers, Sequence):
        raise HyperparameterError(f"watchers must be a sequence, such as (EveryMinute(),); got {watchers!r}")
    for watcher in watchers:
        check_instance("a watcher", watcher, Watcher, "one with begin(view), between(view) and end(view)")
    if watchers and shards:
        raise HyperparameterError("watchers= looks at one run, and each shard is one: leave it out, or shards=")
    return tuple(watchers)
