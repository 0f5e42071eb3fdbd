"""Errors and warnings. Every message states the cause and the fix."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def entry(name: str, page: str = "troubleshooting") -> str:
    """Place in the docs of a class of errors or a kind of findings: a page, and an anchor in it."""
    return f"docs: {page}#{name.lower().replace('_', '-')}"


def unended(error: BaseException) -> str:
    """Text of an error, without a full stop at its end: the surrounding text adds one."""
    return str(error).rstrip(". \n")


def keep(error: BaseException, **results: Any) -> None:
    """Attach the results so far to an error as attributes, such as ``error.trace``, if its class allows that."""
    with suppress(AttributeError, TypeError):
        for name, result in results.items():
            setattr(error, name, result)


@contextmanager
def keeping(**results: Callable[[], Any]) -> Iterator[None]:
    """Attach the results so far, which functions return, to an error that the block raises."""
    try:
        yield
    except BaseException as error:
        keep(error, **{name: result() for name, result in results.items()})
        raise


class XpsampleError(Exception):
    """Base class of all errors raised by xpsample. A note below the message names its entry in the docs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.add_note(entry(type(self).__name__))


class PositionError(XpsampleError, ValueError):
    """The start positions are not what the target's space asks for."""


class LogDensityError(XpsampleError, ValueError):
    """A log density or score has the wrong shape, dtype or library, or is not finite at the start."""


class HyperparameterError(XpsampleError, ValueError):
    """A hyperparameter is out of range, or does not fit the positions."""


class CapabilityError(XpsampleError, TypeError):
    """A kernel needs something that the target (a density, a score, an hvp) or the kernel inside it cannot give."""


class BackendError(XpsampleError, TypeError):
    """No backend owns an array, or arrays of two libraries or devices were mixed."""


class FunctionError(XpsampleError, ValueError):
    """A function that a user gave failed, or gave something that a run cannot use."""


class GradientError(XpsampleError, ValueError):
    """A derivative could not be computed, or disagrees with the density."""


class NoiseError(XpsampleError, ValueError):
    """A noise source cannot provide the numbers that a run needs."""


class CheckpointError(XpsampleError, ValueError):
    """A checkpoint does not belong to this run, or cannot be read."""


class StoreError(XpsampleError, ValueError):
    """A store of draws on the disk is another run's, or cannot be written or read."""


class WorkerError(XpsampleError, RuntimeError):
    """A worker was lost, and the executor takes no more work."""


class TraceError(XpsampleError, ValueError):
    """A trace lacks the requested content."""


class DataError(XpsampleError, OSError):
    """A data set is not there, or its file is not what it should be."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM ended a run between two blocks of steps, or a training between two blocks of epochs.

    Attributes
    ----------
    trace : xpsample.trace.trace.Trace or None
        What the run drew until then.
    fitted : xpsample.score_mh.Fitted or None
        What `fit` trained until then.
    by : str
        "Ctrl-C" or "SIGTERM".
    """

    def __init__(self, message: str, trace: Any = None, fitted: Any = None, by: str | None = None) -> None:
        super().__init__(message)
        self.add_note(entry("Interrupted"))
        self.trace: Any = trace
        self.fitted: Any = fitted
        self.by: str = by or "Ctrl-C"


class CheckpointWarning(UserWarning):
    """A run could not be saved; it continued."""

    def __str__(self) -> str:
        return f"{super().__str__()} [{entry('CheckpointWarning')}]"


class DiagnosisWarning(UserWarning):
    """A run ended, and its draws are not to be relied on as they are. The base class of the warnings below.

    Attributes
    ----------
    trace : xpsample.trace.trace.Trace or None
        Trace of the run, if a filter raises the warning as an error.
    """

    trace: Any = None


class ConvergenceWarning(DiagnosisWarning):
    """Chains have not mixed, do not move, or are not where they should be."""


class DivergenceWarning(DiagnosisWarning):
    """Proposals left the finite numbers (or the energy error exploded) during a run."""


class RepellenceWarning(DiagnosisWarning):
    """The tilt of a score-repellent run was too strong, or did nothing."""


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package."""
    stacklevel, frame = 1, inspect.currentframe()
    # functools: while a cached property of xpsample is computed
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("xpsample", "functools"):
        stacklevel, frame = stacklevel + 1, frame.f_back
    warnings.warn(message, category, stacklevel=stacklevel)


@contextmanager
def reading(
    path: Path | str,
    error: type[XpsampleError],
    advice: str,
    doing: str = "read",
    of: type[Exception] = Exception,
) -> Iterator[None]:
    """Raise an xpsample error, which names the file and the fix, for an error `of` a class in the block.

    A damaged file can fail in any way. Too little memory is another matter.
    """
    try:
        yield
    except (XpsampleError, MemoryError):
        raise
    except of as cause:
        said = getattr(cause, "strerror", None) or cause  # without the name of a temporary file
        raise error(f"{path} cannot be {doing} ({type(cause).__name__}: {said}): {advice}") from cause
