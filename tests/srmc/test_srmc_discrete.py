"""SRMC on discrete spaces: transition matrices of Eqs. 26 to 28, the two scores' means, and its CLT."""

import math
from itertools import product

import numpy as np
import pytest

from tests.kernels.discrete import discrete_support as exact
from xpsample import Draws, Record, sample
from xpsample.core.errors import CapabilityError
from xpsample.kernels import ACS, DMALA, GWG, Barker, Cosine, Gibbs, LocallyBalanced, SingleFlip, SquareRoot
from xpsample.spaces import Binary, Categorical
from xpsample.srmc import SRMC, Estimator, Frozen, PowerLaw, theory
from xpsample.targets import Capability, Exact, Ratio, Target, Untilted

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

ALPHA = 0.6
BASES = {"gwg": GWG(), "balanced": LocallyBalanced(), "gibbs": Gibbs(), "acs": ACS(Cosine(0.8, 5))}


def history(problem):
    return np.random.default_rng(3).normal(size=problem.dim)


def discrete_score(problem):
    """Eq. 17, by looking up the state with one variable mirrored."""
    result, states = np.empty_like(problem.states), problem.states
    for i in range(problem.dim):
        values = np.unique(states[:, i])
        mirrored = states.copy()
        mirrored[:, i] = values[len(values) - 1 - np.searchsorted(values, states[:, i])]
        result[:, i] = np.exp(problem.log_pi[problem.index(mirrored)] - problem.log_pi) - 1
    return result


def tilted(problem, feature):
    """log pi_theta at every state (Eq. 2)."""
    return problem.log_pi - ALPHA * feature @ history(problem)


def tilted_score(problem):
    """Eq. 5."""
    return problem.score - ALPHA * problem.hvp(np.broadcast_to(history(problem), problem.states.shape))


def frozen(problem, base, tilt):
    return SRMC(base, ALPHA, Frozen(), tilt, history(problem))


# ---- matrices --------------------------------------------------------------------------------------------------------


def matrices(problem, name):
    """Kernel, log pi_theta and proposal of each combination, from the paper's equations."""
    law, score = tilted(problem, problem.score), tilted_score(problem)
    ratio = tilted(problem, discrete_score(problem)) if name.endswith("ratio") else None
    barker, root = exact.G["Barker"], exact.G["SquareRoot"]
    return {
        "gwg": lambda: (GWG(), Exact(), law, exact.with_gradients(problem, 0.5, score)),  # Eq. 28
        "gwg-untilted": lambda: (GWG(), Untilted(), law, exact.with_gradients(problem)),
        "gwg-ratio": lambda: (GWG(), Ratio(), ratio, exact.with_gradients(problem)),
        "dmala": lambda: (DMALA(0.8), Exact(), law, exact.langevin(problem, 0.8, 0.5, score)),  # Eq. 30
        "dmala-untilted": lambda: (DMALA(0.8), Untilted(), law, exact.langevin(problem, 0.8)),
        "barker": lambda: (LocallyBalanced(), Exact(), law, exact.balanced(problem, barker, law)),  # Eq. 26
        "square-root": lambda: (LocallyBalanced(SquareRoot()), Exact(), law, exact.balanced(problem, root, law)),
        "barker-untilted": lambda: (LocallyBalanced(Barker()), Untilted(), law, exact.balanced(problem, barker)),
        "barker-ratio": lambda: (LocallyBalanced(Barker()), Ratio(), ratio, exact.balanced(problem, barker)),
    }[name]()


