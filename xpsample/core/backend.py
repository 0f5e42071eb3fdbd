"""Interface of an array library.

A backend is a value of a final subclass of `Backend`. The registry (`xpsample.core.registry`) finds it from an array.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from xpsample.core.arrays import Array, Tree
from xpsample.core.specs import Specs


class Device(NamedTuple):
    """A device: its name, the library's own object for it, the real dtypes that work, a note on missing ones.

    Runs and checks are made within `context`: it makes the device the current one of a library that computes on no
    other, and sees to it that products of matrices keep the digits of their dtype. `process` is the number of the
    process that it belongs to, where a library knows of several. `forks` tells whether a process that is forked from
    one which has used it can use it, too: not where the library keeps threads. `model` is what its maker calls it,
    where the library tells.
    """

    name: str
    device: Any
    dtypes: tuple[str, ...]
    note: str = ""
    context: AbstractContextManager[Any] = nullcontext()
    process: int = 0
    forks: bool = True
    model: str = ""


class Unpacked(NamedTuple):
    """A tree of a library's own kind, taken apart: its leaves by slash-separated path, and what makes it of others."""

    leaves: dict[str, Any]
    rebuild: Callable[[Sequence[Any]], Tree]


class Autodiff(ABC):
    """Transformations of functions of arrays, above all derivatives, by the library's own means."""

    @abstractmethod
    def value_and_grad(self, f: Callable[..., Array]) -> Callable[..., tuple[Array, Tree]]:
        """``(x, *args) -> (f(x, *args), gradient in x of the sum of f(x, *args))``; nests."""

    @abstractmethod
    def hvp(self, score: Callable[..., Array]) -> Callable[..., Array]:
        """``(x, v, *args) -> J v``, where J is the Jacobian in x of ``score(x, *args)``; J must be symmetric."""

    @abstractmethod
    def score_and_hvp(self, score: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
        """``(x, v, *args) -> (score(x, *args), J v)``: as `hvp`, with the score."""

    @abstractmethod
    def vmap(self, f: Callable[..., Array]) -> Callable[..., Array]:
        """`f` mapped over the leading axis of its first argument; the other arguments are shared."""

    @abstractmethod
    def compiled(self, f: Callable[..., Tree]) -> Callable[..., Tree]:
        """`f` for calls outside of a run: compiled if eager calls cost much more, otherwise `f` itself.

        Leaves of its arguments may be Python values, such as a shape among a target's data: those are constants.
        """

    @abstractmethod
    def repeated(self, f: Callable[..., Tree]) -> Callable[..., Tree]:
        """`f` for many calls, none of which is differentiated; ``compiled(f)`` if the library has nothing better."""

    @abstractmethod
    def unpack(self, value: object) -> Unpacked | None:
        """Contents of the library's own containers, which its transformations treat as trees; None for others.

        Which it is depends on the type of the value alone.
        """

    @abstractmethod
    def on_host(self, f: Callable[[np.ndarray], Tree], row: Tree, numbers: Array) -> Tree:
        """``f(numbers)`` by NumPy, in this library, also within a compiled program or a derivative.

        The results have the structure and dtypes of `row`, and the shapes ``(*numbers.shape, *leaf.shape)``.
        """

    @abstractmethod
    def coarsest(self, f: Callable[..., Array], x: Array) -> tuple[str, float] | None:
        """The least precise dtype in which ``f(x)`` computes, and its machine epsilon.

        None where that is the dtype of `x`, or one with more digits.
        """


@dataclass(frozen=True)
class Schedule:
    """A burn-in, then rows, each after `thinning` steps.

    Parameters
    ----------
    draws : int
        Rows of the whole run.
    burn_in : int
        Steps at the start that are not recorded.
    thinning : int
        Steps of a row.
    room : int
        Rows to allocate if more than `draws`, so that runs of other lengths share what is compiled.
    window : int
        Rows that buffers hold where rows go to a store, an even number: row i is in place ``i % window``. 0 where
        buffers hold all rows.
    """

    draws: int
    burn_in: int = 0
    thinning: int = 1
    room: int = 0
    window: int = 0

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return self.burn_in + self.draws * self.thinning

    @property
    def held(self) -> int:
        """Number of rows that buffers hold."""
        return self.window or max(self.draws, self.room)

    def is_recorded(self, t: Any) -> Any:
        """Return whether the state after step t (from 0, past the burn-in) is kept."""
        return (t + 1 - self.burn_in) % self.thinning == 0

    def row(self, t: Any) -> Any:
        """The row that the state after step t belongs to."""
        return (t - self.burn_in) // self.thinning

    def rows(self, steps: int) -> int:
        """Rows recorded after a number of steps."""
        return max(0, steps - self.burn_in) // self.thinning


class StopFlag:
    """Flag that tells the driver to stop after the current step. An eager library checks it after every step.

    Attributes
    ----------
    signal : str or None
        Signal that was received: "Ctrl-C" or "SIGTERM".
    at : float
        When the time of the block is over, by ``time.perf_counter``.
    within : bool
        Whether the current step may be abandoned by a second signal, which raises `Abandoned`. The driver catches it
        and keeps the state of the last complete step.
    made : tuple or None
        What a block of an eager library has made when one of its steps raises an error, as `Backend.drive` returns it.
    """

    __slots__ = ("at", "made", "signal", "within")

    def __init__(self) -> None:
        self.signal: str | None = None
        self.at: float = math.inf
        self.within: bool = False
        self.made: Driven | None = None

    def __call__(self) -> bool:
        return self.signal is not None or time.perf_counter() >= self.at


class Abandoned(KeyboardInterrupt):
    """Raised if a second signal ends a step."""


class Carry(NamedTuple):
    """State passed from one step to the next: the driven state, and one tree for each recorder."""

    state: Any
    recorder_states: tuple[Any, ...]


Buffers = tuple[Any, ...] | None
"""Memory for the rows of each recorder, a tree of arrays; None until the first row is there."""

Driven = tuple[Carry, Buffers, Any, int]
"""Result of a block of steps: carry, buffers, sums over the steps, and the first step not made."""


class Source(Protocol):
    """Source of random numbers: `xpsample.sampling.noise.NoiseSource`."""

    def block(self, backend: "Backend", specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        """Noise of steps [start, stop), each array of shape ``(stop - start, *spec.shape)``, in `like`'s dtype."""

    def blocks(
        self, backend: "Backend", specs: Specs, start: int, stop: int, like: Array
    ) -> Iterator[tuple[int, int, dict[str, Array]]]:
        """`block` of some of the steps after the other, with the first step and the end of each."""


Step = partial[tuple[Any, Any]]
"""``step(state, noise)`` gives the next state, and what the step did. What every step is given is bound to it."""


class DrivenProgram(Protocol):
    """Program that a backend drives, such as `xpsample.sampling.program.Program`."""

    @property
    def backend(self) -> "Backend":
        """Backend of the arrays."""

    @property
    def data(self) -> Tree:
        """Data that every step is given. A backend that compiles makes their arrays arguments of its program."""

    @property
    def compiled(self) -> dict[Any, Any]:
        """Compiled functions of a backend, by `form`; the programs of one `Sampler` share them."""

    @property
    def form(self) -> Any:
        """Key of a compiled program: all that is part of it, without `values`, data and positions."""

    def values(self, is_array: Callable[[object], bool]) -> dict[str, Any]:
        """Numbers and arrays that may also be arguments of a compiled program, by path."""

    def advance(self, data: Tree = None, values: Mapping[str, Any] | None = None) -> Step:
        """The step, with other `data` and `values` than its own where these are given."""

    def sums(self, infos: Sequence[Any]) -> Tree:
        """Sums over some steps, independent of how steps are grouped."""

    @property
    def schedule(self) -> Schedule:
        """Number of steps, and which of them are recorded."""

    @property
    def compile(self) -> bool:
        """Return whether the steps run compiled, for libraries in which compilation is optional."""

    def specs(self, carry: Carry) -> Specs:
        """The noise of one step."""

    def like(self, carry: Carry) -> Array:
        """An array with the library, device and floating dtype of the noise."""

    def record(
        self, recorder_states: tuple[Any, ...], state: Tree, info: Any, data: Tree = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """New recorder states, and the row of each recorder, with other `data` than its own if they are given."""


class Backend(ABC):
    """One array library. A page of the developer docs builds one from nothing."""

    name: str
    """The importable module that the arrays come from; also the entry point's name."""

    xp: ModuleType
    """The array API namespace (array-api-compat's where it has one)."""

    autodiff: Autodiff | None
    """Automatic differentiation, or None."""

    @abstractmethod
    def owns(self, array: object) -> bool:
        """Return whether ``array`` is an array of this library."""

    @abstractmethod
    def noise(self, seed: int, specs: Specs, start: int, stop: int, like: Array) -> dict[str, Array]:
        """Native noise of steps [start, stop): a pure function of its arguments, in `like`'s dtype, on its device."""

    @abstractmethod
    def repeat(
        self,
        n: int | Array,
        body: Callable[[Any, Any], Any],
        carry: Any,
        until: Callable[[Any], Array] | None = None,
    ) -> Any:
        """``carry = body(i, carry)`` for i = 0 .. n - 1, or before the first i at which ``until(carry)`` holds.

        A compiler may trace i: use it in arithmetic and to index arrays, and for nothing else.

        Parameters
        ----------
        n : int, or a 0-d array of integers or of a boolean
            How often; at most, with `until`. True is once, and False is not at all. A library that runs eagerly waits
            for an array.
        body : callable
            ``(i, carry) -> carry``, of the same structure, shapes and dtypes.
        carry : tree of arrays
        until : callable, optional
            Function of the carry that returns a 0-d boolean array, called before every i; eager libraries wait for it.

        See Also
        --------
        xpsample.sampling.eager.eager_repeat : The loop for libraries that run eagerly.
        """

    @abstractmethod
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
        """Run steps [start, stop): the new carry, the filled buffers, the sums of the step infos, and where it ended.

        The steps of a block do not depend on where it begins and ends.

        Parameters
        ----------
        program : DrivenProgram
        carry : Carry
        buffers : tuple or None
            None until the first record allocates them, ``held = program.schedule.held`` rows each; row i goes to
            ``i % held``.
        source : Source
            A `xpsample.sampling.noise.NoiseSource`.
        start, stop : int
            All steps lie on one side of the burn-in.
        stop_flag : StopFlag
            Whether to end before `stop`: a library that runs eagerly asks after every step.

        See Also
        --------
        xpsample.sampling.eager.eager_drive : The loop for libraries that run eagerly.
        """

    @abstractmethod
    def synchronize(self, value: Tree, number: float = 0.0) -> float:
        """Wait until the arrays of a tree are computed.

        If several processes hold the arrays, all of them make this call, which returns to each the largest
        `number`, to the accuracy of float32; otherwise it returns its own.
        """

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray:
        """A NumPy copy (or view, where the memory is shared) of an array.

        If several processes hold the array, all of them make this call, and each gets all of it.
        """

    @abstractmethod
    def from_host(self, array: np.ndarray, like: Any) -> Any:
        """A NumPy array in this library, on `like`'s device, dtype unchanged."""

    @abstractmethod
    def devices(self, array: Array | None = None) -> list[Device]:
        """The devices present, each with the real dtypes that work on it now; or the devices of an array."""
