"""Modes of JAX that the library's own code runs in."""

import threading
from contextlib import ExitStack
from typing import Any

import jax

from xpsample_jax.programs import option


class OwnModes:
    """A block in which arrays broadcast, numbers move between host and device, nan is one, and products keep digits.

    It may be entered again within itself, and by several threads.

    Notes
    -----
    Steps meet nan where a proposal is rejected, and their scalars come from the host. A user who forbids such things
    means code of their own, and calls that outside of a run.

    On GPUs and TPUs, JAX rounds the factors of a product of float32 matrices to 11 bits or 8, by default. A difference
    of log densities then has an error of 3e-4 of the log densities or more, which no acceptance step puts right. Within
    the block products keep the digits of their dtype, unless ``jax_default_matmul_precision`` is set.
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
        if option("jax_default_matmul_precision") is None:
            stack.enter_context(jax.default_matmul_precision("highest"))
        self._stacks().append(stack)

    def __exit__(self, *error: object) -> None:
        self._stacks().pop().close()

    def _stacks(self) -> list[Any]:
        if not hasattr(self._entered, "stacks"):
            self._entered.stacks = []
        return self._entered.stacks


OWN_MODES = OwnModes()
