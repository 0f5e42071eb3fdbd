"""Diffusion networks as scores: against a mixture whose noise is known, and twins that are wrong; the loss by hand."""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace
from array_api_compat import device as device_of
from array_api_compat import numpy as numpy_xp

from xpsample import sample, score_mh
from xpsample.core.errors import LogDensityError
from xpsample.kernels import MALA, ULA
from xpsample.optimize.optimizers import Adam
from xpsample.particles.annealed import Annealed
from xpsample.score_mh.diffusion import NOISE, PREDICTED, at_level
from xpsample.spaces import Real
from xpsample.targets.point import Capability
from xpsample.zoo.mixture import smoothed_mixture

WEIGHTS, MEANS, SD = np.asarray([0.8, 0.2]), np.asarray([[-3.0, 1.0], [3.0, 0.5]]), 0.5


def continuous(points=400):
    """Song et al.'s variance-preserving one, whose network takes real times in (0, 1]."""
    t = np.linspace(1e-2, 1.0, points)
    a = np.exp(-0.25 * t**2 * 19.9 - 0.5 * t * 0.1)
    return score_mh.DiffusionSchedule(a, np.sqrt(1 - a**2), t)


SCHEDULES = {
    "linear": score_mh.variance_preserving(score_mh.linear_betas(200, 1e-4, 0.06)),
    "cosine": score_mh.variance_preserving(score_mh.cosine_betas(50)),
    "VE": score_mh.variance_exploding(np.geomspace(0.02, 20.0, 40)),
    "VE, falling": score_mh.variance_exploding(np.geomspace(20.0, 0.02, 40)),
    "VE, network of noise levels": score_mh.variance_exploding(
        np.geomspace(0.02, 20.0, 40), np.geomspace(0.02, 20.0, 40)
    ),
    "continuous": continuous(),
    "flow": score_mh.DiffusionSchedule(np.linspace(0.98, 0.05, 60), np.linspace(0.02, 0.95, 60)),
}
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


class Exact:
    """What a perfect network of the mixture predicts, from the mean of x_0 given x_t; of whole timesteps alone."""

    def __init__(self, schedule, prediction="noise"):
        self.schedule, self.prediction = schedule, prediction

    def __call__(self, x, t):
        xp = array_namespace(x)
        assert x.shape[0] == t.shape[0] and x.dtype == t.dtype
        put = lambda values: xp.asarray(values, dtype=x.dtype, device=device_of(x))  # noqa: E731
        times = put(self.schedule.times)
        at = xp.argmin(xp.abs(times - t[:, None]), axis=1)
        if isinstance(x, np.ndarray):  # timesteps alone, and whole ones to the last digit
            np.testing.assert_allclose(t, times[at], rtol=0 if times[1] == 1 else 1e-6)
        a, sigma = (xp.take(put(c), at)[:, None] for c in (self.schedule.signals, self.schedule.sigmas))
        y, means, variance = xp.reshape(x, (-1, 2)), put(MEANS), (a * SD) ** 2 + sigma**2
        off = y[:, None, :] - a[:, :, None] * means
        logs = xp.log(put(WEIGHTS)) - 0.5 * xp.sum(off**2, axis=-1) / variance
        shares = xp.exp(logs - xp.max(logs, axis=1, keepdims=True))
        shares = shares / xp.sum(shares, axis=1, keepdims=True)
        clean = xp.sum(shares[..., None] * (means + (a * SD**2 / variance)[:, :, None] * off), axis=1)
        out = PREDICTED[self.prediction]((y - a * clean) / sigma, clean, a, sigma)
        return xp.reshape(out, x.shape)


def deviation(library, schedule, network, prediction="noise", chains=5):
    """The largest relative error of the score at all timesteps at once, along an axis of noise levels."""
    levels = np.asarray(schedule.levels)
    wide = np.hypot(3.0, levels)[:, None, None]
    y = wide * np.random.default_rng(1).standard_normal((len(levels), chains, 2))
    target = score_mh.diffusion_target(network, schedule, prediction=prediction, space=Real(1, 1, 2))
    bound = target.prepare(library.array(y[-1]), Capability.SCORE)
    bound = bound.with_data({**bound.data, "sigma": library.array(levels[:, None])})
    found = library.host(bound.score(library.array(y)))
    each = [smoothed_mixture(WEIGHTS, MEANS, SD, s) for s in levels]
    expected = np.stack([m.score(at, m.data) for m, at in zip(each, y, strict=True)])
    scale = np.max(np.abs(expected), axis=(1, 2), keepdims=True)
    return np.max(np.abs(found - expected) / scale)


