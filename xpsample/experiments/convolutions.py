"""Convolutions of images (image, height, width, channel) in the array API, as matrix products of patches."""

from typing import Any

from array_api_compat import device as device_of

from xpsample.core.arrays import Array


def correlate(xp: Any, x: Array, kernel: Array) -> Array:
    """Stride 1, no padding; the kernel is (side, side, in, out)."""
    side, _, channels, out = kernel.shape
    images, height, width, _ = x.shape
    height, width = height - side + 1, width - side + 1
    patches = xp.concat([x[:, i : i + height, j : j + width, :] for i in range(side) for j in range(side)], axis=-1)
    flat = xp.reshape(patches, (images * height * width, side * side * channels))
    return xp.reshape(flat @ xp.reshape(kernel, (side * side * channels, out)), (images, height, width, out))


def pad(xp: Any, x: Array, width: int) -> Array:
    """Zeros around every image (image, height, width, channel)."""
    for axis in (1, 2):
        shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
        zeros = xp.zeros(shape, dtype=x.dtype, device=device_of(x))
        x = xp.concat([zeros, x, zeros], axis=axis)
    return x


def blocks(xp: Any, x: Array) -> Array:
    """(image, 2 height, 2 width, channel) to (image, height, width, 4 channel)."""
    images, height, width, channels = x.shape
    x = xp.reshape(x, (images, height // 2, 2, width // 2, 2, channels))
    return xp.reshape(xp.permute_dims(x, (0, 1, 3, 2, 4, 5)), (images, height // 2, width // 2, 4 * channels))


def unblocks(xp: Any, x: Array) -> Array:
    """The inverse of `blocks`."""
    images, height, width, channels = x.shape
    x = xp.reshape(x, (images, height, width, 2, 2, channels // 4))
    return xp.reshape(xp.permute_dims(x, (0, 1, 3, 2, 4, 5)), (images, 2 * height, 2 * width, channels // 4))
