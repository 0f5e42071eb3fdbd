"""Whether two values are the same: functions by their code and all that they read, arrays by their numbers.

One walk serves checkpoints, which keep its result as JSON (`describe`), and caches of compiled programs, whose keys
are made of it (`key`).
"""

import copyreg
import hashlib
import json
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from xpsample.core.arrays import is_array
from xpsample.core.hyperparameters import is_frozen
from xpsample.core.reads import Chains, package, values_read
from xpsample.core.registry import to_host, unpacked

PLAIN = (int, float, str, bool, type(None))
"""Values that are JSON, which are compared by type and value."""

DEEP, MOST_OBJECTS = 100, 200_000
"""How far and how many objects are looked into; those beyond are known by their type alone."""

LONG = 4000
"""Characters of a part of a description beyond which a digest takes its place."""

NOT_OF_CLASSES = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__orig_bases__"),
    *("__parameters__", "__abstractmethods__", "_abc_impl", "__slots__", "__firstlineno__", "__static_attributes__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__", "__dataclass_fields__", "__dataclass_params__"),
    *("__match_args__", "__classdictcell__", "__slotnames__"),
}
"""What a class has beside what was written in it."""

BY_DATACLASS = {
    *("__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__"),
    *("__delattr__", "__replace__", "__getstate__", "__setstate__"),
}
"""What ``dataclass`` writes, which the fields tell."""


