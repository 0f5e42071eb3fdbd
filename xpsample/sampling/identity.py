"""Identity of a run, the values that it is recognized by, and what else its numbers depend on: versions and devices."""

import hashlib
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.describe import describe, holds_code
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import backend_of, to_host
from xpsample.core.version import __version__
from xpsample.sampling.noise import Native, NoiseSource
from xpsample.sampling.program import Carry, Program
from xpsample.spaces.discrete import Unmapped
from xpsample.spaces.named import Named, States, is_real
from xpsample.spaces.space import Space
from xpsample.targets.target import AbstractTarget

Values = dict[str, Any]
"""For each place, arrays by name, as lists of some of their numbers; or a text where a function raised."""

STEP = "after one step from x"

PLACES = ("at -x", "at x + 1", "at 10 x - 3", "at 100 x + 100")
OTHER_PLACES = tuple(f"at other positions ({i} of 4)" for i in range(1, 5))

RAISED = "an error"
ENTRIES = 64  # kept of each array, besides its mean and mean size


def identity(target: AbstractTarget, program: Program, x: Array, source: NoiseSource) -> dict[str, Any]:
    """Return what identifies a run, as JSON values, without its number of draws: a run can be extended.

    The user's functions are compared by `start_values`.
    """
    return {
        "target": describe(target),
        "kernel": describe(program.kernel),
        "noise": source.describe(),
        "positions": describe(x),
        "backend": backend_of(x).name,
        "burn_in": program.schedule.burn_in,
        "thinning": program.schedule.thinning,
        "recorders": [describe(r) for r in program.recorders],
        "compiled": program.compile,
    }


def start_values(program: Program, carry: Carry) -> Values:
    """Return values of the user's functions at the start of a run.

    These are the target's at the initial positions x and at four transformations of them, such as -x. A kernel or
    recorder that holds functions, or is of the user's own class, is known by one throw-away step from there.
    """
    x, target = carry.state.point.x, program.target
    found: Values = {"at x": values_now(program, carry)}
    for i, place in enumerate(PLACES if is_real(target.space) else OTHER_PLACES):
        found[place] = _probed(partial(program.values_at, _transformed(target.backend, target.space, x, i)))
    if holds_code((target.acceptance, program.kernel, program.recorders)):
        found[STEP] = _probed(partial(_step, program, carry))
    return found


def values_now(program: Program, carry: Carry) -> dict[str, list[float]]:
    """Return the target's values at the current positions, where an error is the run's own."""
    return _values(partial(program.values_at, carry.state.point.x))


def changed(there: Values, here: Values, dtype: str) -> str | None:
    """Return a sentence about the first value that is another one, or None.

    Rounding is tolerated: other threads, or the same formula written otherwise, change the last digits. A trajectory
    amplifies it, so that new states are compared less closely.
    """
    rounding = 1e-9 if dtype == "float64" else 1e-4
    for place in here:
        old, new = there.get(place, {}), here[place]
        tolerance = rounding**0.5 if place == STEP else rounding
        if isinstance(old, str) or isinstance(new, str):
            if old != new:
                return f"the target {place} gave {_first(old)}, now {_first(new)}"
            continue
        for name in sorted({*old, *new}, key=lambda name: (name != "log density", name)):
            a, b = (np.asarray(values.get(name, ()), dtype=np.float64) for values in (old, new))
            if a.shape != b.shape:
                return f"{name} {place} had another shape"
            sizes = np.abs(np.concatenate([a, b]))
            scale = np.max(sizes, where=np.isfinite(sizes), initial=0.0)
            differs = ~np.isclose(a, b, rtol=0.0, atol=tolerance * scale, equal_nan=True)
            if np.any(differs):
                first = int(np.argmax(differs))
                return f"{name} {place} was {float(a[first])!r}, now {float(b[first])!r}"
    return None


def _first(values: dict[str, list[float]] | str) -> str:
    """A value for a message."""
    if isinstance(values, str):
        return values
    return next((f"{name} {values[name][0]!r}" for name in ("log density", "score") if name in values), "no error")


def _values(evaluate: Callable[[], tree.Tree]) -> dict[str, list[float]]:
    """Numbers of the arrays that a function returns, by name. Its warnings do not reach the user."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: _some(to_host(leaf)) for name, leaf in tree.items(evaluate())}


def _probed(evaluate: Callable[[], tree.Tree]) -> dict[str, list[float]] | str:
    """`_values` where a function may raise."""
    try:
        return _values(evaluate)
    except Exception:  # outside the support, say
        return RAISED


def _some(array: np.ndarray) -> list[float]:
    """Some evenly spaced numbers of an array, its mean and its mean size."""
    flat = array.reshape(-1).astype(np.float64)
    known = flat[np.isfinite(flat)]
    means = [np.mean(known), np.mean(np.abs(known))] if known.size else []
    places = np.linspace(0, flat.size - 1, min(flat.size, ENTRIES)).astype(int)
    return [float(number) for number in (*flat[places], *means)]


def _transformed(backend: Backend, space: Space, x: Array, i: int) -> Array:
    """Other positions of a space that is bound to x, by the i-th of four transformations."""
    xp = backend.xp
    if isinstance(space, Named):
        moved = {}
        for name, part in zip(space.names, space.parts, strict=True):
            own = x[..., space.coordinates(name)]
            inner = part.space.bind(backend, own) if isinstance(part, States) else part
            moved[name] = _transformed(backend, inner, own, i)
        return space.put(xp, x, moved)
    if isinstance(space, Unmapped):
        return space.transformed(xp, x, i)
    return (-x, x + 1, 10 * x - 3, 100 * x + 100)[i]


def _step(program: Program, carry: Carry) -> dict[str, Any]:
    """A state and the first row of each recorder, by a throw-away step with fixed noise."""
    block = Native(0).block(program.backend, program.specs(carry), 0, 1, program.like(carry))
    state, info = program.advance()(carry.state, {name: rows[0, ...] for name, rows in block.items()})
    _, rows = program.record(carry.recorder_states, state, info)
    recorded = {f"row of {recorder.name}": row for recorder, row in zip(program.recorders, rows, strict=True)}
    return recorded | {"state": state, "info": info._replace(evaluations=None)}


def environment(x: Array) -> dict[str, Any]:
    """Environment that the numbers of a run depend on: versions, and the kinds of device that hold x."""
    backend = backend_of(x)
    return {
        "xpsample": __version__,
        backend.name: str(getattr(sys.modules.get(backend.name), "__version__", "unknown")),
        "devices": [device.name.partition(":")[0] for device in backend.devices(x)],
    }


def made_with(devices: Sequence[DeviceDtype], modules: Sequence[str] = ()) -> dict[str, Any]:
    """Environment that the results of a command depend on, as JSON values.

    These are the devices, the versions of Python and of the libraries, and digests of the code of xpsample, its
    backends, and the packages of the user's `modules`.
    """
    versions: dict[str, Any] = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for device in devices:
        versions |= environment(device.array(0.0))
    versions.pop("devices", None)
    backends = [type(device.backend).__module__ for device in devices]
    packages = dict.fromkeys(name.partition(".")[0] for name in (__name__, *backends, *modules))
    return {
        "devices": list(map(str, devices)),
        "versions": versions,
        "code": {package: _source(sys.modules[package]) for package in packages},
    }


def _source(package: ModuleType) -> str:
    """A digest of the files of a package, or of a module."""
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))] or [Path(str(package.__file__))]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
