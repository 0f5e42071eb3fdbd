"""The contract of a user's functions, checked where a run starts: what they give, and that they change nothing."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from array_api_compat import is_numpy_array

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import is_numerical, raised_in
from xpsample.core.errors import CapabilityError, LogDensityError, unended
from xpsample.core.registry import backend_of, check_same_home, to_host
from xpsample.core.tree import dtype_name
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.named import Named, elsewhere
from xpsample.spaces.space import Space
from xpsample.targets.bound import BoundTarget, RowNumbers, Rows
from xpsample.targets.point import Capability, Point, wanted


def check_functions(bound: BoundTarget, x: Array, given: Mapping[str, Callable[[Array, Array], Array]]) -> None:
    """Evaluate at a copy of the initial positions, and raise LogDensityError for a broken contract.

    Functions must be pure and treat chains independently: they write into nothing, keep what they returned, return the
    same for the same positions, and their values for a chain depend neither on the other chains nor on the chain's
    index. At the second evaluation the chains are rolled along their last axis, so that each has another index, and
    every other one is moved, so that the remaining ones have other neighbors. Axes in front are groups, which
    may have separate data. The user's own functions `given`, of a position and a vector, are checked as well.
    """

    def evaluate(x: Array, check: Callable[..., None] = check_point) -> dict[str, Array]:
        point, at = bound.evaluate(x), bound.as_floating(x)
        check(bound, point, x)
        parts = {"log density": point.log_density, "score": point.score, "differences": point.differences}
        products = {name: check_form(f"the {name}", of(at, at), at, at.shape) for name, of in given.items()}
        return {name: part for name, part in (parts | products).items() if part is not None}

    first = _evaluate_protected(evaluate, x)
    kept = {name: np.array(to_host(part)) for name, part in first.items()}
    stay, second = np.ones(x.shape[:-1], dtype=bool), None
    for other, stay in _rolled_with_others(bound, x):
        found = _attempt(evaluate, other)
        _check_kept(first, kept)
        if found is not None and stay.any():
            second = found
            break
    if second is None:
        at_index = dict(kept)
        stay, second = np.ones(x.shape[:-1], dtype=bool), _evaluate_copy(evaluate, x)
    else:
        at_index = {name: _rolled(part, x, stay.shape) for name, part in kept.items()}
    for name, part in second.items():
        apart = _where_apart(name, at_index[name][stay], to_host(part)[stay])
        if apart is not None:
            again = to_host(_evaluate_copy(evaluate, x)[name])
            _check_repeats(name, kept[name], again)
            _check_index(name, evaluate, x)
            _refuse_coupled(name, at_index[name][stay][apart], to_host(part)[stay][apart])


def _rolled_with_others(bound: BoundTarget, x: Array) -> Iterator[tuple[Array, np.ndarray]]:
    """Positions rolled along the last axis of the chains, every other one moved; and which stay, on the host.

    If functions are undefined there, the moved chains go where they began. An axis of one chain becomes
    one of two; before that, all are moved and none stays.
    """
    home, host = bound.backend, to_host(x)
    backend = backend_of(host)  # on the host: a library that compiles would compile each of these operations
    space, chains = bound.space.bind(backend, host), tuple(x.shape[:-1])
    wider = tuple(max(n, 2) for n in chains) or (2,)
    if wider != chains:
        yield (
            home.from_host(np.ascontiguousarray(to_host(elsewhere(backend, space, host))), x),
            np.zeros(chains, dtype=bool),
        )
    rolled, begun = _rolled(host, x, wider), np.broadcast_to(host, (*wider, host.shape[-1]))
    stay = _every_other(wider)
    for moved in (elsewhere(backend, space, begun), begun):
        yield home.from_host(np.where(stay[..., None], rolled, to_host(moved)), x), stay


def _rolled(part: np.ndarray, x: Array, chains: tuple[int, ...]) -> np.ndarray:
    """Return values of the chains of x, (*chains, ...), rolled by one along the last axis of the chains."""
    wide = np.broadcast_to(part, chains + part.shape[x.ndim - 1 :])
    return np.roll(wide, 1, axis=len(chains) - 1)


@lru_cache(maxsize=64)
def _every_other(chains: tuple[int, ...]) -> np.ndarray:
    """Return which chains stay: those with an odd sum of indices. The first moves, as a density may read `x[0]`."""
    return np.indices(chains).sum(axis=0) % 2 == 1


def _attempt(evaluate: Callable[..., dict[str, Array]], x: Array) -> dict[str, Array] | None:
    """Results of the functions at positions that they may not accept."""

    def anything(*args: Any) -> None:
        pass

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _evaluate_copy(lambda x: evaluate(x, anything), x)
        except Exception as error:
            if str(error) == _WRITES:
                raise
            return None


def _evaluate_copy(evaluate: Callable[[Array], Any], x: Array) -> Any:
    copy = _copy(x)
    found = evaluate(copy)
    if not np.array_equal(to_host(copy), to_host(x)):
        raise LogDensityError(_WRITES)
    return found


def _check_kept(first: Mapping[str, Array], kept: Mapping[str, np.ndarray]) -> None:
    for name, part in first.items():
        host = to_host(part)
        if not (np.array_equal(host, kept[name]) or np.array_equal(host, kept[name], equal_nan=True)):
            raise LogDensityError(
                f"the {name} is in memory that the next call overwrites, which would change earlier values. Return a "
                "new array."
            )


_WRITES = (
    "a function of the target writes into the positions that it is given, or hands them to code that asks for memory "
    "to write to: let it work on a copy"
)


def _evaluate_protected(evaluate: Callable[[Array], Any], x: Array) -> Any:
    """Evaluate at a copy of x that cannot be written into, where the library has that."""
    copy = _copy(x)
    if not isinstance(copy, np.ndarray):
        return evaluate(copy)
    copy.flags.writeable = False
    try:
        return evaluate(copy)
    except Exception as error:
        refused = error
    evaluate(_copy(x))  # raises the function's own error, if that is what it was
    raise LogDensityError(_WRITES) from refused


def _copy(x: Array) -> Array:
    return backend_of(x).from_host(np.array(to_host(x)), x)


def _where_apart(name: str, first: np.ndarray, second: np.ndarray) -> tuple[int, ...] | None:
    """The first index at which two values differ by more than rounding; None where they do not."""
    if np.array_equal(first, second):
        return None
    scale = np.max(np.abs(first), where=np.isfinite(first), initial=0.0)
    rounding = 100 * float(np.finfo(first.dtype).eps)
    # Relative to the largest: sums on a GPU differ by rounding. For log densities differences count, so less is
    # allowed, but at least a hundred roundings of the dtype.
    allowed = rounding + scale * (max(1e-5, rounding) if name == "log density" else 1e-3)
    same = np.isclose(first, second, rtol=0.0, atol=allowed, equal_nan=True)
    return None if np.all(same) else tuple(int(i) for i in np.argwhere(~same)[0])


def _check_repeats(name: str, first: np.ndarray, again: np.ndarray) -> None:
    at = _where_apart(name, first, again)
    if at is not None:
        raise LogDensityError(
            f"the {name} is {first[at]:.6g} and then {again[at]:.6g} at one position (index {at}). It must depend on "
            "its arguments alone: switch off dropout (module.eval())."
        )


def _check_index(name: str, evaluate: Callable[[Array], dict[str, Array]], x: Array) -> None:
    """Raise LogDensityError if chains at one position get different values, as with one row of the data for each."""
    if x.ndim < 2:
        return
    host = to_host(x)
    together = np.array(np.broadcast_to(host[..., :1, :], host.shape))
    values = to_host(_evaluate_copy(evaluate, backend_of(x).from_host(together, x))[name])
    axis = x.ndim - 2
    at = _where_apart(name, np.broadcast_to(np.take(values, [0], axis=axis), values.shape), values)
    if at is not None:
        start = (*at[:axis], 0, *at[axis + 1 :])
        raise LogDensityError(
            f"the {name} of a chain depends on the chain's index: {values[start]:.6g} for chain 0, {values[at]:.6g} "
            f"for chain {at[axis]}. Add an axis for rows, ((y - x[..., :1]) ** 2).sum(-1), or one for groups of chains."
        )


def _refuse_coupled(name: str, before: float, after: float) -> NoReturn:
    raise LogDensityError(
        f"the {name} of a chain changes with the other chains: {before:.6g} and then {after:.6g}. Chains must be "
        "independent: reduce over the last axis only, or use batched(f) or module.eval()."
    )


def check_form(what: str, array: Any, x: Array, shape: tuple[int, ...]) -> Any:
    """Return `array` if it is one like the positions, of a shape; raises LogDensityError else."""
    if getattr(array, "shape", None) != shape or array.dtype != x.dtype:
        check_array(what, array, x, shape)
    return array


def check_array(what: str, array: Any, x: Array, shape: tuple[int, ...]) -> None:
    """Check library and device, too, otherwise like `check_form`."""
    if not is_array(array):
        none = ": let the function end with return" if array is None else ""
        name = "None" if array is None else type(array).__name__
        frame = ": pass its numbers, .to_numpy()" if hasattr(array, "to_numpy") else ""
        raise LogDensityError(f"{what} must be an array of the positions' library; got {name}{none}{frame}")
    if tuple(array.shape) != tuple(shape):
        raise LogDensityError(
            f"{what} must have shape {tuple(shape)} for positions {tuple(x.shape)}; got {tuple(array.shape)}. Sum over "
            "the last axis only, or use batched(f) for a single-point function."
        )
    check_same_home(what, array, x)
    if array.dtype != x.dtype:
        widened = ""
        if not shape and is_numpy_array(array) and np.lib.NumpyVersion(np.__version__) < "2.0.0":
            widened = f": NumPy 1 widens single numbers; pass the positions of one chain with shape {(1, *x.shape)}"
        found = f"{dtype_name(x)}; got {dtype_name(array)}"
        raise LogDensityError(f"{what} must keep the positions' dtype {found}{widened}")


def check_point(target: BoundTarget, point: Point, x: Array) -> None:
    """Raise LogDensityError unless values at the initial positions have the right shapes, and are finite."""
    x, space, wants = target.as_floating(x), target.space, wanted(target.requires)
    outside = np.zeros(x.shape[:-1], dtype=bool)
    if wants.log_density or wants.ratio:
        check_array("the log density", point.log_density, x, tuple(x.shape[:-1]))
        if Capability.ANY_START in target.requires:
            outside = to_host(point.log_density) == -np.inf
        _check_finite("log density", point.log_density, outside, target.data)
    if wants.score:
        check_array("the score", point.score, x, tuple(x.shape))
        _check_finite("score", point.score, outside[..., None], target.data)
    if wants.differences:
        if isinstance(space, Named):
            shape = (*x.shape[:-1], space.mirrors, 1)
        else:
            assert isinstance(space, Discrete)
            shape = (*x.shape[:-1], space.variables(x.shape[-1]), space.choices - 1)
        check_array("the log-density differences", point.differences, x, shape)


def check_discrete(target: BoundTarget, x: Array) -> None:
    """Raise unless a user's `differences_at` and `bonds`, if the kernel uses them, agree with the log density."""
    if Capability.DIFFERENCES_AT in target.requires and isinstance(target.space, Discrete):
        last = target.space.variables(x.shape[-1]) - 1
        own = target.sweep_cost(x) != BoundTarget._sweep_cost(target, x)
        for i in sorted({0, last // 2, last}) if own else ():
            _check_differences_at(target, x, i)
    if Capability.BONDS in target.requires:
        _check_bonds(target, x)


def _check_differences_at(target: BoundTarget, x: Array, i: int) -> None:
    found, expected = target.differences_at(x, i), BoundTarget._differences_at(target, x, i)
    check_array("differences_at", found, target.as_floating(x), tuple(expected.shape))
    own, truth = to_host(found), to_host(expected)
    scale = 1.0 + np.abs(to_host(target.log_density(x)))[..., None] + np.abs(truth)
    wrong = ~(np.abs(own - truth) <= 1000 * np.finfo(own.dtype).eps * scale) & np.isfinite(truth)
    if np.any(wrong):
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise LogDensityError(
            f"differences_at(x, {i}) is {own[at]:.6g} at index {at}, but the log density changes by "
            f"{truth[at]:.6g}. Return log_density(y) - log_density(x), in the order of Discrete.move."
        )


def _check_bonds(target: BoundTarget, x: Array) -> None:
    """Raise unless the bonds are a ferromagnet's, and agree with changes of the log density."""
    space = target.space
    assert isinstance(space, Discrete)
    neighbors, bond, gains, field = (to_host(part) for part in target.bonds()[:4])
    gains = np.where(bond < target.bonds().number, gains, 0.0)
    _check_ends(neighbors, bond, gains, target.bonds().number)
    if np.any(gains < 0):
        raise CapabilityError(
            f"SwendsenWang needs couplings that make values equal; got one of {np.min(gains):.6g}. Use Sweep()."
        )
    if len(set(space.sizes(x.shape[-1]))) != 1:
        raise CapabilityError("SwendsenWang needs variables that all have the same number of values. Use Sweep().")

    def of(x: Array) -> tuple[np.ndarray, np.ndarray]:
        index = to_host(space.index(target.xp, x))
        equal = index[..., neighbors] == index[..., None]
        own = np.take_along_axis(np.broadcast_to(field, (*index.shape, field.shape[-1])), index[..., None], axis=-1)
        return 0.5 * np.sum(gains * equal, axis=(-2, -1)) + np.sum(own, axis=(-2, -1)), to_host(target.log_density(x))

    numbers = space.numbers(space.variables(x.shape[-1]))
    choice = space.mirror(target.xp, x) * target.xp.astype(numbers % 2, target.xp.int32)  # of every other one
    (here, density), (there, other) = of(x), of(space.move(target.xp, x, choice))
    scale = 1.0 + np.abs(density) + np.abs(other) + np.sum(np.abs(gains)) + np.sum(np.abs(field))
    wrong = np.abs((there - here) - (other - density)) > 1000 * np.finfo(density.dtype).eps * scale
    if np.any(wrong):
        raise LogDensityError(
            f"the bonds contradict the log density: it changes by {(other - density)[wrong][0]:.6g} between two "
            f"states, and their sum by {(there - here)[wrong][0]:.6g}. Count each bond once."
        )


def _check_ends(neighbors: np.ndarray, bond: np.ndarray, gains: np.ndarray, number: int) -> None:
    """Raise LogDensityError unless each bond has two ends, which name each other and have the same gain."""
    ends = np.flatnonzero(bond < number)
    ends = ends[np.argsort(bond.ravel()[ends], kind="stable")]
    first, last = ends[::2], ends[1::2]
    own, others = np.broadcast_to(np.arange(len(bond))[:, None], bond.shape).ravel(), neighbors.ravel()
    gains = gains.reshape((*gains.shape[:-2], -1))
    if (
        len(first) != len(last)
        or np.any(bond.ravel()[first] != bond.ravel()[last])
        or np.any(np.diff(bond.ravel()[first]) == 0)
        or np.any((own[first] != others[last]) | (own[last] != others[first]))
        or not np.allclose(gains[..., first], gains[..., last], rtol=1e-5)
    ):
        raise LogDensityError(
            "bonds must have each bond twice, once for each of its two variables, with the same number and gain"
        )


def suspect_data(data: tree.Tree) -> str:
    """Sentence about the first leaf of the data that is not finite, or else has zeros; empty without one."""
    if isinstance(data, Rows) and isinstance(data.rows, RowNumbers):
        return "rows, which are read when they are used, may have values that are not finite: remove or impute these"
    hosts = [(path, to_host(leaf)) for path, leaf in tree.items(data) if is_array(leaf)]
    for path, host in hosts:
        if np.issubdtype(host.dtype, np.inexact) and not np.all(np.isfinite(host)):
            wrong = np.argwhere(~np.isfinite(host))
            at = ", ".join(map(str, wrong[0].tolist()))
            name = f"data[{path!r}]" if path else "data"
            count = "1 value that is" if len(wrong) == 1 else f"{len(wrong)} values that are"
            return f"{name} has {count} not finite (first at [{at}]): remove or impute missing values"
    zeros = [path for path, host in hosts if np.issubdtype(host.dtype, np.number) and np.any(host == 0)]
    if not zeros:
        return ""
    return f"data{f'[{zeros[0]!r}]' if zeros[0] else ''} has zeros: check logarithms and quotients of it"


def _check_finite(what: str, array: Array, outside: np.ndarray, data: tree.Tree) -> None:
    host = to_host(array)
    wrong = ~np.isfinite(host) & ~outside
    if np.any(wrong):
        bad = np.argwhere(wrong)
        listed = ", ".join(f"{tuple(int(i) for i in at)}: {host[tuple(at)]}" for at in bad[:5])
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        why = suspect_data(data) if np.all(wrong) else ""
        raise LogDensityError(
            f"{why}{'; ' if why else ''}the {what} is not finite at the start positions of {len(bad)} entries "
            f"(index: value): {listed}{more}"
        )


def failed(what: str, error: Exception, x: Array, space: Space) -> LogDensityError:
    """Error for a user's function that fails at the start positions, with how it is called."""
    begin = (
        f"the {what} failed at the start positions, {backend_of(x).name} {dtype_name(x)} of shape {tuple(x.shape)}"
        f"{raised_in(error)[0]}: {type(error).__name__}: {unended(error)}. "
    )
    if is_numerical(error):
        return LogDensityError(
            f"{begin}Return -inf there, or lift a function of one position by "
            f"batched(f, rejects={type(error).__name__.lstrip('_')}), which rejects the position"
        )
    if isinstance(space, Named):
        name = space.names[0]
        shape = ", ".join(("*chains", *map(str, space.part(name).shape)))
        return LogDensityError(
            f"{begin}The log density of a model is called as log_density(p), or log_density(p, data) where there are "
            f"data; p has {', '.join(space.names)}, such as p.{name} of shape ({shape}). Use the functions of the "
            "positions' library (xp = array_namespace(...)), or write it for one chain and lift it by batched(f)"
        )
    return LogDensityError(
        f"{begin}A target's functions are given all chains at once, as an array of the positions' library: use that "
        "library's functions (xp = array_namespace(x)) and sum over the last axis, or lift a function of one position "
        "by batched(f)"
    )
