"""SRLD on networks: bandits, regression, and their quick runs."""

import numpy as np
import pytest

from xpsample import ULA
from xpsample.conformance import reference
from xpsample.core.devices import DeviceDtype
from xpsample.core.specs import Uniform
from xpsample.experiments.srld import bandit_problems
from xpsample.experiments.srld.bandit_networks import NetworkPolicy
from xpsample.experiments.srld.bandits import DEFAULT, PAPERS, network_policy, play_ahead
from xpsample.experiments.srld.reward_network import RewardNetwork, SeenMinibatch, SeenRewards, draw_seen
from xpsample.targets import Capability, check_gradient

# ---- bandits ---------------------------------------------------------------------------------------------------------

CODES = np.array([[0, 1], [1, 0], [2, 1]])
SMALL = bandit_problems.Mushroom(CODES, np.array([1, 0, 0]))


def test_bandits(quick):
    rows, out = quick("srld-bandits")
    assert [row["policy"] for row in rows] == [*DEFAULT, *DEFAULT]
    curves = np.load(out / "curves.npz")
    for row in rows:
        curve = curves[f"{row['bandit']}/{row['policy']}"]
        assert curve.shape == (120, 2) and np.all(np.diff(curve, axis=0) >= 0)
        assert row["regret"] == pytest.approx(np.mean(curve[-1]))
        assert row["diverged"] == 0 and 0 < row["best"] <= 1


def test_bandits_policies_and_contexts_are_chosen(rows_of, tmp_path):
    options = ["--bandit", "wheel", "--policy", "uniform", "--policy", "linear greedy", "--contexts", "60"]
    rows, text = rows_of("srld-bandits", *options)
    assert [(row["bandit"], row["policy"]) for row in rows] == [("wheel", "uniform"), ("wheel", "linear greedy")]
    curves = np.load(tmp_path / "curves.npz")
    assert [len(curves[f"wheel/{row['policy']}"]) for row in rows] == [60, 60]
    best = min(rows, key=lambda row: row["regret"])
    assert f"lowest regret {best['regret']:.2f} ({best['policy']})\n" in text


# ---- environments ----------------------------------------------------------------------------------------------------


