"""Steps compiled by ``torch.compile``, some at a time: for long runs of few chains, whose cost is torch's overhead."""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain, repeat
from typing import Any

import torch

from xpsample import tree
from xpsample.backend import Array, Rows, make_steps, walk_steps

SETTING = "XPSAMPLE_TORCH_COMPILE"
"""The environment variable that switches compiling on when it is 1.

Off by default and not by a rule on the length of a run: a run that is resumed or extended would change its arithmetic.
"""

CHUNK = 16
"""Steps to one compiled call: with eight, steps of few chains took longer (docs/backends.md)."""

KEPT = 16
"""Compiled programs kept for one target; the oldest goes first."""


def wanted() -> bool:
    """Whether steps are to be compiled."""
    return os.environ.get(SETTING) == "1"


def steps(program: Any, carry: Any, noise: dict[str, Array], start: int, stop: int) -> tuple[Any, Sequence, Rows]:
    """`make_steps` with `CHUNK` steps to a call; what is left over of a block, and what cannot be compiled, eagerly.

    What is recorded at every step is compiled with the steps. With a thinning the states come out, and those that are
    due are recorded one by one: a program for each place of a due state in a chunk would take minutes to compile.
    """
    parts, at = [], start
    while noise and stop - at >= CHUNK:
        part = {name: block[at - start : at - start + CHUNK] for name, block in noise.items()}
        made = _chunk(program, part, start)(program, carry, part, at)
        if made is None:
            break
        carry = made[0]
        parts.append(made)
        at += CHUNK
    if at < stop or not parts:
        rest = {name: block[at - start :] for name, block in noise.items()}
        parts.append(make_steps(program, carry, rest, at, stop, walk=_walk))
    carries, infos, rows = zip(*parts, strict=True)
    kept = [row for row in rows if row.columns]
    whole = Rows(kept[0].first if kept else None, _joined([row.columns for row in kept]))
    return carries[-1], _joined(infos), whole


_walk = partial(walk_steps, unstack=torch.unbind)


class _Chunk:
    """Compiled steps of one program, with what is recorded `inside` or without it."""

    def __init__(self, program: Any, inside: bool) -> None:
        step, target = program.kernel.step, program.target

        def chunk(state: Any, folds: tuple, noise: dict[str, Array]) -> tuple[Any, tuple, Any]:
            made = []
            for i in range(CHUNK):
                state, info = step(target, state, {name: block[i] for name, block in noise.items()})
                kept = state
                if inside:
                    folds, kept = program.record(folds, state, info)
                made.append((info, kept))
            return state, folds, tree.map(_stack, *made)

        self.inside, self.failed, self._ran = inside, False, False
        self._run: Any = torch.compile(chunk, fullgraph=True, dynamic=False)

    def __call__(
        self, program: Any, carry: Any, noise: dict[str, Array], start: int
    ) -> tuple[Any, Sequence, Rows] | None:
        """As `make_steps`, for `CHUNK` steps; None where they cannot be compiled."""
        if self.failed:
            return None
        try:
            with nullcontext() if self._ran else _compiling():
                state, folds, (info, kept) = self._run(carry.state, carry.folds if self.inside else (), noise)
        except Exception as error:  # whatever stops a compiler; an error of the step itself comes again without it
            if self._ran:
                raise
            self.failed = True
            what = (
                "what is recorded runs eagerly"
                if self.inside
                else f"steps run eagerly ({SETTING}=0 says so beforehand)"
            )
            warnings.warn(f"torch.compile failed, {what}: {_first_line(error)}", RuntimeWarning, stacklevel=2)
            return None
        self._ran = True
        counts = (count if isinstance(count, torch.Tensor) else repeat(count, CHUNK) for count in info.evaluations)
        infos = (*(column.unbind() for column in info[:3]), [*map(type(info.evaluations), *counts)])
        if self.inside:
            columns = [leaf.unbind() for leaf in tree.leaves(kept)]
            rows = Rows(tree.map(lambda leaf: leaf[0], kept), columns)
        else:
            folds, rows = self._recorded(program, carry.folds, kept, info, start)
        return type(carry)(state, folds), infos, rows

    @staticmethod
    def _recorded(program: Any, folds: tuple, states: Any, infos: Any, start: int) -> tuple[tuple, Rows]:
        """The folds and rows of the steps of a chunk that are due."""
        emitted = []
        for i in range(CHUNK):
            if start >= program.burn_in and program.due(start + i):
                state, info = tree.map(lambda a, i=i: a[i] if isinstance(a, torch.Tensor) else a, (states, infos))
                folds, row = program.record(folds, state, info)
                emitted.append(row)
        first = emitted[0] if emitted else None
        return folds, Rows(first, list(zip(*map(tree.leaves, emitted), strict=True)))


def _stack(*steps: Any) -> Any:
    """What some steps made; a number, of evaluations, is the same for all."""
    return torch.stack(steps) if isinstance(steps[0], torch.Tensor) else steps[0]


def _joined(parts: Sequence[Sequence[Sequence]]) -> list[list]:
    """Columns of one part after another."""
    return [[*chain.from_iterable(columns)] for columns in zip(*parts, strict=True)]


def _chunk(program: Any, noise: dict[str, Array], start: int) -> _Chunk:
    """The one of a kernel, at the shapes of its noise: later runs of the same target do not compile again."""
    held = program.target.compiled
    shapes = tuple((name, block.shape, block.dtype) for name, block in noise.items())
    for inside in (True, False) if program.thinning == 1 and start >= program.burn_in else (False,):
        key = (program.key.kernel, shapes, program.key.recorders if inside else None)
        if key not in held:
            if len(held) >= KEPT:
                held.pop(next(iter(held)))
            held[key] = _Chunk(program, inside)
        if not held[key].failed:
            break
    return held[key]


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
