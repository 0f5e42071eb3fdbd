"""sosmc-langevin in its quick size, and its problems against independent formulas."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from scipy.special import logsumexp
from scipy.stats import norm

from xpsample.experiments.sosmc.langevin import NLL, methods
from xpsample.experiments.sosmc.problems import (
    DUAL,
    FLOOR,
    PROBLEMS,
    MultiReward,
    Problem,
    Reward,
    family,
    reference,
    softmax,
    start_positions,
)
from xpsample.kernels import MALA

METHODS = list(methods(2))
BEST = (0.6485, 0.0185, 0.0367, 0.3996)


RUN = "sosmc-langevin"


def test_table(rows):
    rows = {(r["problem"], r["floor"], r["method"]): r for r in rows}
    assert len(rows) == 3 * len(METHODS)
    smooth, tight = PROBLEMS[0].name, PROBLEMS[3].name
    for method in METHODS[3:]:
        assert rows[smooth, FLOOR, method]["mixture"] > 0.55
        assert rows[tight, FLOOR, method]["mixture"] > 0.3
        assert rows[tight, 0.0, method]["diverged"] == 0
    assert rows[smooth, FLOOR, "ImpDiff"]["particles"] < rows[smooth, FLOOR, "SOSMC-ULA"]["particles"] - 0.1
    assert rows[tight, 0.0, "SOSMC-ULA"]["diverged"] > 0.1
    assert rows[tight, FLOOR, "SOSMC-ULA"]["ess"] < 0.5


def test_the_courses_are_of_rewards_and_of_the_mean_energy(out):
    """At the end one component has nearly all weight, and U is near its own mean of 1, but for particles that lag."""
    courses = np.load(out / "curves.npz")
    assert len(courses.files) == 2 * 3 * len(METHODS)
    label = f"1 Adam {PROBLEMS[0].name} {FLOOR:g}"
    energies = {method: courses[f"{label} {method}{NLL}"] for method in METHODS}
    assert all(energies[method].shape == courses[f"{label} {method}"].shape for method in METHODS)
    for method in METHODS[2:]:
        assert np.all(np.abs(energies[method][-1] - 1.0) < 0.4)
    assert np.all(energies["ImpDiff"][-1] > 3.0)


def test_the_best_reachable_rewards():
    found = [np.max(p.component_rewards) for p in PROBLEMS]
    np.testing.assert_allclose(found, BEST, atol=1e-4)
    hard = Reward((4.0, 0.0), 2.5, False)
    np.testing.assert_allclose(hard(np.asarray([[4.0, 0.0], [-0.1, 0.0], [0.0, 0.0]])), [0.4, 0.0, np.exp(-0.8) / 2.5])
    smooth = Reward((4.0, 3.8), 0.7, True)
    assert smooth(np.asarray([4.0, 3.8])) == pytest.approx(1 / (1 + np.exp(-8.0)) / 0.7)


def test_the_reward_of_several_places_is_eq_31(library):
    reward = MultiReward(((3.0, 0.0), (-3.0, 1.0), (0.0, 5.0)), 4.0)
    x = 3 * np.random.default_rng(0).normal(size=(5, 7, 2))
    each = [np.exp(-np.sum((x - centre) ** 2, axis=-1) / 4.0) for centre in reward.centres]
    np.testing.assert_allclose(library.host(reward(library.array(x))), np.max(each, axis=0), rtol=1e-12)
    two = Problem("two", DUAL, 0.01, np.zeros(2), MultiReward(((3.0, 0.0), (-3.0, 1.0)), 1.0), 0.0)
    # A narrow component has nearly the reward of its mean: 1 and exp(-1), less the variance.
    np.testing.assert_allclose(two.component_rewards, [1 / 1.02, np.exp(-1 / 1.02) / 1.02], rtol=1e-6)


@pytest.mark.parametrize("floor", [0.0, FLOOR])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_family_is_eq_26(library, problem, floor):
    rng = np.random.default_rng(0)
    # Near the means and far off, where only the floor acts.
    x = problem.means[rng.integers(len(problem.means), size=(2, 5))] + rng.normal(size=(2, 5, 2))
    target = family(problem, floor, 2)
    bound = target.prepare(library.array(x), MALA(0.1).requires)
    theta = rng.normal(size=(2, 1, len(problem.means)))
    point = bound.member(library.array(theta)).evaluate(library.array(x))

    def exact(x):
        squared = np.sum((x[..., None, :] - problem.means) ** 2, axis=-1)
        logs = np.log(softmax(theta)) - 0.5 * squared / problem.variance
        return np.logaddexp(logsumexp(logs, axis=-1), np.log(floor) if floor else -np.inf)

    np.testing.assert_allclose(library.host(point.log_density), exact(x), rtol=1e-9)
    slopes = [(exact(x + h) - exact(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(library.host(point.score), np.stack(slopes, axis=-1), rtol=1e-5, atol=1e-6)


def test_draws_of_the_reference():
    problem, n = PROBLEMS[2], 20_000
    rng = np.random.default_rng(1)
    batch = reference(problem, n)
    drawn = batch.draw(numpy_xp, None, {"normal": rng.normal(size=(1, n, 2)), "which": rng.random((1, n))})[0]
    for points in (drawn, start_positions(problem, 1, n, 0)[0]):
        nearest = np.argmin(np.sum((points[:, None] - problem.means) ** 2, axis=-1), axis=1)
        shares = softmax(problem.start)
        # Some draws are nearer to another mean: at most P(|z| > 2), per neighbor, of what the larger ones have.
        leak = 2 * norm.sf(2.0) * shares.max()
        assert np.all(np.abs(np.bincount(nearest, minlength=6) / n - shares) < leak + 5 * 0.5 / np.sqrt(n))
        np.testing.assert_allclose(np.mean(points, axis=0), shares @ problem.means, atol=5 * 3 / np.sqrt(n))
