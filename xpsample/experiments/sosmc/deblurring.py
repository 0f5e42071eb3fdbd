"""Deblurring with a total-variation prior of unknown strength (SOSMC paper, Section 5.4 and Appendix E.4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.tree import Tree
from xpsample.prox import TotalVariation
from xpsample.targets.parametric import Parametric


@dataclass(frozen=True)
class UniformBlur:
    """Each pixel becomes the mean of the pixels in a square window around it, of 2 half_width + 1 pixels a side.

    The images, of shape (height, width), are flat: (..., height * width).
    """

    shape: tuple[int, int]
    half_width: int

    def __post_init__(self) -> None:
        if not 0 <= self.half_width < min(self.shape):
            raise HyperparameterError(
                f"half_width must be at least 0 and below the sides {self.shape}; got {self.half_width}"
            )

    def apply(self, x: Array) -> Array:
        """B x, (..., height * width)."""
        return self._sums(x, after=True)

    def adjoint(self, x: Array) -> Array:
        """B^T x, (..., height * width)."""
        return self._sums(x, after=False)

    def _sums(self, x: Array, after: bool) -> Array:
        """Window sums along both axes, each divided by the number of pixels in the window, after or before summing."""
        xp = array_namespace(x)
        image = xp.reshape(x, (*x.shape[:-1], *self.shape))
        one = xp.ones_like(image[(*(0,) * (image.ndim - 2), ...)])
        for axis in (-2, -1):
            count = self._window(xp, one, axis)
            image = self._window(xp, image, axis) / count if after else self._window(xp, image / count, axis)
        return xp.reshape(image, x.shape)

    def _window(self, xp: Any, image: Array, axis: int) -> Array:
        r, n = self.half_width, image.shape[axis]
        if not r:
            return image
        edge = image[..., :r, :] if axis == -2 else image[..., :r]
        edge = xp.zeros_like(edge)
        padded = xp.concat([edge, image, edge], axis=axis)
        parts = (padded[..., k : k + n, :] if axis == -2 else padded[..., k : k + n] for k in range(2 * r + 1))
        total = next(parts)
        for part in parts:
            total = total + part
        return total


def deblurring(
    observation: Array, blur: UniformBlur, noise_scale: float, variation: TotalVariation, theta: float = -15.0
) -> Parametric:
    """The posterior of an image x given y = B x + noise_scale N(0, I), with prior C(theta) exp(-exp(theta) TV(x)).

    ``log pi_theta(x) = -|y - B x|^2 / (2 noise_scale^2) - exp(theta) TV(x) + dim theta``. The last term is the prior's
    normalizer, which is known since TV is homogeneous of degree one (App. E.4). The parameters are ``{"theta": ...}``.

    The **score is the gradient of the first term alone**, as `MYULA` needs it; the second term is not differentiable.

    Parameters
    ----------
    observation : array, shape (height * width,)
        y, in the library, the dtype and on the device of the positions.
    blur : UniformBlur
        B.
    noise_scale : float
        Standard deviation, in units of the pixels.
    variation : TotalVariation
    theta : float
        The first parameter.
    """
    precision = 1.0 / noise_scale**2

    def log_density(x: Array, parameters: Tree) -> Array:
        xp, value = array_namespace(x), parameters["theta"]
        residual = observation - blur.apply(x)
        fit = -0.5 * precision * xp.sum(residual * residual, axis=-1)
        return fit - xp.exp(value) * variation.value(xp, x) + x.shape[-1] * value

    def score(x: Array, parameters: Tree) -> Array:
        return precision * blur.adjoint(observation - blur.apply(x))

    return Parametric(log_density, {"theta": np.asarray(float(theta))}, score=score)


def strength(parameters: Tree) -> Array:
    """exp(theta), the strength of the total variation, for `MYULA`."""
    return array_namespace(parameters["theta"]).exp(parameters["theta"])


def likelihood_gradient(variation: TotalVariation) -> Callable[[Array, Tree], Tree]:
    """``H(x, parameters) = {"theta": exp(theta) TV(x) / dim - 1}``, (*chains).

    Its mean over pi_theta is the gradient in theta of -log p_theta(y), divided by dim as in App. E.4.
    """

    def gradient(x: Array, parameters: Tree) -> Tree:
        xp = array_namespace(x)
        return {"theta": xp.exp(parameters["theta"]) * variation.value(xp, x) / x.shape[-1] - 1.0}

    return gradient
