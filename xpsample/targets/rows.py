"""Posteriors given data rows: what minibatches can be drawn from."""

import math
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, final

import numpy as np
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array, in_order, is_array
from xpsample.core.checks import check_count, check_function, given, is_of_a_function
from xpsample.core.errors import CapabilityError, FunctionError, HyperparameterError
from xpsample.core.registry import backend_of, to_host
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.targets.bound import RowNumbers, Rows, check_rows, rows_of
from xpsample.targets.target import Target

AUTO = Auto()

PART, BYTES = 10_000, 2**26
"""Most rows that an evaluation of all rows in a file holds at a time, and most bytes of them."""


def posterior(
    log_prior: Callable[[Array], Array],
    log_likelihood: Callable[[Array, tree.Tree], Array],
    rows: tree.Tree,
    prior_score: Callable[[Array], Array] | None = None,
    likelihood_score: Callable[[Array, tree.Tree], Array] | None = None,
    gradient: GradientChoice = AUTO,
    sets: int = 0,
) -> Target:
    """log prior(x) + the sum over rows of log likelihood(x; row): an ordinary target, and one for `Minibatch`.

    Parameters
    ----------
    log_prior : callable
        ``(*chains, dim) -> (*chains)``.
    log_likelihood : callable
        ``(x, rows) -> (*chains)``, the sum over the rows that it is given. For minibatches its rows may be any number,
        the leaves of shape ``(rows, ...)`` or, with separate batches of the chains, ``(*chains, rows, ...)``.
    rows : tree of numpy.ndarray, files or datasets
        The data; every leaf has the rows on its first axis, after the axes of `sets`. Rows of a `numpy.memmap`, a zarr
        or HDF5 array, or a `torch.utils.data.Dataset` are read when they are used, and never all at once. Floats get
        the dtype of the positions. Iterators and a `DataLoader` are refused: a resumed run reads rows by number.
    prior_score, likelihood_score : callable, optional
        Their gradients in x, ``(*chains, dim)``; both or none.
    gradient : GradientChoice
        How the score is obtained when it was not given.
    sets : int
        Number of leading axes of every leaf for separate data sets: leaves ``(*sets, rows, ...)`` whose set axes
        broadcast against the chain axes, such as ``(groups, 1, rows, ...)`` for positions ``(groups, chains, dim)``.
        The chains of one group share their rows. 0: all chains have the same rows. `log_likelihood` receives whole
        data as leaves ``(*sets, rows, ...)``. Rows that are read by number have none.

    Returns
    -------
    Target
        Takes positions of any library.

    Raises
    ------
    HyperparameterError
        If the leaves have different sets or numbers of rows, or none.
    CapabilityError
        If one of the two scores is missing.

    See Also
    --------
    Minibatch : Samples it by random rows.
    Model : A density of named parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> rows = np.random.default_rng(0).normal(2.0, 1.0, size=(1000, 1))
    >>> target = xps.posterior(
    ...     lambda x: -0.5 * np.sum(x**2, axis=-1),  # the prior
    ...     lambda x, rows: -0.5 * np.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)),  # of the rows that it is given
    ...     rows,
    ...     prior_score=lambda x: -x,
    ...     likelihood_score=lambda x, rows: np.sum(rows - x[..., None, :], axis=-2),
    ... )
    >>> trace = xps.sample(target, xps.HMC(), np.random.default_rng(1).normal(size=(4, 1)), 1000, seed=1)
    >>> bool(abs(trace.draws.mean() - rows.sum() / 1001) < 0.01)
    True
    """
    for name, function in (("log_prior", log_prior), ("log_likelihood", log_likelihood)):
        check_function(name, function, "(x)" if name == "log_prior" else "(x, rows)")
    check_function("prior_score", prior_score, "(x)", optional=True)
    check_function("likelihood_score", likelihood_score, "(x, rows)", optional=True)
    sets = check_count("sets", sets, 0)
    if any(_by_number(leaf, sets) for leaf in tree.leaves(rows)):
        read = RowsByNumber(rows)
        log_likelihood = read.summed(log_likelihood)
        likelihood_score = None if likelihood_score is None else read.summed(likelihood_score)
        numbers = np.arange(read.count, dtype=np.int32 if read.count < 2**31 else np.int64)
        own = Rows(RowNumbers(numbers), np.ones(()))
    else:
        own = rows_of(rows, sets)
    if (prior_score is None) != (likelihood_score is None):
        raise CapabilityError("pass both prior_score and likelihood_score, or neither")

    score: Any = None if prior_score is None else partial(_score, prior_score, likelihood_score)
    return Target(partial(_log_density, log_prior, log_likelihood), score=score, gradient=gradient, data=own)


