"""Steps compiled by ``torch.compile``: for long runs of few chains, whose cost is torch's overhead."""

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch

from xpsample.core import tree
from xpsample.core.arrays import is_array
from xpsample.core.backend import DrivenProgram, Step
from xpsample.core.describe import describe
from xpsample.core.errors import BackendError
from xpsample.core.hyperparameters import is_frozen
from xpsample.targets.bound import BoundTarget

KEPT = 16  # Compiled steps kept; the oldest goes first

_steps: dict[Any, "_CompiledStep"] = {}
"""By the kernel, and the target without its numbers."""

_lock = threading.RLock()
"""Lock of the steps above, and of torch's settings while one is compiled."""


def compiled_step(program: DrivenProgram) -> Callable[..., tuple[Any, Any]]:
    """The step of a program's kernel, compiled at its first call; later runs of the same target do not compile again.

    Raises
    ------
    BackendError
        At that call, if torch cannot compile the step.
    """
    numberless = program.advance(tree.map(lambda leaf: (str(leaf.dtype), tuple(leaf.shape)), program.data))
    key = _key(numberless)
    with _lock:
        if key not in _steps:
            if len(_steps) >= KEPT:
                _steps.pop(next(iter(_steps)))
            _steps[key] = _CompiledStep(numberless)
        return _steps[key].on(program.data)


@dataclass(frozen=True, eq=False)
class _Itself:
    """A value compared by identity; it is kept, so that no other object gets its address."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _key(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Return a key that is equal where one compiled step serves.

    Values are compared, and functions by code and closure, since a run creates some of them anew.
    Globals and the contents of other objects are watched by torch's guards.
    """
    if id(value) in inside:  # a function that encloses itself
        return inside.index(id(value))
    inside = (*inside, id(value))
    if is_array(value):
        return str(describe(value))
    if isinstance(value, (tuple, list)):
        return type(value), *(_key(part, inside) for part in value)
    if isinstance(value, dict):
        return dict, *((name, _key(part, inside)) for name, part in value.items())
    if isinstance(value, MethodType):
        parts: Any = (value.__func__, value.__self__)
    elif isinstance(value, partial):
        parts = (value.func, value.args, value.keywords)
    elif isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]  # but empty ones
        return (
            value.__code__,
            _Itself(value.__globals__),
            _key([value.__defaults__, value.__kwdefaults__, cells], inside),
        )
    elif is_frozen(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        return (type(value), value) if isinstance(value, (int, float, str, type(None))) else _Itself(value)
    return type(value), *(_key(part, inside) for part in parts)


class _CompiledStep:
    """A kernel's step, compiled; with the functions that it was compiled for, which torch knows by identity."""

    def __init__(self, step: Step) -> None:
        self._run: Any = torch.compile(step.func, fullgraph=True, dynamic=False)
        self._ran = False
        (self._target,) = step.args

    def on(self, data: tree.Tree) -> Step:
        """The step on a target with these data."""
        return partial(self, self._target.with_data(data))

    def __call__(self, target: BoundTarget, state: Any, noise: dict[str, torch.Tensor]) -> tuple[Any, Any]:
        if self._ran:
            errors = importlib.import_module("torch._dynamo").exc
            try:
                return self._run(target, state, noise)
            except (errors.Unsupported, getattr(errors, "FailOnRecompileLimitHit", errors.Unsupported)):
                pass  # what its functions read has changed: compiled again below
        try:
            with _lock, _compiling():
                made = self._run(target, state, noise)
        except Exception as error:
            cause = getattr(error, "inner_exception", error)  # what the compiler behind torch's tracing says
            first = next(iter(str(cause).strip().splitlines()), "")
            raise BackendError(
                f"torch.compile failed ({type(cause).__name__}: {first}): leave compile=True out"
            ) from error
        self._ran = True
        return made


@contextmanager
def _compiling() -> Iterator[None]:
    """Set what torch needs while a step is compiled, if it has such settings.

    Derivatives by torch.autograd become a part of the program; and there may be any number of programs, which count as
    recompilations of one function.
    """
    config = importlib.import_module("torch._dynamo").config
    wanted = {"trace_autograd_ops": True, "recompile_limit": sys.maxsize, "accumulated_recompile_limit": sys.maxsize}
    with warnings.catch_warnings(), config.patch({name: v for name, v in wanted.items() if hasattr(config, name)}):
        # What is cached here are tables that depend on their arguments alone.
        warnings.filterwarnings("ignore", r"Dynamo detected a call to a `functools\.lru_cache`")
        yield