@pytest.mark.sampled(6)
@every_schedule
@pytest.mark.parametrize("prediction", list(NOISE))
def test_the_score_at_every_timestep(library, schedule, prediction):
    assert deviation(library, schedule, Exact(schedule, prediction), prediction) < 1e-8


def without_signal(schedule):
    """Sees y in the place of x_t = a_t y."""
    exact, order = Exact(schedule), np.asarray(schedule.times)

    def network(x, t):
        return exact(x / np.asarray(schedule.signals)[np.searchsorted(order, t)][:, None, None, None], t)

    return network


TWINS = {
    "without a_t": lambda schedule: (schedule, without_signal(schedule)),
    "sigma^2 for sigma": lambda schedule: (
        score_mh.DiffusionSchedule(schedule.signals, np.square(schedule.sigmas)),
        lambda x, t: Exact(schedule)(x, t),
    ),
    "1 - a_t for sigma": lambda schedule: (
        score_mh.DiffusionSchedule(schedule.signals, 1.0 - np.asarray(schedule.signals)),
        lambda x, t: Exact(schedule)(x, t),
    ),
    "noise taken for a velocity": lambda schedule: (schedule, Exact(schedule, "velocity")),
    "the timestep before": lambda schedule: (schedule, lambda x, t: Exact(schedule)(x, np.maximum(t - 1, 0))),
}


class NumPy:
    array = staticmethod(np.asarray)
    host = staticmethod(np.asarray)


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_wrong_twins_are_seen(twin):
    schedule = SCHEDULES["linear"]
    assert deviation(NumPy, *twin(schedule)) > 0.01


def test_between_timesteps():
    """A network of real times: the level, the time and the signal between two of its 400 points."""
    schedule = continuous()
    s = np.exp(np.linspace(*np.log([schedule.levels[-1], schedule.levels[0]]), 1234))
    level, t, a = at_level(numpy_xp, s, schedule.table)
    np.testing.assert_array_equal(level, s)
    np.testing.assert_allclose(a, 1 / np.sqrt(1 + s**2), rtol=1e-3)
    np.testing.assert_allclose(np.exp(-0.25 * t**2 * 19.9 - 0.5 * t * 0.1), a, rtol=1e-3)
    assert np.all(np.diff(t) >= 0)


@pytest.mark.parametrize("rounding", [-3e-7, 0.0, 3e-7])
@pytest.mark.parametrize("betas", [score_mh.linear_betas(), score_mh.cosine_betas()], ids=["linear", "cosine"])
def test_timesteps_are_whole_in_float32(betas, rounding):
    """Also at levels that are off by rounding, in a library whose logarithms are."""
    schedule = score_mh.variance_preserving(betas)
    table = {name: column.astype(np.float32) for name, column in schedule.table.items()}
    levels = (1.0 + rounding) * np.asarray(schedule.levels[::-1])
    _, t, a = at_level(numpy_xp, levels.astype(np.float32), table)
    np.testing.assert_array_equal(t, np.arange(1000))
    np.testing.assert_allclose(a, schedule.signals, rtol=2e-4)


def test_schedules():
    """DDPM's by hand, and the cosine's square root of the kept signal."""
    betas = np.asarray([0.1, 0.2, 0.4])
    schedule = score_mh.variance_preserving(betas)
    np.testing.assert_allclose(np.square(schedule.signals), [0.9, 0.72, 0.432])
    np.testing.assert_allclose(np.square(schedule.sigmas), [0.1, 0.28, 0.568])
    np.testing.assert_allclose(score_mh.linear_betas(3, 0.1, 0.3), [0.1, 0.2, 0.3])
    cosine = np.square(score_mh.variance_preserving(score_mh.cosine_betas(100)).signals)
    whole = np.cos((np.arange(1, 100) / 100 + 0.008) / 1.008 * math.pi / 2) ** 2
    np.testing.assert_allclose(cosine[:99], whole / np.cos(0.008 / 1.008 * math.pi / 2) ** 2, rtol=1e-9)
    assert schedule.levels[0] == pytest.approx(math.sqrt(0.568 / 0.432)) and len(schedule.levels) == 3


