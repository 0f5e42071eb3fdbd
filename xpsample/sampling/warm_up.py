"""Warm-up: stages of steps that tune what a kernel leaves unset, before the first draw."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xpsample.adaptation.length import FROM
from xpsample.core.arrays import Array
from xpsample.core.backend import Schedule
from xpsample.core.checks import check_count
from xpsample.core.errors import HyperparameterError, NoiseError, keep
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.lagging import chains_begun_again
from xpsample.kernels.adapted import AdaptedKernel, tuned, with_tuning
from xpsample.kernels.compose import rules_inside
from xpsample.kernels.following import Piloted
from xpsample.kernels.kernel import Kernel
from xpsample.sampling.callbacks import RunState
from xpsample.sampling.loop import run_program
from xpsample.sampling.noise import Native, NoiseSource, Portable, derived
from xpsample.sampling.program import Carry, Program, check_limits, metadata, recorded_rows
from xpsample.sampling.transient import TunedPath, WarmUpPath, judge_stage, restarted
from xpsample.targets.target import AbstractTarget
from xpsample.trace.recorders import Recorder
from xpsample.trace.trace import Trace

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Checkpoint
    from xpsample.sampling.until import Until
else:
    Checkpoint = Until = Any  # for typing.get_type_hints

# Warm-up steps with very many chains, and how many more with one; the more go down with the root of the chains.
LEAST, FOR_ONE_CHAIN = 100, 800

# Steps whose path is taken memory for, or a multiple: warm-ups of other lengths share what is compiled. With many
# chains these are fewer: so many steps of all chains together, at most.
ROOM, ROOM_OF_CHAINS = 1024, 2**22

# Steps of all stages of a warm-up, at most, in lengths of its first stage: room for stages of 1, 2 and 4 of these
# lengths, and for nine that end after their first third.
AT_MOST = 10


def warm_up_steps(kernel: Kernel, x0: Array, warmup: int | None) -> int:
    """Return the number of warm-up steps: `warmup`, or as many as the chains of a group need.

    HyperparameterError if a hyperparameter is unset and `warmup` is 0, or if all are set and `warmup` is not 0.
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
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set, and warmup=0. Set "
            f"{'it' if len(missing) == 1 else 'them'}, or drop warmup=0."
        )
    if warmup and kernel.tuning_inside is not None:
        raise HyperparameterError(
            f"warmup={warmup} has nothing to tune: {type(kernel).__name__} tunes unset hyperparameters at "
            "each of its steps"
        )
    if warmup and not missing:
        raise HyperparameterError(
            f"warmup={warmup} has nothing to tune: the kernel has no unset hyperparameter. Use burn_in={warmup} to "
            "discard steps"
        )
    return warmup


def warm_up_source(source: NoiseSource, number: int = 1) -> Native | Portable:
    """The noise of a warm-up, the first or a later one: of the same kind, and independent of the run's."""
    if not isinstance(source, (Native, Portable)):
        raise NoiseError(
            f"a warm-up cannot draw its noise from {type(source).__name__}. Set every hyperparameter, such as "
            "from an earlier run's trace.kernel, or pass a seed."
        )
    return derived(source, "warm-up" if number == 1 else f"warm-up {number}")


