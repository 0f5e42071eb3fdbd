"""What a driver runs: a kernel on a bound target, and what is recorded of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend, Buffers, Carry, Step, Stepper
from xpsample.core.checks import errors_of_functions
from xpsample.core.hyperparameters import arguments, with_arguments
from xpsample.core.registry import compiled
from xpsample.core.schedule import Schedule
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Info, Kernel
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability
from xpsample.trace.recorders import Recorder, part_of


class Kept(Stepper, Protocol):
    """What a checkpoint asks of the stepper that it keeps: a `Program`, or the epochs of a training."""

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """Whose names the rows have."""

    def result(self, recorder: Recorder, recorder_state: Any, rows: Any) -> Any:
        """What the trace has of a recorder."""

    def fingerprint(self, carry: Carry) -> tree.Tree:
        """Arrays that tell one target from another, up to rounding."""


@dataclass(frozen=True)
class Program:
    """What a driver runs: step the kernel, and record as the schedule says.

    Parameters
    ----------
    kernel : Kernel
    target : BoundTarget
    recorders : tuple of Recorder
    schedule : Schedule
    compile : bool
        Whether the steps run compiled.
    """

    kernel: Kernel
    target: BoundTarget
    recorders: tuple[Recorder, ...]
    schedule: Schedule
    compile: bool = False
    compiled: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def backend(self) -> Backend:
        """Of the arrays."""
        return self.target.backend

    @property
    def data(self) -> tree.Tree:
        """The target's."""
        return self.target.data

    def specs(self, carry: Carry) -> Specs:
        """The noise of one step."""
        return self.kernel.noise(carry.state.point.x)

    def like(self, carry: Carry) -> Array:
        """An array with the library, device and floating dtype of the noise."""
        return self.target.as_floating(carry.state.point.x)

    def values(self, is_array: Callable[[object], bool]) -> dict[str, Any]:
        """The kernel's hyper-parameters."""
        return arguments(self.kernel, is_array)

    def advance(self, data: tree.Tree = None, values: Mapping[str, Any] | None = None) -> Step:
        """The kernel's step on the target."""
        kernel = with_arguments(self.kernel, values) if values else self.kernel
        return partial(kernel.step, self._target(data))

    def _target(self, data: tree.Tree) -> BoundTarget:
        return self.target if data is None else self.target.with_data(data)

    def sums(self, infos: Sequence[Info]) -> Info:
        """Those of the infos of some steps; evaluations may be Python integers."""
        return block_sums(self.target.xp, infos)

    def init(self, x: Array) -> Carry:
        """The carry at the start positions, which are copied: drivers may reuse the memory of their carry."""

        def begin(x: Array, values: dict[str, Array], data: tree.Tree) -> Any:
            return with_arguments(self.kernel, values).init(self._target(data), 1 * x)

        backend = self.target.backend
        values = {path: value for path, value in self.values(backend.owns).items() if backend.owns(value)}
        with errors_of_functions("the run failed at the start positions"):
            return self.start(as_one(backend, begin, x, values, self.data))

    def start(self, state: Any) -> Carry:
        """The carry at a state of the kernel, which is not copied."""
        return Carry(state, tuple(r.init(self.target, state) for r in self.recorders))

    def record(
        self, recorder_states: tuple[Any, ...], state: Any, info: Any, data: tree.Tree = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """New recorder states, and the row of each recorder."""
        if not recorder_states:
            return (), ()
        target = self._target(data)
        pairs = [
            r.update(target, recorder_state, state, info)
            for r, recorder_state in zip(self.recorders, recorder_states, strict=True)
        ]
        recorder_states, rows = zip(*pairs, strict=True)
        return recorder_states, rows

    def result(self, recorder: Recorder, recorder_state: Any, rows: Any) -> Any:
        """What the trace has of a recorder."""
        return recorder.result(self.target, recorder_state, rows)

    def fingerprint(self, carry: Carry) -> dict[str, Array]:
        """Values of the target at the current positions."""
        return self.values_at(carry.state.point.x)

    def values_at(self, x: Array) -> dict[str, Array]:
        """What the kernel uses of the target at positions, by name: log density, score and so on."""
        point = self.target.evaluate(x)
        values = {"log density": point.log_density, "score": point.score, "differences": point.differences}
        if Capability.HVP in self.target.requires:
            values["hvp"] = self.target.hvp(x, self.target.xp.ones_like(self.target.as_floating(x)))
        return values


def as_one(backend: Backend, begin: Callable[..., Any], *args: tree.Tree) -> Any:
    """What `begin` gives, compiled as a whole where a library would compile each of its operations."""
    whole = compiled(backend, begin)
    if whole is begin:
        return begin(*args)
    try:
        return whole(*args)
    except Exception:  # it reads values, which a compiler does not know; or it has an error, which it then raises again
        return begin(*args)


def first_rows(backend: Backend, buffers: Buffers, rows: int) -> Buffers:
    """The first rows of all buffers."""
    return compiled(backend, lambda buffers: tree.map(lambda buffer: buffer[:rows, ...], buffers))(buffers)


def named_rows(program: Kept, rows: Buffers) -> Iterator[tuple[str, Any]]:
    """The rows of all recorders, by their names in a trace."""
    for recorder, own in zip(program.recorders, rows or (), strict=bool(rows)):
        yield from tree.items(own, part_of(recorder))


def block_sums(xp: Any, infos: Sequence[Info]) -> Info:
    """The sums of the infos of a block of steps; evaluations may be Python integers."""
    dtype = infos[0].acceptance_probability.dtype

    def stacked(column: Sequence[Array]) -> Array:
        return xp.astype(xp.stack(column), dtype)

    counts = Evaluations(*(sum(column) for column in zip(*(info.evaluations for info in infos), strict=True)))
    coarse, fine = summable(xp, stacked([info.acceptance_probability for info in infos]))
    columns = (coarse, fine, stacked([info.moved for info in infos]), stacked([info.diverged for info in infos]))
    coarse, fine, moves, divergences = (xp.sum(column, axis=0) for column in columns)
    accepts: Any = (coarse, fine)
    return Info(accepts, moves, divergences, counts)


def summable(xp: Any, probability: Array) -> tuple[Array, Array]:
    """A probability as two numbers whose sums over a segment are exact.

    So the sums of a run do not depend on where its blocks end. They are multiples of 2^-12, and of 2^-24 (2^-44 in
    float64), to which the probability is rounded.
    """
    coarse = xp.round(probability * 2.0**12) * 2.0**-12
    bits = 24 if xp.finfo(probability.dtype).bits < 64 else 44
    return coarse, xp.round((probability - coarse) * 2.0**bits) * 2.0**-bits
