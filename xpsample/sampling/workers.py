"""Workers that run the shards of a run. Those that cannot work are told of before anybody waits for them."""

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from xpsample.core.checks import given
from xpsample.core.errors import CapabilityError, Interrupted
from xpsample.core.worker_processes import check_forks
from xpsample.sampling.interrupts import interruptible

POLL = 0.5
"""Seconds after which a run that waits for its workers looks whether it is to end."""

MOST_LOST = 3
"""Executors that may break one after the other without any shard being finished."""

Pool = Executor | Callable[[], Executor]
"""What runs shards: an executor, or a function that makes one, again where one breaks."""


class Workers(AbstractContextManager["Workers"]):
    """What runs shards: an executor that is given, or those that a function makes, which end with the block.

    Without a pool the shards run here, one after another.
    """

    def __init__(self, pool: Pool | None) -> None:
        self.pool = pool
        if isinstance(pool, Executor):
            check_forks(pool)
        self._made: Executor | None = None

    def executor(self) -> Executor:
        """The executor: the last that was made, if it was not broken."""
        if isinstance(self.pool, Executor):
            return self.pool
        if self._made is None:
            assert self.pool is not None
            made = self.pool()
            if not isinstance(made, Executor):
                raise CapabilityError(
                    f"executor is a function and must make a concurrent.futures.Executor; got {given(made)}"
                )
            check_forks(made)
            self._made = made
        return self._made

    def replace(self) -> bool:
        """Have the next executor made; False if it was given."""
        if self._made is None:
            return False
        made, self._made = self._made, None
        made.shutdown(wait=True)  # its other workers may still be saving their shards
        return True

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            self._made.shutdown(wait=False, cancel_futures=True)

    def results(self, tasks: Sequence[Callable[[], Any]]) -> Generator[tuple[int, Callable[[], Any]], None, None]:
        """What gives the result of each task, or raises its error, with its number, as they are finished.

        Where a function makes the executor, one that breaks is replaced. Without one, the call makes the task.
        """
        if self.pool is None:
            yield from enumerate(tasks)
            return
        waiting, lost = dict(enumerate(tasks)), 0
        with interruptible() as interrupted:
            while waiting:
                before = len(waiting)
                try:
                    yield from _finished(self.executor(), waiting, interrupted)
                except BrokenExecutor:
                    lost = lost + 1 if len(waiting) == before else 1
                    if lost >= MOST_LOST or not self.replace():
                        raise


def _finished(
    executor: Executor, waiting: dict[int, Callable[[], Any]], interrupted: Callable[[], str | None]
) -> Iterator[tuple[int, Callable[[], Any]]]:
    """As `Workers.results`, by one executor: those that are finished are waited for no more."""
    futures: dict[int, Future[Any]] = {}
    finished: SimpleQueue[int] = SimpleQueue()
    try:
        for i, task in waiting.items():
            futures[i] = executor.submit(_work, task, os.getpid())
            futures[i].add_done_callback(partial(_note, finished, i))
        while futures:
            with suppress(Empty):
                i = finished.get(timeout=POLL)
                future = futures.pop(i)
                error = future.exception()
                if isinstance(error, BrokenExecutor):
                    raise error
                del waiting[i]
                yield i, future.result
            if interrupted():
                raise Interrupted("", by=interrupted())
    except BrokenExecutor:
        if interrupted():  # the signal has ended the workers, too
            raise Interrupted("", by=interrupted()) from None
        raise
    finally:
        for future in futures.values():
            future.cancel()


def _work(task: Callable[[], Any], caller: int) -> Any:
    """What a worker does. SIGTERM, which executors end their workers by, ends it as soon as its task is saved.

    Where the process that waits for the task, `caller`, makes it by itself, it is told.
    """
    try:
        return task()
    except Interrupted as stop:
        if stop.by == "SIGTERM" and os.getpid() != caller:
            signal.raise_signal(signal.SIGTERM)
        raise


def _note(finished: SimpleQueue, i: int, future: Future[Any]) -> None:
    finished.put(i)
