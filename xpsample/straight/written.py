"""A step written down, with what is recorded of it: what calls are needed, and whether they keep chains apart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xpsample import tree
from xpsample.backend import Array
from xpsample.straight.chains import Apart
from xpsample.straight.source import distinct, needed
from xpsample.straight.tape import Block, CannotTrace, Symbol, Tape, check_form


class Written:
    """A step of a program from carries and with noise of one form, and what is recorded of it.

    Parameters
    ----------
    program : Program
    carry : Carry
    noise : dict
        That of one step.
    record : bool
        Whether states are recorded.
    known : bool
        Whether all has to be known that is called: then a function of the user's is refused.

    Attributes
    ----------
    once, step, seldom : Block
        Calls that depend on no step, those of every step, and those of the steps after which a state is recorded,
        where these are not all; of each the needed ones.
    data, state, folds, noise : tree of Symbol
        What a step is given.
    infos, counts, kept : tree of Symbol
        What it tells: the first fields of the info, the evaluations (symbols or numbers), and the rows.
    moved, changed : list of (Symbol, Symbol)
        Of state and folds what a step replaces, each with what it is replaced by.
    often, rows : list of Symbol
        What is kept of every step, and of the steps of `seldom`.
    ends : set of str
        The names of all that leaves a step.
    used : set of str
        Those, and the names of all that the calls are given.

    Raises
    ------
    Exception
        Of any kind, where a step cannot be written down.
    """

    def __init__(self, program: Any, carry: Any, noise: dict[str, Array], record: bool, known: bool) -> None:
        tape = Tape(program.target.backend, known=known)
        with tape:
            self.owns = tape.real.owns
            self.data = tree.map(lambda leaf: tape.symbol(leaf) if self.owns(leaf) else leaf, program.target.data)
            self.once, self.step, self.seldom = tape.open[0], Block(1), Block(2)
            tape.open.append(self.step)
            self.state, self.folds, self.noise = tape.symbols((carry.state, carry.folds, noise))
            target = program.target.with_data(self.data, tape.backend)
            new, info = program.kernel.step(target, self.state, self.noise)
            new, self.infos = tape.lifted((new, info[:3]))
            self.counts, self.evaluations = tuple(info.evaluations), type(info.evaluations)
            folded, self.kept = self.folds, ()
            self.sparse = record and program.thinning > 1
            if self.sparse:
                tape.open.append(self.seldom)
                tape.floor = self.seldom.depth
            if record:
                folded, self.kept = tape.lifted(replace(program, target=target).record(self.folds, new, info))
        check_form("a step", (carry.state, carry.folds), (new, folded))

        sums = distinct([*self.infos, *(s for s in self.counts if isinstance(s, Symbol))])
        rows = distinct(tree.leaves(self.kept))
        self.often, self.rows = (sums, rows) if self.sparse else (distinct([*sums, *rows]), [])
        self.moved, self.changed = _changes(self.state, new), _changes(self.folds, folded)
        self.ends = {b.name for _, b in self.moved + self.changed} | {s.name for s in self.often + self.rows}
        self.used = set(self.ends)
        for block in (self.seldom, self.step, self.once):
            block.nodes[:] = needed(block.nodes, self.used)
        self._after = tree.leaves((new, folded))

    def check_apart(self, apart: Sequence[bool]) -> None:
        """Raise CannotTrace unless a step keeps chains apart, of whose carry and noise those leaves are of chains."""
        before = tree.leaves((self.state, self.folds))
        chains = Apart(s for s, its in zip([*before, *self.noise.values()], apart, strict=True) if its)
        chains.follow([*self.once.nodes, *self.step.nodes, *self.seldom.nodes])
        if any((a in chains) != (b in chains) for a, b in zip(before, self._after, strict=True)):
            raise CannotTrace("a step gives chains what they did not have apart")
        if not all(s in chains for s in self.often + self.rows):
            raise CannotTrace("what is kept is not of chains apart")


def _changes(before: tree.Tree, after: tree.Tree) -> list[tuple[Symbol, Symbol]]:
    pairs = zip(tree.leaves(before), tree.leaves(after), strict=True)
    return [(a, b) for a, b in pairs if a is not b]
