"""The xpsample backend of jax arrays."""

from xpsample_jax.backend import BACKEND

__all__ = ["BACKEND"]
