"""Warm-up: stages of steps that tune what a kernel leaves unset, before the first draw."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.backend import Schedule
from xpsample.core.checks import check_count
from xpsample.core.errors import HyperparameterError, Interrupted, NoiseError
from xpsample.core.registry import to_host
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.lagging import chains_begun_again, lost_by, some_come_in
from xpsample.kernels.compose import rules_inside
from xpsample.kernels.following import Piloted
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.tuning import Tuning, tuned, with_tuning
from xpsample.sampling.callbacks import RunState
from xpsample.sampling.loop import run_program
from xpsample.sampling.noise import Native, NoiseSource, Portable, derived
from xpsample.sampling.program import Carry, Program, check_limits, metadata, recorded_rows
from xpsample.sampling.transient import (
    TunedPath,
    WarmUpPath,
    begun_again,
    heard_chains,
    judge_chains,
    judge_warm_up,
    those_behind,
)
from xpsample.targets.target import AbstractTarget
from xpsample.trace.recorders import Recorder
from xpsample.trace.trace import Trace
from xpsample.warmup.length import FROM

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Checkpoint
    from xpsample.sampling.until import Until

LEAST, FOR_ONE_CHAIN = 100, 800
"""Warm-up steps with very many chains, and how many more with one; the more go down with the root of the chains."""

ROOM = 1024
"""Steps whose path is taken memory for, or a multiple: warm-ups of other lengths share what is compiled."""

ROUNDS = 4
"""Warm-ups, each twice as long as the one before it, after which chains that are still on their way are let go.

Where some are behind the others, another one follows only while their number falls: they may be in another mode. The
rounds that those tune alone come between, and are not counted.
"""

BEGINNINGS = 20
"""Rounds that end after their first third, since chains still come in from afar, at most."""


def warm_up_steps(kernel: Kernel, x0: Array, warmup: int | None) -> int:
    """The steps that tune a kernel: those that are asked for, or as many as the chains of a group need.

    HyperparameterError if something is left out and no steps are to tune it, or nothing is and steps are asked for.
    """
    rules = rules_inside(kernel)
    missing = [name for name, _ in rules]
    if isinstance(kernel, Piloted) and missing and warmup != 0:
        return kernel.pilot(None if warmup is None else check_count("warmup", warmup, 0))[1]
    if warmup is None:
        chains = x0.shape[-2] if len(x0.shape) > 1 else 1
        patience = max([rule.patience for _, rule in rules], default=0.0)
        return round(patience * (LEAST + FOR_ONE_CHAIN / math.sqrt(max(1, chains))))
    warmup = check_count("warmup", warmup, 0)
    if missing and not warmup:
        raise HyperparameterError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} left out and warmup=0 tunes nothing: give "
            f"{'it' if len(missing) == 1 else 'them'}, or leave out warmup, too"
        )
    if warmup and kernel.tuning_inside is not None:
        raise HyperparameterError(
            f"warmup={warmup} has nothing to tune: {type(kernel).__name__} tunes what is left out at "
            "each of its own steps"
        )
    if warmup and not missing:
        raise HyperparameterError(
            f"warmup={warmup} has nothing to tune, since the kernel leaves nothing out: burn_in={warmup} throws steps "
            "away"
        )
    return warmup


def warm_up_source(source: NoiseSource, number: int = 1) -> Native | Portable:
    """The noise of a warm-up, the first or a later one: of the same kind, and independent of the run's."""
    if not isinstance(source, (Native, Portable)):
        raise NoiseError(
            f"a warm-up draws noise of its own, which {type(source).__name__} has none of: give every hyper-parameter, "
            "such as those of an earlier run's trace.kernel"
        )
    return derived(source, "warm-up" if number == 1 else f"warm-up {number}")


Path_ = dict[str, Array]
"""What is tuned, and how the chains fare, by name, after every step."""


