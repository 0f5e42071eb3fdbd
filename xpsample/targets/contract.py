"""The contract of a user's functions, checked where a run starts: what they give, and that they change nothing."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import LogDensityError
from xpsample.core.registry import backend_of, check_same_home, to_host
from xpsample.core.tree import dtype_name
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.named import elsewhere
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point, wanted

TOLERANCE = 1e-3
"""How far apart two values at one position may be, relative to the largest: sums on a GPU differ by rounding."""


def check_functions(bound: BoundTarget, x: Array, hvp: Callable[[Array, Array], Array] | None) -> None:
    """Evaluate at a copy of the start positions, and check what comes.

    Functions must be pure, too: they write into nothing, and keep what they returned.

    Parameters
    ----------
    bound : BoundTarget
    x : array, shape (*chains, dim)
        The start positions.
    hvp : callable, optional
        The user's own, to be checked as well.

    Raises
    ------
    LogDensityError
    """

    def evaluate(x: Array) -> dict[str, Array]:
        point, at = bound.evaluate(x), bound.as_floating(x)
        _check_point(bound, point, x)
        parts = {"log density": point.log_density, "score": point.score, "differences": point.differences}
        product = None if hvp is None else hvp(at, at)
        return {name: part for name, part in (parts | {"hvp": product}).items() if part is not None}

    first = _evaluate_protected(evaluate, x)
    kept = {name: np.array(to_host(part)) for name, part in first.items()}
    other = elsewhere(bound.backend, bound.space, _copy(x))
    with np.errstate(all="ignore"), suppress(Exception):  # it may be a position that the functions do not take
        bound.evaluate(other)
        if hvp is not None:
            hvp(bound.as_floating(other), bound.as_floating(other))
    for name, part in first.items():
        if not np.array_equal(to_host(part), kept[name], equal_nan=True):
            raise LogDensityError(
                f"the {name} came in memory that the next call writes into, so that a run loses what it still needs: "
                "return a new array"
            )
    copy = _copy(x)
    second = evaluate(copy)
    if not np.array_equal(to_host(copy), to_host(x)):
        raise LogDensityError(_WRITES)
    for name, part in second.items():
        _check_same(name, kept[name], to_host(part))


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


def _check_same(name: str, first: np.ndarray, second: np.ndarray) -> None:
    scale = np.max(np.abs(first), where=np.isfinite(first), initial=0.0)
    same = np.isclose(first, second, rtol=0.0, atol=TOLERANCE * scale, equal_nan=True)
    if not np.all(same):
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise LogDensityError(
            f"the {name} is {first[at]:.6g} and then {second[at]:.6g} at one position (index {at}): a function of a "
            "target depends on its arguments alone, and writes into none of them"
        )


def check_form(what: str, array: Any, x: Array, shape: tuple[int, ...]) -> Any:
    """Return `array` if it is one like the positions, of a shape.

    Raises
    ------
    LogDensityError
    """
    if getattr(array, "shape", None) != shape or array.dtype != x.dtype:
        check_array(what, array, x, shape)
    return array


def check_array(what: str, array: Any, x: Array, shape: tuple[int, ...]) -> None:
    """As `check_form`, of library and device, too."""
    if not is_array(array):
        raise LogDensityError(f"{what} must be an array of the positions' library; got {type(array).__name__}")
    if tuple(array.shape) != tuple(shape):
        raise LogDensityError(
            f"{what} must be batched over leading axes: positions {tuple(x.shape)} ask for shape {tuple(shape)}; got "
            f"{tuple(array.shape)} (sum over the last axis only; batched(f) lifts a single-point function)"
        )
    check_same_home(what, array, x)
    if array.dtype != x.dtype:
        raise LogDensityError(f"{what} must keep the positions' dtype {dtype_name(x)}; got {dtype_name(array)}")


def _check_point(target: BoundTarget, point: Point, x: Array) -> None:
    x, space, wants = target.as_floating(x), target.space, wanted(target.requires)
    outside = np.zeros(x.shape[:-1], dtype=bool)
    if wants.log_density or wants.ratio:
        check_array("the log density", point.log_density, x, tuple(x.shape[:-1]))
        if Capability.ANY_START in target.requires:
            outside = to_host(point.log_density) == -np.inf
        _check_finite("log density", point.log_density, outside)
    if wants.score:
        check_array("the score", point.score, x, tuple(x.shape))
        _check_finite("score", point.score, outside[..., None])
    if wants.differences:
        assert isinstance(space, Discrete)
        shape = (*x.shape[:-1], space.variables(x.shape[-1]), space.choices - 1)
        check_array("the log-density differences", point.differences, x, shape)


def _check_finite(what: str, array: Array, outside: np.ndarray) -> None:
    host = to_host(array)
    bad = np.argwhere(~np.isfinite(host) & ~outside)
    if len(bad):
        listed = ", ".join(f"{tuple(int(i) for i in at)}: {host[tuple(at)]}" for at in bad[:5])
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise LogDensityError(
            f"the {what} is not finite at the start positions of {len(bad)} entries (index: value): {listed}{more}"
        )
