"""Valid names of parameters and axes, which tables, files and ArviZ can keep apart."""

from collections.abc import Iterable, Mapping, Sequence

from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError

TAKEN = ("chain", "draw", "sample")
"""Axis names reserved by ArviZ; a variable with such a name would become an axis there."""

OF_FILES = (".", "..", "zarr.json")
"""Names reserved by folders and stores."""


def exported(name: str) -> str:
    """A name in the groups of ArviZ, NetCDF and zarr, where a slash would make another group: a dot stands for it."""
    return name.replace("/", ".").replace("\\", ".")


def check_names(names: Iterable[str]) -> None:
    """Raise HyperparameterError unless parameters can have these names."""
    seen: dict[str, str] = {}
    for name in names:
        _check_name("a parameter", name)
        other = seen.setdefault(exported(name), name)
        if other != name:
            raise HyperparameterError(
                f"the parameters {other!r} and {name!r} would have one name in files and in ArviZ, where a dot stands "
                "for a slash: call one of them otherwise"
            )


def check_axes(axes: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the size of each axis by name; `axes` includes axes with default names.

    HyperparameterError if an axis is called like a parameter, or one of ArviZ's own, or stands for two sizes, or twice
    in a parameter.
    """
    sizes: dict[str, int] = {}
    places: dict[str, str] = {}
    parameters = {exported(name): name for name in shapes}
    for name, own in axes.items():
        if len(set(own)) < len(own):
            raise HyperparameterError(f"the axes of {name} must have different names; got {tuple(own)}")
        for axis, size in zip(own, shapes[name], strict=True):
            _check_name(f"an axis of {name}", axis)
            if exported(axis) in parameters:
                raise HyperparameterError(
                    f"an axis of {name} and the parameter {parameters[exported(axis)]!r} have one name, under which "
                    "ArviZ knows one thing: call one of them otherwise (dims= names axes)"
                )
            if places.setdefault(exported(axis), axis) != axis:
                raise HyperparameterError(
                    f"the axes {places[exported(axis)]!r} and {axis!r} would have one name in files and in ArviZ, "
                    "where a dot stands for a slash: call one of them otherwise"
                )
            if sizes.setdefault(axis, size) != size:
                raise HyperparameterError(f"the axis {axis!r} has {sizes[axis]} places, and {size} in {name}")
    return sizes


def _check_name(what: str, name: str) -> None:
    if name in TAKEN:
        raise HyperparameterError(
            f"{what} cannot be called {name!r}, the name of an axis in ArviZ. Use another name, such as {name + '_'!r}."
        )
    if not name or exported(name) in OF_FILES or "\0" in name or not _is_text(name):
        raise HyperparameterError(f"{what} cannot be called {given(name)}, which files cannot have as a name")


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # half of a pair of UTF-16
        return False
