"""What a run asks for, compared with what the machine has, before the first step."""

import math
import os
from functools import cache
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import errors_of_functions
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import to_host
from xpsample.sampling.eager import ADVICE
from xpsample.sampling.loop import FAILED, OF_TARGETS
from xpsample.sampling.noise import NoiseSource, Replay, as_noise_source
from xpsample.sampling.processes import Processes
from xpsample.sampling.program import Carry, Program
from xpsample.targets.bound import counter

SMALL = 0.01
"""Share of the memory up to which draws are not looked at more closely."""


def check_limits(program: Program, carry: Carry, source: NoiseSource, held: int) -> None:
    """Raise HyperparameterError unless steps can be counted, and the `held` rows of a run fit into memory."""
    x, steps = carry.state.point.x, program.schedule.steps
    if steps >= 2**31 and steps > (most := _counted(program, x)):
        raise HyperparameterError(
            f"{steps} steps are asked for, and {program.target.backend.name} counts to {most} here: take fewer "
            "steps, or switch its 64-bit types on"
        )
    processes = Processes.of(x)
    memory = processes.count * -processes.largest(carry, -_memory())
    if held * math.prod(x.shape) * np.dtype(tree.dtype_name(x)).itemsize < SMALL * memory:
        return
    row = sum(to_host(leaf).nbytes for leaf in tree.leaves(example_row(program, carry, source, 0)))
    machine = f"the machines of {processes.count} processes have" if processes.several else "the machine has"
    if held * row > memory:
        raise HyperparameterError(
            f"{held} draws of {row} bytes are {held * row / 2**30:.3g} GiB, and "
            f"{machine} {memory / 2**30:.3g} GiB of memory: {ADVICE}"
        )


def example_row(program: Program, carry: Carry, source: NoiseSource, start: int) -> tuple[Any, ...]:
    """A row of each recorder, by a throw-away step."""
    like = program.like(carry)
    source = as_noise_source(0) if isinstance(source, Replay) else source
    block = source.block(program.target.backend, program.specs(carry), start, start + 1, like)
    noise = {name: rows[0, ...] for name, rows in block.items()}
    # As in the run, whose steps may leave the finite numbers, and fail.
    with np.errstate(all="ignore"), errors_of_functions(FAILED.format(start, start + 1), OF_TARGETS):
        return program.record(carry.recorder_states, *program.kernel.step(program.target, carry.state, noise))[1]


def _counted(program: Program, x: Array) -> int:
    """How far the counters of a run count."""
    return int(program.target.xp.iinfo(counter(program.target, x).dtype).max)


@cache
def _memory() -> int:
    """Bytes of memory; where the system does not tell, what a processor can address."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**47
