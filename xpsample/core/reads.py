"""What a function reads from outside: names of globals and of variables around it, and what of modules."""

import dis
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Literal, NamedTuple

from xpsample.core.registry import registered_backends

Chains = frozenset[tuple[str, ...]]
"""What is read of a value: attributes one after the other, ``("a", "b")`` for ``value.a.b``; () for all of it."""

Where = Literal["globals", "around", "import"]

INSTRUCTIONS: dict[str, Where] = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"), "globals"),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "STORE_DEREF", "DELETE_DEREF"), "around"),
    "LOAD_FROM_DICT_OR_GLOBALS": "globals",
    "LOAD_FROM_DICT_OR_DEREF": "around",
    "IMPORT_NAME": "import",
}
"""Where the names of instructions are looked up."""

BETWEEN = ("EXTENDED_ARG", "CACHE", "PUSH_NULL")
"""Instructions that may stand between a name and its attribute."""


class Read(NamedTuple):
    """A name that a code reads, where it is looked up, and what of its value."""

    name: str
    where: Where
    chains: Chains


@lru_cache(maxsize=4096)
def _reads(code: CodeType) -> tuple[Read, ...]:
    """What a code, and the functions in it, read from outside, in the order of the names."""
    found: dict[tuple[str, Where], set[tuple[str, ...]]] = {}
    written: set[tuple[str, Where]] = set()
    for key, is_read, chain in _names(code):
        if is_read:
            found.setdefault(key, set()).add(chain)
        else:
            written.add(key)
    local = {key for key in found if key[1] == "around" and key[0] not in code.co_freevars}
    outside = sorted(found.keys() - written - local)
    return tuple(Read(*key, frozenset(found[key])) for key in outside)


def _names(code: CodeType) -> Iterator[tuple[tuple[str, Where], bool, tuple[str, ...]]]:
    """Each name and where it is looked up, whether it is read, and the attributes that follow."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in BETWEEN]
    for place, step in enumerate(steps):
        if step.opname in INSTRUCTIONS:
            key = step.argval, INSTRUCTIONS[step.opname]
            yield key, not step.opname.startswith(("STORE", "DELETE")), _attributes(steps, place + 1)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _attributes(steps: list[dis.Instruction], place: int) -> tuple[str, ...]:
    """The attributes that are loaded from an instruction on."""
    found = []
    while place < len(steps) and steps[place].opname in ("LOAD_ATTR", "LOAD_METHOD"):
        found.append(steps[place].argval)
        place += 1
    return tuple(found)


def values_read(function: FunctionType) -> Iterator[tuple[str, Any, Chains]]:
    """The names that a function reads from outside, with their values now, and what of these.

    Builtins are left out, and what the function itself gives a value to, such as a counter.
    """
    around = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, where, chains in _reads(function.__code__):
        if where == "around":
            try:
                yield name, around[name].cell_contents, chains
            except ValueError:  # it is still empty
                yield name, None, chains
        elif where == "globals" and name in function.__globals__:
            yield name, function.__globals__[name], chains
        elif where == "import" and name in sys.modules:
            yield f"import {name}", sys.modules[name], frozenset({()})


STDLIB = Path(sysconfig.get_path("stdlib"))


@lru_cache(maxsize=4096)
def package(module: str) -> str | None:
    """The installed package, with its version, that a module is a part of; None for a module of the user's own.

    Packages whose versions a run knows anyway have none here: Python's, this one, and the libraries of arrays.
    """
    top = module.partition(".")[0]
    if top == "xpsample" or top.startswith("xpsample_"):
        return top
    found = sys.modules.get(top)
    places = [Path(place) for place in (getattr(found, "__file__", None), *getattr(found, "__path__", ())) if place]
    if top in sys.stdlib_module_names and all(place.is_relative_to(STDLIB) for place in places):
        return top
    if not any({"site-packages", "dist-packages"} & set(place.parts) for place in places):
        return None
    version = getattr(found, "__version__", None)
    return f"{top} {version}" if isinstance(version, str) and top not in registered_backends() else top
