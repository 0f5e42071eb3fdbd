"""The score-mh-digits experiment: its quick size through the command line, and what its networks and kernels mean."""

import json
import math

import numpy as np
import pytest

from tests.kernels.support import noise_of, walk
from xpsample.experiments.score_mh.digits import QUICK, TAUS
from xpsample.experiments.score_mh.digits_models import (
    LearnedAtLevels,
    LevelBalance,
    Networks,
    NormULA,
    load_small_digits,
)
from xpsample.kernels import MALA
from xpsample.particles.annealed import Annealed
from xpsample.targets import Target

pytest.importorskip("sklearn")
SPECTRUM = np.asarray([0.2, 0.5, 1.0, 2.0, 3.0])
DIM, NETWORKS = 5, Networks(tuple(SPECTRUM.tolist()))


RUN = "score-mh-digits"


def test_rows(rows):
    floors, runs = rows[:3], rows[3:]
    assert [row["method"] for row in floors] == ["held-out images", "the same, with noise", "known mixture"]
    assert [(row["method"], row["tau"]) for row in runs] == [(method, tau) for method in QUICK.methods for tau in TAUS]
    assert floors[0]["w1"] <= floors[1]["w1"] < min(row["w1"] for row in runs if "known" not in row["method"])
    assert abs(floors[1]["noise"] - 1.0) < 0.3  # the noise that was added
    for row in runs:
        assert 0.0 <= row["annealing"] <= 1.0
        assert 1.0 <= row["classes"] <= 10.0
        if row["method"] == "ULA":
            assert row["annealing"] == pytest.approx(1.0) == row["final"]


def test_files(out):
    with np.load(out / "images.npz", allow_pickle=False) as images:
        assert images["MALA_known_mixture"].shape == (len(TAUS), 10, 64)


def test_further_ladders(out):
    """Five levels with nothing after them come less far than ten, where the score is known."""
    rows, steps = (json.loads((out / f"{name}.json").read_text()) for name in ("results", "steps"))
    runs = [(method, levels, tau) for method in QUICK.methods for levels in QUICK.ladders for tau in TAUS]
    assert [(row["method"], row["levels"], row["tau"]) for row in steps] == runs
    for long, short in zip(rows[3:], steps, strict=True):
        if "known" in long["method"] and long["tau"] < 1:
            assert long["w1"] < short["w1"]


def test_small_digits():
    known, tested = load_small_digits()
    assert known.images.shape == (1297, 64)
    assert tested.images.shape == (500, 64)
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
    jax = pytest.importorskip("jax")
    from xpsample.optimize.optimizers import Adam
    from xpsample.score_mh import AnnealedDenoising, fit

    networks, sigmas = Networks((1.0,)), (1.0, 0.5)
    data = jax.numpy.asarray([[-1.0], [1.0]])
    settings = {"batch_size": 128, "steps_per_epoch": 100, "seed": 0, "progress": False}
    found = fit(
        AnnealedDenoising(sigmas, networks.score),
        networks.init_score(32, 0),
        data,
        epochs=10,
        optimizer=Adam(1e-2),
        **settings,
    )
    x = np.linspace(-1.5, 1.5, 31)[:, None]
    for sigma in sigmas:
        guess = x + sigma**2 * np.asarray(
            networks.score(jax.numpy.asarray(x), jax.numpy.asarray(sigma), found.parameters)
        )
        linear = x / (1 + sigma**2)
        exact = np.tanh(x / sigma**2)
        assert np.mean(np.abs(guess - exact)) < 0.3 * np.mean(np.abs(linear - exact))


def normal_target(acceptance):
    """N(0, I) with noise, by its score."""
    return Target(
        None,
        score=lambda x, d: -x / (1 + d["sigma"] ** 2),
        data={"sigma": np.asarray(1.0)},
        acceptance=acceptance,
    )


@pytest.mark.parametrize("direct", [True, False])
def test_learned_acceptance_is_the_network_s(library, direct):
    """The probability to accept is a(x', x), or the smaller of 1 and a(x', x) / a(x, x'), at the level's sigma."""
    tau, sigma, layers = 0.4, 0.7, NETWORKS.init_acceptance(6, 1)
    layers = tuple(type(a)(10 * a.weight, a.bias) for a in layers)  # further from 1/2
    acceptance = LearnedAtLevels({"layers": layers, "tau": np.asarray(tau)}, NETWORKS, direct)
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
    loss = LevelBalance((0.8,), (0.4,), NETWORKS, known, 0.0, 1e9)
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
    kernel = NormULA(tau)
    noise = noise_of(kernel, x, 1)
    positions, _, _ = walk(library, kernel, x, noise, target)
    eta = 2 * tau**2 * DIM / (9 * np.sum(x * x, axis=-1, keepdims=True))
    np.testing.assert_allclose(positions[0], x - 3 * eta * x + np.sqrt(2 * eta) * noise["proposal"][0], rtol=1e-10)


def test_scaled_score_is_in_units_of_the_level():
    layers = NETWORKS.init_score(4, 0)
    y = np.random.default_rng(5).standard_normal((6, DIM))
    expected = 0.3 * NETWORKS.score(0.3 * y, np.asarray(0.3), layers)
    np.testing.assert_allclose(NETWORKS.scaled_score(y, np.asarray(0.3), layers), expected, rtol=1e-12)