NAMES = ["gwg", "gwg-untilted", "gwg-ratio", "dmala", "dmala-untilted"]
NAMES += ["barker", "square-root", "barker-untilted", "barker-ratio"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("problem", ["levels", "ragged"])
def test_a_step_under_a_frozen_history_is_its_matrix(problem, name):
    problem = exact.PROBLEMS[problem]
    base, tilt, log_pi, proposal = matrices(problem, name)
    matrix = exact.metropolis_hastings(proposal, log_pi)
    assert exact.invariance_error(matrix, log_pi) < 1e-12 and exact.balance_error(matrix, log_pi) < 1e-12
    assert exact.invariance_error(matrix, problem.log_pi) > 1e-3  # of pi itself, it is not
    kernel = frozen(problem, base, tilt)
    exact.assert_transitions(problem, kernel, matrix, chains=500)
    found, info = exact.step_from_every_state(problem, kernel, 50, 1e-300, seed=2)
    expected = exact.acceptance(proposal, log_pi)[np.arange(len(problem.states))[:, None], found]
    np.testing.assert_allclose(info.acceptance_probability, expected, rtol=1e-8)


@pytest.mark.slow
def test_tilted_and_untilted_proposals_are_told_apart():
    problem = exact.PROBLEMS["levels"]
    _, _, log_pi, proposal = matrices(problem, "barker-untilted")
    found, _ = exact.step_from_every_state(
        problem, frozen(problem, LocallyBalanced(), Exact()), exact.per_state(problem), seed=1
    )
    assert exact.misfit(found, exact.metropolis_hastings(proposal, log_pi)) < 2 * math.log(exact.ERROR)


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bits", "levels", "ragged"])
def test_the_discrete_score_has_mean_zero_and_the_gradient_has_not(library, name):
    problem = exact.PROBLEMS[name]
    pi, x = exact.stationary(problem.log_pi), library.array(problem.states)
    requires = Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES
    bound = problem.target.prepare(x, requires)
    feature = library.host(Ratio().feature(bound, bound.evaluate(x)))
    np.testing.assert_allclose(feature, discrete_score(problem), rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(pi @ feature)) < 1e-12
    assert np.max(np.abs(pi @ problem.score)) > 0.1


def test_the_example_of_the_documentation():
    """One bit with log odds 1: the relaxed gradient is 1 everywhere, the discrete score e - 1 and 1 / e - 1."""
    target = Target(lambda x: np.sum(x, -1), score=lambda x: 1 + 0 * x, space=exact.PROBLEMS["bits"].space)
    x = np.asarray([[0.0], [1.0]])
    bound = target.prepare(x, Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES)
    feature = Ratio().feature(bound, bound.evaluate(x))[:, 0]
    np.testing.assert_allclose(feature, [math.e - 1, 1 / math.e - 1])
    assert abs(np.asarray([1.0, math.e]) @ feature) < 1e-12


@pytest.mark.parametrize(("tilt", "feature"), [(Untilted(), lambda p: p.score), (Ratio(), discrete_score)])
@pytest.mark.parametrize("base", ["gwg", "balanced", "gibbs", "acs"])
def test_the_history_averages_what_the_tilt_is_made_of(base, tilt, feature):
    problem = exact.PROBLEMS["levels"]
    trace = sample(
        problem.target,
        SRMC(BASES[base], ALPHA, PowerLaw(1.0), tilt),
        problem.states[:20],
        30,
        seed=1,
        recorders=(*sample.__kwdefaults__["recorders"], Record("theta", lambda state: state.theta)),
    )
    seen = feature(problem)[problem.index(trace.draws.reshape(-1, 4))].reshape(trace.draws.shape)
    theta = np.zeros_like(seen[0])
    for n, s in enumerate(seen):
        theta = theta + (s - theta) / (n + 2)
        np.testing.assert_allclose(trace.recorded["theta"][n], theta, atol=1e-10)


def test_ratio_needs_one_coordinate_for_each_variable():
    problem = exact.PROBLEMS["one-hot"]
    with pytest.raises(CapabilityError, match=r"each coordinate of OneHot.*Untilted"):
        sample(problem.target, SRMC(GWG(), 0.5, tilt=Ratio()), problem.states, 1, seed=1)


FIELD = np.asarray([0.4, -0.3, 0.2])
STATES = np.asarray(list(product([0.0, 1.0], repeat=3)))
ALPHAS = np.asarray([0.0, 0.5, 2.0])


def log_density(x):
    return x @ FIELD + 0.8 * x[..., 0] * x[..., 1]


def function(x):
    """Two that the discrete score does not span, and a product."""
    return np.stack([x[..., 0], x[..., 2], x[..., 0] * x[..., 1]], axis=-1)


LOG = log_density(STATES)
PI = np.exp(LOG) / np.exp(LOG).sum()
FLIPS = np.stack([np.arange(8) ^ bit for bit in (4, 2, 1)], axis=1)
SCORES = PI[FLIPS] / PI[:, None] - 1  # Eq. 17
"""Of every state, with the first bit as the leading one of its number."""


def covariance(values):
    centred = values - PI @ values
    return centred.T @ (PI[:, None] * centred)


def linearization():
    """S, C and the long-run covariance of (s, f) along the base chain, by its fundamental matrix."""
    matrix = np.zeros((8, 8))
    np.put_along_axis(matrix, FLIPS, np.minimum(1, PI[FLIPS] / PI[:, None]) / 3, axis=1)
    matrix += np.diag(1 - matrix.sum(axis=1))
    both = np.concatenate([SCORES, function(STATES)], axis=1)
    centred = both - PI @ both
    fundamental = np.linalg.inv(np.eye(8) - matrix + PI)
    lagged = centred.T @ (PI[:, None] * (fundamental @ centred))
    whole = covariance(both)
    return theory.Linearization(whole[:3, :3], whole[3:, :3], lagged + lagged.T - whole)


def test_the_discrete_score_has_mean_zero():
    np.testing.assert_allclose(PI @ SCORES, 0.0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1.0, 0.7])
