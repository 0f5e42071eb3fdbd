"""The loop of every run: blocks of steps, and between them what watches the run and where it is kept."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from xpsample.core.backend import Buffers, Carry, Source, Stepper
from xpsample.core.checks import errors_of_functions
from xpsample.core.ending import Ending
from xpsample.sampling.blocks import MOST_STEPS, Pace
from xpsample.sampling.processes import Processes

FAILED = "the run failed between steps {} and {}"
OF_TARGETS = (
    "; functions must take whatever a kernel proposes and give -inf where the "
    "density is 0, with a library's own checks of arguments switched off (validate_args=False); "
    "batched(f, rejects=ValueError) lifts a function of one position, and rejects that chain where it raises"
)


class View(NamedTuple):
    """A run between two blocks.

    ``step`` is the number of steps made, ``carry`` what the last hands to the next, ``buffers`` the rows recorded so
    far, in buffers for all of them, or None. ``made`` steps were made in the last block, whose ``sums`` are None where
    that is 0.
    """

    step: int
    carry: Carry
    buffers: Buffers = None
    made: int = 0
    sums: Any = None


@runtime_checkable
class Watcher(Protocol):
    """Looks at a run between its blocks, and may ask it to end. It cannot change the chain."""

    def begin(self, view: Any) -> str | None:
        """Before the first block. A reason not to make it, or None."""

    def between(self, view: Any) -> str | None:
        """After every block. A reason to end the run, or None."""

    def end(self, view: Any) -> None:
        """After the last block, or when the run fails."""


class Sink(Protocol):
    """Keeps what a run has made, such as its rows in a file, or all of it in a checkpoint."""

    longest: int
    """The most steps from one call to the next."""

    def keep(self, view: View, last: bool) -> None:
        """After every block, when all have watched; `last` when no other follows."""


def run(
    stepper: Stepper,
    view: View,
    source: Source,
    segments: Iterable[tuple[int, int]],
    sinks: Sequence[Sink] = (),
    watchers: Sequence[Watcher] = (),
    processes: Processes | None = None,
    ending: Ending | None = None,
) -> View:
    """Make the steps of some segments, block after block.

    Parameters
    ----------
    stepper : Stepper
        What is driven.
    view : View
        Where it begins.
    source : Source
    segments : iterable of (int, int)
        Steps [start, stop) that may be driven at once. Time decides how they are cut into blocks.
    sinks : sequence of Sink
        In the order in which they keep.
    watchers : sequence of Watcher
    processes : Processes, optional
        Those that make the run together; one, when not given.
    ending : Ending, optional
        What a library that runs eagerly asks after every step.

    Returns
    -------
    View
        After the last block.
    """
    backend, steps = stepper.backend, stepper.schedule.steps
    processes, ending = processes or Processes(backend), ending or Ending()
    pace = Pace(min([MOST_STEPS, *(sink.longest for sink in sinks)]), ending)
    try:
        ends = processes.any_of([watcher.begin(view) for watcher in watchers], view.carry)
        for lo, hi in () if ends else pace.blocks(segments):
            with errors_of_functions(FAILED.format(lo, hi), OF_TARGETS):
                carry, buffers, sums, hi = backend.drive(stepper, view.carry, view.buffers, source, lo, hi, ending)
            view = View(hi, carry, buffers, hi - lo, processes.shared(sums))
            pace.measure(hi, partial(backend.synchronize, carry), processes.agreement(carry))
            ends = processes.any_of([watcher.between(view) for watcher in watchers], carry) or hi == steps
            for sink in sinks:
                sink.keep(view, last=ends)
            if ends:
                break
        backend.synchronize(view.carry)
    finally:
        for watcher in reversed(watchers):
            watcher.end(view)
    return view