@dataclass(frozen=True)
class Warmed:
    """Result of a warm-up: the program with the tuned kernel, and the carry from which it draws.

    ``path`` is None if nothing was tuned. If time was up before the end, ``trace`` is the trace of the run.
    """

    program: Program
    carry: Carry
    path: Path_ | None = None
    findings: tuple[Finding, ...] = ()
    trace: Trace | None = None

    def described(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata of a run with those of its warm-up."""
        if self.path is None:
            return known
        diagnosis = known["diagnosis"] | {"findings": [found.to_json() for found in self.findings]}
        return known | {"warmup": self.path["acceptance_probability"].shape[0], "diagnosis": diagnosis}


def warm_up(
    target: AbstractTarget,
    program: Program,
    x0: Array,
    source: NoiseSource,
    warmup: int | None,
    *,
    checkpoint: "str | Path | Checkpoint | None" = None,
    progress: bool | None = False,
    until: "Until | None" = None,
    clock: float | None = None,
) -> Warmed:
    """Tune the unset hyperparameters of a kernel.

    A warm-up is a stage of steps, or several, see `Plan`. If chains are still in their transient phase after the first
    third of a stage, or stuck, it ends there, and another one of the same length begins. A stuck chain continues from
    the position of another one. Each stage is a run of its own, with a checkpoint of its own in the folder ``warmup``
    of the run's, ``warmup-2`` and so on.
    """
    steps, pooled = warm_up_steps(program.kernel, x0, warmup), len(x0.shape) > 1
    if not steps:
        return Warmed(program, program.init(x0))
    limit = None if until is None or until.seconds is None else replace(until, ess=None, rhat=None)
    paths: list[Path_] = []
    below: Any = 0.0
    plan, beginnings = (Plan(steps, ROUNDS), BEGINNINGS) if warmup is None else (Plan(steps, 1), 0)
    for number in itertools.count(1):
        warming, starts, noise = _stage(target, program, x0, source, plan.steps, number, plan.heard)
        carry = warming.init(starts)
        check_limits(warming, carry, noise, warming.schedule.draws)
        own, identity = None, {}
        if checkpoint is not None:
            from xpsample.sampling.checkpoint import inside
            from xpsample.sampling.identity import identity as identified

            own = inside(checkpoint, "warmup" if number == 1 else f"warmup-{number}")
            identity = identified(target, warming, starts, source) | {"round": number}
        coming = ComingIn(int(FROM * plan.steps) if beginnings else 0, warming)
        try:
            trace = run_program(
                warming,
                carry,
                noise,
                metadata(warming, starts, noise),
                checkpoint=own,
                identity=identity,
                until=limit,
                progress=progress,
                callbacks=(coming,),
                pause=coming.step,
                clock=clock,
                unit="warm-up steps",
            )
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
    lost = list(map(tuple, np.argwhere(np.asarray(below) > 0).tolist()))
    again = chains_begun_again(lost, float(np.max(below))) if lost else None
    return Warmed(ready, carry, _joined(program, paths), tuple(filter(None, (late, moving, again))))


def _stage(
    target: AbstractTarget,
    program: Program,
    x0: Array,
    source: NoiseSource,
    steps: int,
    number: int,
    heard: tuple[Any, ...] | None,
) -> tuple[Program, Array, Native | Portable]:
    """Program of a stage, its initial positions and its noise."""
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
    schedule = Schedule(steps, room=room)
    return replace(program, kernel=kernel, target=bound, recorders=(path,), schedule=schedule), x0, noise


def _tuned(program: Program, warming: Program, x0: Array, trace: Trace, path: Path_) -> tuple[Program, Carry]:
    """Program with the values that a stage found, and the carry from which it draws."""
    if isinstance(program.kernel, Piloted):
        rows = {name.rpartition(".")[2]: a for name, a in path.items() if "." in name}
        program = replace(program, kernel=program.kernel.after_pilot(rows))
        return program, program.init(x0)
    kernel, state = tuned(program.kernel, warming.kernel, trace.state)
    program = replace(program, kernel=kernel)
    return program, program.start(state)


def _joined(program: Program, paths: Sequence[Path_]) -> Path_:
    """The paths of several rounds as one."""
    joined = dict(paths[0])
    for path in paths[1:]:
        for name, values in path.items():
            joined[name] = program.target.xp.concat([joined[name], values], axis=0)
    return joined


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
    """Callback that ends a stage after its first third if chains are still in their transient phase, or stuck.

    Metrics and lengths are tuned to what the chains see from there on. Chains in their transient phase see longer
    trajectories and other scales than those of the target, and each of their steps would cost more and more.

    Parameters
    ----------
    step : int
        Step after which it looks; 0 for never.
    program : Program
        Program of the stage, whose first recorder is the path.
    """

    def __init__(self, step: int, program: Program) -> None:
        self.step, self._program, self.found = step, program, False

    def on_start(self, run: RunState) -> str | None:
        """Look, as a warm-up that is resumed may have ended here."""
        return self.on_block(run)

    def on_block(self, run: RunState) -> str | None:
        """Return a reason if chains are in their transient phase, or stuck."""
        if run.step and run.step == self.step:
            buffers = recorded_rows(self._program, run)
            rows = None if buffers is None else buffers[0].get("log_density")
            if rows is not None:
                host, dim = to_host(rows), run.carry.state.point.x.shape[-1]
                self.found = some_come_in(host, dim) or bool(np.any(lost_by(host, dim)))
        return "chains are in their transient phase" if self.found else None

    def on_end(self, run: RunState) -> None:
        """Leave all as it is."""
