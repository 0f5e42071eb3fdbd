"""The U-Net beside one that is written with torch's own layers."""

import numpy as np
import pytest

from xpsample.core import tree
from xpsample.experiments.score_mh.unet import init_unet, unet

RNG = np.random.default_rng(0)
X, T = RNG.standard_normal((3, 2, 8, 12)), np.asarray([0.0, 7.5, 900.0])
PARAMETERS = tree.map(lambda leaf: leaf + 0.1 * RNG.standard_normal(leaf.shape), init_unet(2, 4, seed=1))


def by_torch(x, t, p):
    """Channels first; blocks of 2 x 2 pixels by hand."""
    import torch
    from torch.nn import functional as F

    def blocks(h):
        n, c, height, width = h.shape
        h = h.reshape(n, c, height // 2, 2, width // 2, 2).permute(0, 3, 5, 1, 2, 4)
        return h.reshape(n, 4 * c, height // 2, width // 2)

    def unblocks(h):
        n, c, height, width = h.shape
        h = h.reshape(n, 2, 2, c // 4, height, width).permute(0, 3, 4, 1, 5, 2)
        return h.reshape(n, c // 4, 2 * height, 2 * width)

    def convolve(h, layer):
        return F.conv2d(h, layer.weight.permute(3, 2, 0, 1), layer.bias, padding=1)

    def dense(h, layer):
        return F.conv2d(h, layer.weight.T[:, :, None, None], layer.bias)

    def residual(h, time, block):
        moved = F.linear(time, block.time.weight.T, block.time.bias)[:, :, None, None]
        scale, shift = moved.chunk(2, dim=1)
        inner = convolve(F.silu(F.group_norm(h, 1)), block.first)
        inner = convolve(F.silu(F.group_norm(inner, 1) * (1 + scale) + shift), block.second)
        return F.conv2d(h, block.skip.T[:, :, None, None]) + inner

    half = p.time[0].weight.shape[0] // 2
    angles = t[:, None] * 10000.0 ** (-torch.arange(half, dtype=t.dtype) / (half - 1))
    time = torch.cat([angles.sin(), angles.cos()], dim=1)
    for layer in p.time:
        time = F.silu(F.linear(time, layer.weight.T, layer.bias))
    kept = h = residual(convolve(blocks(x), p.enter), time, p.down)
    h = dense(blocks(h), p.shrink)
    for block in p.middle:
        h = residual(h, time, block)
    h = residual(torch.cat([unblocks(dense(h, p.grow)), kept], dim=1), time, p.up)
    return unblocks(convolve(F.silu(F.group_norm(h, 1)), p.leave))


def test_it_is_that_of_torch_layers(library):
    torch = pytest.importorskip("torch")
    expected = by_torch(torch.tensor(X), torch.tensor(T), tree.map(torch.tensor, PARAMETERS)).numpy()
    found = unet(library.array(X), library.array(T), tree.map(library.array, PARAMETERS))
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-8, atol=1e-8)


def test_it_begins_with_zero():
    parameters = init_unet(2, 4, seed=1, middle=3)
    np.testing.assert_array_equal(unet(X, T, parameters), np.zeros_like(X))
    assert len(parameters.middle) == 3
    # All that is random, or moved a little, counts.
    moved = unet(X, T, PARAMETERS)
    for path, leaf in tree.items(PARAMETERS):
        changed = tree.fill(PARAMETERS, dict(tree.items(PARAMETERS)) | {path: 1.5 * leaf})
        assert not np.allclose(unet(X, T, changed), moved), path
