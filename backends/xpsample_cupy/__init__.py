"""The xpsample backend of cupy arrays."""

from xpsample_cupy.backend import BACKEND

__all__ = ["BACKEND"]