def test_a_mushroom_by_hand(library):
    noise = {"row": [[0.1, 0.1, 0.5, 0.99999]], "luck": [[0.4, 0.6, 0.4, 0.6]]}
    game = SMALL.play({name: library.array(np.asarray(values)) for name, values in noise.items()})
    one_hot = [[1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(library.host(game.contexts)[0], one_hot)
    np.testing.assert_array_equal(library.host(game.rewards)[0], [[-35, 0], [5, 0], [5, 0], [5, 0]])
    np.testing.assert_array_equal(library.host(game.means)[0], [[-15, 0], [-15, 0], [5, 0], [5, 0]])
    assert SMALL.features == 5


def test_the_mushrooms_of_the_data(data_folder):
    """117 features, one per attribute; uniform loses 2.5 on a safe and 7.5 on a poisonous one (5 standard errors)."""
    bandit = bandit_problems.mushroom()
    assert bandit.features == 117
    game = play_ahead(bandit, 4, 2000, 0)
    np.testing.assert_array_equal(np.sum(game.contexts, axis=-1), 22)
    loss, poisonous = bandit_problems.uniform_regret(game.means), 3916 / 8124
    assert abs(loss.mean() - (2.5 + 5 * poisonous)) < 5 * loss.std() / np.sqrt(loss.size)
    eaten = game.rewards[..., 0] - game.means[..., 0]
    assert abs(eaten.mean()) < 5 * eaten.std() / np.sqrt(eaten.size)


def test_the_wheel(library):
    """Points, best arms and rewards, with 20,000 rounds; means and shares within 5 standard errors."""
    bandit, n = bandit_problems.Wheel(), 20_000
    rng = np.random.default_rng(1)
    noise = {"radius": rng.random((n, 1)), "angle": rng.random((n, 1)), "reward": rng.normal(size=(n, 1, 5))}
    game = bandit_problems.Game(
        *(library.host(a)[:, 0] for a in bandit.play({k: library.array(v) for k, v in noise.items()}))
    )
    radius = np.linalg.norm(game.contexts, axis=-1)
    outside = radius > 0.95
    assert np.all(radius <= 1) and np.all(np.abs(game.contexts.mean(axis=0)) < 5 * 0.5 / np.sqrt(n))
    assert abs(outside.mean() - (1 - 0.95**2)) < 5 * np.sqrt(0.0975 * 0.9025 / n)
    best = np.argmax(game.means, axis=-1)
    assert np.all(best[~outside] == 0)
    right, up = game.contexts[:, 0] > 0, game.contexts[:, 1] > 0
    np.testing.assert_array_equal(best[outside], np.where(right, np.where(up, 1, 2), np.where(up, 3, 4))[outside])
    np.testing.assert_allclose(game.means[~outside], np.broadcast_to([1.2, 1, 1, 1, 1], (np.sum(~outside), 5)))
    np.testing.assert_allclose(np.sort(game.means[outside])[:, -2:], np.full((np.sum(outside), 2), [1.2, 50.0]))
    assert abs(np.std(game.rewards - game.means) - 0.01) < 5 * 0.01 / np.sqrt(10 * n)
    # Inside uniform loses 1.2 - 5.2 / 5, outside 50 - 54.2 / 5.
    loss = bandit_problems.uniform_regret(game.means)
    expected = 0.9025 * 0.16 + 0.0975 * 39.16
    assert abs(loss.mean() - expected) < 5 * loss.std() / np.sqrt(n)


def test_regret_of_the_uniform_policy_is_its_closed_form():
    game = play_ahead(bandit_problems.Wheel(), 50, 200, 2)
    arms = np.random.default_rng(3).integers(5, size=game.means.shape[:-1])
    gap = bandit_problems.regret(game.means, arms) - bandit_problems.uniform_regret(game.means)
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(gap.size)
    assert np.all(bandit_problems.regret(game.means, np.argmax(game.means, axis=-1)) == 0)


# ---- policies --------------------------------------------------------------------------------------------------------


def test_blocks_of_rounds():
    assert bandit_problems.blocks(130, 10, 50) == [(0, 10), (10, 60), (60, 110), (110, 130)]
    assert bandit_problems.blocks(8, 10, 50) == [(0, 8)]


def linear_game(trials=3, rounds=300):
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(rounds, trials, 3)), rng.normal(size=(3, 4))
    return bandit_problems.Game(x, x @ w, x @ w)


@pytest.mark.parametrize("greedy", [True, False])
def test_linear_policies_learn_what_is_linear(greedy):
    game = linear_game()
    lost = bandit_problems.regret(game.means, bandit_problems.Linear(greedy=greedy).play(game, 0))
    assert np.sum(lost[:58]) > 0 and np.sum(lost[240:]) < 0.05 * np.sum(
        bandit_problems.uniform_regret(game.means)[240:]
    )


def test_greedy_is_ridge_regression():
    game = linear_game(trials=1)
    arms = bandit_problems.Linear(greedy=True).play(game, 0)[:, 0]
    x = np.concatenate([game.contexts[:, 0], np.ones((300, 1))], axis=1)
    np.testing.assert_array_equal(arms[:8], np.arange(8) % 4)
    guess = []
    for arm in range(4):
        at = np.flatnonzero(arms[:58] == arm)
        guess.append(np.linalg.solve(x[at].T @ x[at] + 0.25 * np.eye(4), x[at].T @ game.rewards[at, 0, arm]))
    np.testing.assert_array_equal(arms[58:108], np.argmax(x[58:108] @ np.stack(guess, axis=1), axis=1))


def tiny(eta):
    network = RewardNetwork(2, 5, hidden=6)
    return network, NetworkPolicy(network, ULA(eta), batch=8, every=2, kept=4, longer=3)


def test_arms_are_the_best_under_a_sample():
    """With a step of 1e-30 every sample is the start, drawn from the prior."""
    game, (network, policy) = play_ahead(bandit_problems.Wheel(), 3, 100, 5), tiny(1e-30)
    arms = policy.play(game, reference(), 7).arms
    np.testing.assert_array_equal(arms[:10], np.broadcast_to(np.arange(10)[:, None] % 5, (10, 3)))
    x = np.random.default_rng(7).standard_normal((3, network.dim)) * np.sqrt(network.prior_variances())
    rewards = network.predict(x, np.moveaxis(game.contexts, 0, 1))
    np.testing.assert_array_equal(arms[10:], np.argmax(rewards, axis=-1).T[10:])


def test_only_rewards_of_pulled_arms_are_seen():
    game, (_, policy) = play_ahead(bandit_problems.Wheel(), 3, 130, 5), tiny(1e-5)
    arms = policy.play(game, reference(), 7).arms
    hidden = np.where(arms[..., None] == np.arange(5), game.rewards, 1e6)
    np.testing.assert_array_equal(policy.play(game._replace(rewards=hidden), reference(), 7).arms, arms)
    shown = np.where(arms[..., None] == np.arange(5), 1 - game.rewards, game.rewards)
    assert np.any(policy.play(game._replace(rewards=shown), reference(), 7).arms != arms)


def test_trainings_of_the_paper():
    policy = network_policy("LD", RewardNetwork(117, 2), PAPERS)
    assert [policy.steps(k) for k in (0, 1, 18, 19, 20, 999)] == [2000, 1900, 200, 100, 100, 100]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["SRLD", "SVGD", "attracting"])
