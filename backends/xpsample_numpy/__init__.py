"""The xpsample backend of numpy arrays."""

from xpsample_numpy.backend import BACKEND

__all__ = ["BACKEND"]
