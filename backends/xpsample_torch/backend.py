"""PyTorch: eager steps without graph recording; derivatives by torch.autograd."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from xpsample.core import tree
from xpsample.core.backend import (
    Autodiff,
    Backend,
    Buffers,
    Carry,
    Device,
    Driven,
    DrivenProgram,
    Source,
    StopFlag,
    Unpacked,
)
from xpsample.core.errors import BackendError, GradientError
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.sampling.eager import eager_drive, eager_repeat
from xpsample.sampling.noise import CHUNK_STEPS, draw_chunks, seed_sequence
from xpsample_torch import namespace as xp
from xpsample_torch.compiled import compiled_step

Array = Any
"""An array of this library."""


class _Seen(TorchDispatchMode):
    """The floating dtypes of all results: torch.autocast and casts inside of a function give fewer digits."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                self.dtypes.add(value.dtype)
        return result


def coarsest(f: Callable[..., Any], x: torch.Tensor) -> tuple[str, float] | None:
    """The dtype with the fewest digits that ``f(x)`` computes in; None if it has as many as `x`."""
    with torch.no_grad(), _Seen() as seen:
        f(x)
    found = max(seen.dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=x.dtype)
    eps = torch.finfo(found).eps
    return (str(found).removeprefix("torch."), eps) if eps > torch.finfo(x.dtype).eps else None


