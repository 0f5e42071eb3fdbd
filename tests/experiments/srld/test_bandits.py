"""The srld-bandits experiment in its quick size, its environments against closed forms, and its policies."""

import json

import numpy as np
import pytest

from xpsample import ULA
from xpsample.cli import main
from xpsample.conformance import reference
from xpsample.experiments.srld.bandit_networks import NetworkPolicy
from xpsample.experiments.srld.bandit_problems import (
    Game,
    Linear,
    Mushroom,
    Wheel,
    blocks,
    mushroom,
    regret,
    uniform_regret,
)
from xpsample.experiments.srld.bandits import DEFAULT, PAPERS, network_policy, play_ahead
from xpsample.experiments.srld.reward_network import RewardNetwork

CODES = np.array([[0, 1], [1, 0], [2, 1]])
SMALL = Mushroom(CODES, np.array([1, 0, 0]))


RUN = "srld-bandits"


def test_table(out, rows):
    assert [row["policy"] for row in rows] == [*DEFAULT, *DEFAULT]
    curves = np.load(out / "curves.npz")
    for row in rows:
        curve = curves[f"{row['bandit']}/{row['policy']}"]
        assert curve.shape == (120, 2) and np.all(np.diff(curve, axis=0) >= 0)
        assert row["regret"] == pytest.approx(np.mean(curve[-1]))
        assert row["diverged"] == 0 and 0 < row["best"] <= 1


def test_bandits_policies_and_contexts_are_chosen(tmp_path):
    options = ["--bandit", "wheel", "--policy", "uniform", "--policy", "linear greedy", "--contexts", "60"]
    assert main(["run", "srld-bandits", "--quick", *options, "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [(row["bandit"], row["policy"]) for row in rows] == [("wheel", "uniform"), ("wheel", "linear greedy")]
    curves = np.load(tmp_path / "curves.npz")
    assert [len(curves[name]) for name in ("wheel/uniform", "wheel/linear greedy")] == [60, 60]
    best = min(rows, key=lambda row: row["regret"])
    assert f"lowest regret {best['regret']:.2f} ({best['policy']})\n" in (tmp_path / "report.txt").read_text()


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
    bandit = mushroom()
    assert bandit.features == 117
    game = play_ahead(bandit, 4, 2000, 0)
    np.testing.assert_array_equal(np.sum(game.contexts, axis=-1), 22)
    loss, poisonous = uniform_regret(game.means), 3916 / 8124
    assert abs(loss.mean() - (2.5 + 5 * poisonous)) < 5 * loss.std() / np.sqrt(loss.size)
    eaten = game.rewards[..., 0] - game.means[..., 0]
    assert abs(eaten.mean()) < 5 * eaten.std() / np.sqrt(eaten.size)


def test_the_wheel(library):
    """Points, best arms and rewards, with 20,000 rounds; means and shares within 5 standard errors."""
    bandit, n = Wheel(), 20_000
    rng = np.random.default_rng(1)
    noise = {"radius": rng.random((n, 1)), "angle": rng.random((n, 1)), "reward": rng.normal(size=(n, 1, 5))}
    game = Game(*(library.host(a)[:, 0] for a in bandit.play({k: library.array(v) for k, v in noise.items()})))
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
    loss = uniform_regret(game.means)
    expected = 0.9025 * 0.16 + 0.0975 * 39.16
    assert abs(loss.mean() - expected) < 5 * loss.std() / np.sqrt(n)


def test_regret_of_the_uniform_policy_is_its_closed_form():
    game = play_ahead(Wheel(), 50, 200, 2)
    arms = np.random.default_rng(3).integers(5, size=game.means.shape[:-1])
    gap = regret(game.means, arms) - uniform_regret(game.means)
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(gap.size)
    assert np.all(regret(game.means, np.argmax(game.means, axis=-1)) == 0)


# ---- policies --------------------------------------------------------------------------------------------------------


def test_blocks_of_rounds():
    assert blocks(130, 10, 50) == [(0, 10), (10, 60), (60, 110), (110, 130)]
    assert blocks(8, 10, 50) == [(0, 8)]


def linear_game(trials=3, rounds=300):
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(rounds, trials, 3)), rng.normal(size=(3, 4))
    return Game(x, x @ w, x @ w)


@pytest.mark.parametrize("greedy", [True, False])
def test_linear_policies_learn_what_is_linear(greedy):
    game = linear_game()
    lost = regret(game.means, Linear(greedy=greedy).play(game, 0))
    assert np.sum(lost[:58]) > 0 and np.sum(lost[240:]) < 0.05 * np.sum(uniform_regret(game.means)[240:])


def test_greedy_is_ridge_regression():
    game = linear_game(trials=1)
    arms = Linear(greedy=True).play(game, 0)[:, 0]
    x = np.concatenate([game.contexts[:, 0], np.ones((300, 1))], axis=1)
    np.testing.assert_array_equal(arms[:8], np.arange(8) % 4)
    guess = []
    for arm in range(4):
        rows = x[:58][arms[:58] == arm]
        guess.append(
            np.linalg.solve(rows.T @ rows + 0.25 * np.eye(4), rows.T @ game.rewards[:58, 0, arm][arms[:58] == arm])
        )
    np.testing.assert_array_equal(arms[58:108], np.argmax(x[58:108] @ np.stack(guess, axis=1), axis=1))


def tiny(eta):
    network = RewardNetwork(2, 5, hidden=6)
    return network, NetworkPolicy(network, ULA(eta), batch=8, every=2, kept=4, longer=3)


def test_arms_are_the_best_under_a_sample():
    """With a step of 1e-30 every sample is the start, drawn from the prior."""
    game, (network, policy) = play_ahead(Wheel(), 3, 100, 5), tiny(1e-30)
    device = next(p for p in [reference()] if p.dtype == "float64")
    arms = policy.play(game, device, 7).arms
    np.testing.assert_array_equal(arms[:10], np.broadcast_to(np.arange(10)[:, None] % 5, (10, 3)))
    x = np.random.default_rng(7).standard_normal((3, network.dim)) * np.sqrt(network.prior_variances())
    rewards = network.predict(x, np.moveaxis(game.contexts, 0, 1))
    np.testing.assert_array_equal(arms[10:], np.argmax(rewards, axis=-1).T[10:])


def test_only_rewards_of_pulled_arms_are_seen():
    game, (_, policy) = play_ahead(Wheel(), 3, 130, 5), tiny(1e-5)
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
    from xpsample.core.devices import DeviceDtype

    device = DeviceDtype(library32.backend, library32.name, library32.device, "float32")
    game, network, size = (
        play_ahead(Wheel(), 2, 70, 6),
        RewardNetwork(2, 5, hidden=5),
        PAPERS._replace(every=2, batch=8),
    )
    played = network_policy(name, network, size).play(game, device, 1)
    assert played.arms.shape == (70, 2) and not np.any(played.diverged)
    np.testing.assert_array_equal(played.arms[:10, 0], np.arange(10) % 5)
