"""The control with uniform proposals."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.experiments.hiss.uniform import UniformProposals
from xpsample.metrics.discrete import exact_probabilities

CHAINS = 20_000


@pytest.mark.parametrize("space", [xps.Binary(), xps.Spins(), xps.OneHot(3)], ids=repr)
def test_proposals_are_uniform_over_all_states(space):
    """One step on a flat density: each state has its share, within 5 standard errors."""
    flat, dim = xps.Target(lambda x: 0.0 * x[..., 0], space=space), 6
    states = space.states(dim)
    x0 = np.broadcast_to(states[0], (CHAINS, dim)).astype(np.float64)
    drawn = xps.sample(flat, UniformProposals(), x0, 1, seed=1, progress=False).draws[0]
    share, p = np.bincount(space.number(numpy_xp, drawn).astype(int), minlength=len(states)) / CHAINS, 1 / len(states)
    np.testing.assert_array_less(np.abs(share - p), 5 * np.sqrt(p * (1 - p) / CHAINS))


def test_it_finds_isolated_modes():
    target = joint_bernoulli(isolated_modes())
    x0 = np.random.default_rng(0).integers(0, 2, (CHAINS, 4)).astype(np.float64)
    drawn = xps.sample(target, UniformProposals(), x0, 1, burn_in=200, seed=1, progress=False).draws[0]
    share = np.bincount(target.space.number(numpy_xp, drawn).astype(int), minlength=16) / CHAINS
    exact = exact_probabilities(target, 4)
    np.testing.assert_array_less(np.abs(share - exact), 5 * np.sqrt(exact * (1 - exact) / CHAINS) + 1e-4)


def test_tours_stay_tours():
    x0 = np.broadcast_to(np.eye(4).ravel(), (500, 16)).copy()
    cities = np.random.default_rng(0).random((4, 2))
    trace = xps.sample(tsp_one_hot(cities, 0.5), UniformProposals(), x0, 20, seed=1, progress=False)
    assert np.all(trace.draws.reshape(-1, 4, 4).sum(axis=1) == 1)
    assert np.mean(trace.run_statistics.moved) > 0.02
