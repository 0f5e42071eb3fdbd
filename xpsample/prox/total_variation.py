"""Total variation of images, isotropic and anisotropic, with proximal operators."""

from abc import abstractmethod
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_count, given
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, count
from xpsample.core.hyperparameters import per_coordinate
from xpsample.prox.regularizer import Regularizer


def _check_shape(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise HyperparameterError(f"{name} must be (height, width); got {given(value)}")
    return check_count("height", value[0]), check_count("width", value[1])


class TotalVariation(Regularizer, FrozenDataclass):
    """The total variation of images, by forward differences; those across the lower and the right edge are zero.

    Positions (*chains, height * width) are the images, row by row. The prox is computed by accelerated projected
    gradient ascent on the dual problem (Chambolle 2004; Beck & Teboulle 2009).
    """

    shape: tuple[int, int] = checked(_check_shape)
    iterations: int = count(default=20)

    @abstractmethod
    def _sizes(self, xp: Any, down: Array, right: Array) -> tuple[Array, Array]:
        """Bounds of the two differences of a pixel in the dual problem, (..., height, width) each."""

    def prox(self, backend: Backend, x: Array, scale: float | Array) -> Array:
        xp, image = backend.xp, self._image(backend.xp, x)
        bound = per_coordinate(per_coordinate(scale))

        def held(part: Array, size: Array) -> Array:
            outside = size > bound
            return xp.where(outside, bound / xp.where(outside, size, 1.0), 1.0) * part

        def body(i: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
            dual, ahead, t = carry
            down, right = _differences(xp, image - _adjoint(xp, *ahead))
            # 1/8: the differences times their adjoint have no eigenvalue above 8.
            parts = ahead[0] + 0.125 * down, ahead[1] + 0.125 * right
            new = tuple(map(held, parts, self._sizes(xp, *parts)))
            t_new = 0.5 * (1.0 + xp.sqrt(1.0 + 4.0 * t * t))
            push = (t - 1.0) / t_new
            return new, tuple(a + push * (a - b) for a, b in zip(new, dual, strict=True)), t_new

        zero = xp.zeros_like(image)
        start = ((zero, zero), (zero, zero), xp.ones_like(x[(0,) * x.ndim]))
        dual, _, _ = backend.repeat(self.iterations, body, start)
        return self._flat(xp, image - _adjoint(xp, *dual))

    def gap(self, xp: Any, x: Array, u: Array, scale: float | Array) -> Array:
        """Duality gap of u as the prox of x, (*chains): at least ``|u - prox(x)|^2 / 2``.

        It is ``scale g(u) - <x - u, u>``, since g is homogeneous of degree one and x - u is feasible for the dual
        problem. What `prox` returns is feasible after any number of iterations.
        """
        centred = u - xp.mean(u, axis=-1, keepdims=True)  # x - u has mean zero
        return scale * self.value(xp, u) - xp.sum((x - u) * centred, axis=-1)

    def _image(self, xp: Any, x: Array) -> Array:
        height, width = self.shape
        if x.shape[-1] != height * width:
            raise HyperparameterError(f"positions of dim {x.shape[-1]} are no images of {height} x {width}")
        return xp.reshape(x, (*x.shape[:-1], height, width))

    def _flat(self, xp: Any, image: Array) -> Array:
        return xp.reshape(image, (*image.shape[:-2], image.shape[-2] * image.shape[-1]))


class IsotropicTV(TotalVariation):
    """g(x) = sum over pixels of the Euclidean norm of (vertical, horizontal) differences (Rudin, Osher & Fatemi 1992).

    Parameters
    ----------
    shape : tuple of int
        (height, width).
    iterations : int
        Iterations of the dual ascent. The gap falls as 1 / iterations^2. A few are enough if the scale is small against
        the differences of neighbors.

    See Also
    --------
    AnisotropicTV : With absolute values.
    MYULA : The kernel that takes it.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> noisy = np.random.default_rng(0).normal(size=36)
    >>> target = xps.Target(None, score=lambda x: noisy - x)  # of an image of 6 x 6 pixels
    >>> kernel = xps.MYULA(0.05, regularizer=xps.IsotropicTV((6, 6)), smoothing=0.1)
    >>> trace = xps.sample(target, kernel, np.zeros((50, 36)), 400, seed=1, burn_in=200)
    >>> image = trace.draws.mean(axis=(0, 1)).reshape(6, 6)
    """

    def value(self, xp: Any, x: Array) -> Array:
        down, right = _differences(xp, self._image(xp, x))
        return xp.sum(xp.sqrt(down * down + right * right), axis=(-2, -1))

    def _sizes(self, xp: Any, down: Array, right: Array) -> tuple[Array, Array]:
        size = xp.sqrt(down * down + right * right)
        return size, size


class AnisotropicTV(TotalVariation):
    """g(x) = sum over pixels of the absolute vertical and horizontal differences.

    Parameters
    ----------
    shape : tuple of int
        (height, width).
    iterations : int
        As for `IsotropicTV`.

    See Also
    --------
    IsotropicTV : With Euclidean norms.
    MYULA : The kernel that takes it.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> noisy = np.random.default_rng(0).normal(size=36)
    >>> target = xps.Target(None, score=lambda x: noisy - x)  # of an image of 6 x 6 pixels
    >>> kernel = xps.MYULA(0.05, regularizer=xps.AnisotropicTV((6, 6)), smoothing=0.1)
    >>> trace = xps.sample(target, kernel, np.zeros((50, 36)), 400, seed=1, burn_in=200)
    >>> image = trace.draws.mean(axis=(0, 1)).reshape(6, 6)
    """

    def value(self, xp: Any, x: Array) -> Array:
        down, right = _differences(xp, self._image(xp, x))
        return xp.sum(xp.abs(down) + xp.abs(right), axis=(-2, -1))

    def _sizes(self, xp: Any, down: Array, right: Array) -> tuple[Array, Array]:
        return xp.abs(down), xp.abs(right)


def _differences(xp: Any, image: Array) -> tuple[Array, Array]:
    """Differences downward and to the right, zero at the edge; (..., height, width) each."""
    down, right = image[..., 1:, :] - image[..., :-1, :], image[..., 1:] - image[..., :-1]
    zero_row, zero_column = xp.zeros_like(image[..., :1, :]), xp.zeros_like(image[..., :1])
    return xp.concat([down, zero_row], axis=-2), xp.concat([right, zero_column], axis=-1)


def _adjoint(xp: Any, down: Array, right: Array) -> Array:
    """The adjoint of `_differences`; the last row of `down` and the last column of `right` must be zero."""
    above = xp.concat([xp.zeros_like(down[..., :1, :]), down[..., :-1, :]], axis=-2)
    before = xp.concat([xp.zeros_like(right[..., :1]), right[..., :-1]], axis=-1)
    return above - down + before - right
