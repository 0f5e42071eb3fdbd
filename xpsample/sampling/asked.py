"""What `sample` is asked for, checked before anything is made of it."""

from collections.abc import Sequence
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag
from xpsample.sampling.callbacks import check_watchers
from xpsample.sampling.loop import Watcher
from xpsample.sampling.until import Until, check_until
from xpsample.trace.recorders import Recorder


def check_asked(
    x0: Array,
    recorders: Sequence[Recorder],
    until: Until | None,
    progress: bool | None,
    compile: bool,
    watchers: Any,
    cut: bool,
) -> tuple[Watcher, ...]:
    """Check arguments of `sample` that no other part of a run checks, where chains are `cut` or not: the watchers."""
    check_flag("compile", compile)
    if progress is not None:
        check_flag("progress", progress)
    check_until(until, recorders, x0)
    return check_watchers(watchers, cut)
