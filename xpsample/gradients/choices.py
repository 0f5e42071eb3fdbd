"""The gradient choices: native autodiff, borrowed autodiff, finite differences, or the best there is."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array, in_order, is_array
from xpsample.core.backend import Backend
from xpsample.core.checks import given
from xpsample.core.errors import BackendError, GradientError, unended
from xpsample.core.fields import FrozenDataclass, number, text
from xpsample.core.registry import backend_named, backend_of, installed_backends
from xpsample.core.tree import dtype_name


def bridge(array: Array, to: "Backend | Array") -> Array:
    """`array` in another library: a backend's, or an array's (and on its device).

    GradientError if the other library would change the dtype (float64 with 64-bit types switched off, for one).
    """
    mine = backend_of(array)
    theirs, home = (to, None) if isinstance(to, Backend) else (backend_of(to), to)
    if mine is theirs:
        return array
    moved = _by_dlpack(array, theirs)
    if moved is None or (home is not None and theirs.devices(moved) != theirs.devices(home)):
        moved = theirs.from_host(mine.to_host(array), _anywhere(theirs) if home is None else home)
    if dtype_name(moved) != dtype_name(array):
        raise GradientError(
            f"{theirs.name} turned {dtype_name(array)} into {dtype_name(moved)}: switch its 64-bit types on, or pass "
            "float32 positions"
        )
    return moved


def _by_dlpack(array: Array, theirs: Backend) -> Any:
    """None where DLPack cannot: read-only NumPy buffers, autograd tensors and unaligned memory have no such form."""
    try:
        return theirs.xp.from_dlpack(in_order(array) if isinstance(array, np.ndarray) else array)
    # A library without CUDA raises AssertionError for an array on a GPU.
    except (BufferError, RuntimeError, TypeError, AttributeError, ValueError, AssertionError):
        return None


def _anywhere(theirs: Backend) -> Array:
    """An array on the first device of a library."""
    devices = theirs.devices()
    if not devices:
        raise BackendError(f"{theirs.name} has no device for an array")
    return theirs.xp.empty((), dtype=theirs.xp.float32, device=devices[0].device)


class Evaluations(NamedTuple):
    """Numbers of evaluations, per chain."""

    log_density: Any = 0
    score: Any = 0
    hvp: Any = 0

    def plus(self, other: "Evaluations") -> "Evaluations":
        """Elementwise sum."""
        return Evaluations(self.log_density + other.log_density, self.score + other.score, self.hvp + other.hvp)

    def times(self, n: Any) -> "Evaluations":
        """Every count `n` times."""
        return Evaluations(n * self.log_density, n * self.score, n * self.hvp)


class Functions(NamedTuple):
    """The user's functions of ``(x, *data)``, each None where absent; `data` is ``()`` or ``(data,)``."""

    log_density: Any = None
    score: Any = None
    hvp: Any = None
    log_density_and_score: Any = None
    score_plus_hvp: Any = None


class Derivative(NamedTuple):
    """A derivative of a target, ready to call, and what one call costs."""

    call: Any
    cost: Evaluations


class GradientChoice(ABC):
    """A way to get derivatives. Final subclasses are frozen values, passed as ``Target(..., gradient=...)``."""

    @abstractmethod
    def score(self, backend: Backend, functions: Functions, x: Array) -> Derivative:
        """``(x, *data) -> (log density, score)``, for positions like x, ``(*chains, dim)``."""

    @abstractmethod
    def hvp(self, backend: Backend, functions: Functions, score: Derivative, x: Array) -> Derivative:
        """``(x, v, *data) -> (score, H v)`` with H the Hessian of the log density; `score` is the score in use.

        The score at x is None where it does not come along.
        """

    @abstractmethod
    def value_and_gradient(
        self, backend: Backend, loss: Callable[..., Array]
    ) -> Callable[..., tuple[Array, tree.Tree]]:
        """``(parameters, *args) -> (loss, gradient)`` of the sum of a `loss` of a tree of arrays.

        The loss is a scalar, or ``(*runs)`` of independent runs, whose parameters have leaves ``(*runs, 1, ...)``.
        """


