"""Straight-line steps as graphs, for devices on which a call costs more than what it computes.

A graph is what a library records of its calls on a device, to make them again without Python: with the same memory,
which a graph keeps to itself.
"""

import itertools
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xpsample.backend import Array
from xpsample.noise import chunk_steps

if TYPE_CHECKING:
    from xpsample.straight.steps import Straight

SETTING = "XPSAMPLE_CUDA_GRAPHS"
"""The environment variable that switches graphs on when it is 1."""

GRAPH_STEPS = 32
"""Steps of a graph at most: a block of 1024 steps of HMC would be a graph of 100,000 calls."""

Capture = Callable[[Callable[[], list[Array]]], tuple[Callable[[], None], list[Array]]]
"""``capture(function) -> replay, outputs``: makes a graph of what a function calls on arrays that stay where they are.

``replay()`` makes the calls again, with what those arrays hold then, and writes over `outputs`, the arrays that the
function gave. The function may be called more than once before; whatever is raised says that there is no graph.
"""


def wanted() -> bool:
    """Whether steps are to be captured."""
    return os.environ.get(SETTING) == "1"


class Captured:
    """The graphs of a straight-line function; two for each kind of data, one of steps at whose end a row is recorded.

    Parameters
    ----------
    straight : Straight
    program : Program
    carry : Carry
    """

    def __init__(self, straight: "Straight", program: Any, carry: Any) -> None:
        self.period = straight.period
        self.steps = steps_of_graph(self.period, min(GRAPH_STEPS, chunk_steps(program.specs(carry))))
        self._graphs: dict[tuple[bool, bool], Graph] = {}
        self._failed = False
        self._lock = threading.Lock()  # runs in several threads write to the same arrays

    def run(
        self,
        straight: "Straight",
        capture: Capture,
        program: Any,
        carry: Any,
        noise: dict[str, Array],
        first: int,
        stop: int,
    ) -> tuple[Sequence[Array], Sequence[list]]:
        """As `Straight.run`; steps that no graph has are made as they are."""
        leaves: Sequence[Array]
        data, leaves, blocks = straight.inputs(program, carry, noise)
        columns: list[list[Array]] = []
        none = self._failed or self.steps == 1  # a graph of one step would save less than it copies
        parts = [(0, stop - first, None)] if none else self._parts(first - program.burn_in, stop - first)
        for lo, hi, recording in parts:
            rows = [block[lo:hi, ...] for block in blocks]
            span, graph = (first + lo, first + hi), None
            if recording is not None:
                with self._lock:
                    graph = self._graph(straight, capture, program, recording, (data, leaves, rows), span)
                    if graph is not None:
                        leaves, more = graph(data, leaves, rows)
            if graph is None:
                leaves, more = straight.function(data, leaves, rows, *span)
            columns = columns or [[] for _ in more]
            for column, values in zip(columns, more, strict=True):
                column.extend(values)
        return leaves, columns

    def _parts(self, phase: int, steps: int) -> Iterator[tuple[int, int, bool | None]]:
        """Steps from 0 on in parts, each with whether its graph records; None where there is none for it.

        A row is recorded at the end of every `period` steps, of which `phase` have been made at the start.
        """
        lo = 0
        while lo < steps:
            at = (phase + lo) % self.period
            hi = lo + self.steps
            if at % self.steps == 0 and at + self.steps <= max(self.period, self.steps):
                recording = at + self.steps >= self.period if hi <= steps else None
            else:
                hi, recording = lo + min(self.steps - at % self.steps, self.period - at), None
            yield lo, min(hi, steps), recording
            lo = hi

    def _graph(
        self, straight: "Straight", capture: Capture, program: Any, recording: bool, inputs: Any, span: Any
    ) -> "Graph | None":
        constant = program.target.constant_data
        if (constant, recording) not in self._graphs and not self._failed:
            try:
                self._graphs[constant, recording] = Graph(straight, capture, program.target.xp, constant, inputs, span)
            except Exception as error:  # whatever it is: an error of the step itself comes again without a graph
                self._failed = True
                warnings.warn(
                    f"steps could not be captured as a graph and run as they are ({SETTING}=0 says so beforehand): "
                    f"{_reason(error)}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return None if self._failed else self._graphs[constant, recording]


class Graph:
    """Some steps as a graph, with the arrays that it reads: copies, but for data that never change."""

    def __init__(
        self, straight: "Straight", capture: Capture, xp: Any, constant: bool, inputs: Any, span: tuple[int, int]
    ) -> None:
        data, leaves, rows = inputs
        if not all(map(straight.owns, leaves)):
            raise TypeError("a state with a number in it, for which a graph has no memory")
        self._xp, self._unstack, self._constant = xp, straight.unstack, constant
        self._data = data if constant else list(map(self._copy, data))
        self._leaves, self._rows = list(map(self._copy, leaves)), list(map(self._copy, rows))
        self._columns: list[tuple[int, list]] = []  # for each, how many arrays; else what it holds, always the same

        def steps() -> list[Array]:
            leaves, columns = straight.function(self._data, self._leaves, self._rows, *span)
            arrays = [column if all(map(straight.owns, column)) else [] for column in columns]
            self._columns = [(len(its), column) for its, column in zip(arrays, columns, strict=True)]
            return [*leaves, *itertools.chain.from_iterable(arrays)]

        self._replay, self._outputs = capture(steps)

    def _copy(self, array: Array) -> Array:
        return self._xp.asarray(array, copy=True)

    def __call__(
        self, data: Sequence[Array], leaves: Sequence[Array], rows: Sequence[Array]
    ) -> tuple[Sequence[Array], Sequence[Sequence[Array]]]:
        """The leaves of the new carry, and for each thing that is kept its values: arrays that nobody writes to."""
        given = (*(() if self._constant else data), *leaves, *rows)
        fixed = (*(() if self._constant else self._data), *self._leaves, *self._rows)
        for array, value in zip(fixed, given, strict=True):
            array[...] = value
        self._replay()
        # All is copied out, what a step leaves as it is, too: that is an array which the next carry is put into.
        made = iter(self._outputs)
        new = [self._copy(next(made)) for _ in self._leaves]
        stacks = [self._xp.stack(list(itertools.islice(made, n))) if n else None for n, _ in self._columns]
        columns = zip(stacks, self._columns, strict=True)
        return new, [same if stack is None else self._unstack(stack) for stack, (_, same) in columns]


def steps_of_graph(period: int, most: int) -> int:
    """Whole periods of steps, or an equal part of one period, so that graphs begin at the same places of every one."""
    return most // period * period if period <= most else period // -(-period // most)


def _reason(error: BaseException) -> str:
    """Of the first of a chain of errors, since to end a capture that has failed fails, too."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
