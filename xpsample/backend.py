"""What an array library must give, and the registry that finds it from an array.

A backend is a value of a final subclass of `Backend`, published under the entry-point group ``xpsample.backends``
with the name of the library that its arrays come from (the importable module). It is loaded when the first array of
that library is seen, the way Julia loads a package extension.
"""

import importlib.util
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from array_api_compat import device as device_of

from xpsample import tree
from xpsample.errors import BackendError

if TYPE_CHECKING:
    from xpsample.noise import NoiseSource, Specs
    from xpsample.sampling import Carry, Program

Array = Any
ENTRY_POINT_GROUP = "xpsample.backends"


class Device(NamedTuple):
    """A device: its name, the object that the library calls it by, its real dtypes, and a note on missing ones."""

    name: str
    device: Any
    dtypes: tuple[str, ...]
    note: str = ""


class Autodiff(ABC):
    """What a library makes of functions of trees of its arrays: above all their derivatives."""

    @abstractmethod
    def value_and_grad(self, f: Callable[..., Array]) -> Callable[..., tuple[Array, tree.Tree]]:
        """``(x, *args) -> (f(x, *args), gradient in x of the sum of f(x, *args))``; nests."""

    @abstractmethod
    def hvp(self, score: Callable[..., Array]) -> Callable[..., Array]:
        """``(x, v, *args) -> J v`` where J is the Jacobian in x of ``score(x, *args)``, a symmetric one."""

    @abstractmethod
    def score_and_hvp(self, score: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
        """``(x, v, *args) -> (score(x, *args), J v)``: as `hvp`, with the score that comes along."""

    @abstractmethod
    def vmap(self, f: Callable[..., Array]) -> Callable[..., Array]:
        """`f` mapped over the leading axis of its first argument; the other arguments are shared."""

    @abstractmethod
    def compiled(self, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
        """`f` for calls outside of a driver's program: compiled where eager calls cost much more, else `f` itself."""


class Backend(ABC):
    """One array library. Eleven members; a page of the developer docs builds one from nothing."""

    name: str
    """The importable module that the arrays come from; also the entry point's name."""

    xp: ModuleType
    """The array API namespace (array-api-compat's where it has one)."""

    autodiff: Autodiff | None
    """Automatic differentiation, or None."""

    @abstractmethod
    def owns(self, array: object) -> bool:
        """Whether `array` is an array of this library."""

    @abstractmethod
    def noise(self, seed: int, specs: "Specs", start: int, stop: int, like: Array) -> dict[str, Array]:
        """Native noise of steps [start, stop): a pure function of its arguments, in `like`'s dtype, on its device."""

    @abstractmethod
    def repeat(self, n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
        """``carry = body(i, carry)`` for i = 0 .. n - 1; i may be traced, and is good for indexing arrays only."""

    @abstractmethod
    def drive(
        self,
        program: "Program",
        carry: "Carry",
        buffers: tuple | None,
        source: "NoiseSource",
        start: int,
        stop: int,
    ) -> tuple["Carry", tuple | None, Any]:
        """Run steps [start, stop) and give the new carry, the filled buffers and the sums of the step infos.

        All steps lie on one side of the burn-in. `buffers` is None until the first record allocates them
        (``program.draws`` rows each); rows are written in place where the library can. See `eager_drive`.
        """

    @abstractmethod
    def synchronize(self, value: tree.Tree) -> None:
        """Wait until the arrays of a tree are computed."""

    @abstractmethod
    def to_host(self, array: Array) -> np.ndarray:
        """A NumPy copy (or view, where the memory is shared) of an array."""

    @abstractmethod
    def from_host(self, array: np.ndarray, like: Array) -> Array:
        """A NumPy array in this library, on `like`'s device, dtype unchanged."""

    @abstractmethod
    def devices(self, array: Array | None = None) -> list[Device]:
        """The devices present, each with the real dtypes that work on it now; or those that hold an array."""


def eager_drive(
    program: "Program",
    carry: "Carry",
    buffers: tuple | None,
    source: "NoiseSource",
    start: int,
    stop: int,
    *,
    steps: Callable[..., tuple["Carry", Any, Any]] | None = None,
    write: Callable[[Array, Sequence[Array]], None] | None = None,
) -> tuple["Carry", tuple | None, Any]:
    """Drive eagerly: a plain loop, for libraries whose arrays can be written in place.

    Parameters
    ----------
    program, carry, buffers, source, start, stop
        As in `Backend.drive`.
    steps : callable, optional
        What makes the steps, where there is something faster than `make_steps`, and as that does it.
    write : callable, optional
        ``write(rows, arrays)`` puts arrays into the rows of a buffer, likewise.
    """
    _keep_freed_memory()
    xp, write, sums = program.target.xp, write or _write, None
    like = program.like(carry)
    for lo, hi, noise in source.blocks(program.target.backend, program.specs(carry), start, stop, like):
        carry, infos, rows = (steps or make_steps)(program, carry, noise, lo, hi)
        first, last, stacked = program.rows(lo), program.rows(hi), {}
        if last > first:
            if buffers is None:
                buffers = tree.map(lambda a: allocate(xp, program.draws, a), rows.first)
            for buffer, column in zip(tree.leaves(buffers), rows.columns, strict=True):
                write(buffer[first:last, ...], column)
                stacked[id(column)] = buffer[first:last, ...]
        more = _totals(xp, infos, stacked)
        sums = more if sums is None else tree.map(lambda a, b: a + b, sums, more)
        del noise, infos, rows, stacked  # else two chunks of them would be there at once
    return carry, buffers, sums


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep what a step frees for the next one, in place of asking the system for it again.

    glibc gives back what is free above a limit, which is twice the largest block that was ever given back, if that was
    smaller than 32 MiB (mallopt(3), M_TRIM_THRESHOLD). One such block is enough for all that follows; no memory is
    touched. Without it steps with arrays of some 100 kB can take twice as long.
    """
    np.empty(31 << 20, dtype=np.uint8)


class Rows(NamedTuple):
    """Of a block of steps: the first row, a tree of arrays (or None), and for each leaf the arrays of all rows."""

    first: tree.Tree
    columns: Sequence[Sequence[Array]]


def make_steps(
    program: "Program",
    carry: "Carry",
    noise: dict[str, Array],
    start: int,
    stop: int,
    *,
    walk: Callable[..., Iterator[tuple[Any, Any]]] | None = None,
) -> tuple["Carry", Sequence, Rows]:
    """Make steps [start, stop): the new carry; for each field of the infos the values of all steps; and what is kept.

    ``walk(program, state, noise)`` yields (state, info) after every step, where there is something else than
    `walk_steps`.
    """
    recording = start >= program.burn_in
    state, folds = carry
    infos, emitted = [], []
    steps = (walk or walk_steps)(program, state, noise)
    for t, (state, info) in zip(range(start, stop), steps, strict=False):
        infos.append(info)
        if recording and program.due(t):
            folds, kept = program.record(folds, state, info)
            emitted.append(kept)
    rows = Rows(emitted[0] if emitted else None, list(zip(*map(tree.leaves, emitted), strict=True)))
    return type(carry)(state, folds), tuple(zip(*(info[:4] for info in infos), strict=True)), rows


def walk_steps(
    program: "Program", state: Any, noise: dict[str, Array], unstack: Callable[[Array], Sequence[Array]] | None = None
) -> Iterator[tuple[Any, Any]]:
    """(state, info) after every step of a block of noise, without end where a kernel takes none.

    `unstack` gives the rows of a block, where the library has something faster than to index them one by one.
    """
    step, target, names = program.kernel.step, program.target, tuple(noise)
    rows = zip(*map(unstack or unstacked, noise.values()), strict=True) if names else itertools.repeat(())
    for row in rows:
        state, info = step(target, state, dict(zip(names, row, strict=True)))
        yield state, info


def unstacked(block: Array) -> list[Array]:
    """The rows of a block."""
    return [block[i, ...] for i in range(block.shape[0])]


def _write(rows: Array, arrays: Sequence[Array]) -> None:
    for i, array in enumerate(arrays):
        rows[i, ...] = array


def _totals(xp: Any, infos: Sequence, stacked: dict[int, Array]) -> Any:
    """The sums of the infos of a block, as `info_sums` gives them; some columns are stacked already."""
    *columns, evaluations = infos
    dtype = columns[0][0].dtype
    arrays = [stacked[id(column)] if id(column) in stacked else xp.stack(column) for column in columns]
    sums = [xp.sum(xp.astype(array, dtype), axis=0) for array in arrays]
    counts = zip(*evaluations, strict=True)
    return *sums, type(evaluations[0])(*(sum(column) for column in counts))


def allocate(xp: Any, draws: int, array: Array) -> Array:
    """A buffer for `draws` rows like `array`."""
    return xp.empty((draws, *array.shape), dtype=array.dtype, device=device_of(array))


def info_sums(xp: Any, sums: Any, info: Any) -> Any:
    """Add one step's info to the running sums (None at first); evaluations may be Python integers."""
    dtype = info.acceptance_probability.dtype
    accepted, moved = info.acceptance_probability, xp.astype(info.moved, dtype)
    diverged, evaluations = xp.astype(info.diverged, dtype), info.evaluations
    if sums is None:
        return accepted, moved, diverged, evaluations
    return sums[0] + accepted, sums[1] + moved, sums[2] + diverged, sums[3].plus(evaluations)


# ---- registry --------------------------------------------------------------------------------------------------------

_by_type: dict[type, Backend] = {}


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


@cache
def backend_named(name: str) -> Backend:
    """The backend of a library, by the library's module name; loads it.

    Raises
    ------
    BackendError
        If no backend of that name is registered, or its library is not installed.
    """
    entry = _entry_points().get(name)
    if entry is None:
        raise BackendError(f"no backend is registered for {name!r}; registered: {sorted(_entry_points())}")
    try:
        return entry.load()
    except ImportError as error:
        raise BackendError(f"the backend of {name!r} cannot be loaded: {error}") from error


def registered_backends() -> list[str]:
    """Names of all registered backends, installed or not."""
    return sorted(_entry_points())


def installed_backends() -> list[str]:
    """Names of the registered backends whose library is installed (none is imported by this)."""
    return [name for name in registered_backends() if importlib.util.find_spec(name) is not None]


def backend_of(array: object) -> Backend:
    """The backend that owns an array.

    Raises
    ------
    BackendError
        If no registered backend owns it.
    """
    kind = type(array)
    if kind not in _by_type:
        _by_type[kind] = _find(array)
    return _by_type[kind]


def set_backend_of_type(kind: type, backend: Backend | None) -> None:
    """Say which backend arrays of a type belong to, or (None) forget it."""
    if backend is None:
        _by_type.pop(kind, None)
    else:
        _by_type[kind] = backend


def compiled(backend: Backend, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
    """`f` by `Autodiff.compiled`, where the backend has that."""
    return f if backend.autodiff is None else backend.autodiff.compiled(f)


def whole(f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
    """A function of arrays, compiled as a whole where a library would compile each of its operations for itself."""
    arguments, by = signature(f), cache(lambda backend: compiled(backend, f))

    @wraps(f)
    def call(*args: Array, **named: Array) -> tree.Tree:
        arrays = arguments.bind(*args, **named).args
        try:
            backend = backend_of(arrays[0])
        except BackendError:  # what `f` says of such an argument is to the point
            return f(*arrays)
        return by(backend)(*arrays)

    return call


def namespace(array: object) -> Any:
    """The namespace of an array's backend: faster to get than ``array_namespace``, which a density may call as well."""
    return backend_of(array).xp


def _find(array: object) -> Backend:
    # First the libraries that define the type and its bases, the most derived one first; then any that is imported,
    # since a type may live in a private module.
    roots = [base.__module__.partition(".")[0] for base in type(array).__mro__]
    candidates = [n for n in roots if n in _entry_points()] + [n for n in _entry_points() if n in sys.modules]
    for name in dict.fromkeys(candidates):
        backend = backend_named(name)
        if backend.owns(array):
            return backend
    raise BackendError(
        f"{type(array).__module__}.{type(array).__qualname__} is not an array of a registered library "
        f"({', '.join(sorted(_entry_points()))}); pass an array of one of them"
    )


def to_host(array: Array) -> np.ndarray:
    """A NumPy copy or view of any library's array; the one explicit way off a device."""
    if isinstance(array, (np.ndarray, np.generic, float, int, bool)):
        return np.asarray(array)
    return backend_of(array).to_host(array)


def check_same_home(what: str, array: Array, like: Array) -> None:
    """Raise unless `array` lives in the library and on the device of the positions `like`."""
    mine, theirs = backend_of(array), backend_of(like)
    if mine is not theirs:
        raise BackendError(f"{what} is a {mine.name} array and the positions are {theirs.name}: use one library")
    here, there = mine.devices(array), theirs.devices(like)
    if here != there:
        names = [" and ".join(d.name for d in devices) for devices in (here, there)]
        raise BackendError(
            f"{what} is on {names[0]} and the positions are on {names[1]}: nothing is moved silently, so put both on "
            "one device"
        )