class TorchAutodiff(Autodiff):
    """Reverse mode. A derivative taken inside another one keeps its graph, so they nest."""

    def __init__(self) -> None:
        self._local = threading.local()

    def value_and_grad(self, f: Callable[..., Array]) -> Callable[..., tuple[Array, tree.Tree]]:
        return lambda x, *args: self._backward(f, None, x, args)

    def hvp(self, score: Callable[..., Array]) -> Callable[..., Array]:
        return lambda x, v, *args: self._backward(score, v, x, args)[1]

    def score_and_hvp(self, score: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
        # J is symmetric, so the backward pass from v, which gives J^T v, gives J v.
        return lambda x, v, *args: self._backward(score, v, x, args)

    def vmap(self, f: Callable[..., Array]) -> Callable[..., Array]:
        return lambda x, *args: torch.func.vmap(lambda one: f(one, *args))(x)

    def compiled(self, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
        return f

    def repeated(self, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
        return torch.no_grad()(f)

    @torch.compiler.disable
    def on_host(self, f: Callable[[np.ndarray], tree.Tree], row: tree.Tree, numbers: Array) -> tree.Tree:
        return tree.map(lambda a: BACKEND.from_host(a, numbers), f(BACKEND.to_host(numbers)))

    def coarsest(self, f: Callable[..., Array], x: Array) -> tuple[str, float] | None:
        return coarsest(f, x)

    def unpack(self, value: object) -> Unpacked | None:
        return None  # torch's transformations accept dicts, lists and tuples

    def _backward(
        self, f: Callable[..., Array], along: Array | None, x: tree.Tree, args: tuple
    ) -> tuple[Array, tree.Tree]:
        """f(x, *args) and its Jacobian in x, transposed, times `along`: an array like f(x), or None for ones."""
        depth = getattr(self._local, "depth", 0)
        nested = depth > 0
        self._local.depth = depth + 1
        try:
            with torch.enable_grad():
                tracked = tree.map(lambda a: a if nested and a.requires_grad else a.detach().requires_grad_(True), x)
                value = f(tracked, *args)
                gradient = self._gradient(value, along, tracked, nested)
        finally:
            self._local.depth = depth
        return (value if nested else value.detach()), gradient

    @staticmethod
    def _gradient(value: torch.Tensor, along: Array | None, tracked: tree.Tree, nested: bool) -> tree.Tree:
        leaves = dict(tree.items(tracked))
        found: Sequence[torch.Tensor | None] = ()
        if value.requires_grad:
            along = torch.ones_like(value) if along is None else along
            found = torch.autograd.grad(value, list(leaves.values()), along, create_graph=nested, allow_unused=True)
        if all(g is None for g in found):
            raise GradientError(
                "torch recorded nothing to differentiate: the value does not depend on its argument. Remove no_grad, "
                "detach and NumPy; for a constant density, pass score=torch.zeros_like."
            )
        full = [_slope(a, g, nested) for a, g in zip(leaves.values(), found, strict=True)]
        return tree.fill(tracked, dict(zip(leaves, full, strict=True)))


def _slope(leaf: torch.Tensor, gradient: torch.Tensor | None, nested: bool) -> torch.Tensor:
    """A gradient, with zeros where the function makes no use of the leaf.

    A nested one stays a function of the leaf though it be the same everywhere, so that its own derivative is zero.
    """
    gradient = torch.zeros_like(leaf) if gradient is None else gradient
    if not nested or gradient.requires_grad:
        return gradient
    return torch.where(torch.zeros_like(leaf, dtype=torch.bool), leaf, gradient)


class TorchBackend(Backend):
    """PyTorch tensors."""

    name = "torch"
    xp = xp
    autodiff = TorchAutodiff()

    def owns(self, array: object) -> bool:
        return isinstance(array, torch.Tensor)

    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        tiny = torch.finfo(like.dtype).tiny

        def draw(name: str, spec: Normal | Uniform, chunk: int, steps: int) -> torch.Tensor:
            state = seed_sequence(seed, name, chunk).generate_state(1, np.uint64)[0]
            generator = torch.Generator(like.device).manual_seed(int(state >> np.uint64(1)))
            shape = (steps, *spec.shape)
            if isinstance(spec, Normal):
                return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
            return torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device).clamp_(min=tiny)

        # On CPUs normals are made in sixteens; on a GPU, how they are shared out depends on how many there are.
        return draw_chunks(draw, specs, start, stop, xp, 16 if like.device.type == "cpu" else CHUNK_STEPS)

    def repeat(
        self, n: int | Array, body: Callable[[Any, Any], Any], carry: Any, until: Callable[[Any], Array] | None = None
    ) -> Any:
        if torch.compiler.is_compiling() and isinstance(n, torch.Tensor) and n.dtype == torch.bool:
            # A compiled step has no branch on a value: it computes both.
            return tree.map(lambda new, old: torch.where(n, new, old), body(0, carry), carry)
        return eager_repeat(n, body, carry, until)

    def drive(
        self,
        program: DrivenProgram,
        carry: Carry,
        buffers: Buffers,
        source: Source,
        start: int,
        stop: int,
        stop_flag: StopFlag,
    ) -> Driven:
        # Positions that were made to require gradients would drag a graph along the chain.
        carry = tree.map(torch.Tensor.detach, carry)
        with torch.no_grad():
            step = compiled_step(program) if program.compile else _step(program, program.like(carry))
            return eager_drive(
                program, carry, buffers, source, start, stop, stop_flag, step=step, unstack=torch.unbind, write=_write
            )

    def synchronize(self, value: tree.Tree, number: float = 0.0) -> float:
        for device in {leaf.device for leaf in tree.leaves(value) if isinstance(leaf, torch.Tensor)}:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        return number

    def to_host(self, array: Array) -> np.ndarray:
        _check_plain(array)
        return array.detach().cpu().numpy()

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        # A copy: torch writes through shared memory, and a read-only array must not be shared.
        return torch.tensor(array, device=like.device)

    def devices(self, array: Array | None = None) -> list[Device]:
        both = ("float32", "float64")
        if array is not None:
            _check_plain(array)
            return [Device(str(array.device), array.device, both, forks=False)]
        cuda = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        return [
            Device("cpu", torch.device("cpu"), both, forks=False),
            *(Device(f"cuda:{i}", torch.device("cuda", i), both, forks=False, model=_model(i)) for i in cuda),
        ]


def _model(i: int) -> str:
    """Name of a GPU once it is in use: a query would initialize it and reserve memory."""
    return torch.cuda.get_device_name(i) if torch.cuda.is_initialized() else ""


def _check_plain(tensor: torch.Tensor) -> None:
    """Raise BackendError for tensors that no run can use, whatever their dtype."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        kind = "one inside torch.func (vmap, grad): call the function with positions that are plain tensors"
    elif tensor.is_meta:
        kind = "a meta tensor, which holds no numbers: make it on a device"
    elif tensor.layout is not torch.strided or tensor.is_nested:
        kind = "a sparse or nested one: convert it by to_dense(), or pad it"
    elif tensor.is_quantized:
        kind = "a quantised one: convert it by dequantize()"
    elif torch.is_autocast_enabled(tensor.device.type):
        raise BackendError(
            f"torch.autocast is on and would round {str(tensor.dtype).removeprefix('torch.')}. Call sample outside it, "
            "and use autocast inside the density only."
        )
    else:
        return
    raise BackendError(f"a tensor must be plain; got {kind}")


def _step(program: DrivenProgram, like: Any) -> Callable[..., Any]:
    """A program's step; a product with a Python number takes torch 1.5 times as long as with a tensor."""
    numbers = program.values(lambda value: False)
    tensors = {path: torch.tensor(number, dtype=like.dtype, device=like.device) for path, number in numbers.items()}
    return program.advance(values=tensors)


def _write(buffer: torch.Tensor, place: slice, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    torch.stack(tuple(tensors), out=buffer[place, ...])
    return buffer


BACKEND = TorchBackend()
