"""Fourier transforms."""

import numpy as np

from cupy._functions import kernel as _kernel

_NAMES = "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fft2 ifft2 fftshift ifftshift"
globals().update({name: _kernel(getattr(np.fft, name), name) for name in _NAMES.split()})
