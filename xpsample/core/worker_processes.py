"""Worker processes: checks, messages, and functions of one position evaluated by an executor."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import cache
from pickle import PicklingError
from typing import Any

from xpsample.core import tree
from xpsample.core.checks import given
from xpsample.core.errors import CapabilityError, HyperparameterError, WorkerError, unended
from xpsample.core.registry import backends_seen, to_host
from xpsample.core.tree import Tree

SPAWNING = 'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
GUARD = 'if __name__ == "__main__":'

NONE_WORKED = (
    f" Workers import the script that starts them: put what it runs under {GUARD} They cannot import functions of a "
    "console or notebook: put them into a module."
)
"""Possible cause if the first worker is lost."""


def check_executor(executor: Any) -> None:
    """Raise unless it is an executor, and this process may use one."""
    if not isinstance(executor, Executor):
        raise HyperparameterError(
            "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(4) or client.get_executor() "
            f"of dask; got {given(executor)}"
        )
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing asks itself
        raise CapabilityError(
            "a worker imports the script that started it, and reached this call again. Put what the script runs under "
            f"{GUARD}"
        )


def check_forks(executor: Executor) -> None:
    """Raise CapabilityError if workers are forks of a process whose libraries have threads, which do not survive it."""
    threaded = [backend.name for backend in backends_seen() if not all(device.forks for device in backend.devices())]
    context = getattr(executor, "_mp_context", None)
    if threaded and context is not None and context.get_start_method() == "fork":
        raise CapabilityError(
            f"the executor forks its workers, which would wait forever for the threads of {' and '.join(threaded)}. "
            f"Use {SPAWNING}, and put what the script runs under {GUARD}"
        )


def check_pickled(error: Exception, what: str) -> None:
    """Raise CapabilityError if an error says that `what` cannot be pickled."""
    if isinstance(error, PicklingError) or (isinstance(error, AttributeError | TypeError) and "pickle" in str(error)):
        raise CapabilityError(
            f"{what} cannot be pickled for a worker ({unended(error)}). Define functions in a module, or use an "
            "executor of loky or dask."
        ) from error


def end_with_parent(caller: int) -> None:
    """Let a worker of the process `caller` end when its parent does, in whatever way that ends."""
    if os.getpid() != caller:
        _end_with_parent(os.getpid())


@cache
def _end_with_parent(process: int) -> None:
    """On Linux, ask for SIGIO when the pipe closes by which multiprocessing knows that the parent of a `process` lives.

    PR_SET_PDEATHSIG would end workers with the thread that started them, too.
    """
    parent = multiprocessing.parent_process()
    if parent is None or parent.sentinel is None or sys.platform != "linux":  # loky's have no pipe
        return
    import fcntl  # which Windows has not

    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, process)
    flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if not parent.is_alive():  # since before
        signal.raise_signal(signal.SIGIO)


def in_parallel(
    executor: Executor, f: Callable[..., Any], positions: Sequence[Tree], data: tuple[Any, ...]
) -> Iterator[Any]:
    """Return a function's value for each position, in order. If one call fails, pending calls are canceled."""
    check_forks(executor)
    try:
        to_host(tree.leaves(positions[0])[0])
    except Exception as error:
        raise CapabilityError(
            "executor evaluates positions outside of the run, and this run is compiled: pass NumPy or torch arrays, or "
            "leave executor out"
        ) from error
    futures: list[Future[Any]] = []
    try:
        for x in positions:
            futures.append(executor.submit(_work, f, x, data, os.getpid()))
        yield from map(_result, futures)
    except BrokenExecutor as error:
        raise WorkerError(f"a worker was lost ({unended(error)}). Pass a new executor.{NONE_WORKED}") from error
    finally:
        for future in futures:
            future.cancel()


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenExecutor:
        raise
    except Exception as error:
        check_pickled(error, "the function, its data or its result")
        raise


def _work(f: Callable[..., Any], x: Tree, data: tuple[Any, ...], caller: int) -> Any:
    """Main function of a worker. Ctrl-C reaches all processes, and it is for the one that waits to end."""
    end_with_parent(caller)
    if os.getpid() != caller and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return f(x, *data)
