"""Fourier transforms."""

import numpy as np

from cupy._functions import kernel as _kernel

_NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
_MORE = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2"]
globals().update({name: _kernel(getattr(np.fft, name), name, "a n axis norm") for name in _NAMES})
globals().update({name: _kernel(getattr(np.fft, name), name, "a s axes norm") for name in _MORE})
globals().update({name: _kernel(getattr(np.fft, name), name, "x axes") for name in ("fftshift", "ifftshift")})
