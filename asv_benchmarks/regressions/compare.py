"""The comparison: a first look at everything, and a second one, in new processes, at what seems slower."""

import statistics
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from asv_benchmarks.commits import copy_benchmarks
from asv_benchmarks.regressions.sides import Cannot, Side

LIMIT = 1.25
"""What is this many times as much counts as a change."""
ROUNDS, MORE_ROUNDS = 7, 21
"""Of the first look, and of the second."""


class BaseCannot(Exception):
    """The library of the base does not have what the measures use."""


class NewCannot(Exception):
    """The new library fails in a measure."""


class Seen(NamedTuple):
    """What a look saw: medians of both sides, CPU seconds or counts, and the factor between them with its extremes."""

    base: float
    new: float
    factor: float
    least: float
    most: float


class Compared(NamedTuple):
    """A measure: what the looks saw, or why there was nothing to see."""

    name: str
    timed: bool
    first: Seen | None
    second: Seen | None = None
    skipped: str = ""

    @property
    def suspect(self) -> bool:
        """Whether the first look calls for a second."""
        return self.first is not None and self.first.factor >= LIMIT

    @property
    def slower(self) -> bool:
        """Whether the second look confirms the first."""
        return self.second is not None and self.second.factor >= LIMIT


def compare(
    base: Path,
    new: Path,
    only: Sequence[str] = ("*",),
    rounds: int = ROUNDS,
    more_rounds: int = MORE_ROUNDS,
    say: Callable[[str], None] = lambda line: None,
) -> list[Compared]:
    """Compare the libraries of two trees by the measures whose names match one of some patterns.

    Raises
    ------
    BaseCannot
        If the base can run none of the measures.
    NewCannot
        If the new library fails, in its start or in a measure.
    """
    with TemporaryDirectory() as folder:
        benchmarks = copy_benchmarks(Path(folder))
        found = _look(benchmarks, base, new, only, rounds, say)
        suspects = [one.name for one in found if one.suspect]
        if suspects:
            say(f"a second look at {', '.join(suspects)}")
            again = {one.name: one.first for one in _look(benchmarks, base, new, suspects, more_rounds, say)}
            found = [one._replace(second=again.get(one.name)) for one in found]
    return found


def _look(
    benchmarks: Path, base: Path, new: Path, only: Sequence[str], rounds: int, say: Callable[[str], None]
) -> list[Compared]:
    """In new processes."""
    found = []
    with Side(base, benchmarks, benchmarks / "base.log") as a, Side(new, benchmarks, benchmarks / "new.log") as b:
        try:
            names = b.begin()
        except Cannot as error:
            raise NewCannot(f"the new library cannot run the measures: {error}") from error
        try:
            a.begin()
        except Cannot as error:
            raise BaseCannot(str(error)) from error
        timed, counted = ([name for name in kind if any(fnmatch(name, one) for one in only)] for kind in names)
        for name in counted:
            found.append(_seen(name, False, lambda name=name: _count(a, b, name)))
        for name in timed:
            found.append(_seen(name, True, lambda name=name: _time(a, b, name, rounds)))
            seen = found[-1].first
            say(f"{name}: {found[-1].skipped}" if seen is None else f"{name}: {seen.factor:.2f}")
    if found and all(one.skipped.startswith("base:") for one in found):
        raise BaseCannot(found[0].skipped.removeprefix("base: "))
    return found


def _seen(name: str, timed: bool, measure: Callable[[], Seen]) -> Compared:
    try:
        return Compared(name, timed, measure())
    except Cannot as error:
        return Compared(name, timed, None, skipped=str(error))


def _count(a: Side, b: Side, name: str) -> Seen:
    new = _new(name, lambda: b.count(name))
    base = _base(lambda: a.count(name))
    found = factor(base, new)
    return Seen(base, new, found, found, found)


def _time(a: Side, b: Side, name: str, rounds: int) -> Seen:
    """In turns, after a round that is not counted; the new side goes first in that, since what it cannot, it says."""
    _new(name, lambda: b.time(name))
    pairs = [(_base(lambda: a.time(name)), _new(name, lambda: b.time(name))) for _ in range(rounds + 1)][1:]
    factors = [factor(*pair) for pair in pairs]
    base, new = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Seen(base, new, statistics.median(factors), min(factors), max(factors))


def factor(base: float, new: float) -> float:
    """How many times as much the new one is."""
    if base == new:
        return 1.0
    return new / base if base else float("inf")


def _new(name: str, measure: Callable[[], float]) -> float:
    """The new side's; it must not fail where what it needs is installed."""
    try:
        return measure()
    except Cannot as error:
        if error.here:
            raise NewCannot(f"{name} fails with the new library: {error}") from error
        raise


def _base(measure: Callable[[], float]) -> float:
    try:
        return measure()
    except Cannot as error:
        raise Cannot(f"base: {error}") from error
