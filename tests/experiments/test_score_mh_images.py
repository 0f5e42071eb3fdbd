"""Score-MH on images: quick runs, networks, and the U-Net beside torch's own layers."""

import json
import math
import re

import numpy as np
import pytest

from tests.kernels.support import noise_of, walk
from xpsample.core import tree
from xpsample.experiments.score_mh import digits_models
from xpsample.experiments.score_mh.diffusion import QUICK as DIFFUSION_QUICK
from xpsample.experiments.score_mh.diffusion import SCHEDULE
from xpsample.experiments.score_mh.digits import QUICK, TAUS
from xpsample.experiments.score_mh.unet import init_unet, unet
from xpsample.kernels import MALA
from xpsample.optimize.optimizers import Adam
from xpsample.particles.annealed import Annealed
from xpsample.score_mh import AnnealedDenoising, diffusion_target, fit, load_parameters
from xpsample.spaces import Real
from xpsample.targets import Target

# ---- digits ----------------------------------------------------------------------------------------------------------

SPECTRUM = np.asarray([0.2, 0.5, 1.0, 2.0, 3.0])
DIM, NETWORKS = 5, digits_models.Networks(tuple(SPECTRUM.tolist()))


def test_digits(quick):
    """Five levels with nothing after them come less far than ten, where the score is known."""
    rows, out = quick("score-mh-digits")
    floors, runs = rows[:3], rows[3:]
    assert [row["method"] for row in floors] == ["held-out images", "the same, with noise", "known mixture"]
    assert [(row["method"], row["tau"]) for row in runs] == [(method, tau) for method in QUICK.methods for tau in TAUS]
    assert floors[0]["w1"] <= floors[1]["w1"] < min(row["w1"] for row in runs if "known" not in row["method"])
    assert abs(floors[1]["noise"] - 1.0) < 0.3  # the noise that was added
    for row in runs:
        assert 0.0 <= row["annealing"] <= 1.0 and 1.0 <= row["classes"] <= 10.0
        if row["method"] == "ULA":
            assert row["annealing"] == pytest.approx(1.0) == row["final"]
    assert np.load(out / "images.npz")["MALA_known_mixture"].shape == (len(TAUS), 10, 64)
    steps = json.loads((out / "steps.json").read_text())
    cells = [(method, levels, tau) for method in QUICK.methods for levels in QUICK.ladders for tau in TAUS]
    assert [(row["method"], row["levels"], row["tau"]) for row in steps] == cells
    for long, short in zip(runs, steps, strict=True):
        if "known" in long["method"] and long["tau"] < 1:
            assert long["w1"] < short["w1"]


def test_small_digits():
    pytest.importorskip("sklearn")
    known, tested = digits_models.load_small_digits()
    assert known.images.shape == (1297, 64) and tested.images.shape == (500, 64)
    assert known.images.min() == -1.0 and known.images.max() == 1.0
    assert set(known.labels) == set(tested.labels) == set(range(10))


def silent(layers):
    """With all weights 0."""
    return tuple(type(layer)(0.0 * layer.weight, layer.bias) for layer in layers)


def placed(library, layers):
    return tuple(type(layer)(*map(library.array, layer)) for layer in layers)


def test_score_of_a_silent_network_is_that_of_a_normal(library):
    layers = placed(library, silent(NETWORKS.init_score(4, 0)))
    x = np.random.default_rng(0).standard_normal((3, 2, DIM))
    for sigma in (np.asarray(0.5), np.asarray([[0.1], [2.0], [30.0]])):
        expected = -x / (SPECTRUM + sigma[..., None] ** 2)
        found = NETWORKS.score(library.array(x), library.array(sigma), layers)
        np.testing.assert_allclose(library.host(found), np.broadcast_to(expected, x.shape), rtol=1e-10)


