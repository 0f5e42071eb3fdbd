"""Whether what a step calls keeps chains apart: then some of them can be stepped without the others."""

from collections.abc import Iterable, Sequence
from typing import Any

from xpsample.straight.tape import CannotTrace, Node, Symbol, symbols_of

ELEMENTWISE = frozenset(
    (
        "abs", "acos", "acosh", "add", "add_multiple", "add_product", "asin", "asinh", "astype", "atan",
        "atan2", "atanh", "ceil", "clip", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1",
        "finite_or_least", "floor", "floor_divide", "full_like", "greater", "greater_equal", "hypot",
        "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp",
        "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "minus_square",
        "multiply", "negative", "negative_part", "not_equal", "ones_like", "positive", "pow", "reciprocal",
        "remainder", "round", "sigmoid", "sign", "signbit", "sin", "sinh", "softplus", "sqrt",
        "square", "subtract", "tan", "tanh", "trunc", "where", "zeros_like",
    )
)  # fmt: skip
"""Functions of arrays of shapes that broadcast, element by element."""

ALONG_AXIS = frozenset(
    ("all", "any", "argmax", "argmin", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var")
)
"""Functions of an array along an axis that they are told."""


class Apart:
    """Of the arrays of a step, those whose first axis is that of the chains, each row made of the same rows alone.

    Parameters
    ----------
    inputs : iterable of Symbol
        Those that the step is given; all else that it is given is the same for all chains.
    """

    def __init__(self, inputs: Iterable[Symbol]) -> None:
        self._names = {s.name for s in inputs}

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, Symbol) and value.name in self._names

    def follow(self, nodes: Sequence[Node]) -> None:
        """Go through calls in their order.

        Raises
        ------
        CannotTrace
            If one of them mixes chains, or is not known not to.
        """
        for node in nodes:
            if node.form == "loop":
                self._loop(node)
            elif any(s in self for s in symbols_of((node.args, node.kwargs))):
                if not self._keeps(node):
                    raise CannotTrace(f"{node.form} {getattr(node.what, 'name', node.what)} may mix chains")
                self._names.update(s.name for s in node.out)

    def _loop(self, node: Node) -> None:
        size = len(node.out)
        carry, starts, ends = node.args[:size], node.args[size : 2 * size], node.args[2 * size :]
        self._names.update(s.name for s, c in zip(starts, carry, strict=True) if c in self)
        assert node.block is not None
        self.follow(node.block.nodes)
        for start, end, out in zip(starts, ends, node.out, strict=True):
            if (start in self) != (end in self):
                raise CannotTrace("a repeated part mixes what belongs to chains with what does not")
            if start in self:
                self._names.add(out.name)

    def _keeps(self, node: Node) -> bool:
        first, *others = node.args
        if node.form == "infix" and node.what == "@":  # rows by a matrix
            return first in self and first.ndim > 1 and others[0] not in self and others[0].ndim <= 2
        if node.form in ("infix", "prefix"):
            return self._broadcasts(node.args)
        if node.form == "getitem":
            return first in self and self._takes(first, others[0])
        return node.form == "call" and self._calls(node.what.name, first, others, node.kwargs)

    def _calls(self, name: str, first: Any, others: list, settings: dict) -> bool:
        if name in ELEMENTWISE:
            return self._broadcasts((first, *others, *settings.values()))
        axis = settings.get("axis")
        if name in ("stack", "concat"):
            axes = {_axes(a) + (name == "stack") for a in first}
            return all(a in self for a in first) and len(axes) == 1 and _is_not_first(axis, *axes)
        if name == "take_along_axis":
            return all(a in self and a.ndim == first.ndim for a in (first, *others)) and _is_not_first(axis, first.ndim)
        if name == "reshape":
            return first in self and others[0][0] == first.shape[0]
        return name in ALONG_AXIS and first in self and not others and _is_not_first(axis, first.ndim)

    def _broadcasts(self, operands: Sequence[Any]) -> bool:
        """Whether the first axis of what operands broadcast to is the chains' own: no other array has as many."""
        axes = {operand.ndim for operand in operands if operand in self}
        return len(axes) == 1 and all(
            operand in self or _axes(operand) < max(axes) or operand.shape[0] == 1 for operand in operands
        )

    def _takes(self, array: Symbol, key: Any) -> bool:
        """Whether an index leaves the chains' axis whole, and first; parts of what a function gave have their own."""
        if not hasattr(array.value, "shape"):
            return True
        keys = key if isinstance(key, tuple) else (key,)
        taken = [k for k in keys[1:] if k is not None]
        plain = all(isinstance(k, (int, slice)) or type(getattr(k, "value", None)) is int for k in taken)
        return bool(keys) and keys[0] is ... and plain and len(taken) < array.ndim


def _axes(value: Any) -> int:
    """Of an array; none of a number, a dtype or a device."""
    return 0 if isinstance(value, type) else getattr(value, "ndim", 0)


def _is_not_first(axis: Any, axes: int) -> bool:
    return isinstance(axis, int) and axis % axes > 0