class NativeGradient(GradientChoice, FrozenDataclass, eq=True):
    """Automatic differentiation by the library that the positions come from."""

    def score(self, backend: Backend, functions: Functions, x: Array) -> Derivative:
        call = self._autodiff(backend).value_and_grad(_density_of(functions))
        return Derivative(call, Evaluations(score=1))

    def hvp(self, backend: Backend, functions: Functions, score: Derivative, x: Array) -> Derivative:
        return Derivative(self._autodiff(backend).score_and_hvp(score.call), Evaluations(hvp=1))

    def value_and_gradient(
        self, backend: Backend, loss: Callable[..., Array]
    ) -> Callable[..., tuple[Array, tree.Tree]]:
        return self._autodiff(backend).value_and_grad(loss)

    @staticmethod
    def _autodiff(backend: Backend) -> Any:
        if backend.autodiff is None:
            raise GradientError(
                f"{backend.name} has no automatic differentiation; borrow it with gradient=Via(NAME){_lenders_text()}, "
                "or use gradient=FiniteDifference(); a Target also accepts score=."
            )
        return backend.autodiff


class Via(GradientChoice, FrozenDataclass, eq=True):
    """Automatic differentiation borrowed from another library, arrays passed through DLPack.

    The log density must be written against the array API (``xp = array_namespace(x)``), since it is called with the
    lender's arrays; arrays that it needs belong into ``Target(..., data=...)``, which is passed over as well.

    Parameters
    ----------
    library : str
        The lender's module name.

    See Also
    --------
    Auto : The best that is at hand.
    FiniteDifference : Without autodiff.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from array_api_compat import array_namespace
    >>> def log_density(x):  # in the library of its argument, so that torch can differentiate it
    ...     return -0.5 * array_namespace(x).sum(x**2, axis=-1)
    >>> target = xps.Target(log_density, gradient=xps.Via("torch"))
    >>> xps.sample(target, xps.HMC(), np.random.default_rng(0).normal(size=(4, 2)), 500, seed=1).draws.shape
    (500, 4, 2)
    """

    library: str = text()

    def score(self, backend: Backend, functions: Functions, x: Array) -> Derivative:
        lender = self._lender()
        call = self._across(lender, lender.autodiff.value_and_grad(_density_of(functions)), moving=1)
        return Derivative(call, Evaluations(score=1))

    def hvp(self, backend: Backend, functions: Functions, score: Derivative, x: Array) -> Derivative:
        # The score in use may itself cross the bridge, so the lender differentiates the user's own functions.
        lender = self._lender()
        own = functions.score
        if own is None:
            value_and_grad = lender.autodiff.value_and_grad(_density_of(functions))

            def own(x: Array, *data: Any) -> Array:
                return value_and_grad(x, *data)[1]

        # The product alone: to make the score and to pass it over as well costs up to half as much again.
        product = self._across(lender, lender.autodiff.hvp(own), moving=2)
        return Derivative(lambda *args: (None, product(*args)), Evaluations(hvp=1))

    def value_and_gradient(
        self, backend: Backend, loss: Callable[..., Array]
    ) -> Callable[..., tuple[Array, tree.Tree]]:
        lender = self._lender()
        return self._across(lender, lender.autodiff.value_and_grad(loss), moving=1)

    def _lender(self) -> Any:
        lender = backend_named(self.library)
        if lender.autodiff is None:
            raise GradientError(f"{self.library} has no automatic differentiation to lend{_lenders_text()}")
        return lender

    def _across(self, lender: Backend, call: Callable[..., Any], moving: int) -> Callable[..., Any]:
        """`call` on the lender's arrays: the first `moving` arguments change at every call, the data behind do not."""
        last: list[Any] = [None, None]  # the data passed over last, before and after

        def over(argument: Any) -> Any:
            return tree.map(lambda a: bridge(a, lender) if is_array(a) else a, argument)

        def across(*args: Any) -> Any:
            data = args[moving:]
            if last[0] is None or any(a is not b for a, b in zip(data, last[0], strict=True)):
                last[:] = [data, [over(a) for a in data]]
            try:
                result = call(*(over(a) for a in args[:moving]), *last[1])
            except GradientError:
                raise
            except Exception as error:
                raise GradientError(
                    f"Via({self.library!r}) could not run your function on {self.library} arrays: {unended(error)}. "
                    "Write it with array_namespace(x), pass its arrays by data=, or use gradient=FiniteDifference(); "
                    "a Target also accepts score=."
                ) from error
            home = tree.leaves(args[0])[0]
            return tree.map(lambda a: bridge(a, home), result)

        return across


