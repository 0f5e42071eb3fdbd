"""A small U-Net for images, as a plain function of a tree of parameters, such as predicts noise in diffusion models.

Source: Ho, Jain & Abbeel, "Denoising diffusion probabilistic models" (2020), whose network has more of the same parts,
and attention.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_seed
from xpsample.experiments.convolutions import blocks, correlate, pad, unblocks
from xpsample.zoo.networks import Dense, swish


class Convolution(NamedTuple):
    """Weight (3, 3, in, out) and bias (out,)."""

    weight: Array
    bias: Array


class ResidualConvolution(NamedTuple):
    """A residual block. `time` gives a scale and a shift of every channel; `skip` is a matrix (in, out)."""

    first: Convolution
    time: Dense
    second: Convolution
    skip: Array


class UNet(NamedTuple):
    """The parameters of `unet`, in the order in which an image goes through."""

    time: tuple[Dense, Dense]
    enter: Convolution
    down: ResidualConvolution
    shrink: Dense
    middle: tuple[ResidualConvolution, ...]
    grow: Dense
    up: ResidualConvolution
    leave: Convolution


def init_unet(channels: int, width: int, seed: int, *, middle: int = 2) -> UNet:
    """Random parameters of `unet` on the host, float64; its output is 0 at first.

    `width` is the number of channels at half the images' side, with twice as many at a quarter, where there are so many
    `middle` residual blocks.
    """
    given = (("channels", channels), ("width", width), ("middle", middle))
    channels, width, middle = (check_count(name, n) for name, n in given)
    rng, wide, inputs = np.random.default_rng(check_seed("seed", seed)), 2 * width, 4 * channels

    def convolution(a: int, b: int) -> Convolution:
        return Convolution(rng.standard_normal((3, 3, a, b)) * (9 * a) ** -0.5, np.zeros(b))

    def dense(a: int, b: int) -> Dense:
        return Dense(rng.standard_normal((a, b)) * a**-0.5, np.zeros(b))

    def residual(a: int, b: int) -> ResidualConvolution:
        second = Convolution(np.zeros((3, 3, b, b)), np.zeros(b))  # the block is its skip at first
        return ResidualConvolution(convolution(a, b), dense(4 * width, 2 * b), second, dense(a, b).weight)

    return UNet(
        time=(dense(2 * width, 4 * width), dense(4 * width, 4 * width)),
        enter=convolution(inputs, width),
        down=residual(width, width),
        shrink=dense(4 * width, wide),
        middle=tuple(residual(wide, wide) for _ in range(middle)),
        grow=dense(wide, 4 * width),
        up=residual(2 * width, width),
        leave=Convolution(np.zeros((3, 3, width, inputs)), np.zeros(inputs)),
    )


def unet(x: Array, t: Array, parameters: UNet) -> Array:
    """The network's output for images x (images, channels, height, width), the sides multiples of 4, in that shape.

    Timesteps t are (images,), also between whole ones.
    """
    xp, p = array_namespace(x), parameters
    time = _waves(xp, t, p.time[0].weight.shape[0])
    for layer in p.time:
        time = _swish(xp, time @ layer.weight + layer.bias)
    h = _convolve(xp, blocks(xp, xp.permute_dims(x, (0, 2, 3, 1))), p.enter)
    h = kept = _residual(xp, h, time, p.down)
    h = blocks(xp, h) @ p.shrink.weight + p.shrink.bias
    for block in p.middle:
        h = _residual(xp, h, time, block)
    h = unblocks(xp, h @ p.grow.weight + p.grow.bias)
    h = _residual(xp, xp.concat([h, kept], axis=-1), time, p.up)
    h = unblocks(xp, _convolve(xp, _swish(xp, _normalized(xp, h)), p.leave))
    return xp.permute_dims(h, (0, 3, 1, 2))


def _residual(xp: Any, x: Array, time: Array, block: ResidualConvolution) -> Array:
    moved, channels = (time @ block.time.weight + block.time.bias)[:, None, None, :], block.skip.shape[-1]
    scale, shift = moved[..., :channels], moved[..., channels:]
    h = _convolve(xp, _swish(xp, _normalized(xp, x)), block.first)
    h = _convolve(xp, _swish(xp, _normalized(xp, h) * (1.0 + scale) + shift), block.second)
    return x @ block.skip + h


def _convolve(xp: Any, x: Array, layer: Convolution) -> Array:
    """A convolution that keeps height and width."""
    return correlate(xp, pad(xp, x, 1), layer.weight) + layer.bias


def _normalized(xp: Any, x: Array) -> Array:
    """Every image with mean 0 and variance 1 over its pixels and channels."""
    centred = x - xp.mean(x, axis=(1, 2, 3), keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=(1, 2, 3), keepdims=True) + 1e-5)


def _swish(xp: Any, a: Array) -> Array:
    return swish(xp, a)[0]


def _waves(xp: Any, t: Array, count: int) -> Array:
    """Sines and cosines of timesteps, (images, count), of periods from 2 pi to 20,000 pi steps."""
    half = count // 2
    rates = xp.exp(xp.arange(half, dtype=t.dtype, device=device_of(t)) * (-math.log(10000.0) / max(half - 1, 1)))
    angles = t[:, None] * rates
    return xp.concat([xp.sin(angles), xp.cos(angles)], axis=-1)
