"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

from xpsample.core.lazily import lazily
from xpsample.core.version import __version__ as __version__

__getattr__, __dir__ = lazily(globals())
