"""What torch and CuPy are asked for to capture a graph, in which order, by libraries that stand in for a device's.

The steps themselves, on devices too, are in ``tests/test_captured.py``.
"""

import importlib.util
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from xpsample.straight import captured

torch = pytest.importorskip("torch")

from xpsample_torch import graphs  # noqa: E402


class Calls(list):
    """Notes what is called, as text."""

    def does(self, said, gives=None):
        return lambda *args: (self.append(said), gives)[1]

    def within(self, said):
        @contextmanager
        def context(*args, **settings):
            self.append(f"in {said}")
            try:
                yield
            finally:
                self.append(f"out of {said}")

        return context

    def function(self, fails_at=3):
        """Gives an array, but fails when it is called for the time that is given."""

        def function():
            self.append("calls")
            if self.count("calls") == fails_at:
                raise RuntimeError("a value was asked for")
            return ["array"]

        return function


@pytest.fixture
def cuda(monkeypatch):
    """torch.cuda, which notes what is called."""
    calls = Calls()
    for name, value in {
        "device": calls.within("device"),
        "stream": calls.within("stream"),
        "current_stream": lambda: "current",
        "Stream": lambda: SimpleNamespace(wait_stream=lambda other: calls.append(f"waits for {other}")),
        "CUDAGraph": lambda: SimpleNamespace(replay=calls.does("replay")),
        "graph": calls.within("graph"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return calls


BEFORE = ["in device", "waits for current", "in stream", "calls", "in graph", "calls", "out of graph"]


def test_torch_warms_up_and_captures_on_a_stream_of_its_own(cuda, monkeypatch):
    monkeypatch.setenv(captured.SETTING, "1")
    capture = graphs.capture(SimpleNamespace(device=torch.device("cuda", 0)))
    replay, outputs = capture(cuda.function())
    assert outputs == ["array"]
    assert cuda == [*BEFORE, "out of stream", "out of device"]
    replay()
    assert cuda[-1] == "replay"


def test_torch_sets_its_stream_back_where_a_capture_fails(cuda):
    with pytest.raises(RuntimeError, match="a value was asked for"):
        graphs._capture(torch.device("cuda", 0), cuda.function(fails_at=2))
    assert cuda == [*BEFORE, "out of stream", "out of device"]


@pytest.mark.parametrize("setting", [None, "0", "1"])
def test_nothing_is_captured_on_a_cpu_or_unasked(setting, monkeypatch):
    if setting is None:
        monkeypatch.delenv(captured.SETTING, raising=False)
    else:
        monkeypatch.setenv(captured.SETTING, setting)
    assert graphs.capture(torch.zeros(3)) is None
    on_device = graphs.capture(SimpleNamespace(device=torch.device("cuda", 0)))
    assert (on_device is not None) == (setting == "1")


# ---- CuPy ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cupy(monkeypatch):
    """The module with CuPy's captures, and what it calls of a CuPy that is not there."""
    calls, allocators = Calls(), []

    class Stream:
        def __init__(self, non_blocking):
            assert non_blocking
            self.within = calls.within("stream")()
            self.wait_event, self.synchronize = calls.does("waits for the current"), calls.does("synchronizes")
            self.begin_capture = calls.does("begins")
            self.end_capture = calls.does("ends", SimpleNamespace(launch=calls.does("launch")))

        def __enter__(self):
            self.within.__enter__()

        def __exit__(self, *error):
            self.within.__exit__(*error)

    fake = ModuleType("cupy")
    fake.get_default_pinned_memory_pool = lambda: SimpleNamespace(malloc=lambda size: "a buffer")
    fake.cuda = SimpleNamespace(
        Stream=Stream,
        MemoryPool=lambda: SimpleNamespace(malloc=None),
        Graph=None,
        get_current_stream=lambda: SimpleNamespace(record=lambda: None),
        using_allocator=calls.within("pool"),
        set_pinned_memory_allocator=allocators.append,
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    folder = Path(importlib.util.find_spec("xpsample_cupy").origin).parent
    spec = importlib.util.spec_from_file_location("captures_of_cupy", folder / "graphs.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module, calls, allocators


STEPS = ["waits for the current", "in pool", "in stream", "calls", "synchronizes", "begins", "calls", "ends"]


def test_cupy_captures_with_a_pool_and_on_a_stream_of_its_own(cupy, monkeypatch):
    module, calls, allocators = cupy
    monkeypatch.setenv(captured.SETTING, "1")
    replay, outputs = module.capture(None)(calls.function())
    assert outputs == ["array"]
    assert calls == [*STEPS, "out of stream", "out of pool"]
    replay()
    assert calls[-1] == "launch"
    assert allocators[-1](8) == "a buffer"
    monkeypatch.setenv(captured.SETTING, "0")
    assert module.capture(None) is None


def test_cupy_ends_a_capture_that_fails(cupy):
    module, calls, allocators = cupy
    with pytest.raises(RuntimeError, match="a value was asked for"):
        module._capture(calls.function(fails_at=2))
    assert calls == [*STEPS, "out of stream", "out of pool"]
    assert allocators[-1](8) == "a buffer"


def test_cupy_takes_nothing_from_the_host_while_it_captures(cupy):
    module, calls, allocators = cupy

    def function():
        if "begins" in calls:
            allocators[-1](8)
        return []

    with pytest.raises(RuntimeError, match="copies an array from the host"):
        module._capture(function)
    assert "ends" in calls
