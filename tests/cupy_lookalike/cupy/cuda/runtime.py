"""The devices of a machine that has none: which there are, and which is current."""

from cupy import lookalike

is_hip = False
_NO_DEVICE, _INVALID_DEVICE = 100, 101
cudaDevAttrMultiProcessorCount = 16
_MULTIPROCESSORS = (132, 46, 108)
_NAMES = {
    _NO_DEVICE: "cudaErrorNoDevice: no CUDA-capable device is detected",
    _INVALID_DEVICE: "cudaErrorInvalidDevice: invalid device ordinal",
}
_current = 0


class CUDARuntimeError(RuntimeError):
    """An error of the CUDA runtime."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_NAMES[status])


def getDeviceCount() -> int:
    if lookalike.DEVICES == 0:
        raise CUDARuntimeError(_NO_DEVICE)
    return lookalike.DEVICES


def getDeviceProperties(device: int) -> dict[str, object]:
    return {"name": b"look-alike of a GPU", "multiProcessorCount": _MULTIPROCESSORS[device]}


def getDevice() -> int:
    getDeviceCount()
    return _current


def setDevice(device: int) -> None:
    global _current
    if not 0 <= device < getDeviceCount():
        raise CUDARuntimeError(_INVALID_DEVICE)
    _current = device


def deviceCanAccessPeer(device: int, peer: int) -> int:
    return 0


def deviceGetAttribute(attribute: int, device: int) -> int:
    """Devices differ, as those of a real machine may: code must not depend on how many threads they run."""
    if attribute != cudaDevAttrMultiProcessorCount:
        raise NotImplementedError(f"attribute {attribute}")
    return _MULTIPROCESSORS[device]


def deviceSynchronize() -> None:
    lookalike.note_wait("deviceSynchronize")
