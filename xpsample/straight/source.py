"""From a tape to Python source."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from xpsample.backend import Array
from xpsample.straight.tape import BY_ELEMENT, Node, Symbol, form_of, holds_symbols, symbols_of

SMALLEST = 2**15
"""Bytes of an array from which on its memory is used again: below, allocating costs less than naming the memory."""

WithOut = Callable[[Any, tuple], tuple[Callable[..., Any], tuple] | None]
"""For what is called (a function, or the sign of an operation) and its arguments, a function that does the same and
takes ``out``, and its arguments; None where the library has none."""


class Writer:
    """The source of a straight-line function, and the values that it names.

    Parameters
    ----------
    xp : namespace
    with_out : WithOut, optional
        Without it, every call allocates.
    """

    def __init__(self, xp: Any, with_out: WithOut | None) -> None:
        self.xp, self.with_out = xp, with_out
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._memory: dict[str, str] = {}  # of symbols that are kept in the memory of another variable
        self._buffers: list[str] = []

    def line(self, indent: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * indent + text)

    def name(self, symbol: Symbol) -> str:
        """The variable that holds a symbol."""
        return self._memory.get(symbol.name, symbol.name)

    def constant(self, value: Any) -> str:
        """A name for a value that source cannot spell."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def assign(self, indent: int, pairs: Sequence[tuple[Symbol, Symbol]]) -> None:
        """The second ones to the first ones, all at once."""
        if pairs:
            self.line(indent, f"{listed(a for a, _ in pairs)} = {', '.join(self.name(b) for _, b in pairs)},")

    def block(self, nodes: Sequence[Node], indent: int, kept: set[str]) -> None:
        """The calls of a block. Symbols named in `kept` are needed after it."""
        last, shared = uses(nodes)
        mine = {s.name for node in nodes if node.fresh for s in node.out} - shared - kept
        free: dict[tuple, list[str]] = {}
        for k, node in enumerate(nodes):
            if node.form == "loop":
                self._loop(node, indent)
                continue
            symbols = distinct(symbols_of((node.args, node.kwargs)))
            dying = [s for s in symbols if last[s.name] == k and s.name in mine]
            out = node.out[0]
            call = self._into_memory(node, dying, free) if out.name in mine else None
            self.line(indent, call or f"{out.name} = {self._expression(node)}")
            for s in dying:
                free.setdefault(_shape(s), []).append(self.name(s))

    def _into_memory(self, node: Node, dying: list[Symbol], free: dict[tuple, list[str]]) -> str | None:
        """A call whose result goes to memory that is there: of an array that is needed no more, or set apart for it."""
        out, shape = node.out[0], _shape(node.out[0])
        if self.with_out is None or node.kwargs or _bytes(out) < SMALLEST:
            return None
        found = self.with_out(node.function, node.args)
        if found is None:
            return None
        own = [s for s in dying if _shape(s) == shape and node.what != "@"]
        if own:
            dying.remove(own[0])
            into = self.name(own[0])
        elif free.get(shape):
            into = free[shape].pop()
        else:
            into = self._buffer(out.value)
        self._memory[out.name] = into
        return self._call(*found, {})[:-1] + f", out={into})"

    def _buffer(self, like: Array) -> str:
        make = functools.partial(self.xp.empty, tuple(like.shape), dtype=like.dtype, device=device_of(like))
        self._buffers.append(self.constant(make))
        return f"b{len(self._buffers) - 1}"

    def _loop(self, node: Node, indent: int) -> None:
        (n, index), size = node.what, len(node.out)
        carry, starts, ends = node.args[:size], node.args[size : 2 * size], node.args[2 * size :]
        assert node.block is not None
        self.line(indent, f"{listed(starts)} = {', '.join(map(self._argument, carry))},")
        self.line(indent, f"for {index.name} in range({n}):")
        self.block(node.block.nodes, indent + 1, {s.name for s in ends})
        self.assign(indent + 1, list(zip(starts, ends, strict=True)))
        self.line(indent, f"{listed(node.out)} = {listed(starts)}")

    def _expression(self, node: Node) -> str:
        args = node.args
        if node.form == "constant":
            return self.constant(node.what)
        if node.form == "pack":
            return self._argument(args[0])
        if node.form == "getattr":
            return f"{self._argument(args[0])}.{node.what}"
        if node.form == "getitem":
            array, key = args
            plain = isinstance(key, tuple) and key and not any(isinstance(k, slice) for k in key)
            return f"{self._argument(array)}[{self._arguments(key) if plain else self._argument(key)}]"
        if node.form == "infix":
            return f"{self._argument(args[0])} {node.what} {self._argument(args[1])}"
        if node.form == "prefix":
            return f"{node.what}{self._argument(args[0])}"
        return self._call(node.function, args, node.kwargs)

    def _call(self, function: Callable[..., Any], args: tuple, kwargs: dict) -> str:
        named = [f"{name}={self._argument(value)}" for name, value in kwargs.items()]
        return f"{self.constant(function)}({', '.join([*map(self._argument, args), *named])})"

    def _argument(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return self.name(value)
        if value is ...:
            return "..."
        if value is None or type(value) in (bool, int, str) or (type(value) is float and np.isfinite(value)):
            return f"({value!r})" if type(value) in (int, float) and value < 0 else repr(value)
        if not holds_symbols(value):
            return self.constant(value)
        if isinstance(value, slice):
            return f"slice({self._arguments((value.start, value.stop, value.step))})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._argument(item)}" for key, item in value.items()) + "}"
        if hasattr(value, "_fields"):
            return f"{self.constant(type(value))}({self._arguments(value)})"
        return f"[{self._arguments(value)}]" if isinstance(value, list) else f"({self._arguments(value)},)"

    def _arguments(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self._argument, values))

    def source(self) -> str:
        """All lines, with the memory that is set apart after the first one."""
        buffers = [f"    b{k} = {make}()" for k, make in enumerate(self._buffers)]
        return "\n".join([self.lines[0], *buffers, *self.lines[1:]]) + "\n"


