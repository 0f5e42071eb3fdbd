"""The reward network: density and score against loops, growing rows, minibatches limited to the rows seen."""

import numpy as np
import pytest

from xpsample import ULA
from xpsample.core.specs import Uniform
from xpsample.experiments.srld.reward_network import RewardNetwork, SeenMinibatch, SeenRewards, draw_seen
from xpsample.targets import check_gradient

NETWORK = RewardNetwork(3, 2, hidden=4, prior_variance=8.0, noise=0.5)
TRIALS, CAPACITY, COUNT = 2, 7, 5
RNG = np.random.default_rng(0)
CONTEXTS = RNG.normal(size=(TRIALS, CAPACITY, 3))
ARMS = RNG.integers(2, size=(TRIALS, CAPACITY)).astype(np.int32)
REWARDS = 3 * RNG.normal(size=(TRIALS, CAPACITY))
X = RNG.normal(size=(TRIALS, NETWORK.dim))


def seen(count=COUNT, weight=1.0):
    return SeenRewards(CONTEXTS, ARMS, REWARDS, np.asarray(count, dtype=np.int32), np.asarray(weight))


def bound(x, rows=None):
    """The target bound at one chain for each trial, a group with rows of its own."""
    x = x[:, None, :] if x.ndim == 2 else x
    return NETWORK.target(rows or seen()).prepare(x, ULA(1.0).requires | gradients_needed())


def gradients_needed():
    from xpsample.targets import Capability

    return Capability.LOG_DENSITY


def outputs(x, context):
    """One network on one context, (arms,)."""
    w1, b1, w2, b2, w3, b3 = np.split(x, np.cumsum([12, 4, 16, 4, 8]))
    one = np.maximum(context @ w1.reshape(3, 4) + b1, 0)
    two = np.maximum(one @ w2.reshape(4, 4) + b2, 0)
    return two @ w3.reshape(4, 2) + b3


def log_density(x, trial, count=COUNT, weight=1.0):
    """Priors N(0, 2) into the hidden layers and N(0, 8) into the output, noise 0.5."""
    total = -0.5 * np.sum(x[:36] ** 2) / 2 - 0.5 * np.sum(x[36:] ** 2) / 8
    for i in range(count):
        error = REWARDS[trial, i] - outputs(x, CONTEXTS[trial, i])[ARMS[trial, i]]
        total -= weight * 0.5 * error**2 / 0.25
    return total


def test_the_density_is_the_loops(library):
    target = bound(library.array(X), seen(weight=1.7))
    found = library.host(target.evaluate(library.array(X)).log_density)
    np.testing.assert_allclose(found, [log_density(X[t], t, weight=1.7) for t in range(TRIALS)], rtol=1e-12)


def test_the_score_is_the_densitys(library):
    rows = seen()
    for t in range(TRIALS):  # one trial each: finite differences add leading axes
        one = SeenRewards(*(leaf[t : t + 1] for leaf in rows[:3]), *rows[3:])
        check_gradient(NETWORK.target(one), library.array(X[t : t + 1]))


def test_particles_of_a_trial_see_its_rows(library):
    x = np.random.default_rng(1).normal(size=(TRIALS, 3, NETWORK.dim))
    point = bound(library.array(X)).evaluate(library.array(x))
    expected = [[log_density(x[t, p], t) for p in range(3)] for t in range(TRIALS)]
    np.testing.assert_allclose(library.host(point.log_density), expected, rtol=1e-12)
    alone = bound(library.array(X)).evaluate(library.array(x[:, 1]))
    np.testing.assert_allclose(library.host(point.score)[:, 1], library.host(alone.score), rtol=1e-9, atol=1e-9)


def test_predictions(library):
    found = library.host(NETWORK.predict(library.array(X), library.array(CONTEXTS)))
    expected = [[outputs(X[t], CONTEXTS[t, i]) for i in range(CAPACITY)] for t in range(TRIALS)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_each_row_once_is_all_rows(library):
    """Uniforms in the middle of every row's share draw each seen row once, so the batch's score is the whole one."""
    target = bound(library.array(X))
    uniforms = np.broadcast_to((np.arange(COUNT) + 0.5) / COUNT, (TRIALS, COUNT))[:, ::-1].copy()
    batch = draw_seen(target.xp, target.data["seen"], library.array(uniforms))
    np.testing.assert_array_equal(library.host(batch.rewards), REWARDS[:, :COUNT][:, ::-1])
    found = target.with_data({**target.data, "seen": batch}).score(library.array(X))
    np.testing.assert_allclose(library.host(found), library.host(target.score(library.array(X))), rtol=1e-10)


def test_batches_never_leave_the_rows_seen(library32):
    """The largest float32 below 1 times the count rounds up to it: the last seen row is drawn."""
    x = library32.array(X)
    target = bound(x)
    uniforms = library32.array(np.full((TRIALS, 2), np.nextafter(np.float32(1), np.float32(0)), dtype=np.float32))
    for count in range(1, CAPACITY + 1):
        rows = target.data["seen"]._replace(count=library32.xp.zeros_like(target.data["seen"].count) + count)
        batch = draw_seen(target.xp, rows, uniforms)
        np.testing.assert_allclose(library32.host(batch.rewards), REWARDS[:, [count - 1] * 2], rtol=1e-6)
        assert int(library32.host(batch.count)) == 2
        assert float(library32.host(batch.weight)) == pytest.approx(count / 2)


def test_a_step_on_a_batch(library):
    kernel, x = SeenMinibatch(ULA(0.01), 3), library.array(X)
    specs = kernel.noise(x)
    assert specs["rows"] == Uniform((TRIALS, 3))
    target = bound(x)
    uniforms, normals = np.random.default_rng(2).random((TRIALS, 3)), np.random.default_rng(3).normal(size=X.shape)
    state = kernel.init(target, x)
    noise = {"rows": library.array(uniforms), "proposal": library.array(normals)}
    state, _ = kernel.step(target, state, noise)
    # The step uses the score at hand and the batch gives that of the next.
    first = library.host(target.score(x))
    np.testing.assert_allclose(library.host(state.point.x), X + 0.01 * first + np.sqrt(0.02) * normals, rtol=1e-12)
    at = np.floor(uniforms * COUNT).astype(int)
    rows = SeenRewards(
        *(
            np.take_along_axis(a, at.reshape(*at.shape, *(1,) * (a.ndim - 2)), axis=1)
            for a in (CONTEXTS, ARMS, REWARDS)
        ),
        np.asarray(3, dtype=np.int32),
        np.asarray(COUNT / 3),
    )
    here = bound(x, rows).score(state.point.x)
    np.testing.assert_allclose(library.host(state.point.score), library.host(here), rtol=1e-12)
