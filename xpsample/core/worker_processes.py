"""Checks of worker processes, and messages about them, shared by sharded runs and densities that run in a pool."""

import multiprocessing
from concurrent.futures import Executor
from pickle import PicklingError
from typing import Any

from xpsample.core.checks import given
from xpsample.core.errors import CapabilityError, HyperparameterError, unended
from xpsample.core.registry import backends_seen

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
            "executor must be an instance of concurrent.futures.Executor, such as ProcessPoolExecutor(4), or "
            f"client.get_executor() of a dask client; got {given(executor)}"
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
            "executor that pickles them by value, such as those of loky or dask."
        ) from error
