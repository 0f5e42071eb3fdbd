"""Devices."""

from typing import Any

from cupy.cuda import runtime


class Device:
    """A CUDA device; as a context, the current one."""

    _entered: list[int] = []  # noqa: RUF012

    def __init__(self, device: "int | Device | None" = None) -> None:
        self.id = runtime.getDevice() if device is None else int(device)

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> "Device":
        before = runtime.getDevice()
        runtime.setDevice(self.id)
        self._entered.append(before)
        return self

    def __exit__(self, *args: Any) -> None:
        runtime.setDevice(self._entered.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> "Device":
        runtime.setDevice(self.id)
        return self

    def synchronize(self) -> None:
        with self:
            runtime.deviceSynchronize()


def get_device_id() -> int:
    return runtime.getDevice()