@dataclass(frozen=True, eq=False)
class _Itself:
    """A value that is compared by identity. It is kept, so that no other object gets its address."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def describe(value: Any, call: Callable[[], Any] | None = None) -> Any:
    """A value as JSON values that are equal for equal values, in every process.

    - A function is its code, its constants, its defaults, its attributes, and what its code reads: variables around it
      and globals, with the functions among them and what these read. Of a module of the user's it is what it reads.
    - Functions, classes and modules of installed packages are known by name and version, and not looked into; what a
      function of theirs encloses, and what an object of theirs holds, is.
    - Arrays of every library are known by their numbers, shape and dtype; frozen dataclasses by their fields; other
      objects by what pickle would keep of them, and by the code of their class if it is the user's.

    What cannot be known is known by its type alone: objects that pickle could not take apart, whose state is in another
    language; generators of random numbers; what is more than `DEEP` objects deep; names that a function makes up
    (``getattr(config, name)`` takes all of ``config``, ``globals()[name]`` nothing); files; settings of libraries. What
    `call` changes when it calls the functions in the value once, such as a counter or a cache, is no part of it.
    """
    found = _Walk()(value)
    if call is not None:
        call()
        found = _settled(found, _Walk()(value))
    return _short_form(found)


def key(*values: Any) -> Hashable:
    """A key that is equal for equal values, in this process; objects that cannot be known are compared by identity."""
    walk = _Walk()
    return _digest([walk(value) for value in values]), tuple(map(_Itself, walk.unknown))


def arrays_read(value: Any) -> list[np.ndarray]:
    """The NumPy arrays that `describe` finds in a value."""
    walk = _Walk()
    walk(value)
    return [held for held in walk.held if isinstance(held, np.ndarray)]


class _Walk:
    """Describes values, each object once."""

    def __init__(self) -> None:
        self.unknown: list[Any] = []
        """What is known by its type alone."""
        self._done: dict[int, Any] = {}
        self._inside: dict[int, int] = {}
        self.held: list[Any] = []
        """What was looked into, kept so that no address is given twice."""

    def __call__(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        at = id(value)
        if at in self._done:
            return self._done[at]
        if at in self._inside:
            return _entry("what it is in", {"level": self._inside[at]})
        if len(self._inside) >= DEEP or len(self.held) >= MOST_OBJECTS:
            return self._by_type(value)
        self._inside[at] = len(self._inside)
        self.held.append(value)
        self._done[at] = self._found(value)
        del self._inside[at]
        return self._done[at]

    def _found(self, value: Any) -> Any:
        for kind, describe in KINDS.items():
            if isinstance(value, kind):
                return describe(self, value)
        if is_array(value) and not isinstance(value, np.ma.MaskedArray):
            try:
                return self._array(to_host(value))
            except Exception:  # one that a compiler traces, or that is sparse
                return self._object(value)
        if is_frozen(value):
            return self._dataclass(value)
        if package(type(value).__module__) and callable(behind := getattr(value, "__wrapped__", None)):
            return self._entry_of(value, {"of": self(behind)})  # compiled, or with a cache
        return self._object(value)

    # ---- values --------------------------------------------------------------------------------------------------

    def _array(self, host: np.ndarray) -> Any:
        if host.dtype.hasobject:
            return _entry("array", {"items": self(host.tolist()), "shape": list(host.shape)})
        if host.ndim == 0 and host.dtype.kind in "biuf":  # NumPy gives scalars or arrays, and a checkpoint gives arrays
            return _entry(str(host.dtype), {"value": host.item()})
        digest = hashlib.sha256(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data).hexdigest()[:16]
        return {"array": digest, "shape": list(host.shape), "dtype": str(host.dtype)}

    def _sequence(self, value: list[Any] | tuple[Any, ...]) -> Any:
        if hasattr(value, "_fields"):
            return self._entry_of(value, {name: self(getattr(value, name)) for name in value._fields})
        items = [self(item) for item in value]
        if type(value) is tuple:
            return items
        return _entry("list", {"items": items}) if type(value) is list else self._object(value)

    def _mapping(self, value: dict[str, Any]) -> Any:
        if type(value) is not dict:
            return self._object(value)
        return _entry("dict", {k if type(k) is str else f"[{json.dumps(self(k))}]": self(v) for k, v in value.items()})

    def _set(self, value: Iterable[Any]) -> Any:
        return self._entry_of(value, {"items": sorted(map(self, value), key=json.dumps)})

    def _dataclass(self, value: Any) -> Any:
        ours = package(type(value).__module__)
        shown = [f for f in fields(value) if f.init]
        if ours:  # private fields that are not shown are caches
            shown = [f for f in shown if f.repr or not f.name.startswith("_")]
        return self._entry_of(value, {f.name: self(getattr(value, f.name)) for f in shown})

    def _object(self, value: Any) -> Any:
        """Any other object, by what pickle would keep of it."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            parts = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            return self._by_type(value)
        if isinstance(parts, str):
            return self._entry_of(value, {"name": parts})
        known = len(self.unknown)
        make, arguments, state, items, pairs = (*parts, None, None, None)[:5]
        found: dict[str, Any] = {}
        if make is not copyreg.__newobj__ or arguments[1:]:  # type: ignore[attr-defined]
            found["made by"] = [self(make), *(self(a) for a in arguments if a is not type(value))]
        for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
            if isinstance(part, dict):
                found |= {str(k): self(v) for k, v in part.items() if not _is_derived(type(value), k)}
            elif part is not None:
                found["state"] = self(part)
        found |= {} if items is None else {"items": [self(item) for item in items]}
        found |= {} if pairs is None else {"pairs": [[self(k), self(v)] for k, v in pairs]}
        if len(self.unknown) > known and (own := unpacked(value)) is not None:  # a module in another language
            found["arrays"] = self(own.leaves)
        return self._entry_of(value, found)

    def _by_type(self, value: Any) -> Any:
        self.unknown.append(value)
        return {"type": _name(type(value))}

    def _entry_of(self, value: Any, parts: Mapping[str, Any]) -> Any:
        """What an object consists of, with its class."""
        kind = type(value)
        return _entry(_name(kind), parts if package(kind.__module__) else {"class": self(kind), **parts})

    # ---- functions, classes, modules -----------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> Any:
        code, module = function.__code__, str(function.__globals__.get("__name__"))
        own = package(module)
        parts = {} if own else _code(code)
        reads = (read for read in values_read(function) if own is None or read[0] in code.co_freevars)
        last = code.co_varnames[code.co_argcount - len(function.__defaults__ or ()) : code.co_argcount]
        named = dict(zip(last, function.__defaults__ or (), strict=True))
        held = {
            "defaults": {name: self(value) for name, value in (named | (function.__kwdefaults__ or {})).items()},
            "attributes": {n: self(v) for n, v in sorted(vars(function).items()) if not own and n != "__wrapped__"},
            "reads": {name: self._part(value, chains) for name, value, chains in reads},
        }
        parts |= {name: _entry("names", found) for name, found in held.items() if found}
        return _entry("function" if own is None else f"{own}: {module}.{code.co_qualname}", parts)

    def _part(self, value: Any, chains: Chains) -> Any:
        """What is read of a value: all of it, but for a module."""
        if not isinstance(value, ModuleType) or () in chains or package(value.__name__):
            return self(value)
        names = sorted({name for name, *_ in chains})
        rest = {name: frozenset(tuple(more) for first, *more in chains if first == name) for name in names}
        return _entry("module", {n: self._part(getattr(value, n, None), rest[n]) for n in names})

    def _module(self, module: ModuleType) -> Any:
        own = package(module.__name__)
        if own:
            return _entry("module", {"name": f"{own}: {module.__name__}"})
        held = {name: value for name, value in sorted(vars(module).items()) if not name.startswith("__")}
        return _entry("module", {n: self(v) for n, v in held.items() if not isinstance(v, ModuleType)})

    def _class(self, kind: type) -> Any:
        own = package(kind.__module__)
        if own:
            return f"{own}: {kind.__module__}.{kind.__qualname__}"
        left_out = NOT_OF_CLASSES | (BY_DATACLASS if "__dataclass_fields__" in vars(kind) else set())
        members = {name: v for name, v in sorted(vars(kind).items()) if name not in left_out}
        parts = {name: self(v) for name, v in members.items() if type(v).__name__ != "member_descriptor"}
        bases = [self(base) for base in kind.__bases__ if base is not object]
        return _entry(f"class {kind.__qualname__}", parts | ({"bases": bases} if bases else {}))

    def _partial(self, value: partial) -> Any:
        return _entry("partial", {"of": self(value.func), "with": self((value.args, value.keywords))})

    def _builtin(self, function: BuiltinFunctionType) -> Any:
        holder = function.__self__
        of = {} if holder is None or isinstance(holder, ModuleType) else {"of": self(holder)}
        return _entry(f"{function.__module__}.{function.__qualname__}", of)


GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
"""Of random numbers, which are known by their type alone: their state changes with every number."""

KINDS: dict[Any, Callable[[_Walk, Any], Any]] = {
    (list, tuple): _Walk._sequence,
    dict: _Walk._mapping,
    (set, frozenset): _Walk._set,
    complex: lambda walk, value: _entry(type(value).__name__, {"value": repr(value)}),
    bytes: lambda walk, value: _entry(type(value).__name__, {"digest": hashlib.sha256(value).hexdigest()[:16]}),
    np.generic: lambda walk, value: walk._array(np.asarray(value)),
    FunctionType: _Walk._function,
    MethodType: lambda walk, value: _entry("method", {"of": walk(value.__self__), "function": walk(value.__func__)}),
    BuiltinFunctionType: _Walk._builtin,
    partial: _Walk._partial,
    GENERATORS: lambda walk, value: _entry(_name(type(value)), {}),
    CodeType: lambda walk, value: _entry("code", _code(value)),
    ModuleType: _Walk._module,
    type: _Walk._class,
    property: lambda walk, value: _entry("property", {"of": walk([value.fget, value.fset])}),
    (staticmethod, classmethod): lambda walk, value: _entry(type(value).__name__, {"of": walk(value.__func__)}),
    cached_property: lambda walk, value: _entry("property", {"of": walk(value.func)}),
}
"""How values of some types are described; the first that fits is taken."""


def _entry(kind: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, **{name if name != "type" else "its type": part for name, part in parts.items()}}


def _name(kind: type) -> str:
    """What a type is called."""
    own = package(kind.__module__)
    ours = own is None or own.startswith("xpsample") or kind.__module__ == "builtins"
    return kind.__qualname__ if ours else f"{own}: {kind.__module__}.{kind.__qualname__}"


def _is_derived(kind: type, name: str) -> bool:
    """Whether an attribute of an object keeps what its class works out when it is first asked for."""
    own = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return hasattr(own, "__get__") and not hasattr(own, "__set__") and not callable(own)


def _code(code: CodeType) -> dict[str, Any]:
    """What a code does: a digest of its instructions and names, and the constants in it."""
    constants: list[str] = []

    def instructions(code: CodeType) -> list[Any]:
        inner = [c for c in code.co_consts if isinstance(c, CodeType)]
        constants.extend(_constant(c) for c in code.co_consts if not isinstance(c, CodeType))
        names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
        own = [code.co_code.hex(), code.co_exceptiontable.hex(), code.co_flags, names]
        return [own, [instructions(c) for c in inner]]

    digest = _digest(instructions(code))[:16]
    return {"code": digest, "constants": constants}


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(_constant, value))) + "}"
    return "(" + ", ".join(map(_constant, value)) + ")" if isinstance(value, tuple) else repr(value)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _settled(before: Any, after: Any) -> Any:
    """What two descriptions share; a note where they differ."""
    if _is_same(before, after):
        return before
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys() and "type" in before:
        return {name: _settled(before[name], after[name]) for name in before}
    return "what a call changes"


def _short_form(found: Any) -> Any:
    """A description with digests in the place of its long parts."""
    if isinstance(found, list):
        found = [_short_form(part) for part in found]
    elif isinstance(found, dict):
        found = {name: _short_form(part) for name, part in found.items()}
    text = json.dumps(found, sort_keys=True)
    if len(text) <= LONG:
        return found
    kind = found.get("type") if isinstance(found, dict) else type(found).__name__
    return {"type": f"{kind} of many parts", "digest": _digest(found)[:16]}


def _is_same(there: Any, here: Any) -> bool:
    return json.dumps(there, sort_keys=True) == json.dumps(here, sort_keys=True)  # as texts, so that nan is nan


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Where two descriptions differ, a line each."""
    if isinstance(there, dict) and isinstance(here, dict) and there.get("type") == here.get("type"):
        names = dict.fromkeys((*here, *there))
        lines = (differences(there.get(n), here.get(n), f"{path} {n}".strip()) for n in names)
        return [line for found in lines for line in found]
    return [] if _is_same(there, here) else [f"{path}: {_shown(there)} there, {_shown(here)} here"]


def _shown(value: Any) -> str:
    """A description in a message."""
    if isinstance(value, dict):
        value = value.get("value", value.get("digest", value.get("array", value.get("type", value))))
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
