"""The balance loss is 0 for exact acceptances and not for wrong ones; proposals against differences and kernels."""

import numpy as np
import pytest

from tests.score_mh.gaussians import GAUSSIAN, PROPOSALS, barker, log_ratio, metropolis_hastings, pairs, placed, score
from xpsample.score_mh import CrankNicolson, LangevinProposal, RandomWalk, ScoreBalance, balance_residual


def residual(library, log_acceptance, proposal, score=score, max_norm=None, seed=0):
    p = placed(library)
    x_new, x = (library.array(a) for a in pairs(seed=seed))
    return library.host(balance_residual(log_acceptance, x_new, x, (p,), score, (p,), proposal, max_norm))


@pytest.mark.parametrize("divisor", [1.0, 30.0])
@pytest.mark.parametrize("name", PROPOSALS)
def test_zero_for_the_exact_acceptance_and_for_a_fraction_of_it(name, divisor, library):
    """Propositions 1 and 3."""
    found = residual(library, metropolis_hastings(PROPOSALS[name], divisor), PROPOSALS[name])
    assert found.shape == (50, 4)
    np.testing.assert_allclose(found, 0.0, atol=1e-12)


@pytest.mark.parametrize(("name", "divisor"), [("RWM", 1.0), ("MALA", 3.0), ("PCN", 3.0)])
def test_the_loss_of_barkers_acceptance_is_zero(name, divisor, library):
    """Another solution; through the whole loss, with its own draws."""
    p, rng = placed(library), np.random.default_rng(1)
    x, xi = (library.array(rng.standard_normal((40, 2))) for _ in range(2))
    for kind, progress in (("global", 0.5), ("local", 1.0)):
        loss = ScoreBalance(PROPOSALS[name], score, GAUSSIAN, network=barker(PROPOSALS[name], divisor), pairs=kind)
        found = library.host(loss(p, x, {"proposal": xi}, p, library.array(progress)))
        np.testing.assert_allclose(found, 0.0, atol=1e-20)


class Swapped(LangevinProposal):
    """Its gradients in x and x' the wrong way round."""

    def gradients(self, x_new, x, score=None, *args):
        return super().gradients(x_new, x, score, *args)[::-1]


class WithoutJacobian(LangevinProposal):
    """Its score taken for a constant."""

    def gradients(self, x_new, x, score=None, *args):
        pull = (x_new - x - self.step_size * score(x, *args)) / (2.0 * self.step_size)
        return -pull, pull


class Reversed(LangevinProposal):
    """log q(x | x') in the place of log q(x' | x)."""

    def gradients(self, x_new, x, score=None, *args):
        return super().gradients(x, x_new, score, *args)[::-1]


WALK, LANGEVIN = metropolis_hastings(RandomWalk(0.8)), metropolis_hastings(LangevinProposal(0.3))
WRONG = {
    "gradients swapped": (LANGEVIN, Swapped(0.3), score),
    "without the Jacobian": (LANGEVIN, WithoutJacobian(0.3), score),
    "reversed": (LANGEVIN, Reversed(0.3), score),
    "the score's sign": (WALK, RandomWalk(0.8), lambda x, p: -score(x, p)),
    "another score": (WALK, RandomWalk(0.8), lambda x, p: 1.1 * score(x, p)),
    "another step": (LANGEVIN, LangevinProposal(0.2), score),
    "another proposal": (WALK, CrankNicolson(0.6), score),
    "the inverse ratio": (lambda x_new, x, p: -LANGEVIN(x_new, x, p), LangevinProposal(0.3), score),
    "the ratio's halves": (lambda x_new, x, p: LANGEVIN(x, x_new, p), LangevinProposal(0.3), score),
}


