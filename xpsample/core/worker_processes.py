"""Checks of worker processes, and messages about them, shared by sharded runs and densities that run in a pool."""

import multiprocessing
from concurrent.futures import Executor
from pickle import PicklingError

from xpsample.core.errors import CapabilityError
from xpsample.core.registry import backends_seen

SPAWNING = 'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
GUARD = 'if __name__ == "__main__":'

NONE_WORKED = (
    f". Workers import the script that starts them: put what it runs under {GUARD} They cannot import functions of a "
    "console or notebook: put them into a module"
)
"""What may be the cause where the first worker is lost."""


def check_guarded() -> None:
    """Raise CapabilityError in a worker that still imports the script which started it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing asks itself
        raise CapabilityError(
            "a worker imports the script that started it, and has come to this call again: put what the script runs "
            f"under {GUARD}"
        )


def check_forks(executor: Executor) -> None:
    """Raise CapabilityError where workers are forks of a process whose libraries do not outlive that."""
    threaded = [backend.name for backend in backends_seen() if not all(device.forks for device in backend.devices())]
    context = getattr(executor, "_mp_context", None)
    if threaded and context is not None and context.get_start_method() == "fork":
        raise CapabilityError(
            f"the executor forks its workers, which wait for ever for the threads that {' and '.join(threaded)} has "
            f"here: give {SPAWNING}, and put what the script runs under {GUARD}"
        )


def of_pickling(error: Exception) -> bool:
    """Whether an error says that something cannot be sent to another process."""
    return isinstance(error, PicklingError) or (
        isinstance(error, AttributeError | TypeError) and "pickle" in str(error)
    )
