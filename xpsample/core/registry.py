"""The registry of backends: finds the backend of an array, and loads it when it sees the first array of that library.

Backends are published under the entry-point group ``xpsample.backends``, each under the name of the library that its
arrays come from, the way Julia loads a package extension.
"""

import importlib.util
import sys
from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from xpsample.core.arrays import Array, Tree
from xpsample.core.backend import Autodiff, Backend, Unpacked
from xpsample.core.errors import BackendError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "xpsample.backends"

_by_type: dict[type, Backend] = {}

_tree_types: dict[type, Autodiff | None] = {}
"""Owner of the tree type, for types already seen."""

MOST_TYPES = 4096  # Types that are remembered: a class that is made in a function is another one at each call


@cache
def _entry_points() -> dict[str, "EntryPoint"]:
    from importlib.metadata import entry_points  # here, since it takes a third of NumPy's time to import

    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
    if not found:  # a checkout on the search path
        raise BackendError("no backend is registered: xpsample is not installed (`pip install -e .` in its checkout)")
    return found


@cache
def backend_named(name: str) -> Backend:
    """The backend of a library, by the library's module name; loads it, or raises BackendError where there is none."""
    check_registered(name)
    try:
        return _entry_points()[name].load()
    except Exception as error:  # a plug-in may fail in any way
        reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise BackendError(f"the backend of {name!r} cannot be loaded: {reason}") from error


def check_registered(name: str) -> None:
    """Raise a `BackendError` unless a backend of that name is registered; loads nothing."""
    if name not in _entry_points():
        raise BackendError(f"no backend is registered for {name!r}; registered: {', '.join(sorted(_entry_points()))}")


def registered_backends() -> list[str]:
    """Names of all registered backends, installed or not."""
    return sorted(_entry_points())


def installed_backends() -> list[str]:
    """Names of the registered backends whose library is installed (none is imported by this).

    See Also
    --------
    backend_of : That of an array.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> "numpy" in xps.installed_backends()
    True
    """
    return [name for name in registered_backends() if importlib.util.find_spec(name) is not None]


def backend_of(array: object) -> Backend:
    """The backend that owns an array.

    Raises
    ------
    BackendError
        If no registered backend owns it.

    See Also
    --------
    installed_backends : All of them.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> xps.backend_of(np.zeros(3)).name
    'numpy'
    """
    kind = type(array)
    if kind not in _by_type:
        _by_type[kind] = _find(array)
    return _by_type[kind]


def backends_seen() -> list[Backend]:
    """Backends whose arrays this process has seen, each once."""
    return list({id(backend): backend for backend in list(_by_type.values())}.values())


def unpacked(value: object) -> Unpacked | None:
    """Contents of a library's own tree, such as a module whose weights are arrays; None for other values."""
    kind = type(value)
    try:
        owner = _tree_types[kind]
    except KeyError:
        owner = _owner_of_tree(value)
        if len(_tree_types) >= MOST_TYPES:
            _tree_types.clear()
        _tree_types[kind] = owner
    return None if owner is None else owner.unpack(value)


def compiled(backend: Backend, f: Callable[..., Tree]) -> Callable[..., Tree]:
    """`f` by `Autodiff.compiled`, where the backend has that."""
    return f if backend.autodiff is None else backend.autodiff.compiled(f)


def repeated(backend: Backend, f: Callable[..., Tree]) -> Callable[..., Tree]:
    """`f` by `Autodiff.repeated`, where the backend has that."""
    return f if backend.autodiff is None else backend.autodiff.repeated(f)


def whole(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """Compile a function as a whole, for libraries that else compile each operation separately."""
    arguments, by = signature(f), cache(lambda backend: compiled(backend, f))

    @wraps(f)
    def call(*args: Array, **named: Array) -> Tree:
        arrays = arguments.bind(*args, **named).args
        try:
            backend = backend_of(arrays[0])
        except BackendError:  # the error of `f` says more
            return f(*arrays)
        return by(backend)(*arrays)

    return call


def namespace(array: object) -> Any:
    """The namespace of an array's backend, found faster than by ``array_namespace``."""
    return backend_of(array).xp


def _find(array: object) -> Backend:
    # First the libraries that define the type and its bases, the most derived one first; then any that is imported,
    # since a type may live in a private module.
    roots = [base.__module__.partition(".")[0] for base in type(array).__mro__]
    own = [n for n in roots if n in _entry_points()]
    for name in dict.fromkeys([*own, *(n for n in _entry_points() if n in sys.modules)]):
        try:
            backend = backend_named(name)
        except BackendError:
            if name in own:
                raise
            continue  # a plug-in of another library, that does not work
        if backend.owns(array):
            return backend
    raise BackendError(
        f"{type(array).__module__}.{type(array).__qualname__} is not an array of a registered library "
        f"({', '.join(sorted(_entry_points()))}); pass an array of one of them"
    )


def _owner_of_tree(value: object) -> Autodiff | None:
    """The imported library whose transformations treat a value as a tree."""
    if value is None or isinstance(value, (dict, list, tuple, int, float, complex, str, bytes)):
        return None  # these containers are xpsample's trees with every library
    try:
        backend_of(value)
        return None  # an array
    except BackendError:
        pass
    for name in _entry_points():
        if name not in sys.modules:
            continue
        try:
            autodiff = backend_named(name).autodiff
        except BackendError:  # a plug-in that does not work
            continue
        if autodiff is not None and autodiff.unpack(value) is not None:
            return autodiff
    return None


def to_host(array: Array | float) -> np.ndarray:
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
