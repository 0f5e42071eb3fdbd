"""Functions of one position, evaluated by the workers of an executor."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from xpsample.core import tree
from xpsample.core.errors import CapabilityError, WorkerError, unended
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.core.worker_processes import NONE_WORKED, check_forks, check_pickled


def in_parallel(
    executor: Executor, f: Callable[..., Any], positions: Sequence[Tree], data: tuple[Any, ...]
) -> Iterator[Any]:
    """What a function gives for each position, in their order. What is not begun is cancelled where one fails."""
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
    """What a worker does. Ctrl-C reaches all processes, and it is for the one that waits to end."""
    if os.getpid() != caller and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return f(x, *data)
