"""Writing a step down: `Symbol` arrays note on a `Tape` what is called on them."""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from xpsample import tree
from xpsample.backend import Array, Autodiff, Backend, set_backend_of_type
from xpsample.values import by_value

LARGE = 2**15
"""Bytes from which on an array is large: a symbol holds its form only, and it is let go when it is needed no more."""

LONGEST = 4000
"""Calls of one step above which nothing is gained by writing them down."""

BY_ELEMENT = frozenset(("abs", "exp", "expm1", "log", "log1p", "negative", "sqrt", "square", "tanh"))
"""Those of one argument that do to an array what they do to each row of it."""

NEW = BY_ELEMENT | {"add_multiple", "add_product", "minus_square", "sum", "where"}
"""Functions whose results are new arrays, on every library."""

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
PREFIX = {"neg": "-", "pos": "+", "invert": "~"}


_open: set["Tape"] = set()
"""Tapes that something is being written on: while there is none, functions need not look for symbols."""


class CannotTrace(Exception):
    """A step does something that depends on the values of its arrays, or that is not known here."""


@dataclass(eq=False)
class Node:
    """One call: the symbols that it gives, and how to write it."""

    out: "tuple[Symbol, ...]"
    form: str  # infix, prefix, getattr, getitem, call, opaque, pack, loop
    what: Any
    args: tuple
    kwargs: dict
    block: "Block | None" = None  # the body, of a loop

    @property
    def makes_new(self) -> bool:
        """Whether what it gives is surely no view of what it is given."""
        new = self.form == "infix" or (self.form == "prefix" and self.what != "+")
        return new or (self.form == "call" and self.what.name in NEW)

    @property
    def function(self) -> Any:
        """What is called: a function, or the sign of an operation."""
        return getattr(self.what, "function", self.what)


@dataclass(eq=False)
class Block:
    """Calls in their order: of the function, of the loop over steps, of a repeated part or of what is recorded."""

    depth: int
    nodes: list[Node] = field(default_factory=list)
    known: dict = field(default_factory=dict)


class Symbol:
    """An array of a step that is being written down: it has a value of the form that it has in every step.

    The value is that of the first step, or zeros that take no memory where that is large or came from large ones.
    """

    __slots__ = ("block", "name", "tape", "value")
    __array_ufunc__ = None

    def __init__(self, tape: "Tape", value: Any, block: Block) -> None:
        self.tape, self.value, self.block = tape, value, block
        self.name = f"v{next(tape.count)}"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return self.tape.xp

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The array's."""
        return self.value.ndim

    @property
    def dtype(self) -> Any:
        """The array's."""
        return self.value.dtype

    @property
    def device(self) -> Any:
        """The array's."""
        return device_of(self.value)

    @property
    def T(self) -> "Symbol":
        """The transposed matrix."""
        return self.tape.record("getattr", "T", (self,), {})

    @property
    def mT(self) -> "Symbol":
        """The transposed matrices."""
        return self.tape.record("getattr", "mT", (self,), {})

    def __getitem__(self, key: Any) -> "Symbol":
        return self.tape.record("getitem", None, (self, key), {})

    def __hash__(self) -> int:
        return id(self)


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: Symbol, *args: Any, **kwargs: Any) -> Any:
        raise CannotTrace(f"a step called {name}")

    return refuse


def _operators() -> None:
    def infix(sign: str, swapped: bool) -> Callable[..., Any]:
        def method(self: Symbol, other: Any) -> Any:
            return self.tape.record("infix", sign, (other, self) if swapped else (self, other), {})

        return method

    for name, sign in {**INFIX, **COMPARISONS}.items():
        setattr(Symbol, f"__{name}__", infix(sign, False))
        if name in INFIX:
            setattr(Symbol, f"__r{name}__", infix(sign, True))
    for name, sign in PREFIX.items():
        setattr(Symbol, f"__{name}__", lambda self, sign=sign: self.tape.record("prefix", sign, (self,), {}))
    setattr(Symbol, "__abs__", lambda self: self.tape.xp.abs(self))  # noqa: B010
    for name in ("array", "bool", "float", "int", "index", "complex", "dlpack", "iter", "len", "contains", "setitem"):
        setattr(Symbol, f"__{name}__", _refused(name))


