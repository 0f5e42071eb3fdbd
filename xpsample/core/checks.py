"""Validation of arguments: one check for each kind, which names the argument, the value and what is expected.

Each gives the value back in its plain form, a NumPy number as Python's. Numbers that may be arrays, and arrays, are
checked in `xpsample.core.hyperparameters`.
"""

import math
import numbers
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np

from xpsample.core.arrays import is_array
from xpsample.core.errors import FunctionError, HyperparameterError, NoiseError, XpsampleError
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name

LARGEST = 2**31 - 1  # Largest whole number to compare steps with: they are counted in 32 bits

CALLS_TARGETS = "xpsample.targets.prepared"
"""The module by which all functions of a user's target are called."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def given(value: object) -> str:
    """A value as a message shows it: on one line, classes by name, arrays by dtype and shape."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not one of its values"
    if is_array(value) and not isinstance(value, np.generic):
        return f"an array, {dtype_name(value)} of shape {tuple(value.shape)}"
    try:
        return " ".join(_SHORT.repr(value).split())
    except Exception:  # a repr may fail, as for an integer of many digits
        return f"a {type(value).__name__}"


def is_of_a_function(error: Exception) -> bool:
    """Return whether an error is one that code raises for wrong values.

    It is no error of xpsample or of a user's classes, and no machine failure, such as lack of memory.
    """
    wrong = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError, NotImplementedError)
    own = type(error) in (RuntimeError, StopIteration) or is_numerical(error)
    return (isinstance(error, wrong) or own) and not isinstance(error, XpsampleError)


def is_numerical(error: BaseException | None) -> bool:
    """Return whether an error is one of arithmetic or linear algebra, such as a failed Cholesky factorization."""
    return isinstance(error, ArithmeticError) or type(error).__name__.endswith("LinAlgError")


@contextmanager
def errors_of_functions(what: str, of_targets: str = "") -> Iterator[None]:
    """Turn what a user's functions raise in the block into an xpsample error that begins with `what`.

    It names the function. `of_targets` is advice with ``{error}`` for the error's class. It is omitted if the function
    is not one of a target, or if no position is at fault, such as for an array that cannot be changed in place.
    """
    try:
        yield
    except Exception as error:
        if not is_of_a_function(error):
            raise
        where, another = raised_in(error)
        said = " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        another |= isinstance(error, (TypeError, AttributeError, NotImplementedError))
        advice = "" if another else of_targets.format(error=type(error).__name__.lstrip("_"))
        raise FunctionError(f"{what}{where}{advice}: {said}") from error


def raised_in(error: BaseException) -> tuple[str, bool]:
    """The function of a user that an error was raised in, in words, and whether it is another than one of a target.

    It is the one that we called last. The words are empty where it was none, or it was called in another process.
    """
    calls = [(frame.f_globals.get("__name__", ""), frame.f_code, at) for frame, at in walk_tb(error.__traceback__)]
    ours = [name.partition(".")[0].startswith("xpsample") for name, _, _ in calls]
    last = max((i for i, own in enumerate(ours) if own), default=-1)
    for _, code, at in calls[last + 1 :]:
        if not _is_of_a_library(code.co_filename):
            of_user = [i for i in range(last) if not (ours[i] or _is_of_a_library(calls[i][1].co_filename))]
            through = calls[max(of_user, default=-1) + 1 : last + 1]
            of_target = any(name == CALLS_TARGETS for name, _, _ in through)
            name = code.co_qualname.rpartition("<locals>.")[2]
            return f", in {name} (line {at} of {Path(code.co_filename).name})", not of_target
    return "", False


def _is_of_a_library(file: str) -> bool:
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return bool(installed) or file.startswith(("<frozen", os.path.dirname(os.__file__)))


