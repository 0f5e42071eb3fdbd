"""Training an RBM: a distribution that it can hold exactly is learned, one seed is one model on every library."""

import numpy as np
import pytest

from xpsample.core.errors import CheckpointError
from xpsample.experiments.srmc.rbm_training import train_rbm
from xpsample.metrics.discrete import exact_probabilities, total_variation
from xpsample.spaces import Binary
from xpsample.zoo.rbm import rbm

# Five bits on a ring that like to be equal: no product of bits comes near, and Gibbs sweeps mix.
STATES = Binary().states(5)
P = np.exp(1.5 * np.sum(np.roll(STATES, 1, axis=1) == STATES, axis=1))
P /= P.sum()
ROWS = STATES[np.random.default_rng(0).choice(32, 2000, p=P)]


def test_the_distribution_is_learned():
    """Ten times nearer to the rows' shares than independent bits are."""
    seen = np.bincount((ROWS @ 2 ** np.arange(4, -1, -1)).astype(int), minlength=32) / len(ROWS)
    learned = exact_probabilities(rbm(train_rbm(ROWS, 6, 3000, seed=0, rate=1.0, batch=200, sweeps=3)), 5)
    independent = np.prod(np.where(STATES == 1, ROWS.mean(0), 1 - ROWS.mean(0)), axis=1)
    assert total_variation(learned, seen) < 0.06 < 0.4 < total_variation(independent, seen)


def test_one_seed_is_one_model_on_every_library(library):
    expected = train_rbm(ROWS, 3, 20, seed=4, batch=10, sweeps=2)
    found = train_rbm(library.array(ROWS), 3, 20, seed=4, batch=10, sweeps=2)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(library.host(mine), theirs, rtol=1e-9, atol=1e-12)
    assert np.any(train_rbm(ROWS, 3, 20, seed=5, batch=10, sweeps=2).weights != expected.weights)


def test_another_training_is_refused_by_name(tmp_path):
    """That a stopped one goes on is tested by kills, in `tests/sampling/kills.py`."""
    settings = {"hidden": 3, "updates": 20, "seed": 4, "batch": 10, "checkpoint": tmp_path, "progress": False}
    train_rbm(ROWS, **settings)
    for changed, named in (({"decay": 0.5}, "kernel decay"), ({"rate": 0.5}, "target data"), ({"seed": 5}, "noise")):
        with pytest.raises(CheckpointError, match=f"the checkpoint of another run .*{named}"):
            train_rbm(ROWS, **(settings | changed))
