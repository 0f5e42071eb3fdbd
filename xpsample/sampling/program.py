"""The program of a run: a kernel on a bound target, what is recorded of it, and which steps are recorded."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend, Buffers, Carry, Schedule, Step
from xpsample.core.checks import errors_of_functions
from xpsample.core.devices import Processes
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import arguments, form, show, with_arguments
from xpsample.core.registry import backend_of, compiled, to_host
from xpsample.core.specs import Specs
from xpsample.core.tree import dtype_name
from xpsample.core.version import __version__
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Info, Kernel
from xpsample.sampling.eager import ADVICE
from xpsample.sampling.noise import NoiseSource, Replay, as_noise_source
from xpsample.spaces.named import Named
from xpsample.spaces.space import Real
from xpsample.targets.bound import BoundTarget, counter, on_some_rows
from xpsample.targets.point import Capability
from xpsample.targets.shaped import shape_of
from xpsample.trace.diagnosis import about
from xpsample.trace.recorders import Recorder, part_of

FAILED = "the run failed between steps {} and {}"
OF_TARGETS = (
    "; functions must accept any position and return -inf where the "
    "density is 0, with a library's own checks of arguments switched off (validate_args=False); "
    "batched(f, rejects={error}) lifts a function of one position, and rejects that chain where it raises"
)


@dataclass(frozen=True)
class Program:
    """A kernel on a bound target, and what is recorded of it: what a backend drives.

    Parameters
    ----------
    kernel : Kernel
    target : BoundTarget
    recorders : tuple of Recorder
    schedule : Schedule
    compile : bool
        Whether an eager library that can compile the step does so.
    compiled : dict
        What was compiled for this program, and for others of its `Sampler`, by `form`.
    """

    kernel: Kernel
    target: BoundTarget
    recorders: tuple[Recorder, ...]
    schedule: Schedule
    compile: bool = False
    compiled: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def backend(self) -> Backend:
        """Backend of the target's arrays."""
        return self.target.backend

    @property
    def data(self) -> tree.Tree:
        """Data of the target."""
        return self.target.data

    @cached_property
    def form(self) -> Any:
        """Key of a compiled program, without the kernel's `values`, data, positions and numbers of steps."""
        owns = self.backend.owns
        recorders = tuple(form(recorder, owns) for recorder in self.recorders)
        return form(self.kernel, owns), recorders, self.schedule.burn_in, self.schedule.thinning, self.compile

    def specs(self, carry: Carry) -> Specs:
        """The noise of one step."""
        return self.kernel.noise(carry.state.point.x)

    def like(self, carry: Carry) -> Array:
        """An array with the library, device and floating dtype of the noise."""
        return self.target.as_floating(carry.state.point.x)

    def values(self, is_array: Callable[[object], bool]) -> dict[str, Any]:
        """The kernel's hyperparameters."""
        return arguments(self.kernel, is_array)

    def advance(self, data: tree.Tree = None, values: Mapping[str, Any] | None = None) -> Step:
        """The kernel's step on the target."""
        kernel = with_arguments(self.kernel, values) if values else self.kernel
        return partial(kernel.advance, self._target(data))

    def _target(self, data: tree.Tree) -> BoundTarget:
        return self.target if data is None else self.target.with_data(data)

    def sums(self, infos: Sequence[Info]) -> Info:
        """Sums of the infos of a block of steps; evaluations may be Python integers."""
        xp, dtype = self.target.xp, infos[0].acceptance_probability.dtype
        probability, moved, diverged, evaluations = zip(*map(_summed, infos), strict=True)
        coarse, fine = summable(xp, xp.astype(xp.stack(probability), dtype))
        accepts: Any = (xp.sum(coarse, axis=0), xp.sum(fine, axis=0))
        moves = xp.sum(xp.astype(xp.stack(moved), dtype), axis=0)
        divergences = xp.sum(xp.astype(xp.stack(diverged), dtype), axis=0)
        return Info(accepts, moves, divergences, Evaluations(*map(sum, zip(*evaluations, strict=True))))

    def init(self, x: Array) -> Carry:
        """Carry at the initial positions, which are copied: drivers may reuse the memory of their carry."""
        kernel, target_of = self.kernel, replace(self, compiled={})._target  # no cycle of references through `compiled`

        def begin(x: Array, values: dict[str, Array], data: tree.Tree) -> Any:
            return with_arguments(kernel, values).init(target_of(data), 1 * x)

        like = self.target.as_floating(x)
        values = {
            path: np.asarray(value, dtype_name(like)) if isinstance(value, float) else value
            for path, value in self.values(self.backend.owns).items()
        }
        with errors_of_functions("the run failed at the start positions"):
            whole = self.once(begin, "init")
            if whole is not begin:
                try:
                    return self.start(whole(x, values, self.data))
                except Exception:  # it reads values, which a compiler does not know, or has an error that comes again
                    pass
            return self.start(self.kernel.init(self.target, 1 * x))

    def once(self, f: Callable[..., Any], *name: Any) -> Callable[..., Any]:
        """Return `f` compiled as a whole; what was compiled under this `name` before is used again."""
        whole = compiled(self.backend, f)
        return f if whole is f else self.compiled.setdefault((*name, self.form), whole)

    def start(self, state: Any) -> Carry:
        """The carry at a state of the kernel, which is not copied."""
        return Carry(state, tuple(r.init(self.target, state) for r in self.recorders))

    def record(
        self, recorder_states: tuple[Any, ...], state: Any, info: Any, data: tree.Tree = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """New recorder states, and the row of each recorder."""
        target, states, rows = self._target(data), [], []
        for recorder, recorder_state in zip(self.recorders, recorder_states, strict=True):
            recorder_state, row = recorder.update(target, recorder_state, state, info)
            states.append(recorder_state)
            rows.append(row)
        return tuple(states), tuple(rows)

    def values_at(self, x: Array) -> dict[str, Array]:
        """Values of the target that the kernel uses at positions, by name."""
        target = on_some_rows(self.target)
        point = target.evaluate(x)
        values = {"log density": point.log_density, "score": point.score, "differences": point.differences}
        if Capability.HVP in target.requires:
            values["hvp"] = target.hvp(x, target.xp.ones_like(target.as_floating(x)))
        return values


def first_rows(program: Program, buffers: Buffers, rows: int) -> Buffers:
    """The first rows of all buffers."""
    first = program.once(lambda buffers: tree.map(lambda buffer: buffer[:rows, ...], buffers), "rows", rows)
    return first(buffers)


def recorded_rows(program: Program, state: Any, store: Any = None, like: Any = None) -> Buffers:
    """Rows of each recorder so far; those in a store as arrays that read it, in the library of `like`."""
    rows, held = program.schedule.rows(state.step), program.schedule.held
    if store is not None:
        if store.rows < rows:
            store.keep(state, last=True)
        return store.trace_rows(min(rows, program.schedule.draws), like)
    return first_rows(program, state.buffers, rows) if rows < held else state.buffers


def named_rows(program: Program, rows: Buffers) -> Iterator[tuple[str, Any]]:
    """Rows of all recorders, by their names in a trace."""
    for recorder, own in zip(program.recorders, rows or (), strict=bool(rows)):
        yield from tree.items(own, part_of(recorder))


def example_row(program: Program, carry: Carry, source: NoiseSource, start: int = 0) -> tuple[Any, ...]:
    """Row of each recorder, by a throw-away step."""
    like = program.like(carry)
    source = as_noise_source(0) if isinstance(source, Replay) else source
    block = source.block(program.backend, program.specs(carry), start, start + 1, like)
    noise = {name: rows[0, ...] for name, rows in block.items()}
    # As in the run, whose steps may leave the finite numbers, and fail.
    with np.errstate(all="ignore"), errors_of_functions(FAILED.format(start, start + 1), OF_TARGETS):
        return program.record(carry.recorder_states, *program.advance()(carry.state, noise))[1]


def check_limits(program: Program, carry: Carry, source: NoiseSource, held: int) -> None:
    """Raise HyperparameterError unless steps can be counted, and the `held` rows of a run fit into memory."""
    x, steps, target = carry.state.point.x, program.schedule.steps, program.target
    if steps >= 2**31 and steps > (most := int(target.xp.iinfo(counter(target, x).dtype).max)):
        raise HyperparameterError(
            f"{steps} steps exceed the {most.bit_length() + 1}-bit counter of {target.backend.name}: make fewer steps, "
            "or enable its 64-bit types"
        )
    processes = Processes.of(x)
    memory = _memory() if processes is None else processes.count * -processes.largest(carry, -_memory())
    # A row that is much larger than the positions is rare: draws below a hundredth of the memory are let through.
    if held * math.prod(x.shape) * np.dtype(dtype_name(x)).itemsize < 0.01 * memory:
        return
    row = sum(to_host(leaf).nbytes for leaf in tree.leaves(example_row(program, carry, source)))
    machine = "the machine has" if processes is None else f"the machines of {processes.count} processes have"
    if held * row > memory:
        raise HyperparameterError(
            f"{held} draws of {row} bytes are {held * row / 2**30:.3g} GiB, and "
            f"{machine} {memory / 2**30:.3g} GiB of memory: {ADVICE}"
        )


def metadata(program: Program, x: Array, source: NoiseSource) -> dict[str, Any]:
    """Metadata of the trace of a run, as JSON values."""
    space = program.target.space
    return {
        **({"parameters": space.to_json()} if isinstance(space, Named) else {}),
        **({"space": space.to_json()} if isinstance(space, Real) and shape_of(space) else {}),
        "kernel": show(program.kernel),
        "backend": backend_of(x).name,
        "dtype": dtype_name(x),
        "device": str(device_of(x)),
        "seed": source.describe(),
        "burn_in": program.schedule.burn_in,
        "thinning": program.schedule.thinning,
        "compiled": program.compile,
        "version": __version__,
        "diagnosis": about(program.kernel, program.target.space, x.shape[-1], program.target.acceptance.whole),
    }


@cache
def _memory() -> int:
    """Bytes of memory; where the system does not tell, what a processor can address."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**47


_summed = attrgetter("acceptance_probability", "moved", "diverged", "evaluations")


def summable(xp: Any, probability: Array) -> tuple[Array, Array]:
    """A probability as two numbers whose sums over a segment are exact.

    The sums of a run therefore do not depend on where its blocks end. They are multiples of 2^-12, and of 2^-24
    (2^-44 in float64), to which the probability is rounded.
    """
    coarse = xp.round(probability * 2.0**12) * 2.0**-12
    bits = 24 if xp.finfo(probability.dtype).bits < 64 else 44
    return coarse, xp.round((probability - coarse) * 2.0**bits) * 2.0**-bits
