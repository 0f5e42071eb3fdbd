"""The course of a warm-up: rounds of steps that tune what a kernel leaves out."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import Interrupted
from xpsample.core.schedule import Schedule
from xpsample.kernels.following import Piloted
from xpsample.kernels.tuning import Tuning, tuned, with_tuning
from xpsample.metrics.arrival import chains_begun_again
from xpsample.metrics.findings import Finding
from xpsample.sampling.course import Course
from xpsample.sampling.limits import check_limits
from xpsample.sampling.loop import run
from xpsample.sampling.noise import Native, NoiseSource, Portable
from xpsample.sampling.opening import identified, opened
from xpsample.sampling.prepare import metadata
from xpsample.sampling.program import Carry, Program
from xpsample.sampling.rounds import BEGINNINGS, ComingIn, Plan
from xpsample.sampling.until import Until
from xpsample.sampling.warm_up import (
    ROOM,
    ROUNDS,
    TunedPath,
    WarmUpPath,
    begun_again,
    heard_chains,
    judge_chains,
    judge_warm_up,
    warm_up_source,
    warm_up_steps,
)
from xpsample.targets.target import AbstractTarget
from xpsample.trace.recorders import Recorder
from xpsample.trace.trace import Trace
from xpsample.warmup.length import FROM

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Checkpoint

Path_ = dict[str, Array]
"""What is tuned, and how the chains fare, by name, after every step."""


@dataclass(frozen=True)
class Warmed:
    """What a warm-up leaves, or a run without one begins with: the program with the tuned kernel, and its start.

    ``path`` is None where nothing was tuned, and ``findings`` say what is wrong. Where time was up before the end,
    ``trace`` is what there is of the run.
    """

    program: Program
    carry: Carry
    path: Path_ | None = None
    findings: tuple[Finding, ...] = ()
    trace: Trace | None = None

    @property
    def steps(self) -> int:
        """How many were made."""
        return 0 if self.path is None else self.path["acceptance_probability"].shape[0]

    def told(self, known: dict[str, Any]) -> dict[str, Any]:
        """The metadata of a run, with what they tell of its warm-up."""
        more: dict[str, Any] = {"warmup": self.steps} if self.steps else {}
        if self.findings:
            more["diagnosis"] = known["diagnosis"] | {"findings": [found.to_json() for found in self.findings]}
        return known | more


def warm_up(
    target: AbstractTarget,
    program: Program,
    x0: Array,
    source: NoiseSource,
    warmup: int | None,
    checkpoint: "str | Path | Checkpoint | None" = None,
    progress: bool | None = False,
    until: Until | None = None,
    clock: float | None = None,
) -> Warmed:
    """Tune what the kernel leaves out.

    A warm-up is a round of steps, or several, see `Plan`. Where chains come in from afar after the first third of one,
    or are lost, it ends there, and another of the same length begins. A lost chain goes on where another one is. Each
    round is a run of its own, with a checkpoint of its own in the folder ``warmup`` of the run's, ``warmup-2`` and so
    on.
    """
    steps, pooled = warm_up_steps(program.kernel, x0, warmup), len(x0.shape) > 1
    if not steps:
        return Warmed(program, program.init(x0))
    paths: list[Path_] = []
    below: Any = 0.0
    plan, beginnings = (Plan(steps, ROUNDS), BEGINNINGS) if warmup is None else (Plan(steps, 1), 0)
    for number in itertools.count(1):
        warming, starts, noise = _round(target, program, x0, source, plan.steps, number, plan.heard)
        carry = warming.init(starts)
        check_limits(warming, carry, noise, warming.schedule.draws)
        own = _within(checkpoint, number)
        described = identified(own, target, warming, starts, source) | {"round": number}
        about = metadata(warming, starts, noise)
        with opened(own, warming, carry, described, about) as store:
            limits: dict[str, Any] = {"progress": progress, "until": until, "clock": clock}
            course = Course(warming, carry, noise, about, store, unit="warm-up steps", **limits)
            coming = ComingIn(int(FROM * plan.steps) if beginnings else 0, partial(course.rows.so_far, warming))
            try:
                trace = course.trace(run(**coming.watching(course.given)))
            except Interrupted as stop:
                stop.trace = _so_far(program, warming, stop.trace, paths)
                raise
        if coming.found:
            paths.append(trace.recorded[warming.recorders[0].name])
            x0, now = begun_again(program.target, trace.state.point.x, paths[-1])
            below, beginnings = np.maximum(below, now), beginnings - 1
            continue
        if trace.run_statistics.steps < plan.steps:
            trace = _so_far(program, warming, trace, paths)
            return Warmed(program, carry, trace=_time_is_up(trace, plan.steps))
        paths.append(trace.recorded[warming.recorders[0].name])
        ready, carry = _tuned(program, warming, x0, trace, paths[-1])
        moving, late = judge_warm_up(paths[-1], pooled), judge_chains(paths[-1], pooled)
        starts, now = begun_again(program.target, carry.state.point.x, paths[-1])
        following = plan.after(moving, late, heard_chains(paths[-1], late), x0.shape[:-1], bool(np.any(now)))
        if following is None:
            break
        plan, x0, below = following, starts, np.maximum(below, now)
    lost = [tuple(map(int, chain)) for chain in np.argwhere(np.asarray(below) > 0)]
    again = chains_begun_again(lost, float(np.max(below))) if lost else None
    found = tuple(finding for finding in (late, moving, again) if finding is not None)
    return Warmed(ready, carry, _joined(program, paths), found)


def _round(
    target: AbstractTarget,
    program: Program,
    x0: Array,
    source: NoiseSource,
    steps: int,
    number: int,
    heard: tuple[Any, ...] | None,
) -> tuple[Program, Array, Native | Portable]:
    """The program of a round, its start positions and its noise."""
    pooled, room, noise = len(x0.shape) > 1, -(-steps // ROOM) * ROOM, warm_up_source(source, number)
    kernel, bound = program.kernel, program.target
    if isinstance(kernel, Piloted):
        from xpsample.targets.start import pilot_starts

        kernel, _ = kernel.pilot(steps)
        x0 = pilot_starts(target, bound.space, x0, noise.seed)
        assert isinstance(kernel.tuning_inside, Tuning)
        path: Recorder = TunedPath.of(kernel.tuning_inside)
        bound = target.prepare(x0, kernel.requires)
    else:
        path, kernel = WarmUpPath(with_tuning(kernel, 0, pooled)), with_tuning(kernel, steps, pooled, heard)
    return Program(kernel, bound, (path,), Schedule(steps, room=room), program.compile), x0, noise


def _tuned(program: Program, warming: Program, x0: Array, trace: Trace, path: Path_) -> tuple[Program, Carry]:
    """The program with what a round found, and where it starts."""
    if isinstance(program.kernel, Piloted):
        rows = {name.rpartition(".")[2]: a for name, a in path.items() if "." in name}
        program = replace(program, kernel=program.kernel.after_pilot(rows))
        return program, program.init(x0)
    kernel, state = tuned(program.kernel, warming.kernel, trace.state)
    program = replace(program, kernel=kernel)
    return program, program.start(state)


def _within(checkpoint: "str | Path | Checkpoint | None", number: int) -> "Checkpoint | None":
    """The checkpoint of a round of the warm-up of a run that has one."""
    if checkpoint is None:
        return None
    from xpsample.sampling.checkpoint import inside

    return inside(checkpoint, "warmup" if number == 1 else f"warmup-{number}")


def _joined(program: Program, paths: Sequence[Path_]) -> Path_:
    """The paths of several rounds as one."""
    xp = program.target.xp
    return {name: xp.concat([path[name] for path in paths], axis=0) for name in paths[0]}


def _so_far(program: Program, warming: Program, trace: Trace, paths: Sequence[Path_]) -> Trace:
    """The trace of a round that was ended, as that of a run without draws: with the path of all rounds."""
    last = trace.recorded[warming.recorders[0].name]
    every = [*paths, *([] if last is None else [last])]
    return replace(trace, recorded={}, warmup=_joined(program, every) if every else None, kernel=program.kernel)


def _time_is_up(trace: Trace, steps: int) -> Trace:
    """A trace that says so."""
    made = trace.run_statistics.steps
    found = Finding(
        "until",
        f"time was up after {made} of {steps} warm-up steps, and there are no draws",
        made,
        "give more seconds, or a shorter warm-up (warmup=); with a checkpoint the same call goes on",
    )
    known: dict[str, Any] = trace.metadata["diagnosis"] | {"findings": [found.to_json()]}
    return replace(trace, metadata=trace.metadata | {"diagnosis": known})
