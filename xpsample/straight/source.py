"""From a tape to Python source."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpsample.straight.tape import BY_ELEMENT, LARGE, Node, Symbol, holds_symbols, size_of, symbols_of

INLINE = frozenset(("infix", "prefix", "getattr", "getitem", "call"))

DEEPEST = 12
"""Calls within calls in one line of source."""


class Writer:
    """The source of a straight-line function, and the values that it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._inline: dict[str, str] = {}  # symbols that are written where they are used
        self._depth: dict[str, int] = {}

    def line(self, indent: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * indent + text)

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
            self.line(indent, f"{listed(a for a, _ in pairs)} = {listed(b for _, b in pairs)}")

    def block(self, nodes: Sequence[Node], indent: int, kept: set[str]) -> None:
        """The calls of a block. Symbols named in `kept` are needed after it.

        What is used once is written where it is used, as by hand: so libraries see which arrays are needed no more.
        """
        users: dict[str, list[int]] = {}
        for k, node in enumerate(nodes):
            for name in used_by(node):
                users.setdefault(name, []).append(k)
        at = list(range(len(nodes)))  # the line on which a call ends up
        for k in reversed(range(len(nodes))):
            name = nodes[k].out[0].name if nodes[k].out else ""
            once = users.get(name, [])
            if nodes[k].form in INLINE and name not in kept and len(once) == 1 and nodes[once[0]].form != "loop":
                at[k] = at[once[0]]
        last: dict[str, int] = {}
        for k, node in enumerate(nodes):
            for name in used_by(node):
                last[name] = max(last.get(name, 0), at[k])
        large = {s.name for node in nodes for s in node.out if size_of(s.value) >= LARGE} - kept
        for k, node in enumerate(nodes):
            if node.form == "loop":
                self._loop(node, indent)
                continue
            out, expression = node.out[0], self._expression(node)
            self._depth[out.name] = 1 + max(
                (self._depth.get(n, 0) for n in used_by(node) if n in self._inline), default=0
            )
            if at[k] != k and self._depth[out.name] < DEEPEST:
                self._inline[out.name] = f"({expression})"
                continue
            self.line(indent, f"{out.name} = {expression}")
            gone = [name for name in large if last.get(name) == k and name not in self._inline]
            if gone:
                self.line(indent, f"del {', '.join(sorted(gone))}")

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
            return self._inline.get(value.name, value.name)
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
        """All lines."""
        return "\n".join(self.lines) + "\n"


def listed(symbols: Iterable[Symbol]) -> str:
    """Names of symbols, each with a comma after it."""
    return " ".join(f"{s.name}," for s in symbols)


def distinct(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Each symbol once."""
    return list({s.name: s for s in symbols}.values())


def used_by(node: Node) -> list[str]:
    """The symbols that a call uses, once for each time; of a repeated part all that its body uses."""
    names = [s.name for s in symbols_of((node.args, node.kwargs))]
    return names + ([name for inner in node.block.nodes for name in used_by(inner)] if node.block else [])


def is_pure(node: Node) -> bool:
    """Whether a call does nothing but compute: no user's function is in it that is not said to."""
    inner = node.block.nodes if node.block else []
    return (node.form != "opaque" or node.what.pure) and all(map(is_pure, inner))


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
    stream = {s.name: s.name for s in noise if size_of(s.value) < LARGE}
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


def split_off_fixed(nodes: list[Node], changing: set[str]) -> tuple[list[Node], list[Node]]:
    """Calls on nothing that a step changes, to be made once for all steps; and the others."""
    fixed: list[Node] = []
    rest: list[Node] = []
    changing = set(changing)
    for node in nodes:
        if node.form in ("opaque", "loop") or not changing.isdisjoint(used_by(node)):
            changing.update(s.name for s in node.out)
            rest.append(node)
        else:
            fixed.append(node)
    return fixed, rest


def split_off_last(nodes: list[Node], wanted: set[str], changing: set[str]) -> tuple[list[Node], list[Node]]:
    """Calls on a step's own values that make nothing that is `wanted` in every step, and the others.

    The former can be made after the last step; not what reads a carried value, which the step changes at its end.
    """
    wanted, last, rest = set(wanted), [], []
    for node in reversed(nodes):
        outputs, inputs = {s.name for s in node.out}, used_by(node)
        if node.form in ("opaque", "loop") or not (outputs.isdisjoint(wanted) and changing.isdisjoint(inputs)):
            wanted.update(inputs)
            rest.append(node)
        else:
            last.append(node)
    return last[::-1], rest[::-1]