class FiniteDifference(GradientChoice, FrozenDataclass, eq=True):
    """Finite differences: of log densities for a score, of scores for an hvp (Eq. 6 of SRMC).

    A score costs ``dim + 1`` (forward) or ``2 dim + 1`` (central) log densities, the one at x included, in batched
    calls with one more leading axis; an hvp costs two scores.

    Parameters
    ----------
    eps : float
        The displacement, in the units of x for a score and of v for an hvp. Small values served best in a tilt, in
        float32 too (docs/experiments/srmc-sweeps.md), against the advice of Section 4.1 of the SRMC paper.
    scheme : {"central", "forward"}
        Which difference quotient.

    See Also
    --------
    Via : Autodiff of another library.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), gradient=xps.FiniteDifference())
    >>> xps.sample(target, xps.HMC(), np.random.default_rng(0).normal(size=(4, 2)), 1000, seed=1).draws.shape
    (1000, 4, 2)
    """

    eps: float = number(default=0.0001, gt=0)
    scheme: str = "central"

    def __check_init__(self) -> None:
        if not isinstance(self.scheme, str) or self.scheme not in ("central", "forward"):
            raise GradientError(f"scheme is 'central' or 'forward'; got {given(self.scheme)}")

    def score(self, backend: Backend, functions: Functions, x: Array) -> Derivative:
        return self.score_of_part(backend, functions, x, ((0, x.shape[-1]),))

    def score_of_part(
        self, backend: Backend, functions: Functions, x: Array, places: Sequence[tuple[int, int]]
    ) -> Derivative:
        """As `score`, with differences of some coordinates alone, from and up to each of the places; nan in others."""
        xp, eps, log_density, dim = backend.xp, self.eps, _density_of(functions), x.shape[-1]
        central, own = self.scheme == "central", [i for begin, end in places for i in range(begin, end)]

        def both(x: Array, *data: Any) -> tuple[Array, Array]:
            value = log_density(x, *data)
            if not own:
                return value, xp.full_like(x, xp.nan)
            units = xp.eye(dim, dtype=x.dtype, device=device_of(x))
            if len(own) < dim:
                units = xp.stack([units[i, :] for i in own])
            steps = xp.reshape(eps * units, (len(own),) + (1,) * (x.ndim - 1) + (dim,))
            forward = log_density(x[None, ...] + steps, *data)
            if central:
                slope = (forward - log_density(x[None, ...] - steps, *data)) / (2 * eps)
            else:
                slope = (forward - value[None, ...]) / eps
            if len(own) < dim:
                unknown = xp.full_like(value, xp.nan)
                slope = xp.stack([slope[own.index(i), ...] if i in own else unknown for i in range(dim)])
            return value, xp.moveaxis(slope, 0, -1)

        return Derivative(both, Evaluations(log_density=(2 if central else 1) * len(own) + 1))

    def hvp(self, backend: Backend, functions: Functions, score: Derivative, x: Array) -> Derivative:
        def hvp(x: Array, v: Array, *data: Any) -> tuple[None, Array]:
            return None, self.along(lambda y: score.call(y, *data), x, v)

        return Derivative(hvp, score.cost.times(2))

    def along(self, score: Callable[[Array], Array], x: Array, v: Array, score_at_x: Array | None = None) -> Array:
        """Difference quotient of `score` at x along v; the forward scheme reuses `score_at_x` where given."""
        if self.scheme == "central":
            return (score(x + self.eps * v) - score(x - self.eps * v)) / (2 * self.eps)
        return (score(x + self.eps * v) - (score(x) if score_at_x is None else score_at_x)) / self.eps

    def value_and_gradient(
        self, backend: Backend, loss: Callable[..., Array]
    ) -> Callable[..., tuple[Array, tree.Tree]]:
        xp, eps = backend.xp, self.eps

        def both(parameters: tree.Tree, *args: Any) -> tuple[Array, tree.Tree]:
            value = loss(parameters, *args)
            runs, paths = tuple(value.shape), dict(tree.items(parameters))

            def slope(path: str, unit: Array) -> Array:
                ahead = loss(tree.fill(parameters, paths | {path: paths[path] + eps * unit}), *args)
                if self.scheme == "forward":
                    return (ahead - value) / eps
                behind = loss(tree.fill(parameters, paths | {path: paths[path] - eps * unit}), *args)
                return (ahead - behind) / (2 * eps)

            def gradient(path: str, leaf: Array) -> Array:
                # Runs with separate parameters move at once, and each has its own difference.
                apart = bool(runs) and tuple(leaf.shape[: len(runs) + 1]) == (*runs, 1)
                own = tuple(leaf.shape[len(runs) :]) if apart else tuple(leaf.shape)
                units = xp.eye(math.prod(own), dtype=leaf.dtype, device=device_of(leaf))
                slopes = [slope(path, xp.reshape(units[i, ...], own)) for i in range(units.shape[0])]
                return xp.reshape(xp.stack([a if apart else xp.sum(a) for a in slopes], axis=-1), leaf.shape)

            return value, tree.fill(parameters, {path: gradient(path, leaf) for path, leaf in paths.items()})

        return both


