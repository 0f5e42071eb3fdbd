"""SRMC on discrete spaces: transition matrices of Eqs. 26 to 28, the two scores' means, alpha = 0."""

import math

import numpy as np
import pytest

from tests.kernels.discrete.discrete_support import (
    ERROR,
    PROBLEMS,
    G,
    acceptance,
    assert_transitions,
    balance_error,
    balanced,
    invariance_error,
    langevin,
    metropolis_hastings,
    misfit,
    per_state,
    stationary,
    step_from_every_state,
    with_gradients,
)
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
ONE_COORDINATE = ["bits", "levels", "ragged"]


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
    exact, ratio = tilted(problem, problem.score), None
    if name.endswith("ratio"):
        ratio = tilted(problem, discrete_score(problem))
    return {
        "gwg": lambda: (GWG(), Exact(), exact, with_gradients(problem, 0.5, tilted_score(problem))),  # Eq. 28
        "gwg-untilted": lambda: (GWG(), Untilted(), exact, with_gradients(problem)),
        "gwg-ratio": lambda: (GWG(), Ratio(), ratio, with_gradients(problem)),
        "dmala": lambda: (DMALA(0.8), Exact(), exact, langevin(problem, 0.8, 0.5, tilted_score(problem))),  # Eq. 30
        "dmala-untilted": lambda: (DMALA(0.8), Untilted(), exact, langevin(problem, 0.8)),
        "barker": lambda: (LocallyBalanced(), Exact(), exact, balanced(problem, G["Barker"], exact)),  # Eq. 26
        "square-root": lambda: (
            LocallyBalanced(SquareRoot()),
            Exact(),
            exact,
            balanced(problem, G["SquareRoot"], exact),
        ),
        "barker-untilted": lambda: (LocallyBalanced(Barker()), Untilted(), exact, balanced(problem, G["Barker"])),
        "barker-ratio": lambda: (LocallyBalanced(Barker()), Ratio(), ratio, balanced(problem, G["Barker"])),
    }[name]()


NAMES = ["gwg", "gwg-untilted", "gwg-ratio", "dmala", "dmala-untilted"]
NAMES += ["barker", "square-root", "barker-untilted", "barker-ratio"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("problem", ["levels", "ragged"])
def test_a_step_under_a_frozen_history_is_its_matrix(problem, name):
    problem = PROBLEMS[problem]
    base, tilt, log_pi, proposal = matrices(problem, name)
    matrix = metropolis_hastings(proposal, log_pi)
    assert invariance_error(matrix, log_pi) < 1e-12 and balance_error(matrix, log_pi) < 1e-12
    assert invariance_error(matrix, problem.log_pi) > 1e-3  # of pi itself, it is not
    kernel = frozen(problem, base, tilt)
    assert_transitions(problem, kernel, matrix, chains=500)
    found, info = step_from_every_state(problem, kernel, 50, 1e-300, seed=2)
    expected = acceptance(proposal, log_pi)[np.arange(len(problem.states))[:, None], found]
    np.testing.assert_allclose(info.acceptance_probability, expected, rtol=1e-8)


@pytest.mark.slow
def test_tilted_and_untilted_proposals_are_told_apart():
    problem = PROBLEMS["levels"]
    _, _, log_pi, proposal = matrices(problem, "barker-untilted")
    found, _ = step_from_every_state(problem, frozen(problem, LocallyBalanced(), Exact()), per_state(problem), seed=1)
    assert misfit(found, metropolis_hastings(proposal, log_pi)) < 2 * math.log(ERROR)


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_COORDINATE)
def test_the_discrete_score_has_mean_zero_and_the_gradient_has_not(library, name):
    problem = PROBLEMS[name]
    pi, x = stationary(problem.log_pi), library.array(problem.states)
    requires = Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES
    bound = problem.target.prepare(x, requires)
    feature = library.host(Ratio().feature(bound, bound.evaluate(x)))
    np.testing.assert_allclose(feature, discrete_score(problem), rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(pi @ feature)) < 1e-12
    assert np.max(np.abs(pi @ problem.score)) > 0.1


def test_the_example_of_the_documentation():
    """One bit with log odds 1: the relaxed gradient is 1 everywhere, the discrete score e - 1 and 1 / e - 1."""
    target = Target(lambda x: np.sum(x, -1), score=lambda x: 1 + 0 * x, space=PROBLEMS["bits"].space)
    x = np.asarray([[0.0], [1.0]])
    bound = target.prepare(x, Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES)
    feature = Ratio().feature(bound, bound.evaluate(x))[:, 0]
    np.testing.assert_allclose(feature, [math.e - 1, 1 / math.e - 1])
    assert abs(np.asarray([1.0, math.e]) @ feature) < 1e-12


@pytest.mark.parametrize(("tilt", "feature"), [(Untilted(), lambda p: p.score), (Ratio(), discrete_score)])
@pytest.mark.parametrize("base", ["gwg", "balanced", "gibbs", "acs"])
def test_the_history_averages_what_the_tilt_is_made_of(base, tilt, feature):
    problem = PROBLEMS["levels"]
    trace = sample(
        problem.target,
        SRMC(BASES[base], ALPHA, PowerLaw(1.0), tilt),
        problem.states[:20],
        30,
        seed=1,
        recorders=(*sample.__kwdefaults__["recorders"], Record("theta", lambda state: state.theta)),
        progress=False,
    )
    seen = feature(problem)[problem.index(trace.draws.reshape(-1, 4))].reshape(trace.draws.shape)
    theta = np.zeros_like(seen[0])
    for n, s in enumerate(seen):
        theta = theta + (s - theta) / (n + 2)
        np.testing.assert_allclose(trace.recorded["theta"][n], theta, atol=1e-10)


def test_ratio_needs_one_coordinate_for_each_variable():
    problem = PROBLEMS["one-hot"]
    with pytest.raises(CapabilityError, match=r"each coordinate of OneHot.*Untilted"):
        sample(problem.target, SRMC(GWG(), 0.5, tilt=Ratio()), problem.states, 1, seed=1)


# ---- alpha = 0 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "tilt"),
    [(base, tilt) for base in BASES for tilt in (Exact(), Untilted(), Ratio()) if base != "dula" or tilt == Exact()],
)
def test_alpha_zero_is_the_base(base, tilt):
    """Bit for bit, with integer positions too."""
    problem = PROBLEMS["levels"]
    x0 = problem.states.astype(np.int64)
    plain = sample(problem.target, BASES[base], x0, 30, seed=4, progress=False)
    wrapped = sample(problem.target, SRMC(BASES[base], 0.0, tilt=tilt), x0, 30, seed=4, progress=False)
    np.testing.assert_array_equal(wrapped.draws, plain.draws)
    assert wrapped.draws.dtype == np.int64 and np.any(plain.draws[-1] != x0)