def test_predicted_equals_measured_on_three_bits(rho):
    """Covariances of (theta, mu) after 1,500 steps of 1,500 chains of each alpha: 63 entries within 5 standard errors.

    A right run fails with probability below 4e-5. At alpha = 2 the variance of the first bit's mean
    is a third of the base kernel's.
    """
    chains, steps, schedule = 1500, 1500, PowerLaw(rho, offset=10.0)
    start = STATES[np.random.default_rng(1).choice(8, size=(3, chains), p=PI)]
    kernel = SRMC(SingleFlip(), ALPHAS[:, None], schedule, tilt=Ratio())
    target = Target(log_density, space=Binary())
    trace = sample(target, kernel, start, steps, seed=2, recorders=(Estimator(function),))
    iterates = np.concatenate([trace.state.theta, trace.recorded["estimate"].weighted], axis=-1)
    gamma = (steps + 10.0) ** -rho
    measured = theory.measured_covariance(iterates, gamma)
    predicted = theory.iterate_covariance(linearization(), ALPHAS, schedule, steps)
    i, j = np.triu_indices(6)
    apart = ((measured.covariance - predicted) / measured.error)[:, i, j]
    assert np.abs(apart).max() < 5


def test_a_run_without_repellence_gives_the_linearization():
    """As the page on the theory says: 400 chains of 400 draws."""
    start = STATES[np.random.default_rng(1).choice(8, size=400, p=PI)]
    kernel = SRMC(SingleFlip(), 0.0, tilt=Ratio())
    recorders = (Draws(), Record("scores", lambda state: state.score))
    target = Target(log_density, space=Binary())
    pilot = sample(target, kernel, start, 400, seed=3, recorders=recorders)
    found, exact = theory.estimate(function(pilot.draws), pilot.recorded["scores"]), linearization()
    for one, other, tolerance in zip(found[:3], exact[:3], (0.03, 0.03, 0.35), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


@pytest.mark.slow
def test_another_discrete_score_is_given_as_the_targets_own():
    """Eq. 17 is one option among many. Here three levels go round, s_i = pi(x_i + 1 mod 3) / pi(x) - 1, of mean 0 too.

    1,000 chains of 400 steps from the target: theta and the means of four functions are within 5 standard errors.
    """
    states = np.asarray(list(product([0.0, 1.0, 2.0], repeat=2)))

    def log_density(x):
        return 0.5 * x[..., 0] - 0.3 * x[..., 1] ** 2 + 0.4 * x[..., 0] * x[..., 1]

    def score(x):
        after = [np.stack([(x[..., j] + (i == j)) % 3 for j in range(2)], axis=-1) for i in range(2)]
        return np.stack([np.exp(log_density(y) - log_density(x)) - 1 for y in after], axis=-1)

    pi = np.exp(log_density(states)) / np.exp(log_density(states)).sum()
    np.testing.assert_allclose(pi @ score(states), 0.0, atol=1e-14)
    np.testing.assert_allclose(score(np.asarray([[2.0, 0.0]]))[0, 0], np.exp(-1.0) - 1)
    start = states[np.random.default_rng(1).choice(9, size=1000, p=pi)]
    target = Target(log_density, score=score, space=Categorical((0, 1, 2)))
    kernel = SRMC(SingleFlip(), 0.3, PowerLaw(0.8, offset=10.0), tilt=Untilted())
    trace = sample(target, kernel, start, 400, seed=5)
    moments = np.concatenate([trace.draws, trace.draws**2], axis=-1).mean(axis=0)
    found = np.concatenate([trace.state.theta, moments - pi @ np.concatenate([states, states**2], axis=-1)], axis=-1)
    assert np.all(np.abs(found.mean(axis=0)) < 5 * found.std(axis=0) / np.sqrt(1000))
