"""Streams: whatever is computed is pending in the current stream of its device until somebody waits for it."""

from typing import Any

from cupy import lookalike
from cupy.cuda import runtime

_current: "dict[int, Stream]" = {}


class Stream:
    """A stream of the current device; as a context, the current one there."""

    null: "Stream"

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.device_id = -1 if null else runtime.getDevice()
        self._pending: set[int] = set()
        self._before: list[tuple[int, Stream]] = []

    @property
    def done(self) -> bool:
        """Whether all work of this stream on the current device is done."""
        return runtime.getDevice() not in self._pending

    def synchronize(self) -> None:
        """Wait for the work of this stream; that of the null stream on the current device."""
        lookalike.note_wait("Stream.synchronize")
        self._pending.discard(runtime.getDevice())

    def use(self) -> "Stream":
        _current[runtime.getDevice()] = self
        return self

    def __enter__(self) -> "Stream":
        device = runtime.getDevice()
        if self.device_id not in (-1, device):
            raise RuntimeError("the stream belongs to another device")
        self._before.append((device, get_current_stream()))
        return self.use()

    def __exit__(self, *args: Any) -> None:
        device, stream = self._before.pop()
        _current[device] = stream


Stream.null = Stream(null=True)


def get_current_stream(device_id: int = -1) -> Stream:
    """The current stream of a device, or of the current one."""
    return _current.get(runtime.getDevice() if device_id == -1 else device_id, Stream.null)


def launch() -> None:
    """Something is computed on the current device, in its current stream."""
    get_current_stream()._pending.add(runtime.getDevice())


def forget() -> None:
    """Nothing is pending anywhere, and the null streams are current."""
    _current.clear()
    Stream.null._pending.clear()
