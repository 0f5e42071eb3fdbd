"""A look-alike of a GPU for torch: tensors that hold numbers, say that they are on another device, and refuse to mix.

Their device is ``meta``, the one besides the CPU that every build of torch has. Each holds a tensor of the CPU, on
which its operations are made: so runs are whole, and have the CPU's numbers. As on a GPU, an operation of tensors on
two devices is an error, unless those of the CPU have no axes. What makes the host wait for a GPU is noted: operations
whose results depend on data in the words of torch itself, masks as indices, errors of linear algebra, copies to the
host.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE, CPU = torch.device("meta"), torch.device("cpu")

waits: list[str] = []
"""Of all that made the host wait, in order, the innermost function of the library."""

OWN = [Path(__file__).parents[1] / folder for folder in ("xpsample", "backends")]


class Elsewhere(torch.Tensor):
    """A tensor on the look-alike's device."""

    held: torch.Tensor
    is_meta = False  # it holds numbers

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Elsewhere":
        """A tensor whose numbers are those of `held`, on the CPU."""
        strides = held.stride(), held.storage_offset()
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, *strides, dtype=held.dtype, device=DEVICE)
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} outside of the block in which the device can be used")


class _Device(TorchDispatchMode):
    """The operations of tensors there, and those that make some or copy some to it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch.compile is imported, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        there = any(isinstance(leaf, Elsewhere) for leaf in tensors)
        if not there and kwargs.get("device") != DEVICE:
            return func(*args, **kwargs)
        to_host = there and kwargs.get("device") == CPU
        if there and func is not torch.ops.aten.copy_.default and any(map(_is_stray, tensors)):
            raise RuntimeError(f"Expected all tensors to be on the same device, but {func} got some on {CPU}")
        if to_host or (there and _depends_on_data(func, args)):
            waits.append(_asker())
        if "device" in kwargs:
            kwargs["device"] = CPU
        result = func(*tree_map_only(Elsewhere, _held, args), **tree_map_only(Elsewhere, _held, kwargs))
        if to_host:
            return result
        result = tree_map_only(torch.Tensor, Elsewhere, result)
        return return_and_correct_aliasing(func, args, kwargs, result) if there else result


class _Copies(TorchFunctionMode):
    """Copies of Python's numbers: torch would make tensors of them that hold none."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.asarray, torch.as_tensor) and kwargs.get("device") == DEVICE:
            return func(*args, **(kwargs | {"device": CPU})).to(DEVICE)
        return func(*args, **kwargs)


class _Generator(torch.Generator):
    """One of the CPU, for tensors that are made there."""

    def __new__(cls, device: torch.device = CPU) -> Any:
        return super().__new__(cls, CPU if device == DEVICE else device)


@contextmanager
def elsewhere() -> Iterator[Callable[[Any], Elsewhere]]:
    """A block in which the device can be used; gives what puts NumPy arrays on it."""
    waits.clear()
    asked = torch.is_autocast_enabled
    with (
        mock.patch.object(torch, "is_autocast_enabled", lambda kind: kind != DEVICE.type and asked(kind)),
        mock.patch.object(torch, "Generator", _Generator),
        _Device(),
        _Copies(),
    ):
        yield lambda host: Elsewhere(torch.tensor(np.asarray(host)))


def _held(tensor: Elsewhere) -> torch.Tensor:
    return tensor.held


def _is_stray(tensor: torch.Tensor) -> bool:
    return tensor.ndim > 0 and not isinstance(tensor, Elsewhere)


def _depends_on_data(func: Any, args: Any) -> bool:
    """Whether the host has to know numbers to go on."""
    aten = torch.ops.aten
    if func in (aten.index_put.default, aten.index_put_.default) and args[2].numel() == 1:
        return False  # a number, which a GPU fills in by the mask
    if func in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    if func is aten._linalg_check_errors.default:
        return True
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def _asker() -> str:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if any(Path(frame.f_code.co_filename).is_relative_to(folder) for folder in OWN):
            return frame.f_code.co_name
        frame = frame.f_back
    return "no function of the library"
