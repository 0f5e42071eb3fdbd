"""Steps compiled by ``torch.compile``, some at a time: for long runs of few chains, whose cost is torch's overhead."""

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from xpsample.backend import Array, walk_steps

SETTING = "XPSAMPLE_TORCH_COMPILE"
"""The environment variable that switches compiling on when it is 1.

Off by default and not by a rule on the length of a run: a run that is resumed or extended would change its arithmetic.
"""

CHUNK = 8
"""Steps to one compiled call, which costs about 50 us by itself."""

KEPT = 16
"""Compiled programs kept for one target; the oldest goes first."""


def wanted() -> bool:
    """Whether steps are to be compiled."""
    return os.environ.get(SETTING) == "1"


def walk(
    program: Any, state: Any, noise: dict[str, Array], unstack: Callable[[Array], Sequence[Array]]
) -> Iterator[tuple[Any, Any]]:
    """As `walk_steps`, `CHUNK` steps at a time; what is left over of a block, and what cannot be compiled, eagerly."""
    chunk = _chunk(program, noise)
    steps = min(block.shape[0] for block in noise.values()) if noise else 0
    done = 0
    while chunk is not None and steps - done >= CHUNK:
        try:
            with nullcontext() if chunk.ran else _compiling():
                states, infos = chunk.run(state, {name: block[done : done + CHUNK] for name, block in noise.items()})
        except Exception as error:  # whatever stops a compiler; an error of the step itself comes again below
            if chunk.ran:
                raise
            chunk.run = None
            warnings.warn(
                f"torch.compile failed, steps run eagerly ({SETTING}=0 says so beforehand): {_first_line(error)}",
                RuntimeWarning,
                stacklevel=2,
            )
            break
        chunk.ran = True
        yield from zip(states, infos, strict=True)
        state = states[-1]
        done += CHUNK
    if done < steps or not noise:
        yield from walk_steps(program, state, {name: block[done:] for name, block in noise.items()}, unstack)


class _Chunk:
    """Steps of one program: `run` is None where they cannot be compiled; `ran` tells whether they ever were."""

    def __init__(self, program: Any) -> None:
        step, target = program.kernel.step, program.target

        def chunk(state: Any, noise: dict[str, Array]) -> tuple[list, list]:
            states, infos = [], []
            for i in range(CHUNK):
                state, info = step(target, state, {name: block[i] for name, block in noise.items()})
                states.append(state)
                infos.append(info)
            return states, infos

        self.run: Any = torch.compile(chunk, fullgraph=True, dynamic=False)
        self.ran = False


def _chunk(program: Any, noise: dict[str, Array]) -> _Chunk | None:
    """The one of a kernel, at the shapes of its noise: later runs of the same target do not compile again."""
    held = program.target.compiled
    key = (program.kernel, tuple((name, block.shape[1:], block.dtype) for name, block in noise.items()))
    if key not in held:
        if len(held) >= KEPT:
            held.pop(next(iter(held)))
        held[key] = _Chunk(program)
    return held[key] if held[key].run is not None else None


def _compiling() -> AbstractContextManager:
    """What torch needs while a program is compiled, where it has such settings.

    Derivatives by torch.autograd become a part of the program; and there may be any number of programs, which count as
    recompilations of one function.
    """
    config = importlib.import_module("torch._dynamo").config
    wanted = {"trace_autograd_ops": True, "recompile_limit": sys.maxsize, "accumulated_recompile_limit": sys.maxsize}
    return config.patch({name: value for name, value in wanted.items() if hasattr(config, name)})


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
