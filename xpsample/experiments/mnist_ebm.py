"""The pretrained energy model of MNIST digits from tutorial 8 of the UvA deep learning course (Lippe 2020, MIT).

The negative energy f(x) of an image x in [-1, 1]^784 is four convolutions of stride 2 and two dense layers, with swish
between them. Here it is a plain function of the image and a tree of parameters, which any gradient choice can
differentiate. The score is written out, so that it needs no autodiff.
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.experiments.convolutions import blocks, correlate, pad, unblocks
from xpsample.experiments.data import load_dataset
from xpsample.targets.target import Target
from xpsample.zoo.networks import swish

SIDE = 28
PADDINGS = (4, 1, 1, 1)
"""Zeros around the input of each convolution; 0 is mid-gray."""


class Layer(NamedTuple):
    """Weight and bias: (out, in, height, width) and (out,) of a convolution, (out, in) and (out,) of a dense layer."""

    weight: Array
    bias: Array


class Parameters(NamedTuple):
    """The parameters of the network: four convolutions of stride 2, two dense layers."""

    convolutions: tuple[Layer, ...]
    dense: tuple[Layer, Layer]


def load_parameters() -> Parameters:
    """The pretrained parameters, float32, from the data set ``mnist_ebm_uvadlc``; DataError if they are not there."""
    arrays = load_dataset("mnist_ebm_uvadlc")
    layers = [
        Layer(arrays[f"{name}_weight"], arrays[f"{name}_bias"])
        for name in ("conv1", "conv2", "conv3", "conv4", "fc1", "fc2")
    ]
    return Parameters(tuple(layers[:4]), (layers[4], layers[5]))


def negative_energy(x: Array, parameters: Parameters) -> Array:
    """f(x) of images, (*chains, 784) to (*chains). Pixels are row by row; -1 is the background, 1 is ink."""
    return _forward(x, parameters)[0]


def negative_energy_and_score(x: Array, parameters: Parameters) -> tuple[Array, Array]:
    """f (*chains) and its gradient in x (*chains, 784), by the chain rule written out."""
    xp = array_namespace(x)
    value, slopes = _forward(x, parameters)
    dense, last = parameters.dense
    gradient = (slopes[-1] * last.weight[0, :]) @ dense.weight
    images = gradient.shape[0]
    # The network flattens channel by channel.
    channels = parameters.convolutions[-1].weight.shape[0]
    gradient = xp.permute_dims(xp.reshape(gradient, (images, channels, 2, 2)), (0, 2, 3, 1))
    for layer, padding, slope in zip(
        reversed(parameters.convolutions), reversed(PADDINGS), reversed(slopes[:-1]), strict=True
    ):
        gradient = _transposed(xp, slope * gradient, layer.weight, padding)
    return value, xp.reshape(gradient, x.shape)


def fold(u: Array) -> Array:
    """u, of any shape, reflected into [-1, 1] by mirrors at both ends, coordinate by coordinate."""
    return 1.0 - array_namespace(u).abs((u + 1.0) % 4.0 - 2.0)


def mnist_ebm(parameters: Parameters | None = None) -> Target:
    """The density proportional to exp(f) on the cube [-1, 1]^784, in unbounded coordinates u with x = fold(u).

    On R^784 the integral of exp(f) is infinite: f grows without bound along some rays (about 0.17 per unit of a
    multiple of a digit), so the model must be kept in its cube. ``f(fold(u))`` continues it by mirror images to all of
    R^784. A chain on u, folded, is a chain reflected at the walls, which leaves the density on the cube invariant if
    the kernel leaves the density on u invariant. In u the mean score is 0, as SRMC needs it; in x the walls make it
    differ. The parameters default to `load_parameters`.
    """
    return Target(
        _folded_density,
        score=_folded_score,
        log_density_and_score=_folded_density_and_score,
        data=load_parameters() if parameters is None else parameters,
    )


def _folded_density(u: Array, parameters: Parameters) -> Array:
    return negative_energy(fold(u), parameters)


def _folded_density_and_score(u: Array, parameters: Parameters) -> tuple[Array, Array]:
    value, score = negative_energy_and_score(fold(u), parameters)
    # On a wall, which is the value of a digit's background, use the slope inside.
    return value, array_namespace(u).where((u + 1.0) % 4.0 <= 2.0, score, -score)


def _folded_score(u: Array, parameters: Parameters) -> Array:
    return _folded_density_and_score(u, parameters)[1]


# ---- the network -----------------------------------------------------------------------------------------------------


def _forward(x: Array, parameters: Parameters) -> tuple[Array, list[Array]]:
    """f (*chains), and the derivative of every swish, flattened over the chains to (image, ...)."""
    xp, slopes = array_namespace(x), []
    hidden = xp.reshape(x, (-1, SIDE, SIDE, 1))
    for layer, padding in zip(parameters.convolutions, PADDINGS, strict=True):
        hidden, slope = swish(xp, _convolution(xp, hidden, layer.weight, padding) + layer.bias)
        slopes.append(slope)
    dense, last = parameters.dense
    hidden = xp.reshape(xp.permute_dims(hidden, (0, 3, 1, 2)), (hidden.shape[0], -1))
    hidden, slope = swish(xp, hidden @ dense.weight.T + dense.bias)
    slopes.append(slope)
    return xp.reshape(hidden @ last.weight.T + last.bias, x.shape[:-1]), slopes


# A convolution of stride 2 is one of stride 1 over blocks of 2 x 2 pixels, with the four pixels of a block as channels.
# Its transpose then has stride 1 as well, and both are matrix products of patches.


def _convolution(xp: Any, x: Array, weight: Array, padding: int) -> Array:
    """Cross-correlation of stride 2 with zero padding, (image, height, width, in) to (image, height, width, out)."""
    return correlate(xp, blocks(xp, pad(xp, x, padding)), _block_kernel(xp, weight))


def _transposed(xp: Any, gradient: Array, weight: Array, padding: int) -> Array:
    """The gradient in the input of `_convolution`, from that in its output."""
    kernel = xp.permute_dims(xp.flip(_block_kernel(xp, weight), axis=(0, 1)), (0, 1, 3, 2))
    padded = unblocks(xp, correlate(xp, pad(xp, gradient, kernel.shape[0] - 1), kernel))
    stop = padded.shape[1] - padding
    return padded[:, padding:stop, padding:stop, :]


def _block_kernel(xp: Any, weight: Array) -> Array:
    """A weight (out, in, side, side) of odd side as the kernel (half, half, 4 in, out) over blocks, half rounded up."""
    out, channels, side, _ = weight.shape
    half = (side + 1) // 2
    for axis in (2, 3):
        shape = (*weight.shape[:axis], 1, *weight.shape[axis + 1 :])
        weight = xp.concat([weight, xp.zeros(shape, dtype=weight.dtype, device=device_of(weight))], axis=axis)
    weight = xp.reshape(weight, (out, channels, half, 2, half, 2))
    return xp.reshape(xp.permute_dims(weight, (2, 4, 3, 5, 1, 0)), (half, half, 4 * channels, out))
