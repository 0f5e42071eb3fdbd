"""What the parts of Score-MH refuse, and what a training says of bad data and of a loss that is not finite."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import FiniteDifference, sample, score_mh
from xpsample.core.errors import BackendError, GradientError, HyperparameterError
from xpsample.kernels import ULA
from xpsample.particles.annealed import Annealed

LEVELS = score_mh.variance_exploding(np.geomspace(0.02, 20.0, 40))
DATA, SCORE = np.ones((64, 2)), score_mh.init_score_network(2, 6, seed=3)
KINDS = "'noise', 'data' or 'velocity'"


def nothing(x, t):
    return x


def score(x, p):
    return -x


def trained(data=DATA, loss=score_mh.ExactTrace(), start=SCORE, **settings):
    given = {"epochs": 3, "steps_per_epoch": 2, "batch_size": 16, "seed": 4} | settings
    return score_mh.fit(loss, start, data, **given)


class Quadratic(score_mh.TrainingLoss):
    """(p - mean of x)^2."""

    def noise(self, rows, dim):
        return {}

    def __call__(self, parameters, x, noise, constants, progress):
        xp = array_namespace(x)
        return xp.sum((parameters["p"] - xp.mean(x, axis=0)) ** 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: score_mh.ScoreBalance(score_mh.RandomWalk(1.0), score, regularization=-1.0), "regularization"),
        (lambda: score_mh.ScoreBalance(score_mh.RandomWalk(1.0), score, max_norm=0.0), "max_norm"),
        (lambda: score_mh.ScoreBalance(score_mh.RandomWalk(1.0), score, pairs="both"), "pairs is 'global' or 'local'"),
        (lambda: score_mh.ScoreBalance(score_mh.RandomWalk(1.0), score, alpha=(0.0, 1.5)), "alpha"),
        (lambda: score_mh.RandomWalk(0.0), "step_size"),
        (lambda: score_mh.LangevinProposal(-1.0), "step_size"),
        (lambda: score_mh.CrankNicolson(1.1), "beta"),
        (lambda: score_mh.Sliced(0), "positive integer"),
        (lambda: score_mh.Denoising(0.0), "greater than 0"),
        (lambda: score_mh.AnnealedDenoising(()), "at least"),
        (lambda: score_mh.AnnealedDenoising((1.0, -1.0)), "greater than 0"),
        (lambda: score_mh.geometric_noise_levels(0.5, 1.0, 3), "least"),
        (lambda: score_mh.geometric_noise_levels(1.0, 0.0, 3), "greater than 0"),
        (lambda: score_mh.geometric_noise_levels(1.0, 0.5, 0), "positive integer"),
        (lambda: score_mh.init_acceptance_network(2, 5, seed=0, blocks=-1), "blocks"),
        (lambda: score_mh.init_acceptance_network(2, 5, seed=0, blocks=1.5), "blocks"),
        (lambda: score_mh.init_acceptance_network(2, 5, seed=0, blocks=True), "blocks"),
        (lambda: score_mh.DiffusionSchedule((1.0, 0.9), (0.1, 0.2, 0.3)), "a signal, a sigma and a time for each"),
        (lambda: score_mh.DiffusionSchedule((1.0, 1.0, 1.0), (0.1, 0.3, 0.2)), "must rise, or fall"),
        (lambda: score_mh.DiffusionSchedule((1.0, 1.0), (0.1, 0.3), (1.0, 1.0)), "times must rise, or fall"),
        (lambda: score_mh.DiffusionSchedule((1.0, 0.0), (0.1, 0.3)), "signals must be greater than 0"),
        (lambda: score_mh.DiffusionSchedule((1.0,), (0.1,)), "2 at least"),
        (lambda: score_mh.variance_preserving((0.1, 1.0)), "below 1"),
        (lambda: score_mh.variance_exploding((0.1, -1.0)), "sigmas must be greater than 0"),
        (lambda: score_mh.diffusion_target(None, LEVELS), "a function"),
        (lambda: score_mh.diffusion_target(nothing, None), "DiffusionSchedule"),
        (lambda: score_mh.diffusion_target(nothing, LEVELS, prediction="score"), KINDS),
        (lambda: score_mh.diffusion_target(nothing, LEVELS, space=(1, 28, 28)), "must be a Real"),
        (lambda: score_mh.NoisePrediction(LEVELS, lambda x, t, p: x, "x0"), KINDS),
        (lambda: trained(epochs=0), "epochs"),
        (lambda: trained(batch_size=0), "batch_size"),
        (lambda: trained(steps_per_epoch=1.5), "steps_per_epoch"),
        (lambda: trained(patience=0, validation=DATA), "patience"),
        (lambda: trained(patience=3), "pass validation=rows"),
        (lambda: trained(validation=DATA[:, :1]), r"validation has shape \(64, 1\), the data \(64, 2\)"),
        (lambda: trained(validation=DATA[:0]), "validation has shape"),
        (lambda: trained(DATA[:, 0]), r"\(rows, dim\)"),
        (lambda: trained(DATA[:0]), r"\(rows, dim\)"),
        (lambda: trained([[1.0, 2.0]]), r"\(rows, dim\)"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


@pytest.mark.parametrize("sigmas", [(21.0, 1.0), (1.0, 0.01)])
def test_a_ladder_beyond_the_levels_is_refused(sigmas):
    target = score_mh.diffusion_target(nothing, LEVELS)
    with pytest.raises(HyperparameterError, match=r"knows noise levels from 0\.02 to 20"):
        sample(target, Annealed(ULA(0.1), sigmas), np.zeros((3, 2)), 1, seed=0)
    assert np.isnan(target.score(np.zeros((3, 2)), {**target.data, "sigma": np.asarray(30.0)})).all()


def test_arrays_of_two_libraries():
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match="validation"):
        trained(validation=torch.tensor(DATA))


def test_a_loss_that_is_not_finite():
    settings = {"validation": DATA, "patience": 2, "gradient": FiniteDifference()}
    with pytest.raises(GradientError, match="by epoch 1: lower the learning rate"):
        trained(DATA, Quadratic(), {"p": np.full(1, 1e200)}, **settings)
