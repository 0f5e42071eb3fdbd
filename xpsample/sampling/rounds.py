"""The rounds of a warm-up: which one follows, and where one ends before its time."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpsample.core.registry import to_host
from xpsample.metrics.arrival import lost_by, some_come_in
from xpsample.metrics.findings import Finding
from xpsample.sampling.loop import View
from xpsample.sampling.warm_up import those_behind

BEGINNINGS = 20
"""Rounds that end after their first third, since chains still come in from afar, at most."""


@dataclass(frozen=True)
class Plan:
    """A round of a warm-up.

    Where the chains are still on their way at its end, another one follows, twice as long. Where only some are, far
    behind the others and fewer than before, a round comes first that tunes to them alone: steps that suit the others
    may not let them come in. If they do come in, the one that follows is no longer. Those that are stuck even so have
    no say in what the next one tunes, and one more follows where further ones are.

    Parameters
    ----------
    steps : int
    left : int
        Rounds that all chains tune and that may still be made, this one included.
    heard : tuple, optional
        For each chain the one whose steps tune in its place.
    alone : bool
        Whether these are those that were behind.
    before : float
        How many were behind before a round of theirs.
    """

    steps: int
    left: int
    heard: tuple[Any, ...] | None = None
    alone: bool = False
    before: float = math.inf

    def after(
        self,
        moving: Finding | None,
        late: Finding | None,
        heard: tuple[Any, ...] | None,
        chains: tuple[int, ...],
        again: bool = False,
    ) -> "Plan | None":
        """The round that follows, if one does.

        Of the findings `judge_warm_up` and `judge_chains`, the chains that are to be heard now, the chain axes, and
        whether chains that were lost begin it elsewhere.
        """
        left, behind = self.left - (not self.alone), 0 if late is None else len(late.chains)
        if not left:
            return None
        if again:
            return Plan(self.steps, left)
        if late is not None and moving is None and not self.alone and behind < self.before:
            return Plan(self.steps, left, those_behind(late, chains), True, behind)
        if self.alone or moving is not None or (behind and heard != self.heard):
            arrived = moving is None and late is None
            return Plan(self.steps if arrived else 2 * self.steps, left, heard, False, self.before)
        return None


class ComingIn:
    """Ends a warm-up after its first third where chains still come in from afar, or are lost: a watcher.

    Scales and lengths are tuned to what the chains see from there on. Those that come in see longer ways and other
    scales than there are where they go, and each step of theirs would cost more and more.

    Parameters
    ----------
    step : int
        After which it looks; 0 for never.
    rows : callable
        ``rows(view)``: those of each recorder, the path first.
    """

    def __init__(self, step: int, rows: Callable[[View], Any]) -> None:
        self._step, self._rows, self.found = step, rows, False

    def watching(self, given: dict[str, Any]) -> dict[str, Any]:
        """What `sampling.loop.run` is given, with this watcher, and with a block that ends where it looks."""
        return given | {"segments": self._cut(given["segments"]), "watchers": (*given["watchers"], self)}

    def begin(self, view: View) -> str | None:
        """As `between`: a warm-up that goes on may have ended here."""
        return self.between(view)

    def between(self, view: View) -> str | None:
        """That chains come in."""
        if view.step and view.step == self._step:
            rows = self._rows(view)[0].get("log_density")
            if rows is not None:
                rows, dim = to_host(rows), view.carry.state.point.x.shape[-1]
                self.found = some_come_in(rows, dim) or bool(np.any(lost_by(rows, dim)))
        return "chains come in" if self.found else None

    def end(self, view: View) -> None:
        """Nothing is left to do."""

    def _cut(self, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for start, stop in segments:
            if start < self._step < stop:
                yield start, self._step
                start = self._step
            yield start, stop