@pytest.mark.parametrize(("acceptance", "trained_for", "its_score"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_caught(acceptance, trained_for, its_score):
    """An acceptance or its score, and the gradients of a proposal, by a loss that is not 0."""
    x_new, x = pairs()
    found = balance_residual(acceptance, x_new, x, (GAUSSIAN,), its_score, (GAUSSIAN,), trained_for)
    assert np.sqrt(np.mean(np.sum(found**2, axis=-1))) > 0.1


@pytest.mark.parametrize("name", PROPOSALS)
def test_gradients_of_a_proposal_are_those_of_its_log_density(name):
    """By central differences, for a score that is no gradient: its Jacobian is not symmetric."""
    turn, proposal, h = np.array([[-1.0, 0.7], [-0.2, -0.5]]), PROPOSALS[name], 1e-6

    def field(x):
        return np.tanh(x @ turn.T)

    def of_tree(x, p):
        from array_api_compat import array_namespace

        return array_namespace(x).tanh(x @ p)

    x_new, x = pairs()

    def density(x_new, x):
        return proposal.log_density(x_new, x, field(x))

    in_new, in_old = proposal.gradients(x_new, x, of_tree, turn.T)
    for k, unit in enumerate(np.eye(2)):
        slope = (density(x_new + h * unit, x) - density(x_new - h * unit, x)) / (2 * h)
        np.testing.assert_allclose(in_new[:, k], slope, rtol=1e-6, atol=1e-6)
        slope = (density(x_new, x + h * unit) - density(x_new, x - h * unit)) / (2 * h)
        np.testing.assert_allclose(in_old[:, k], slope, rtol=1e-6, atol=1e-6)


def test_gradients_are_clipped_by_their_norms():
    """In one dimension by hand; terms below the norm stay as they are, so that a large one changes nothing."""
    one, proposal = {"mean": np.array([0.0]), "precision": np.array([[1.0]])}, RandomWalk(1.0)
    x_new, x = np.array([[3.0]]), np.array([[0.5]])
    exact = metropolis_hastings(proposal)
    # log a(x', x) = (x^2 - x'^2) / 2 of gradient (-3, 0.5); log a(x, x') = 0; scores -3 and -0.5; the proposals cancel.
    clipped = balance_residual(exact, x_new, x, (one,), score, (one,), proposal, 2.0)
    norm = np.sqrt(9.25)
    np.testing.assert_allclose(clipped, [[-3 * 2 / norm + 2, 0.5 * 2 / norm - 0.5]], rtol=1e-12)
    whole = balance_residual(exact, x_new, x, (one,), score, (one,), proposal, 4.0)
    np.testing.assert_allclose(whole, 0.0, atol=1e-14)


def test_pairs_and_regularisation():
    """Where x' comes from, and what lambda adds."""
    proposal, rng = LangevinProposal(0.3), np.random.default_rng(2)
    x, xi = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    seen = []

    def network(x_new, x, p):
        seen.append(x_new)
        return 0.0 * log_ratio(x_new, x, p, proposal) + 0.4

    def value(progress, **settings):
        seen.clear()
        loss = ScoreBalance(proposal, score, GAUSSIAN, network=network, regularization=2.0, **settings)
        return loss(GAUSSIAN, x, {"proposal": xi}, GAUSSIAN, np.asarray(progress)), seen[-1]

    y = np.roll(x, 1, axis=0)
    drawn = y + 0.3 * score(y, GAUSSIAN) + np.sqrt(0.6) * xi
    np.testing.assert_allclose(value(0.0)[1], y)
    np.testing.assert_allclose(value(0.5, alpha=(0.2, 0.8))[1], 0.5 * drawn + 0.5 * y)
    local = x + 0.3 * score(x, GAUSSIAN) + np.sqrt(0.6) * xi
    np.testing.assert_allclose(value(1.0, pairs="local")[1], local)

    a = 1 / (1 + np.exp(-0.4))
    entropy = a * np.log(a) + (1 - a) * np.log(1 - a)
    without = ScoreBalance(proposal, score, GAUSSIAN, network=network)
    plain = without(GAUSSIAN, x, {"proposal": xi}, GAUSSIAN, np.asarray(1.0))
    np.testing.assert_allclose(value(1.0)[0] - plain, 2.0 * entropy, rtol=1e-9)