def _log_density(log_prior: Callable[..., Array], log_likelihood: Callable[..., Array], x: Array, data: Rows) -> Array:
    return log_prior(x) + data.weight * log_likelihood(x, data.rows)


def _score(prior: Any, likelihood: Any, x: Array, data: Rows) -> Array:
    return prior(x) + data.weight[..., None] * likelihood(x, data.rows)


def _by_number(leaf: Any, sets: int) -> bool:
    """Return whether rows are read from a leaf by number, since it is in a file or is no array."""
    if is_array(leaf):
        return isinstance(leaf, np.memmap) and leaf.ndim > 0 and sets == 0
    if isinstance(leaf, (str, bytes)) or hasattr(leaf, "to_numpy"):
        return False  # text is no row, and a data frame is indexed by columns
    indexed = hasattr(leaf, "__getitem__") and (hasattr(leaf, "__len__") or hasattr(leaf, "shape"))
    if indexed and sets:
        raise HyperparameterError(f"with sets={sets}, every leaf of rows must be an array; got {given(leaf)}")
    if not indexed and hasattr(leaf, "__iter__"):
        raise HyperparameterError(
            f"rows must be read by number, so that a run can resume; got a {type(leaf).__name__}. Pass an object with "
            "a length and brackets, such as loader.dataset, or write the rows to a file."
        )
    return indexed