def listed(symbols: Iterable[Symbol]) -> str:
    """Names of symbols, each with a comma after it."""
    return " ".join(f"{s.name}," for s in symbols)


def distinct(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Each symbol once."""
    return list({s.name: s for s in symbols}.values())


def uses(nodes: Sequence[Node]) -> tuple[dict[str, int], set[str]]:
    """The last call that uses each symbol, and the symbols whose memory a call may keep or share."""
    last: dict[str, int] = {}
    shared: set[str] = set()
    for k, node in enumerate(nodes):
        for s in symbols_of((node.args, node.kwargs)):
            last[s.name] = k
            if not node.fresh:
                shared.add(s.name)
        if node.block is not None:
            inner, _ = uses(node.block.nodes)
            last.update(dict.fromkeys(inner, k))
            shared.update(inner)
    return last, shared


def needed(nodes: list[Node], wanted: set[str]) -> list[Node]:
    """The calls that make what is wanted, and all calls of users' functions; what they use is wanted, too."""
    kept = []
    for node in reversed(nodes):
        if node.form in ("opaque", "loop") or any(s.name in wanted for s in node.out):
            kept.append(node)
            wanted.update(s.name for s in symbols_of((node.args, node.kwargs)))
            if node.block is not None:
                node.block.nodes[:] = needed(node.block.nodes, wanted)
    return kept[::-1]


def split_off_noise(nodes: list[Node], noise: Sequence[Symbol]) -> tuple[list[Node], list[Node]]:
    """Calls by elements on one stream of noise and numbers alone, to be made for a block at once; and the others.

    Not where a step's noise is large: its block would be read from memory twice.
    """
    stream = {s.name: s.name for s in noise if _bytes(s) < SMALLEST}
    ahead, rest = [], []
    for node in nodes:
        unary = node.form == "prefix" or (node.form == "call" and node.what.name in BY_ELEMENT and len(node.args) == 1)
        numbers = all(isinstance(a, (Symbol, int, float)) for a in node.args) and not node.kwargs
        if numbers and (unary or (node.form == "infix" and node.what in ("+", "-", "*"))):
            origins = {stream.get(s.name, "") for s in symbols_of(node.args)}
            if len(origins) == 1 and "" not in origins:
                stream[node.out[0].name] = origins.pop()
                ahead.append(node)
                continue
        rest.append(node)
    return ahead, rest


def _shape(symbol: Symbol) -> tuple:
    return form_of(symbol.value)


def _bytes(symbol: Symbol) -> int:
    value = symbol.value
    return value.nbytes if getattr(value, "shape", ()) else 0
