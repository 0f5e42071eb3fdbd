"""Lift a function of a single point to batches of chains."""

import math
import sys
import threading
from collections.abc import Callable
from functools import update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any, final

from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array, Tree, is_array
from xpsample.core.checks import check_function, given
from xpsample.core.errors import HyperparameterError, LogDensityError
from xpsample.core.registry import backend_of

if TYPE_CHECKING:
    from concurrent.futures import Executor
else:
    Executor = Any  # for typing.get_type_hints


class Rejection(float):
    """A log density of -inf that stands for an exception, also where it comes from a worker."""


class Rejections(threading.local):
    """Number of exceptions that meant a density of 0, in this thread."""

    count = 0


REJECTIONS = Rejections()


def batched(
    f: Callable[..., Array | float],
    *,
    rejects: type[Exception] | tuple[type[Exception], ...] = (),
    executor: "Executor | None" = None,
) -> Callable[..., Array]:
    """A function of one position, lifted to positions with any leading axes.

    Uses the library's vmap where it has one, and a Python loop over the chains where it has none, or with `rejects`
    (slow: write the function over leading axes instead, where you can). With `executor` its workers evaluate the
    positions.

    Parameters
    ----------
    f : callable
        ``f(x, *data)`` with x of shape (dim,). That of a `Model` is ``f(p, *data)``, the parameters of one chain.
    rejects : exception class or tuple of such, optional
        Exceptions that mean a log density of -inf at a position, such as `ValueError`: that chain's proposal is
        rejected, and the others continue; ``trace.run_statistics.evaluations["raised"]`` counts them. If every start
        position raises one, it is an error. Compiled functions, as those of JAX, raise when they are traced and not
        where a value is wrong: give -inf there by ``where``.
    executor : concurrent.futures.Executor, optional
        Its workers evaluate the positions one by one: a `ProcessPoolExecutor` or an executor of loky, dask or
        mpi4py. It pays where an evaluation takes a millisecond or more. Not for JAX arrays, whose runs are compiled.

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
    classes = rejects if isinstance(rejects, tuple) else (rejects,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in classes):
        raise HyperparameterError(f"rejects must be a class of exceptions, such as ValueError; got {given(rejects)}")
    if executor is not None:
        from xpsample.core.worker_processes import check_executor  # which imports multiprocessing

        check_executor(executor)
    return Lifted(check_function("f", f, "(x)"), classes, executor)


@final
class Lifted:
    """Result of `batched`. It can be sent to other processes where the function can be, also as a decorator.

    The copy that is sent has no executor: workers start no workers.
    """

    def __init__(
        self,
        f: Callable[..., Array | float],
        rejects: tuple[type[Exception], ...] = (),
        executor: "Executor | None" = None,
    ) -> None:
        self.__wrapped__ = f
        update_wrapper(self, f)
        self.rejects, self.executor = rejects, executor

    def __call__(self, x: Array, *data: Any) -> Array:
        if not is_array(x):
            raise LogDensityError(
                f"batched(f) passes f one array or the parameters of a Model, not a {type(x).__name__}. Write the "
                "function for all chains, with the chain axes first."
            )
        return self.over(x, tuple(x.shape[:-1]), *data)

    def over(self, positions: Tree, chains: tuple[int, ...], *data: Any) -> Array:
        """Value for a tree of arrays ``(*chains, ...)``."""
        if not chains:
            return self._one(positions, *data)
        xp = backend_of(tree.leaves(positions)[0]).xp
        flat = tree.map(lambda a: xp.reshape(a, (prod(chains), *a.shape[len(chains) :])), positions)
        out = self._each(flat, *data)
        return xp.reshape(out, (*chains, *out.shape[1:]))

    def _each(self, flat: Tree, *data: Any) -> Array:
        first = tree.leaves(flat)[0]
        backend = backend_of(first)
        if backend.autodiff is not None and not self.rejects and self.executor is None:
            return backend.autodiff.vmap(self._one)(flat, *data)
        every = [tree.map(lambda a, i=i: a[i, ...], flat) for i in range(first.shape[0])]
        if self.executor is None:
            found: Any = (self.located(one, *data) for one in every)
        else:
            from xpsample.core.worker_processes import in_parallel

            found = in_parallel(self.executor, self.located, every, data)
        return backend.xp.stack([self._as_array(value, one) for value, one in zip(found, every, strict=True)])

    def _one(self, x: Tree, *data: Any) -> Array:
        return self._as_array(self.of_one(x, *data), x)

    def of_one(self, x: Tree, *data: Any) -> Any:
        """Value of the function at one position."""
        try:
            return self.__wrapped__(x, *data)
        except self.rejects:
            return Rejection(-math.inf)

    def located(self, x: Tree, *data: Any) -> Any:
        """As `of_one`; an error says at which position it was."""
        try:
            return self.of_one(x, *data)
        except Exception as error:
            error.add_note(f"This was at the position {x}.")
            raise

    def _as_array(self, found: Any, x: Tree) -> Array:
        """Value of the function at a position."""
        like = tree.leaves(x)[0]
        REJECTIONS.count += isinstance(found, Rejection)
        if found is None:
            raise LogDensityError(
                f"{getattr(self, '__name__', 'the function')} gives None for a position: let it end with return"
            )
        return (
            found if is_array(found) else backend_of(like).xp.asarray(found, dtype=like.dtype, device=device_of(like))
        )

    @property
    def raising(self) -> "Lifted":
        """The same function, whose exceptions are errors."""
        return Lifted(self.__wrapped__, executor=self.executor)

    def __reduce__(self) -> tuple[Any, ...]:
        f: Any = self.__wrapped__
        if getattr(sys.modules.get(self.__module__), getattr(f, "__qualname__", ""), None) is self:
            f.__qualname__ += ".__wrapped__"  # pickle looks for it under this name, and a decorated function has that
        return Lifted, (f, self.rejects)