def test_score_is_learned_where_no_normal_has_it():
    """Two points at +-1 in every coordinate: the score with noise is (tanh(x / sigma^2) - x) / sigma^2 along them."""
    array = pytest.importorskip("jax.numpy").asarray
    networks, sigmas = digits_models.Networks((1.0,)), (1.0, 0.5)
    settings = {"batch_size": 128, "steps_per_epoch": 100, "seed": 0, "progress": False, "optimizer": Adam(1e-2)}
    loss, start = AnnealedDenoising(sigmas, networks.score), networks.init_score(32, 0)
    found = fit(loss, start, array([[-1.0], [1.0]]), epochs=10, **settings)
    x = np.linspace(-1.5, 1.5, 31)[:, None]
    for sigma in sigmas:
        guess = x + sigma**2 * np.asarray(networks.score(array(x), array(sigma), found.parameters))
        linear, exact = x / (1 + sigma**2), np.tanh(x / sigma**2)
        assert np.mean(np.abs(guess - exact)) < 0.3 * np.mean(np.abs(linear - exact))


def normal_target(acceptance):
    """N(0, I) with noise, by its score."""
    data = {"sigma": np.asarray(1.0)}
    return Target(None, score=lambda x, d: -x / (1 + d["sigma"] ** 2), data=data, acceptance=acceptance)


@pytest.mark.parametrize("direct", [True, False])
def test_learned_acceptance_is_the_network_s(library, direct):
    """The probability to accept is a(x', x), or the smaller of 1 and a(x', x) / a(x, x'), at the level's sigma."""
    tau, sigma, layers = 0.4, 0.7, NETWORKS.init_acceptance(6, 1)
    layers = tuple(type(a)(10 * a.weight, a.bias) for a in layers)  # further from 1/2
    acceptance = digits_models.LearnedAtLevels({"layers": layers, "tau": np.asarray(tau)}, NETWORKS, direct)
    kernel = Annealed(MALA(2 * tau**2), (sigma,))
    x = np.random.default_rng(2).standard_normal((50, DIM))
    noise = noise_of(kernel, x, 1)
    _, infos, _ = walk(library, kernel, x, noise, normal_target(acceptance))
    y = x / sigma
    y_new = y - 2 * tau**2 * sigma**2 * y / (1 + sigma**2) + 2 * tau * noise["base/proposal"][0, 0]

    def probability(new, old):
        return 1 / (1 + np.exp(-NETWORKS.logit(new, old, np.asarray(sigma), np.asarray(tau), layers)))

    expected = probability(y_new, y)
    if not direct:
        expected = np.minimum(1.0, expected / probability(y, y_new))
    np.testing.assert_allclose(library.host(infos[0].acceptance_probability), expected, rtol=1e-8)
    assert np.ptp(expected) > 0.1


def test_balance_loss_is_the_one_by_differences(differentiating):
    """Against central differences of log a and of the exact log ratio, for the score of a normal law."""
    library, rng = differentiating, np.random.default_rng(3)
    known = silent(NETWORKS.init_score(4, 0))
    loss = digits_models.LevelBalance((0.8,), (0.4,), NETWORKS, known, 0.0, 1e9)
    layers, x = NETWORKS.init_acceptance(6, 1), rng.standard_normal((4, DIM))
    noise = {"level": rng.random(4), "tau": rng.random(4)}
    noise |= {name: rng.standard_normal((4, DIM)) for name in ("added", "proposal")}
    assert {name: spec.shape for name, spec in loss.noise(4, DIM).items()} == {k: v.shape for k, v in noise.items()}
    numbers = {name: library.array(values) for name, values in noise.items()}
    found = loss(placed(library, layers), library.array(x), numbers, placed(library, known), library.array(1.0))

    sigma, eta = 0.8, 2 * 0.4**2
    precision = sigma**2 / (SPECTRUM + sigma**2)  # in units of the level
    y = x / sigma + noise["added"]
    y_new = (1 - eta * precision) * y + math.sqrt(2 * eta) * noise["proposal"]

    def balance(pair):
        new, old = pair[..., :DIM], pair[..., DIM:]
        logit = [NETWORKS.logit(*p, np.full(4, sigma), np.full(4, 0.4), layers) for p in ((new, old), (old, new))]
        log_a = [-np.log1p(np.exp(-v)) for v in logit]
        log_p = [-0.5 * np.sum(precision * v * v, axis=-1) for v in (new, old)]
        ways = ((old, new), (new, old))
        log_q = [-np.sum((a - (1 - eta * precision) * b) ** 2, axis=-1) / (4 * eta) for a, b in ways]
        return log_a[0] - log_a[1] - (log_p[0] - log_p[1]) - (log_q[0] - log_q[1])

    pair, h, total = np.concatenate([y_new, y], axis=-1), 1e-5, 0.0
    for i in range(2 * DIM):
        step = h * np.eye(2 * DIM)[i]
        total += np.mean(((balance(pair + step) - balance(pair - step)) / (2 * h)) ** 2)
    np.testing.assert_allclose(float(library.host(found)), total, rtol=1e-6)