def check_result(what: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Validate the value of a user's function: an array of a shape, or one that broadcasts to it."""
    if not is_array(value):
        raise FunctionError(f"{what} must give an array of shape {shape}; got {given(value)}")
    if not broadcasts(tuple(value.shape), shape):
        raise FunctionError(f"{what} must give an array of shape {shape}; got shape {tuple(value.shape)}")
    return value


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Return whether an array of a shape broadcasts to another shape."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in pairs)


def plain_number(value: object) -> int | float | None:
    """A real number as Python's; None for anything else, booleans and arrays included."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        whole = int(value)  # of 64 bits or fewer: a longer one is no number of an array
        if abs(whole) < 2**63:
            return whole
        return float(whole) if abs(whole) < 2**1023 else None
    return float(value)


def check_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf, **ends: bool) -> Any:
    """A real number in a range, with the ends of `check_ends`; no array."""
    number = plain_number(value)
    if number is None:
        raise HyperparameterError(f"{name} must be a number; got {given(value)}")
    check_ends(name, value, np.asarray(number), low, high, **ends)
    return number


def check_ends(
    name: str,
    value: object,
    host: np.ndarray,
    low: float,
    high: float,
    closed: bool = False,
    below: bool = False,
    infinite: bool = False,
) -> None:
    """Raise HyperparameterError unless ``low < host <= high`` everywhere; `value` is what was passed, for the message.

    `closed` allows `low`, `below` excludes `high`, and `infinite` allows infinity.
    """
    above = host >= low if closed or low == -math.inf else host > low
    if not np.all(above & (host < high if below else host <= high)):
        ends = [] if low == -math.inf else [f"at least {low:g}" if closed else f"greater than {low:g}"]
        ends += [] if high == math.inf else [f"below {high:g}" if below else f"at most {high:g}"]
        shown = given(value) if host.ndim == 0 else f"{given(value)}, from {np.min(host)} to {np.max(host)}"
        raise HyperparameterError(f"{name} must be {' and '.join(ends) or 'finite'}; got {shown}")
    if not infinite and not np.all(np.isfinite(host)):
        raise HyperparameterError(f"{name} must be finite; got {given(value)}")


def check_count(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """A whole number in a range."""
    number = None if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) else int(value)
    if number is None or not least <= number <= most:
        wanted = "a positive integer" if least == 1 else f"an integer of at least {least}"
        upper = f" and at most {most}" if most < LARGEST or (number or 0) > most else ""
        raise HyperparameterError(f"{name} must be {wanted}{upper}; got {given(value)}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise HyperparameterError(f"{name} must be True or False; got {given(value)}")
    return bool(value)


def check_instance(name: str, value: Any, kind: type | tuple[type, ...], example: str, optional: bool = False) -> Any:
    """A value of a class, or of one of several; with `optional`, None is fine too."""
    if not isinstance(value, kind) and not (optional and value is None):
        names = [k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,))]
        article = "an" if names[0][0] in "AEIOU" else "a"
        or_none = " or None" if optional else ""
        raise HyperparameterError(
            f"{name} must be {article} {' or '.join(names)}, such as {example}{or_none}; got {given(value)}"
        )
    return value


def check_function(name: str, value: Any, signature: str, optional: bool = False) -> Any:
    """A function, or another value that can be called; no class."""
    if (isinstance(value, type) or not callable(value)) and not (optional and value is None):
        or_none = " or None" if optional else ""
        raise HyperparameterError(f"{name} must be a function {signature}{or_none}; got {given(value)}")
    return value


def check_seed(name: str, seed: Any) -> int:
    """A non-negative integer."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise NoiseError(f"a seed is a non-negative integer; got {given(seed)}")
    return int(seed)


def check_text(name: str, value: Any) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise HyperparameterError(f"{name} must be text that is not empty; got {given(value)}")
    return str(value)


def check_path(name: str, value: Any) -> Path:
    """A path of a file or a folder."""
    if not isinstance(value, (str, os.PathLike)) or not str(value) or "\0" in str(value):
        raise HyperparameterError(f"{name} must be a path; got {given(value)}")
    return Path(value)


def check_numbers(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, least: int = 1, **ends: bool
) -> tuple[float, ...]:
    """A sequence of real numbers in a range, `least` at least, as a tuple; an array of one axis counts."""
    items: list[Any] = []
    if is_array(value):
        host = to_host(value)
        plain = host.ndim == 1 and host.dtype.kind in "iuf" and not isinstance(value, np.ma.MaskedArray)
        items = host.tolist() if plain else []
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, Set)):
        items = list(value)
    found = [number for number in map(plain_number, items) if number is not None]
    if len(found) < max(least, len(items)):
        raise HyperparameterError(f"{name} must be a sequence of numbers, {least} at least; got {given(value)}")
    check_ends(name, found, np.asarray(found, dtype=np.float64), low, high, **ends)
    return tuple(map(float, found))
