"""The xpsample backend of torch arrays."""

from xpsample_torch.backend import BACKEND

__all__ = ["BACKEND"]