def test_samplers_play(name, library32):
    """On every library, in float32: they begin with the initial pulls and move away from where LD goes."""
    device = DeviceDtype(library32.backend, library32.name, library32.device, "float32")
    game, network = play_ahead(bandit_problems.Wheel(), 2, 70, 6), RewardNetwork(2, 5, hidden=5)
    played = network_policy(name, network, PAPERS._replace(every=2, batch=8)).play(game, device, 1)
    assert played.arms.shape == (70, 2) and not np.any(played.diverged)
    np.testing.assert_array_equal(played.arms[:10, 0], np.arange(10) % 5)


# ---- reward networks -------------------------------------------------------------------------------------------------

REWARD_NETWORK = RewardNetwork(3, 2, hidden=4, prior_variance=8.0, noise=0.5)
TRIALS, CAPACITY, COUNT = 2, 7, 5
GENERATOR = np.random.default_rng(0)
CONTEXTS = GENERATOR.normal(size=(TRIALS, CAPACITY, 3))
ARMS = GENERATOR.integers(2, size=(TRIALS, CAPACITY)).astype(np.int32)
REWARDS = 3 * GENERATOR.normal(size=(TRIALS, CAPACITY))
NETWORKS = GENERATOR.normal(size=(TRIALS, REWARD_NETWORK.dim))


def seen(count=COUNT, weight=1.0):
    return SeenRewards(CONTEXTS, ARMS, REWARDS, np.asarray(count, dtype=np.int32), np.asarray(weight))


def bound(x, rows=None):
    """The target bound at one chain for each trial, a group with rows of its own."""
    x = x[:, None, :] if x.ndim == 2 else x
    return REWARD_NETWORK.target(rows or seen()).prepare(x, ULA(1.0).requires | Capability.LOG_DENSITY)


def reward_outputs(x, context):
    """One network on one context, (arms,)."""
    w1, b1, w2, b2, w3, b3 = np.split(x, np.cumsum([12, 4, 16, 4, 8]))
    one = np.maximum(context @ w1.reshape(3, 4) + b1, 0)
    two = np.maximum(one @ w2.reshape(4, 4) + b2, 0)
    return two @ w3.reshape(4, 2) + b3