@final
class RowsByNumber:
    """Rows that are read when they are used.

    Parameters
    ----------
    stores : tree
        Memory maps, arrays in files, datasets of torch, and arrays, all with the same number of rows.
    """

    def __init__(self, stores: tree.Tree) -> None:
        self._stores = tree.map(lambda s: to_host(s) if is_array(s) and not isinstance(s, np.ndarray) else s, stores)
        try:
            counts = {p: s.shape[0] if hasattr(s, "shape") else len(s) for p, s in tree.items(self._stores)}
            self.count: int = min(counts.values())
            ends = self._read(np.unique([0, self.count - 1])) if self.count else None
        except Exception as error:
            raise HyperparameterError(f"rows cannot be read by number: {type(error).__name__}: {error}") from error
        if len(set(counts.values())) > 1 or not tree.leaves(ends):
            raise HyperparameterError(f"every leaf of rows must have the same number of rows, at least 1; got {counts}")
        check_rows(ends)
        self._none = tree.map(lambda leaf: leaf[:0], ends)  # for the shapes and dtypes of rows
        size = sum(leaf.itemsize * math.prod(leaf.shape[1:]) for leaf in tree.leaves(self._none))
        self._part = min(PART, max(1, BYTES // max(1, size)))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_stores": tree.map(lambda s: _Reopened(s) if _is_in_file(s) else s, self._stores)}

    def summed(self, function: Callable[[Array, tree.Tree], Array]) -> Callable[[Array, RowNumbers], Array]:
        """Return the sum of a function of rows over parts of them, which are given by their numbers (..., n)."""
        return partial(self._sum, function)

    def _sum(self, function: Callable[[Array, tree.Tree], Array], x: Array, rows: RowNumbers) -> Array:
        numbers, part = rows.numbers, self._part
        backend, count = backend_of(x), numbers.shape[-1]
        if count <= part:
            return function(x, self._on(x, numbers))
        xp, more = backend.xp, count // part - 1
        within = xp.arange(part, dtype=numbers.dtype, device=device_of(numbers))

        def add(i: Any, value: Array) -> Array:
            return value + function(x, self._on(x, xp.take(numbers, within + i * part, axis=-1)))

        value = backend.repeat(more, add, function(x, self._on(x, numbers[..., -part:])))
        rest = numbers[..., more * part : count - part]
        return value + function(x, self._on(x, rest)) if count % part else value

    def _on(self, x: Array, numbers: Array) -> tree.Tree:
        """Rows (*numbers, ...) in the library, on the device and, if floating, in the dtype of x."""
        backend = backend_of(x)

        def form(leaf: np.ndarray) -> np.ndarray:
            kept = leaf.astype(tree.dtype_name(x)) if leaf.dtype.kind == "f" else backend.from_host(leaf, numbers)
            return np.zeros(leaf.shape[1:], tree.dtype_name(kept))

        def read(numbers: np.ndarray) -> tree.Tree:
            try:
                return tree.map(_fitted, self._read(numbers), row)
            except Exception as error:
                if not is_of_a_function(error):
                    raise
                which = f"{numbers.min()} to {numbers.max()}"
                raise FunctionError(f"of rows {which}, some cannot be read: {type(error).__name__}: {error}") from error

        row = tree.map(form, self._none)
        if backend.autodiff is not None:
            return backend.autodiff.on_host(read, row, numbers)
        return tree.map(lambda leaf: backend.from_host(leaf, numbers), read(backend.to_host(numbers)))

    def _read(self, numbers: np.ndarray) -> tree.Tree:
        return tree.map(lambda store: _read(store, numbers), self._stores)


def _is_in_file(store: Any) -> bool:
    """Return whether an array can be mapped again from its file, with the same numbers."""
    named = isinstance(store, np.memmap) and store.filename is not None and store.mode != "c"
    return named and (store.flags.c_contiguous or store.flags.f_contiguous)


class _Reopened:
    """A memory map, which another process opens by its path when it first reads from it."""

    def __init__(self, rows: np.memmap) -> None:
        whole = rows
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        offset = whole.offset + rows.ctypes.data - whole.ctypes.data
        order = "C" if rows.flags.c_contiguous else "F"
        self._settings: Any = (rows.filename, rows.dtype, "r", offset, rows.shape, order)
        self._first, self.shape, self.dtype = sha256(rows[0].tobytes()).digest(), rows.shape, rows.dtype
        self._rows: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_rows": None}

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        if self._rows is None:
            rows = np.memmap(*self._settings)
            if sha256(rows[0].tobytes()).digest() != self._first:
                raise ValueError(f"{rows.filename} has another first row in this process")
            self._rows = rows
        return self._rows[numbers]


def _read(store: Any, numbers: np.ndarray) -> tree.Tree:
    """Rows of one store, (*numbers, ...)."""
    if isinstance(store, np.ndarray):
        return in_order(np.asarray(store)[numbers])
    some, at = np.unique(numbers, return_inverse=True)  # files read rows in order, and each once
    at = np.reshape(at, numbers.shape)
    if hasattr(store, "shape") and hasattr(store, "dtype"):
        return in_order(_plain(getattr(store, "oindex", store)[some])[at])  # zarr reads rows by `oindex`
    rows = [store[int(i)] for i in some]
    return tree.map(lambda *leaves: in_order(np.stack(list(map(_plain, leaves)))[at]), *rows)


def _plain(rows: Any) -> np.ndarray:
    """Values of a store on the host; ValueError if some are masked, as missing values of a netCDF file are."""
    if np.ma.is_masked(rows):
        raise ValueError("there are masked values, which must be filled")
    return to_host(rows) if is_array(rows) else np.asarray(rows)


def _fitted(rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Rows (..., *like.shape) in the shape and dtype of `like`; integers keep their values."""
    made = rows.astype(like.dtype, copy=False)
    if rows.shape[rows.ndim - like.ndim :] != like.shape or (like.dtype.kind != "f" and np.any(made != rows)):
        raise FunctionError(
            f"rows must have shape {like.shape} and dtype {like.dtype}, as the first row; got {given(rows)}"
        )
    return made
