"""A run of one piece, from what it is asked for to its trace."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpsample.core.arrays import Array
from xpsample.core.devices import current_device
from xpsample.core.errors import Interrupted
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.tuning import Tuning
from xpsample.sampling.course import Course
from xpsample.sampling.limits import check_limits
from xpsample.sampling.loop import Watcher, run
from xpsample.sampling.noise import NoiseSource, as_noise_source
from xpsample.sampling.opening import identified, opened, row_store
from xpsample.sampling.prepare import metadata, prepare
from xpsample.sampling.probes import computed_in, say_precision
from xpsample.sampling.processes import Processes
from xpsample.sampling.program import Program
from xpsample.sampling.until import Until
from xpsample.sampling.warm_up import TunedPath
from xpsample.sampling.warming import warm_up
from xpsample.targets.target import AbstractTarget
from xpsample.trace.diagnosis import warn
from xpsample.trace.recorders import Recorder, check_recorders, without_store
from xpsample.trace.trace import Trace

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Checkpoint


@dataclass(frozen=True, eq=False)
class Whole:
    """A run of one piece, as `sample` is asked for it, with positions (*chains, dim)."""

    target: AbstractTarget
    kernel: Kernel
    x0: Array
    draws: int
    seed: int | NoiseSource
    warmup: int | None
    burn_in: int
    thinning: int
    recorders: Sequence[Recorder]
    compile: bool
    checkpoint: "str | Path | Checkpoint | None" = None
    until: Until | None = None
    progress: bool | None = None
    watchers: Sequence[Watcher] = ()

    def program(self) -> Program:
        """What is driven, before the warm-up."""
        given = (self.recorders, self.burn_in, self.thinning, self.draws, self.compile)
        return prepare(self.target, self.kernel, self.x0, *given)

    def trace(self) -> Trace:
        """Make it. Nothing is said of what is wrong with it, but of a log density that has too few digits."""
        clock, checkpoint, until, progress = time.perf_counter(), self.checkpoint, self.until, self.progress
        with current_device(self.x0):
            program = self.program()
            kept, where = without_store(program.recorders)
            program, disk = replace(program, recorders=kept), row_store(where)
            processes = Processes.of(self.x0)
            if checkpoint is not None:
                processes.check_one("checkpoint=", "make shorter runs, and save the trace of each")
            if disk is not None:
                processes.check_one(
                    "Draws(store=...)", "keep Moments(), or the draws themselves, a part in each process"
                )
            source, own = as_noise_source(self.seed), _path_inside(self.kernel)
            if own is not None:
                program = replace(program, recorders=check_recorders((*program.recorders, own)))
            in_time = None if until is None or until.seconds is None else replace(until, ess=None, rhat=None)
            warmed = warm_up(self.target, program, self.x0, source, self.warmup, checkpoint, progress, in_time, clock)
            if warmed.trace is not None:
                return warmed.trace
            program, carry = warmed.program, warmed.carry
            check_limits(program, carry, source, program.schedule.draws if disk is None else 0)
            about = warmed.told(metadata(program, self.x0, source) | processes.about)
            if not processes.several:
                about["diagnosis"] |= computed_in(program.target, self.x0)
                warn([say_precision(carry.state, self.burn_in, about["diagnosis"])], stacklevel=4)
            described = identified(checkpoint, self.target, program, carry.state.point.x, source)
            with opened(checkpoint, program, carry, described, about, disk) as store:
                course = Course(program, carry, source, about, store, disk, progress, until, clock, self.watchers)
                try:
                    trace = course.trace(run(**course.given))
                except Interrupted as stop:
                    stop.trace = _with_path(stop.trace, warmed.path, own)
                    raise
            return _with_path(trace, warmed.path, own)


def _path_inside(kernel: Kernel) -> TunedPath | None:
    """What records the path of what a kernel tunes at each of its own steps."""
    inside = kernel.tuning_inside
    return TunedPath.of(inside) if isinstance(inside, Tuning) else None


def _with_path(trace: Trace, path: dict[str, Array] | None, own: TunedPath | None) -> Trace:
    """The trace with the path of its warm-up, or with that which a recorder has of what was tuned on the way."""
    if path is None and own is None:
        return trace
    recorded = dict(trace.recorded)
    return replace(trace, warmup=path if own is None else recorded.pop(own.name), recorded=recorded)
