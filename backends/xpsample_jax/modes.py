"""Modes of JAX that find faults in code by refusing things, set aside where the library's own code runs."""

import threading
from contextlib import ExitStack
from typing import Any

import jax


class OwnModes:
    """A block in which arrays of several ranks broadcast, numbers move between host and device, and nan is a number.

    It may be entered again within itself, and by several threads.

    Notes
    -----
    Steps meet nan where a proposal is rejected, and their scalars come from the host. A user who forbids such things
    means code of their own, and calls that outside of a run.
    """

    def __init__(self) -> None:
        self._entered = threading.local()

    def __enter__(self) -> None:
        stack = ExitStack()
        for mode in (
            jax.numpy_rank_promotion("allow"),
            jax.transfer_guard("allow"),
            jax.debug_nans(False),
            jax.debug_infs(False),
        ):
            stack.enter_context(mode)
        self._stacks().append(stack)

    def __exit__(self, *error: object) -> None:
        self._stacks().pop().close()

    def _stacks(self) -> list[Any]:
        if not hasattr(self._entered, "stacks"):
            self._entered.stacks = []
        return self._entered.stacks


OWN_MODES = OwnModes()