Path_ = dict[str, Array]
"""Tuned values and state of the chains, by name, after every step."""


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
        """Return the metadata of a run together with its warm-up's."""
        if self.path is None:
            return known
        diagnosis = known["diagnosis"] | {"findings": [found.to_json() for found in self.findings]}
        diagnosis["moves"] = diagnosis["moves"] | {"unset": True}
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

    Without `warmup`, these are stages of doubling length until the log density has converged: another one follows if
    it still moves, or if chains lag behind the others or are stuck. A stage also ends after its first third if the log
    density still moves there or chains are stuck, and the next one has the same length. Stuck chains continue from the
    positions of others. Each stage is a separate run, with a checkpoint in the folder ``warmup`` of the run's
    checkpoint, ``warmup-2`` and so on.
    """
    steps, pooled = warm_up_steps(program.kernel, x0, warmup), len(x0.shape) > 1
    if not steps:
        return Warmed(program, program.init(x0))
    until = None if until is None or until.seconds is None else replace(until, ess=None, rhat=None)
    settings: dict[str, Any] = {"until": until, "progress": progress, "clock": clock, "unit": "warm-up steps"}
    left = AT_MOST * steps if warmup is None else steps
    paths: list[Path_] = []
    below = np.zeros(x0.shape[:-1])
    for number in itertools.count(1):
        warming, starts, noise = _stage(target, program, x0, source, steps, number)
        carry, own, identity = warming.init(starts), None, {}
        check_limits(warming, carry, noise, warming.schedule.draws)
        if checkpoint is not None:
            from xpsample.sampling.checkpoint import inside
            from xpsample.sampling.identity import identity as identified

            own = inside(checkpoint, "warmup" if number == 1 else f"warmup-{number}")
            identity = identified(target, warming, starts, source) | {"round": number}
        third = int(FROM * steps)
        look = EndEarly(third if third + steps <= left else 0, warming, pooled)
        try:
            about = metadata(warming, starts, noise)
            looks: Any = {"callbacks": (look,), "pause": look.step}
            trace = run_program(warming, carry, noise, about, checkpoint=own, identity=identity, **looks, **settings)
        except BaseException as error:
            if isinstance(kept := getattr(error, "trace", None), Trace):
                keep(error, trace=_ended(program, kept, paths))
            raise
        if trace.run_statistics.steps < steps and not look.found:
            return Warmed(program, carry, trace=_time_is_up(_ended(program, trace, paths), steps))
        paths.append(next(iter(trace.recorded.values())))
        found = judge_stage(paths[-1], pooled)
        left -= trace.run_statistics.steps
        if not look.found:
            if not found.goes_on or 2 * steps > left:
                break
            steps *= 2
        x0, below = restarted(program.target, trace.state.point.x, found), np.maximum(below, found.stuck)
    ready, carry = _tuned(program, warming, x0, trace, paths[-1])
    again = chains_begun_again(below) if np.any(below) else None
    return Warmed(ready, carry, _joined(program, paths), tuple(filter(None, (found.lagging, found.moving, again))))


def _stage(
    target: AbstractTarget, program: Program, x0: Array, source: NoiseSource, steps: int, number: int
) -> tuple[Program, Array, Native | Portable]:
    """Program of a stage, its initial positions and its noise."""
    pooled, noise = len(x0.shape) > 1, warm_up_source(source, number)
    unit = max(1, min(ROOM, ROOM_OF_CHAINS // math.prod(x0.shape[:-1])))
    room = -(-steps // unit) * unit
    kernel, bound = program.kernel, program.target
    if isinstance(kernel, Piloted):
        from xpsample.targets.start import pilot_starts

        kernel, _ = kernel.pilot(steps)
        x0 = pilot_starts(target, bound.space, x0, noise.seed)
        assert isinstance(kernel.tuning_inside, AdaptedKernel)
        path: Recorder = TunedPath.of(kernel.tuning_inside)
        bound = target.prepare(x0, kernel.requires)
    else:
        path, kernel = WarmUpPath(with_tuning(kernel, 0, pooled)), with_tuning(kernel, steps, pooled)
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


def _joined(program: Program, paths: Sequence[Path_ | None]) -> Path_ | None:
    """Join the paths of several stages; the last one is None if no step was made."""
    made = [path for path in paths if path is not None]
    return {name: program.target.xp.concat([path[name] for path in made], axis=0) for name in made[0]} if made else None


def _ended(program: Program, trace: Trace, paths: Sequence[Path_]) -> Trace:
    """Trace of a stage that was ended, without draws, with the path of all stages."""
    warmup = _joined(program, [*paths, *trace.recorded.values()])
    return replace(trace, recorded={}, warmup=warmup, kernel=program.kernel)


def _time_is_up(trace: Trace, steps: int) -> Trace:
    """Trace with the finding that time was up."""
    made = trace.run_statistics.steps
    found = Finding(
        "until",
        f"time was up after {made} of {steps} warm-up steps, and there are no draws",
        made,
        "allow more seconds, or a shorter warm-up (warmup=); with a checkpoint, the same call resumes",
    )
    known: dict[str, Any] = trace.metadata["diagnosis"] | {"findings": [found.to_json()]}
    return replace(trace, metadata=trace.metadata | {"diagnosis": known})


class EndEarly:
    """Callback that ends a stage after its first third if chains are still in their transient phase, or stuck.

    Metrics and lengths are tuned to the steps after it. Chains in their transient phase see longer trajectories and
    scales that differ from the target's, and each of their steps would cost more and more.

    Parameters
    ----------
    step : int
        Step after which the chains are judged; 0 for never.
    program : Program
        Program of the stage, whose first recorder is the path.
    pooled : bool
        Whether the positions have a chain axis.
    """

    def __init__(self, step: int, program: Program, pooled: bool) -> None:
        self.step, self._program, self._pooled, self.found = step, program, pooled, False

    def on_start(self, run: RunState) -> str | None:
        """Judge the chains, as a warm-up that is resumed may have ended here."""
        return self.on_block(run)

    def on_block(self, run: RunState) -> str | None:
        """Return a reason if chains are in their transient phase, or stuck."""
        buffers = recorded_rows(self._program, run) if run.step and run.step == self.step else None
        if buffers is not None:
            self.found = judge_stage(buffers[0], self._pooled).transient
        return "chains are in their transient phase" if self.found else None

    def on_end(self, run: RunState) -> None:
        """Do nothing."""
