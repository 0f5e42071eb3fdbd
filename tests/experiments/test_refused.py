"""What the parts of experiments refuse: one table."""

import numpy as np
import pytest

from xpsample import ULA, sample
from xpsample.core.errors import HyperparameterError
from xpsample.experiments.hiss.binary_network import binary_network, predict
from xpsample.experiments.hiss.exact_tours import draw_tours
from xpsample.experiments.hiss.joint_bernoulli import joint_bernoulli
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.experiments.score_mh.gev_problem import gev
from xpsample.experiments.score_mh.unet import init_unet
from xpsample.experiments.sosmc.deblurring import UniformBlur
from xpsample.experiments.srld.regression_network import regression_network
from xpsample.experiments.srld.reward_network import RewardNetwork, SeenRewards
from xpsample.experiments.srmc.rbm_training import train_rbm

X, Y = np.ones((7, 2)), np.ones(7)
BITS = np.ones((4, 5))


def seen(contexts, arms, rewards):
    rows = SeenRewards(
        np.ones(contexts), np.zeros(arms, dtype=np.int32), np.ones(rewards), np.int32(5), np.asarray(1.0)
    )
    return RewardNetwork(3, 2, hidden=4).target(rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: binary_network(X, Y[:3]), r"\(7, 2\) and \(3,\)"),
        (lambda: binary_network(X, Y, 0), "hidden and scale"),
        (lambda: binary_network(X, Y, 2, -1.0), "hidden and scale"),
        (lambda: predict(np.ones((3, 8)), X, 2), "9 weights"),
        (lambda: joint_bernoulli(np.ones((2, 3))), r"got \(2, 3\)"),
        (lambda: joint_bernoulli(np.array([0.5, -0.1])), "not negative"),
        (lambda: joint_bernoulli(np.zeros((2, 2))), "one at least positive"),
        (lambda: joint_bernoulli(np.array([np.nan, 1.0])), "finite"),
        (lambda: tsp_one_hot(X, 1.0, "soft"), "lengths, coordinates"),
        (lambda: draw_tours(np.ones((19, 2)), 1), "at most 18 cities; got 19"),
        (lambda: gev(np.inf), "finite"),
        (lambda: gev(0.1, np.nan), "finite"),
        (lambda: gev(0.1, 0.0, 0.0), "finite"),
        (lambda: gev(0.1, 0.0, [1.0, -1.0]), "finite"),
        (lambda: init_unet(0, 4, 1), "positive integer"),
        (lambda: init_unet(1, 0, 1), "positive integer"),
        (lambda: init_unet(1, 4.0, 1), "positive integer"),
        (lambda: train_rbm(BITS[0], 2, 1, seed=0), "zeros and ones"),
        (lambda: train_rbm(BITS + 0.5, 2, 1, seed=0), "zeros and ones"),
        (lambda: train_rbm(BITS, 2, 1, seed=0, rate=0.0), "positive"),
        (lambda: train_rbm(BITS, 2, 1, seed=0, sweeps=0), "positive"),
        (lambda: regression_network(X, Y[:3]), r"\(7, 2\) and \(3,\)"),
        (lambda: regression_network(X[0], Y[0]), r"\(\*sets, rows, features\)"),
        (lambda: regression_network(X, Y, hidden=0), "hidden must be greater than 0"),
        (lambda: regression_network(X, Y, rate=-1.0), "rate must be greater than 0"),
        (lambda: sample(regression_network(X, Y, 2), ULA(0.1), np.zeros((3, 9)), 1, seed=0), "9 weights"),
        (lambda: seen((2, 7, 3), (2, 7), (2, 3)), "rows do not fit together"),
        (lambda: RewardNetwork(3, 2, noise=0.0), "noise"),
        (lambda: UniformBlur((7, 5), 5), r"half_width must be at least 0 and below the sides \(7, 5\); got 5"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