# ---- chains ----------------------------------------------------------------------------------------------------------


def test_on_compiled_libraries(differentiating):
    """Standard normal data, of which x_t is standard normal, and its noise sigma_t x_t."""
    schedule = SCHEDULES["linear"]
    sigmas = differentiating.array(np.asarray(schedule.sigmas))
    network = lambda x, t, p: p[differentiating.xp.astype(t, differentiating.xp.int64)][:, None, None, None] * x  # noqa: E731
    target = score_mh.diffusion_target(network, schedule, parameters=sigmas, space=Real(1, 1, 2))
    x0 = differentiating.array(schedule.levels[0] * np.random.default_rng(4).standard_normal((500, 1, 1, 2)))
    kernel = Annealed(MALA(0.5), schedule.levels[::10], 2, units=np.hypot(1, schedule.levels[::10]))
    x = differentiating.host(sample(target, kernel, x0, 1, seed=5, burn_in=19)["x"])
    assert x.shape == (1, 500, 1, 1, 2)
    assert abs(np.mean(x**2) - 1) < 5 * math.sqrt(2 / 1000)  # error probability 6e-7


# ---- the loss --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prediction", list(NOISE))
def test_the_loss_by_hand(library, prediction):
    schedule, rng = SCHEDULES["linear"], np.random.default_rng(6)
    x, noise = rng.standard_normal((20, 2, 4, 4)), {"added": rng.standard_normal((20, 32)), "timestep": rng.random(20)}
    network = lambda x, t, p: p * x + t[:, None, None, None]  # noqa: E731
    loss = score_mh.NoisePrediction(schedule, network, prediction)
    at = np.floor(200 * noise["timestep"]).astype(int)
    a, sigma = (np.asarray(c)[at][:, None, None, None] for c in (schedule.signals, schedule.sigmas))
    added = noise["added"].reshape(x.shape)
    wanted = {"noise": added, "data": x, "velocity": a * added - sigma * x}[prediction]
    expected = np.mean(np.sum((0.3 * (a * x + sigma * added) + at[:, None, None, None] - wanted) ** 2, axis=(1, 2, 3)))
    arrays = {name: library.array(numbers) for name, numbers in noise.items()}
    one = library.array(np.asarray(1.0))
    found = loss(library.array(np.asarray(0.3)), library.array(x), arrays, None, one)
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-9)
    # What it predicts and what is read from that are inverse to each other.
    x_t = a * x + sigma * added
    np.testing.assert_allclose(NOISE[prediction](PREDICTED[prediction](added, x, a, sigma), x_t, a, sigma), added)


def test_fit_on_images_finds_the_noise():
    """Standard normal images: the best network is sigma_t x_t."""
    schedule = SCHEDULES["linear"]
    sigmas = np.asarray(schedule.sigmas)

    def network(x, t, p):
        xp = array_namespace(x)
        table = xp.asarray(sigmas, dtype=x.dtype, device=device_of(x))
        return p * xp.take(table, xp.astype(t, xp.int64))[:, None, None, None] * x

    images = np.random.default_rng(7).standard_normal((400, 1, 4, 4))
    settings = {"epochs": 4, "steps_per_epoch": 50, "batch_size": 100, "seed": 8}
    found = score_mh.fit(
        score_mh.NoisePrediction(schedule, network), np.asarray(0.2), images, optimizer=Adam(1e-2), **settings
    )
    assert abs(found.parameters - 1) < 0.05


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_a_network_of_another_shape_is_refused(library):
    target = score_mh.diffusion_target(
        lambda x, t: array_namespace(x).concat([x, x], axis=1), SCHEDULES["VE"], space=Real(1, 2, 2)
    )
    with pytest.raises(LogDensityError, match=r"the shape of its input, \(3, 1, 2, 2\); got .*\(3, 2, 2, 2\)"):
        sample(target, ULA(0.1), library.array(np.zeros((3, 1, 2, 2))), 1, seed=0)