class Auto(GradientChoice, FrozenDataclass, eq=True):
    """The library's own autodiff, otherwise an installed library's, otherwise an error that lists the choices.

    The user's own score and hvp come first in any case.

    See Also
    --------
    Via : A library that is named.
    FiniteDifference : Without autodiff.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1)).gradient  # what a target takes where nothing is said
    Auto()
    """

    def score(self, backend: Backend, functions: Functions, x: Array) -> Derivative:
        return self.resolve(backend, dtype_name(x)).score(backend, functions, x)

    def hvp(self, backend: Backend, functions: Functions, score: Derivative, x: Array) -> Derivative:
        return self.resolve(backend, dtype_name(x)).hvp(backend, functions, score, x)

    def value_and_gradient(
        self, backend: Backend, loss: Callable[..., Array]
    ) -> Callable[..., tuple[Array, tree.Tree]]:
        return self.resolve(backend).value_and_gradient(backend, loss)

    @staticmethod
    def resolve(backend: Backend, dtype: str = "float32") -> GradientChoice:
        """The choice that stands behind Auto for a backend and a dtype."""
        if backend.autodiff is not None:
            return NativeGradient()
        for lender in _lenders():
            if any(dtype in device.dtypes for device in lender.devices()):
                return Via(lender.name)
        raise GradientError(
            f"{backend.name} has no automatic differentiation and no installed library lends one. Install torch or "
            "JAX for gradient=Via(NAME), or use gradient=FiniteDifference(); a Target also accepts score=, hvp=."
        )


def _lenders() -> Iterator[Backend]:
    """Installed libraries with autodiff, those already imported first; each is loaded on demand."""
    for name in sorted(installed_backends(), key=lambda name: name not in sys.modules):
        backend = backend_named(name)
        if backend.autodiff is not None:
            yield backend


def _lenders_text() -> str:
    return f" (installed with autodiff: {', '.join(lender.name for lender in _lenders()) or 'none'})"


def _density_of(functions: Functions) -> Callable[..., Array]:
    if functions.log_density is None:
        raise GradientError("the target has no log density to differentiate; pass its score: Target(..., score=...)")
    return functions.log_density