def reward_density(x, trial, count=COUNT, weight=1.0):
    """Priors N(0, 2) into the hidden layers and N(0, 8) into the output, noise 0.5."""
    total = -0.5 * np.sum(x[:36] ** 2) / 2 - 0.5 * np.sum(x[36:] ** 2) / 8
    for i in range(count):
        error = REWARDS[trial, i] - reward_outputs(x, CONTEXTS[trial, i])[ARMS[trial, i]]
        total -= weight * 0.5 * error**2 / 0.25
    return total


def test_the_density_is_the_loops_and_particles_of_a_trial_see_its_rows(library):
    target = bound(library.array(NETWORKS), seen(weight=1.7))
    found = library.host(target.evaluate(library.array(NETWORKS)).log_density)
    np.testing.assert_allclose(found, [reward_density(NETWORKS[t], t, weight=1.7) for t in range(TRIALS)], rtol=1e-12)
    x = np.random.default_rng(1).normal(size=(TRIALS, 3, REWARD_NETWORK.dim))
    point = bound(library.array(NETWORKS)).evaluate(library.array(x))
    expected = [[reward_density(x[t, p], t) for p in range(3)] for t in range(TRIALS)]
    np.testing.assert_allclose(library.host(point.log_density), expected, rtol=1e-12)
    alone = bound(library.array(NETWORKS)).evaluate(library.array(x[:, 1]))
    np.testing.assert_allclose(library.host(point.score)[:, 1], library.host(alone.score), rtol=1e-9, atol=1e-9)


def test_the_score_is_the_densitys(library):
    rows = seen()
    for t in range(TRIALS):  # one trial each: finite differences add leading axes
        one = SeenRewards(*(leaf[t : t + 1] for leaf in rows[:3]), *rows[3:])
        check_gradient(REWARD_NETWORK.target(one), library.array(NETWORKS[t : t + 1]))


def test_predictions(library):
    found = library.host(REWARD_NETWORK.predict(library.array(NETWORKS), library.array(CONTEXTS)))
    expected = [[reward_outputs(NETWORKS[t], CONTEXTS[t, i]) for i in range(CAPACITY)] for t in range(TRIALS)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_batches_never_leave_the_rows_seen(library32):
    """The largest float32 below 1 times the count rounds up to it: the last seen row is drawn."""
    x = library32.array(NETWORKS)
    target = bound(x)
    uniforms = library32.array(np.full((TRIALS, 2), np.nextafter(np.float32(1), np.float32(0)), dtype=np.float32))
    for count in range(1, CAPACITY + 1):
        rows = target.data["seen"]._replace(count=library32.xp.zeros_like(target.data["seen"].count) + count)
        batch = draw_seen(target.xp, rows, uniforms)
        np.testing.assert_allclose(library32.host(batch.rewards), REWARDS[:, [count - 1] * 2], rtol=1e-6)
        assert int(library32.host(batch.count)) == 2
        assert float(library32.host(batch.weight)) == pytest.approx(count / 2)


def test_a_step_on_a_batch(library):
    kernel, x = SeenMinibatch(ULA(0.01), 3), library.array(NETWORKS)
    specs = kernel.noise(x)
    assert specs["rows"] == Uniform((TRIALS, 3))
    target = bound(x)
    uniforms, normals = (
        np.random.default_rng(2).random((TRIALS, 3)),
        np.random.default_rng(3).normal(size=NETWORKS.shape),
    )
    state = kernel.init(target, x)
    noise = {"rows": library.array(uniforms), "proposal": library.array(normals)}
    state, _ = kernel.step(target, state, noise)
    # The step uses the score at hand and the batch gives that of the next.
    first = library.host(target.score(x))
    np.testing.assert_allclose(
        library.host(state.point.x), NETWORKS + 0.01 * first + np.sqrt(0.02) * normals, rtol=1e-12
    )
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
