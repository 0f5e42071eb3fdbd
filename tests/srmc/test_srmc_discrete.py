"""SRMC on discrete spaces: transition matrices of Eqs. 26 to 28, the two scores' means, alpha = 0."""

import math

import numpy as np
import pytest

from tests.kernels.discrete import discrete_support as exact
from xpsample import ACS, DMALA, DULA, GWG, SRMC, Gibbs, LocallyBalanced, Record, SingleFlip, sample
from xpsample.core.errors import CapabilityError
from xpsample.kernels import Barker, Cosine, SquareRoot
from xpsample.srmc import Frozen, PowerLaw
from xpsample.targets import Capability, Exact, Ratio, Target, Untilted

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

ALPHA = 0.6
BASES = {
    "gwg": GWG(),
    "dmala": DMALA(0.8),
    "dula": DULA(0.8),
    "balanced": LocallyBalanced(),
    "single-flip": SingleFlip(),
    "gibbs": Gibbs(),
    "acs": ACS(Cosine(0.8, 5)),
}


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


# ---- alpha = 0 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "tilt"),
    [(base, tilt) for base in BASES for tilt in (Exact(), Untilted(), Ratio()) if base != "dula" or tilt == Exact()],
)
def test_alpha_zero_is_the_base(base, tilt):
    """Bit for bit, with integer positions too."""
    problem = exact.PROBLEMS["levels"]
    x0 = problem.states.astype(np.int64)
    plain = sample(problem.target, BASES[base], x0, 30, seed=4)
    wrapped = sample(problem.target, SRMC(BASES[base], 0.0, tilt=tilt), x0, 30, seed=4)
    np.testing.assert_array_equal(wrapped.draws, plain.draws)
    assert wrapped.draws.dtype == np.int64 and np.any(plain.draws[-1] != x0)
