"""The xpsample backend of array-api-strict arrays."""

from xpsample_strict.backend import BACKEND

__all__ = ["BACKEND"]
