"""Lift a function of a single point to batches of chains."""

import sys
from collections.abc import Callable
from functools import update_wrapper
from math import prod
from typing import Any, final

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function
from xpsample.core.registry import backend_of

BEHIND = ".__wrapped__"
"""Ends the name of a function behind a decorator."""


def batched(f: Callable[..., Array]) -> Callable[..., Array]:
    """A function of one position, lifted to positions with any leading axes.

    Uses the library's vmap where it has one, and a Python loop over the chains where it has none (slow: write the
    function over leading axes instead, where you can).

    Parameters
    ----------
    f : callable
        ``f(x, *data)`` with x of shape (dim,).

    Returns
    -------
    callable
        ``(*chains, dim) -> (*chains, ...)``.

    See Also
    --------
    Target : Takes the lifted function.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> def of_one(x):  # (dim,) -> a number
    ...     return -0.5 * x @ x
    >>> target = xps.Target(xps.batched(of_one), gradient=xps.FiniteDifference())
    >>> trace = xps.sample(target, xps.RWM(1.0), np.zeros((4, 2)), 10, seed=1, recorders=[xps.Moments()])
    >>> trace.recorded["moments"].mean.shape
    (4, 2)
    """
    return Lifted(check_function("f", f, "(x)"))


@final
class Lifted:
    """What `batched` makes. It can be sent to other processes where the function can be, also as a decorator."""

    def __init__(self, f: Callable[..., Array]) -> None:
        self.__wrapped__ = f
        update_wrapper(self, f)

    def __call__(self, x: Array, *data: Any) -> Array:
        f, backend = self.__wrapped__, backend_of(x)
        chains = tuple(x.shape[:-1])
        if not chains:
            return f(x, *data)
        flat = backend.xp.reshape(x, (prod(chains), x.shape[-1]))
        if backend.autodiff is not None:
            out = backend.autodiff.vmap(f)(flat, *data)
        else:
            out = backend.xp.stack([backend.xp.asarray(f(flat[i, ...], *data)) for i in range(flat.shape[0])])
        return backend.xp.reshape(out, (*chains, *out.shape[1:]))

    def __reduce__(self) -> tuple[Any, ...]:
        f: Any = self.__wrapped__
        if getattr(sys.modules.get(self.__module__), getattr(f, "__qualname__", ""), None) is self:
            f.__qualname__ += BEHIND  # pickle looks for it under this name, and a decorated function has that
        return batched, (f,)
