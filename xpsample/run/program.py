"""What a driver runs: a kernel on a bound target, and what is recorded of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend, Carry
from xpsample.core.checks import errors_of_functions
from xpsample.core.registry import compiled
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import Kernel
from xpsample.run.recorders import Recorder, part_of
from xpsample.targets.bound import BoundTarget


@dataclass(frozen=True)
class Program:
    """What a driver runs: step the kernel, and after every `thinning` steps past the burn-in, record.

    Parameters
    ----------
    kernel : Kernel
    target : BoundTarget
    recorders : tuple of Recorder
    burn_in, thinning, draws : int
        As in `sample`.
    compile : bool
        Whether the steps run compiled.
    room : int
        Rows to take memory for where that is more than `draws`, so that runs of other lengths share what is compiled.
    window : int
        Rows that buffers hold where rows go to a store, an even number: row i is in place ``i % window``. 0 where
        buffers hold all rows.
    """

    kernel: Kernel
    target: BoundTarget
    recorders: tuple[Recorder, ...]
    burn_in: int
    thinning: int
    draws: int
    compile: bool = False
    room: int = 0
    window: int = 0

    @property
    def backend(self) -> Backend:
        """Of the arrays."""
        return self.target.backend

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.burn_in + self.draws * self.thinning

    @property
    def held(self) -> int:
        """Rows that buffers hold."""
        return self.window or max(self.draws, self.room)

    def is_recorded(self, t: Any) -> Any:
        """Whether the state after step t (from 0, past the burn-in) is kept."""
        return (t + 1 - self.burn_in) % self.thinning == 0

    def row(self, t: Any) -> Any:
        """The row that the state after step t belongs to."""
        return (t - self.burn_in) // self.thinning

    def rows(self, steps: int) -> int:
        """Rows recorded after a number of steps."""
        return max(0, steps - self.burn_in) // self.thinning

    def specs(self, carry: Carry) -> Specs:
        """The noise of one step."""
        return self.kernel.noise(carry.state.point.x)

    def like(self, carry: Carry) -> Array:
        """An array with the library, device and floating dtype of the noise."""
        return self.target.as_floating(carry.state.point.x)

    def init(self, x: Array) -> Carry:
        """The carry at the start positions, which are copied: drivers may reuse the memory of their carry."""

        def begin(x: Array) -> Any:
            return self.kernel.init(self.target, 1 * x)

        with errors_of_functions("the run failed at the start positions"):
            return self.start(_as_one(self.target.backend, begin, x))

    def start(self, state: Any) -> Carry:
        """The carry at a state of the kernel, which is not copied."""
        return Carry(state, tuple(r.init(self.target, state) for r in self.recorders))

    def record(
        self, recorder_states: tuple[Any, ...], state: Any, info: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """New recorder states, and the row of each recorder."""
        if not recorder_states:
            return (), ()
        pairs = [
            r.update(self.target, recorder_state, state, info)
            for r, recorder_state in zip(self.recorders, recorder_states, strict=True)
        ]
        recorder_states, rows = zip(*pairs, strict=True)
        return recorder_states, rows


def _as_one(backend: Backend, begin: Callable[[Array], Any], x: Array) -> Any:
    """What `begin` gives, compiled as a whole where a library would compile each of its operations."""
    whole = compiled(backend, begin)
    if whole is begin:
        return begin(x)
    try:
        return whole(x)
    except Exception:  # it reads values, which a compiler does not know; or it has an error, which it then raises again
        return begin(x)


def first_rows(backend: Backend, buffers: Any, rows: int) -> Any:
    """The first rows of all buffers."""
    return compiled(backend, lambda buffers: tree.map(lambda buffer: buffer[:rows, ...], buffers))(buffers)


def named_rows(program: Program, rows: Any) -> Iterator[tuple[str, Any]]:
    """The rows of all recorders, by their names in a trace."""
    for recorder, own in zip(program.recorders, rows or (), strict=bool(rows)):
        yield from tree.items(own, part_of(recorder))
