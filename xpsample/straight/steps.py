"""A program's steps as one function, and the driver's part that keeps such functions."""

import functools
import itertools
import linecache
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

from xpsample import tree
from xpsample.backend import Array, Rows, make_steps, unstacked, walk_steps
from xpsample.straight.captured import Capture, Captured
from xpsample.straight.pieces import Own, Pieces, Whole
from xpsample.straight.source import (
    Writer,
    is_pure,
    listed,
    split_off_fixed,
    split_off_last,
    split_off_noise,
    used_by,
)
from xpsample.straight.tape import Symbol, form_of
from xpsample.straight.written import Written

SHORTEST = 32
"""Steps of a run below which none is written down, which costs one more step and a few milliseconds."""

KEPT = 16
"""Functions kept for one target; the oldest goes first."""

_serial = itertools.count()


class StraightSteps:
    """`make_steps` by straight-line functions, each written down when it is needed first and kept with its target.

    Parameters
    ----------
    unstack : callable, optional
        Gives the rows of a block.
    piece : callable, optional
        ``piece(x)``, for positions: the bytes of state and noise of a step from which on chains are stepped in pieces
        of that size, which fit a cache, where the step keeps chains apart; None for never.
    capture : callable, optional
        ``capture(x)``, for positions: what makes graphs of calls on their device (`captured.Capture`), where steps are
        to be captured; None for never. Steps that call a user's function which is not said to be pure are not.
    """

    def __init__(
        self,
        unstack: Callable[[Array], Sequence[Array]] = unstacked,
        piece: Callable[[Array], int | None] = lambda x: None,
        capture: Callable[[Array], Capture | None] = lambda x: None,
    ) -> None:
        self.unstack, self.piece, self.capture, self._own = unstack, piece, capture, Own()
        self._walk = functools.partial(walk_steps, unstack=unstack)

    def __call__(
        self, program: Any, carry: Any, noise: dict[str, Array], start: int, stop: int
    ) -> tuple[Any, Sequence, Rows]:
        size = self.piece(carry.state.point.x)
        done = None if size is None else self._in_pieces(program, Pieces(carry, noise, size), start, stop)
        if done is not None:
            return done
        straight = None
        if program.steps >= SHORTEST:
            straight = self._straight(program, carry, noise, start >= program.burn_in)
        if straight is None:
            return make_steps(program, carry, noise, start, stop, walk=self._walk)
        capture = self.capture(carry.state.point.x)
        made = straight.run(program, carry, noise, start, stop, capture)
        return straight.results(carry, *made, stop - start)

    def _in_pieces(self, program: Any, pieces: Pieces, start: int, stop: int) -> tuple[Any, Sequence, Rows] | None:
        """The steps in pieces of chains; None where there are not two, or where a step does not keep chains apart."""
        functions: list[Straight] = []
        for _, piece in pieces:
            straight = self._straight(program, *piece, start >= program.burn_in, pieces.apart)
            if straight is None:
                return None
            functions.append(straight)
        if not functions:
            return None
        whole = Whole(program.target.xp, pieces, self._own)
        for straight, (of, piece) in zip(functions, pieces, strict=True):
            whole.put(of, *straight.run(program, *piece, start, stop), straight.fresh)
        return functions[0].results(pieces.carry, whole.leaves, whole.columns, stop - start)

    def _straight(
        self, program: Any, carry: Any, noise: dict[str, Array], record: bool, apart: tuple[bool, ...] = ()
    ) -> "Straight | None":
        held, row = program.target.compiled, {name: block[0, ...] for name, block in noise.items()}
        leaves = tree.items((tuple(carry), program.target.data, row))
        # A number among the data is written into the source, so another one makes another function.
        forms = tuple((path, *form_of(leaf), None if hasattr(leaf, "shape") else repr(leaf)) for path, leaf in leaves)
        key = (self, program.key, record, apart, forms)
        if key not in held:
            if len(held) >= KEPT:
                held.pop(next(iter(held)))
            try:
                held[key] = Straight(program, carry, row, record, apart, self)
            except Exception:  # whatever it is: the steps themselves will say so, or do well without this
                held[key] = None
        return held[key]


