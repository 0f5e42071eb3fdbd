"""Large steps in pieces: some chains after the others, so that what a step makes stays in a cache."""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from xpsample import tree
from xpsample.backend import Array, allocate
from xpsample.straight.tape import size_of


class Own:
    """Arrays that a driver made, to which it may write as long as they are there."""

    def __init__(self) -> None:
        self._arrays: dict[int, weakref.ref] = {}

    def add(self, array: Array) -> None:
        """Take one in."""
        key = id(array)
        self._arrays[key] = weakref.ref(array, lambda _: self._arrays.pop(key, None))

    def __contains__(self, array: Array) -> bool:
        known = self._arrays.get(id(array))
        return known is not None and known() is array


class Pieces:
    """A carry and a block of noise in pieces of about `size` bytes a step, along the first axis of the positions.

    Attributes
    ----------
    apart : tuple of bool
        For each leaf of carry and noise, whether it has that axis, and is in pieces.
    """

    def __init__(self, carry: Any, noise: dict[str, Array], size: int) -> None:
        self.carry, self.noise, self.leaves = carry, noise, tree.leaves(tuple(carry))
        self.chains = carry.state.point.x.shape[0]
        rows = [size_of(block) // max(1, block.shape[0]) for block in noise.values()]
        self.number = min((sum(map(size_of, self.leaves)) + sum(rows)) // size, self.chains // 2)
        ours = [tuple(getattr(leaf, "shape", ())[:1]) == (self.chains,) for leaf in self.leaves]
        self.apart = (*ours, *(tuple(block.shape[1:2]) == (self.chains,) for block in noise.values()))

    def __iter__(self) -> Iterator[tuple[slice, tuple[Any, dict[str, Array]]]]:
        """Chains, with their carry and noise; nothing where there is one piece only."""
        if self.number < 2:
            return
        paths = [path for path, _ in tree.items(tuple(self.carry))]
        for k in range(self.number):
            of = slice(k * self.chains // self.number, (k + 1) * self.chains // self.number)
            cut = [leaf[of, ...] if its else leaf for leaf, its in zip(self.leaves, self.apart, strict=False)]
            streams = zip(self.noise.items(), self.apart[len(cut) :], strict=True)
            carry = type(self.carry)(*tree.fill(tuple(self.carry), dict(zip(paths, cut, strict=True))))
            yield of, (carry, {name: block[:, of, ...] if its else block for (name, block), its in streams})


class Whole:
    """What pieces give, put together: the leaves of the new carry, and the columns of what is kept."""

    def __init__(self, xp: Any, pieces: Pieces, own: Own) -> None:
        self.xp, self.pieces, self.own = xp, pieces, own
        self.leaves: list[Array] = []
        self.columns: list[list[Array]] = []

    def put(self, of: slice, leaves: Sequence[Array], columns: Sequence[Sequence[Array]], fresh: bool) -> None:
        """Those of some chains; `fresh` where none of the leaves is a view of the carry that it came from."""
        if not self.leaves:
            old = zip(self.pieces.leaves, leaves, self.pieces.apart, strict=False)
            self.leaves = [(a if fresh and a in self.own else self._empty(b)) if its else b for a, b, its in old]
            for leaf, its in zip(self.leaves, self.pieces.apart, strict=False):
                if its:
                    self.own.add(leaf)
            self.columns = [[self._empty(row) for row in column] for column in columns]
        for whole, part, its in zip(self.leaves, leaves, self.pieces.apart, strict=False):
            if its:
                whole[of, ...] = part
        for column, parts in zip(self.columns, columns, strict=True):
            for whole, part in zip(column, parts, strict=True):
                whole[of, ...] = part

    def _empty(self, part: Array) -> Array:
        return allocate(self.xp, self.pieces.chains, part[0, ...])
