"""Steps compiled by ``torch.compile``: for long runs of few chains, whose cost is torch's overhead."""

import importlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from xpsample.core import same
from xpsample.core.backend import Stepper
from xpsample.core.errors import BackendError
from xpsample.kernels.kernel import Kernel
from xpsample.targets.bound import BoundTarget

KEPT = 16
"""Compiled steps kept for one target; the oldest goes first."""


def compiled_step(program: Stepper) -> Callable[..., tuple[Any, Any]]:
    """The step of a program's kernel, compiled at its first call; later runs of the same target do not compile again.

    Raises
    ------
    BackendError
        At that call, if torch cannot compile the step.
    """
    kept, key = program.target.compiled, same.key(program.kernel)
    if key not in kept:
        if len(kept) >= KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = _CompiledStep(program.kernel)
    return kept[key]


class _CompiledStep:
    """``kernel.step``, compiled."""

    def __init__(self, kernel: Kernel) -> None:
        self._run: Any = torch.compile(kernel.step, fullgraph=True, dynamic=False)
        self._ran = False

    def __call__(self, target: BoundTarget, state: Any, noise: dict[str, torch.Tensor]) -> tuple[Any, Any]:
        if self._ran:
            return self._run(target, state, noise)
        try:
            with _compiling():
                made = self._run(target, state, noise)
        except Exception as error:
            cause = getattr(error, "inner_exception", error)  # what the compiler behind torch's tracing says
            first = next(iter(str(cause).strip().splitlines()), "")
            raise BackendError(
                f"torch.compile failed ({type(cause).__name__}: {first}): leave compile=True out"
            ) from error
        self._ran = True
        return made


def _compiling() -> AbstractContextManager:
    """What torch needs while a step is compiled, where it has such settings.

    Derivatives by torch.autograd become a part of the program; and there may be any number of programs, which count as
    recompilations of one function.
    """
    config = importlib.import_module("torch._dynamo").config
    wanted = {"trace_autograd_ops": True, "recompile_limit": sys.maxsize, "accumulated_recompile_limit": sys.maxsize}
    return config.patch({name: value for name, value in wanted.items() if hasattr(config, name)})
