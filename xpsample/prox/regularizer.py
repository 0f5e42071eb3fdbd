"""Convex functions with a proximal operator, and the simplest one.

The proximal operator of g is prox(x) = argmin_u scale g(u) + |u - x|^2 / 2 (Moreau 1965). Leading axes are a batch. The
number of iterations is fixed, so that the operators can be traced.
"""

from abc import ABC, abstractmethod
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import per_coordinate


class Regularizer(ABC):
    """A convex function g of a position, usually not smooth."""

    @abstractmethod
    def value(self, xp: Any, x: Array) -> Array:
        """g(x), ``(*chains, dim) -> (*chains)``."""

    @abstractmethod
    def prox(self, backend: Backend, x: Array, scale: float | Array) -> Array:
        """``argmin_u scale g(u) + |u - x|^2 / 2``, ``(*chains, dim)``.

        Parameters
        ----------
        backend : Backend
            Backend of x; it has the namespace and the loop.
        x : array, shape (*chains, dim)
        scale : float or array
            Not negative; broadcasts against the chain axes.
        """


def envelope(
    g: Regularizer, backend: Backend, x: Array, smoothing: float | Array, strength: float | Array = 1.0
) -> Array:
    """The Moreau envelope of ``strength g``: ``min_u strength g(u) + |u - x|^2 / (2 smoothing)``, shape (*chains).

    Its gradient is ``(x - prox(x)) / smoothing``, the prox at scale ``smoothing * strength``; `MYULA` moves along it.

    Parameters
    ----------
    g : Regularizer
    backend : Backend
        Backend of x.
    x : array, shape (*chains, dim)
    smoothing, strength : float or array
        Positive; arrays broadcast against the chain axes.
    """
    u = g.prox(backend, x, smoothing * strength)
    return strength * g.value(backend.xp, u) + backend.xp.sum((u - x) ** 2, axis=-1) / (2.0 * smoothing)


class L1(Regularizer, FrozenDataclass):
    """``g(x) = sum_i |x_i|``; its proximal operator is soft thresholding.

    See Also
    --------
    IsotropicTV : Of the differences of an image.
    MYULA : The kernel that takes it.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(None, score=lambda x: 2.0 - x)  # N(2, 1) times the prior exp(-|x|)
    >>> kernel = xps.MYULA(0.02, regularizer=xps.L1(), smoothing=0.05)
    >>> trace = xps.sample(target, kernel, np.zeros((200, 1)), 500, seed=1, burn_in=300)
    >>> bool(abs(trace.draws.mean() - 1.15) < 0.1)
    True
    """

    def value(self, xp: Any, x: Array) -> Array:
        return xp.sum(xp.abs(x), axis=-1)

    def prox(self, backend: Backend, x: Array, scale: float | Array) -> Array:
        xp = backend.xp
        size = xp.abs(x) - per_coordinate(scale)
        return xp.sign(x) * xp.where(size > 0.0, size, 0.0)
