"""Calls as a CUDA graph. Written without a GPU, by CuPy's documentation, and never run on one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import cupy

from xpsample.backend import Array
from xpsample.straight import captured


def capture(x: Array) -> captured.Capture | None:
    """What captures calls on the current device; None where nothing is to be captured."""
    return _capture if captured.wanted() else None


@dataclass(frozen=True)
class _Replay:
    graph: Any
    pool: Any  # whose memory the graph writes to, and nobody else as long as this is here

    def __call__(self) -> None:
        self.graph.launch()


@contextmanager
def _nothing_from_the_host() -> Iterator[None]:
    """Refuse copies from the host: a graph would make them again from a buffer which is somebody else's by then."""
    pool, thread = cupy.get_default_pinned_memory_pool(), get_ident()

    def buffer(size: int) -> Any:
        if get_ident() == thread:
            raise RuntimeError("a step copies an array from the host")
        return pool.malloc(size)

    cupy.cuda.set_pinned_memory_allocator(buffer)
    try:
        yield
    finally:
        cupy.cuda.set_pinned_memory_allocator(pool.malloc)  # the default: which one it was cannot be asked


def _capture(function: Callable[[], list[Array]]) -> tuple[Callable[[], None], list[Array]]:
    # The legacy default stream must not wait for a stream that captures, so that one is non-blocking.
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    stream.wait_event(cupy.cuda.get_current_stream().record())
    # What is let go while capturing goes back to the pool in use, which would give the graph's memory to others.
    with cupy.cuda.using_allocator(pool.malloc), stream:
        function()  # compiles, and fills the pool
        stream.synchronize()
        stream.begin_capture()
        try:
            with _nothing_from_the_host():
                outputs = function()
        finally:
            graph = stream.end_capture()  # a stream that failed, too, has to leave the capture
    return _Replay(graph, pool), outputs
