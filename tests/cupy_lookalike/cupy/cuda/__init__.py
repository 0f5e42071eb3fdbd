"""Devices and streams."""

from cupy.cuda import device, runtime, stream
from cupy.cuda.device import Device, get_device_id
from cupy.cuda.stream import Stream, get_current_stream

__all__ = ["Device", "Stream", "device", "get_current_stream", "get_device_id", "is_available", "runtime", "stream"]


def is_available() -> bool:
    """Whether there is a device."""
    try:
        return runtime.getDeviceCount() > 0
    except runtime.CUDARuntimeError:
        return False