class Straight:
    """The steps of a program from carries and with noise of one form, as a function.

    Parameters
    ----------
    program : Program
    carry : Carry
    noise : dict
        That of one step.
    record : bool
        Whether states are recorded.
    apart : tuple of bool
        For each leaf of carry and noise, whether it belongs to a part of the chains: then the steps have to keep
        chains apart. Empty where all chains are there.
    settings : StraightSteps

    Raises
    ------
    Exception
        Of any kind, where a step cannot be written down.
    """

    def __init__(
        self,
        program: Any,
        carry: Any,
        noise: dict[str, Array],
        record: bool,
        apart: tuple[bool, ...],
        settings: StraightSteps,
    ) -> None:
        written = Written(program, carry, noise, record, known=bool(apart))
        if apart:
            written.check_apart(apart)
        once, step, seldom, sparse = written.once, written.step, written.seldom, written.sparse
        row, often, rows = written.noise, written.often, written.rows
        moved, changed, ends = written.moved, written.changed, written.ends
        self.pure = all(map(is_pure, (*once.nodes, *step.nodes, *seldom.nodes)))
        ahead, step.nodes[:] = split_off_noise(step.nodes, list(row.values()))
        drawn = [*row.values(), *(node.out[0] for node in ahead)]
        changing = {a.name for a, _ in moved + changed}
        fixed, step.nodes[:] = split_off_fixed(step.nodes, changing.union(s.name for s in drawn))
        used = {name for node in (*step.nodes, *seldom.nodes) for name in used_by(node)}
        drawn = [s for s in drawn if s.name in used]

        # Views of what was carried would change with it.
        made = {s.name for node in (*fixed, *step.nodes, *seldom.nodes) if node.makes_new for s in node.out}
        self.fresh = all(b.name in made for _, b in moved + changed)

        # What no step reads is made once, of the last step's values.
        read = {name for node in (*step.nodes, *seldom.nodes) for name in used_by(node)}
        late = {a.name for a, b in moved if a.name not in read and b.name not in changing}
        always = {b.name for a, b in moved + changed if a.name not in late} | {s.name for s in often + rows}
        last, step.nodes[:] = split_off_last(step.nodes, always.union(*map(used_by, seldom.nodes)), changing)

        # As source.
        writer, carried = Writer(), tree.leaves((written.state, written.folds))
        columns = [f"r{k}" for k in range(len(often) + len(rows))]
        writer.line(0, "def steps(data, carry, noise, first, stop):")
        inputs = {
            "data": [s for s in tree.leaves(written.data) if isinstance(s, Symbol)],
            "carry": carried,
            "noise": row.values(),
        }
        for name, symbols in inputs.items():
            if symbols:
                writer.line(1, f"{listed(symbols)} = {name}")
        for name in columns:
            writer.line(1, f"{name} = []")
        writer.block([*once.nodes, *fixed, *ahead], 1, written.used)
        unstack = writer.constant(settings.unstack)
        blocks = "".join(f", {unstack}({s.name})" for s in drawn)
        writer.line(1, f"for t, {listed(drawn)} in zip(range(first, stop){blocks}):")
        writer.block(step.nodes, 2, ends.union(*map(used_by, [*seldom.nodes, *last])))
        for name, symbol in zip(columns, often, strict=False):
            writer.line(2, f"{name}.append({symbol.name})")
        if sparse:
            writer.line(2, f"if not (t + {1 - program.burn_in}) % {program.thinning}:")
        indent = 3 if sparse else 2
        writer.block(seldom.nodes, indent, ends)
        for name, symbol in zip(columns[len(often) :], rows, strict=True):
            writer.line(indent, f"{name}.append({symbol.name})")
        writer.assign(indent, changed)
        writer.assign(2, [pair for pair in moved if pair[0].name not in late])
        writer.block(last, 1, ends)
        writer.assign(1, [pair for pair in moved if pair[0].name in late])
        writer.line(1, f"return ({listed(carried)}), ({' '.join(f'{name},' for name in columns)})")

        # Nothing below holds a symbol, and with it a value of the first step.
        self.source = writer.source()
        self.function = self._compiled(writer.names)
        self.period, self.unstack = program.thinning if sparse else 1, settings.unstack
        self._captured: Captured | None = None
        self.owns, self._evaluations = written.owns, written.evaluations
        self._paths = [path for path, _ in tree.items((written.state, written.folds))]
        column = {s.name: k for k, s in enumerate(often)}
        self._infos = [column[s.name] for s in written.infos]
        self._counts = [(column[s.name], 0) if isinstance(s, Symbol) else (None, s) for s in written.counts]
        column.update((s.name, len(often) + k) for k, s in enumerate(rows))
        self._rows = tree.map(lambda s: column[s.name], written.kept)

    def _compiled(self, names: dict[str, Any]) -> Callable[..., Any]:
        file = f"<straight-line steps {next(_serial)}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)  # for tracebacks
        weakref.finalize(self, linecache.cache.pop, file, None)
        exec(compile(self.source, file, "exec"), names)
        return names["steps"]

    def inputs(
        self, program: Any, carry: Any, noise: dict[str, Array]
    ) -> tuple[list[Array], list[Array], Collection[Array]]:
        """What `function` is given: the target's arrays, the leaves of the carry and the noise of some steps."""
        data = [leaf for leaf in tree.leaves(program.target.data) if self.owns(leaf)]
        return data, tree.leaves(tuple(carry)), noise.values()

    def run(
        self, program: Any, carry: Any, noise: dict[str, Array], first: int, stop: int, capture: Capture | None = None
    ) -> tuple[Sequence[Array], Sequence[list]]:
        """Make steps [first, stop): the leaves of the new carry, and for each thing that is kept its values."""
        if capture is None or not self.pure:
            return self.function(*self.inputs(program, carry, noise), first, stop)
        if self._captured is None:
            self._captured = Captured(self, program, carry)
        return self._captured.run(self, capture, program, carry, noise, first, stop)

    def results(
        self, carry: Any, values: Sequence[Array], columns: Sequence[list], steps: int
    ) -> tuple[Any, Sequence, Rows]:
        """What `run` gave, as `make_steps` gives it."""
        state, folds = tree.fill(tuple(carry), dict(zip(self._paths, values, strict=True)))
        counts = [itertools.repeat(each, steps) if k is None else columns[k] for k, each in self._counts]
        evaluations = list(map(self._evaluations, *counts))
        kept = [columns[k] for k in tree.leaves(self._rows)]
        rows = Rows(tree.map(lambda k: columns[k][0], self._rows) if all(kept) else None, kept)
        return type(carry)(state, folds), (*(columns[k] for k in self._infos), evaluations), rows