def test_steps_by_the_norm(library):
    x = np.random.default_rng(4).standard_normal((20, DIM))
    target, tau = Target(None, score=lambda x: -3.0 * x), 0.3
    kernel = digits_models.NormULA(tau)
    noise = noise_of(kernel, x, 1)
    positions, _, _ = walk(library, kernel, x, noise, target)
    eta = 2 * tau**2 * DIM / (9 * np.sum(x * x, axis=-1, keepdims=True))
    np.testing.assert_allclose(positions[0], x - 3 * eta * x + np.sqrt(2 * eta) * noise["proposal"][0], rtol=1e-10)


def test_scaled_score_is_in_units_of_the_level():
    layers = NETWORKS.init_score(4, 0)
    y = np.random.default_rng(5).standard_normal((6, DIM))
    expected = 0.3 * NETWORKS.score(0.3 * y, np.asarray(0.3), layers)
    np.testing.assert_allclose(NETWORKS.scaled_score(y, np.asarray(0.3), layers), expected, rtol=1e-12)


# ---- diffusion -------------------------------------------------------------------------------------------------------


def test_diffusion(quick):
    (held_out, ula, mala), out = quick("score-mh-diffusion")
    assert [row["method"] for row in (held_out, ula, mala)] == ["held-out images", "ULA", "MALA, line integral"]
    assert held_out["w1"] < min(ula["w1"], mala["w1"])  # hardly trained
    assert ula["accepted"] == pytest.approx(1.0) and 0.3 < mala["accepted"] < 1.0
    said = re.search(r"of a pixel ([\d.]+) after 50 updates, ([\d.]+) at best", (out / "report.txt").read_text())
    assert float(said[2]) < float(said[1]) < 1.0  # which is that of no guess at all
    with np.load(out / "images.npz", allow_pickle=False) as images:
        for name in ("training_images", "ULA", "MALA_line_integral"):
            assert images[name].shape == (DIFFUSION_QUICK.chains, 64) and np.all(np.isfinite(images[name]))
    parameters = load_parameters(out / "network.npz", like=init_unet(1, DIFFUSION_QUICK.width, 0))
    target = diffusion_target(unet, SCHEDULE, parameters=parameters, space=Real(1, 8, 8))
    score = target.score(np.zeros((2, 1, 8, 8)), target.data)
    assert score.shape == (2, 1, 8, 8) and np.any(score != 0)


# ---- U-Net -----------------------------------------------------------------------------------------------------------

GENERATOR = np.random.default_rng(0)
IMAGES, TIMES = GENERATOR.standard_normal((3, 2, 8, 12)), np.asarray([0.0, 7.5, 900.0])
UNET_PARAMETERS = tree.map(lambda leaf: leaf + 0.1 * GENERATOR.standard_normal(leaf.shape), init_unet(2, 4, seed=1))


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
    expected = by_torch(torch.tensor(IMAGES), torch.tensor(TIMES), tree.map(torch.tensor, UNET_PARAMETERS)).numpy()
    found = unet(library.array(IMAGES), library.array(TIMES), tree.map(library.array, UNET_PARAMETERS))
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-8, atol=1e-8)


def test_it_begins_with_zero():
    parameters = init_unet(2, 4, seed=1, middle=3)
    np.testing.assert_array_equal(unet(IMAGES, TIMES, parameters), np.zeros_like(IMAGES))
    assert len(parameters.middle) == 3
    # All that is random, or moved a little, counts.
    moved = unet(IMAGES, TIMES, UNET_PARAMETERS)
    for path, leaf in tree.items(UNET_PARAMETERS):
        changed = tree.fill(UNET_PARAMETERS, dict(tree.items(UNET_PARAMETERS)) | {path: 1.5 * leaf})
        assert not np.allclose(unet(IMAGES, TIMES, changed), moved), path