_operators()


class TracedNamespace:
    """An array namespace whose functions write down what they are called with."""

    def __init__(self, xp: Any, tape: "Tape") -> None:
        self._xp, self._tape = xp, tape

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if isinstance(found, ModuleType):
            found = TracedNamespace(found, self._tape)
        elif callable(found) and not isinstance(found, type):
            found = Function(found, name, self._tape)
        self.__dict__[name] = found
        return found


class Function:
    """A function of a namespace."""

    def __init__(self, function: Callable[..., Any], name: str, tape: "Tape") -> None:
        self.function, self.name, self.tape = function, name, tape

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not holds_symbols((args, kwargs)):
            return self.function(*args, **kwargs)
        return self.tape.record("call", self, args, kwargs)


class TracedAutodiff(Autodiff):
    """Derivatives that are called as they are."""

    def __init__(self, autodiff: Autodiff) -> None:
        self.autodiff = autodiff

    def value_and_grad(self, f: Callable[..., Array]) -> Callable[..., tuple[Array, tree.Tree]]:
        return opaque(self.autodiff.value_and_grad(f))

    def hvp(self, score: Callable[..., Array]) -> Callable[..., Array]:
        return opaque(self.autodiff.hvp(score))

    def score_and_hvp(self, score: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
        return opaque(self.autodiff.score_and_hvp(score))

    def vmap(self, f: Callable[..., Array]) -> Callable[..., Array]:
        return opaque(self.autodiff.vmap(f))

    def compiled(self, f: Callable[..., tree.Tree]) -> Callable[..., tree.Tree]:
        return f


class TracedBackend(Backend):
    """The backend that a step sees while it is written down."""

    def __init__(self, backend: Backend, tape: "Tape") -> None:
        self.backend, self.tape, self.name = backend, tape, backend.name
        self.xp = tape.xp
        self.autodiff = TracedAutodiff(backend.autodiff) if backend.autodiff else None

    def owns(self, array: object) -> bool:
        return isinstance(array, Symbol) or self.backend.owns(array)

    def repeat(self, n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
        return self.tape.repeat(n, body, carry)

    def from_host(self, array: np.ndarray, like: Array) -> Array:
        return self.backend.from_host(array, like.value if isinstance(like, Symbol) else like)

    def devices(self, array: Array | None = None) -> list:
        return self.backend.devices(array.value if isinstance(array, Symbol) else array)

    def noise(self, seed: int, specs: Any, start: int, stop: int, like: Array) -> dict[str, Array]:
        raise CannotTrace("a step drew noise")

    def drive(self, program: Any, carry: Any, buffers: Any, source: Any, start: int, stop: int) -> Any:
        raise CannotTrace("a step ran another run")

    def synchronize(self, value: tree.Tree) -> None:
        raise CannotTrace("a step waited for values")

    def to_host(self, array: Array) -> np.ndarray:
        raise CannotTrace("a step asked for values on the host")


class Tape:
    """What a step calls, in blocks.

    Parameters
    ----------
    backend : Backend
    known : bool
        Whether all has to be known that is called: then a function of the user's is not called, but refused.
    """

    def __init__(self, backend: Backend, known: bool = False) -> None:
        self.known = known
        self.count = itertools.count()
        self.kind = type("Symbol", (Symbol,), {"__slots__": ()})
        self.real = backend
        self.xp: Any = TracedNamespace(backend.xp, self)
        self.backend = TracedBackend(backend, self)
        self.open = [Block(0)]
        self.floor = 0  # the least depth of what is made in a step, while what is recorded is written down
        self.calls = 0

    def __enter__(self) -> "Tape":
        _open.add(self)
        set_backend_of_type(self.kind, self.backend)
        return self

    def __exit__(self, *error: object) -> None:
        _open.discard(self)
        set_backend_of_type(self.kind, None)

    def mark(self) -> Any:
        """Where the tape is, for `back`."""
        return len(self.open), [(len(block.nodes), dict(block.known)) for block in self.open], self.floor

    def back(self, mark: Any) -> None:
        """Forget what was written down since."""
        depth, lengths, self.floor = mark
        del self.open[depth:]
        for block, (length, known) in zip(self.open, lengths, strict=True):
            del block.nodes[length:]
            block.known = known

    def symbol(self, value: Any) -> Symbol:
        """An input of the innermost block."""
        return self.kind(self, self._light(value), self.open[-1])

    def symbols(self, values: tree.Tree) -> tree.Tree:
        """Inputs of the innermost block."""
        return tree.map(self.symbol, values)

    def lifted(self, values: tree.Tree) -> tree.Tree:
        """A tree of which every leaf is a symbol; constants are those of the outermost block."""
        return tree.map(lambda leaf: leaf if isinstance(leaf, Symbol) else self._add("constant", leaf, (), {}), values)

    def record(self, form: str, what: Any, args: tuple, kwargs: dict) -> Any:
        """Call, and write the call down; what is no array of the library is given as it is."""
        if form == "opaque" and self.known:
            raise CannotTrace(f"{what} is not known")
        key = None if form == "opaque" else (form, _key(what), _key(args), _key(kwargs))
        if key is not None:
            for block in self.open:
                if key in block.known:
                    return block.known[key]
        result = self._add(form, what, self._packed(args) if form == "opaque" else args, kwargs)
        if key is not None and isinstance(result, Symbol):
            result.block.known[key] = result
        return result

    def repeat(self, n: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
        """A loop of the straight-line function; its body is run once."""
        if n <= 1:
            return body(0, carry) if n else carry
        inner = Block(len(self.open))
        self.open.append(inner)
        index, starts = self.symbol(0), self.symbols(tree.map(_value, carry))
        ends = self.lifted(body(index, starts))
        self.open.pop()
        check_form("a repeated part", starts, ends)
        results = tree.map(lambda end: self.symbol(end.value), ends)
        args = tuple(leaf for part in (carry, starts, ends) for leaf in tree.leaves(part))
        self.open[-1].nodes.append(Node(tuple(tree.leaves(results)), "loop", (n, index), args, {}, inner))
        return results

    def _add(self, form: str, what: Any, args: tuple, kwargs: dict) -> Any:
        self.calls += 1
        if self.calls > LONGEST:
            raise CannotTrace(f"a step of more than {LONGEST} calls")
        result = _evaluate(form, what, _values(args), _values(kwargs))
        block = self.open[-1] if form == "opaque" else self._home((args, kwargs))
        if form in ("constant", "pack", "getitem") or self.real.owns(result) or type(result) is int:
            symbol = self.kind(self, self._light(result), block)
            block.nodes.append(Node((symbol,), form, what, args, kwargs))
            return symbol
        if not all(self.real.owns(leaf) for leaf in tree.leaves(result)):
            if form == "opaque":
                raise CannotTrace(f"{what} gives no arrays")
            return result  # a dtype, a shape
        whole = self.kind(self, tree.map(self._light, result), block)
        block.nodes.append(Node((whole,), form, what, args, kwargs))
        return self._part(whole, whole.value)

    def _light(self, value: Any) -> Any:
        if not self.real.owns(value) or size_of(value) < LARGE:
            return value
        zero = self.real.xp.zeros((), dtype=value.dtype, device=device_of(value))
        return self.real.xp.broadcast_to(zero, value.shape)

    def _part(self, symbol: Symbol, value: tree.Tree) -> tree.Tree:
        """The arrays of a tree that a call gave, by their keys."""
        if value is None:
            return None
        if isinstance(value, dict):
            return {key: self._part(self._add("getitem", None, (symbol, key), {}), item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            children = [self._part(self._add("getitem", None, (symbol, k), {}), item) for k, item in enumerate(value)]
            return tree.rebuild(value, children)
        return symbol

    def _packed(self, args: tuple) -> tuple:
        """Trees among arguments as values of their own, made as seldom as can be."""
        return tuple(
            self._add("pack", None, (arg,), {}) if isinstance(arg, (tuple, list, dict)) and holds_symbols(arg) else arg
            for arg in args
        )

    def _home(self, arguments: Any) -> Block:
        depth = max((s.block.depth for s in symbols_of(arguments)), default=0)
        depth = max(depth, self.floor) if depth else 0
        for symbol in symbols_of(arguments):
            if symbol.block is not self.open[symbol.block.depth]:
                raise CannotTrace("an array left the part that it belongs to")
        return self.open[depth]


def opaque(function: Callable[..., Any] | None, like: Callable[..., tree.Tree] | None = None) -> Any:
    """A function that is called at every step as it is, whatever its code does: one of a user's. None is None.

    Parameters
    ----------
    function : callable or None
    like : callable, optional
        Gives for the function's arguments arrays of the form of its results: without it, the function is called once
        more, when the step is written down, to see.
    """
    return function if function is None else _Called(function, like, False)


def pure(function: Callable[..., Any] | None, like: Callable[..., tree.Tree] | None = None) -> Any:
    """A function whose own calls may be written down, if they can be: then what others call as well is called once."""
    return function if function is None else _Called(function, like, True)


class _Called:
    def __init__(self, function: Callable[..., Any], like: Callable[..., tree.Tree] | None, pure: bool) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function, self.like, self.pure = function, like or function, pure

    def __call__(self, *args: Any) -> Any:
        symbol = next(iter(symbols_of(args)), None) if _open else None
        return self.function(*args) if symbol is None else self._record(symbol.tape, args)

    def _record(self, tape: Tape, args: tuple) -> Any:
        if self.pure:
            before = tape.mark()
            try:
                return self.function(*args)
            except Exception:  # whatever it is, it comes again below if it is the function's own
                tape.back(before)
        return tape.record("opaque", self, args, {})


# ---- what arguments hold ---------------------------------------------------------------------------------------------


def symbols_of(value: Any) -> Iterable[Symbol]:
    """The symbols among arguments."""
    if isinstance(value, Symbol):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from symbols_of(item)
    elif isinstance(value, dict):
        yield from symbols_of(tuple(value.values()))
    elif isinstance(value, slice):
        yield from symbols_of((value.start, value.stop, value.step))


def holds_symbols(value: Any) -> bool:
    """Whether there are any."""
    return next(iter(symbols_of(value)), None) is not None


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, Symbol) else leaf


def _values(arguments: Any) -> Any:
    if isinstance(arguments, slice):
        return slice(_value(arguments.start), _value(arguments.stop), _value(arguments.step))
    if isinstance(arguments, (tuple, list, dict)):
        return tree.map(_values, arguments) if holds_symbols(arguments) else arguments
    return _value(arguments)


def form_of(value: Any) -> tuple:
    """Shape and dtype of an array, or the type of what is none."""
    return (tuple(value.shape), value.dtype) if hasattr(value, "shape") else (type(value),)


def size_of(value: Any) -> int:
    """Bytes of an array; 0 of a number."""
    return value.nbytes if getattr(value, "shape", ()) else 0


def check_form(what: str, before: tree.Tree, after: tree.Tree) -> None:
    """Raise CannotTrace unless two trees have the same paths, shapes and dtypes."""
    forms = [[(path, *form_of(_value(leaf))) for path, leaf in tree.items(side)] for side in (before, after)]
    if forms[0] != forms[1]:
        raise CannotTrace(f"{what} changes the form of what it carries")


def _key(value: Any) -> Any:
    """What tells arguments apart: symbols by name, containers part by part, all else as `by_value` has it."""
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, (tuple, list)):
        return type(value), *map(_key, value)
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, slice):
        return "slice", _key(value.start), _key(value.stop), _key(value.step)
    return by_value(value)


# ---- calls -----------------------------------------------------------------------------------------------------------


def _evaluate(form: str, what: Any, args: tuple, kwargs: dict) -> Any:
    if form == "constant":
        return what
    if form == "pack":
        return args[0]
    if form == "getitem":
        return args[0][args[1]]
    if form == "getattr":
        return getattr(args[0], what)
    if form in ("infix", "prefix"):
        return _sign(what, len(args))(*args)
    return (what.like if form == "opaque" else what.function)(*args, **kwargs)


def _sign(sign: str, operands: int) -> Any:
    names = {**INFIX, **COMPARISONS} if operands == 2 else PREFIX
    return getattr(operator, next(f"__{name}__" for name, its in names.items() if its == sign))
