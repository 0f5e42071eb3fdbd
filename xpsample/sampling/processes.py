"""Processes that make one run together, each with a part of the chains: what they must agree on.

All of them make the same calls, in the same order. What a process finds out by itself, such as how much time is gone
or a signal, must not lead it another way than the others, which would wait for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array, Tree
from xpsample.core.backend import Backend
from xpsample.core.errors import CapabilityError
from xpsample.core.registry import backend_of, to_host


@dataclass(frozen=True)
class Processes:
    """The processes that hold the positions of a run: how many, 1 where they are all here, and this one's number."""

    backend: Backend
    count: int = 1
    here: int = 0

    @classmethod
    def of(cls, x: Array) -> "Processes":
        """Those that hold an array."""
        backend = backend_of(x)
        numbers = {device.process for device in backend.devices(x)}
        return cls(backend, len(numbers), backend.devices()[0].process) if len(numbers) > 1 else cls(backend)

    @property
    def several(self) -> bool:
        """Whether there is more than one, so that all must make the same calls."""
        return self.count > 1

    @property
    def about(self) -> dict[str, Any]:
        """What a trace says of them, as JSON values: nothing of one."""
        return {"processes": {"count": self.count, "here": self.here}} if self.several else {}

    def largest(self, carry: Tree, number: float) -> float:
        """The largest number of all processes; its own, at once, where there is one."""
        return self.backend.synchronize(carry, number) if self.several else number

    def any_of(self, reasons: Sequence[str | None], carry: Tree) -> bool:
        """Whether one of these processes has a reason: all of them are asked, and told the same."""
        return self.largest(carry, any(reason is not None for reason in reasons)) > 0

    def agreement(self, carry: Tree) -> Callable[[float], float] | None:
        """The largest number of all processes, for what must be the same in all; None where there is one."""
        return partial(self.largest, carry) if self.several else None

    def shared(self, sums: Tree) -> Tree:
        """Sums on the host where there are several processes: all of them fetch at once, and not by their clocks."""
        return tree.map(to_host, sums) if self.several else sums

    def check_one(self, what: str, instead: str) -> None:
        """Raise CapabilityError if there are several, which `what` does not work with; say what to do `instead`."""
        if self.several:
            raise CapabilityError(
                f"{what} does not work with arrays of which {self.count} processes hold a part each: {instead}"
            )
