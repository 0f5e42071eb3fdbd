"""Section 4 and Appendix B of the SOSMC paper: exact expectations by quadrature, divergences in closed form."""

import math
from itertools import product

import numpy as np
import pytest
from array_api_compat import array_namespace

from tests.kernels.support import NumPy
from tests.sosmc.sosmc_support import Along, noise_of, nothing, scaled, shifted, walk
from xpsample import MALA, RWM
from xpsample.optimize.optimizers import SGD
from xpsample.particles.weights import Weights
from xpsample.sosmc import SOSMC, LangevinMove, Reversible
from xpsample.targets import Parametric

NODES, STEPS = 14, 3
GRID, SHARES = np.polynomial.hermite_e.hermegauss(NODES)
SHARES = SHARES / SHARES.sum()


def idealised(kernel, target):
    """The states of SOSMC with all expectations exact: its particles are the nodes of N(0, 1) for x and all noise.

    So the kernel's own code runs, and its weighted sums are integrals over the path (x_0, xi_1, ..., xi_STEPS).
    """
    nodes = np.array(list(product(GRID, repeat=STEPS + 1)))
    shares = np.prod(np.array(list(product(SHARES, repeat=STEPS + 1))), axis=-1)
    bound = target.prepare(nodes[:, :1], kernel.requires)
    state = kernel.init(bound, nodes[:, :1])
    states = [state._replace(weights=Weights(np.log(shares), state.weights.ess, state.weights.log_normalizer))]
    for k in range(1, STEPS + 1):
        states.append(kernel.step(bound, states[-1], {"proposal": nodes[:, k : k + 1]})[0])
    return states


def mean(state, values):
    return np.sum(np.exp(state.weights.logs) * values)


def test_exact_expectations_give_the_gradient():
    """Lemma 1 for a path of theta whose normaliser moves: means under N(0, exp(-theta)), and Eq. 9 for log Z."""
    states = idealised(SOSMC(nothing, LangevinMove(0.2), Along(-0.1), 0.0), scaled())
    for k, state in enumerate(states):
        theta, x = -0.1 * k, state.point.x[:, 0]
        assert mean(state, x**2) == pytest.approx(math.exp(-theta), abs=1e-5)
        assert mean(state, x**4) == pytest.approx(3 * math.exp(-2 * theta), abs=2e-4)
        assert float(state.weights.log_normalizer) == pytest.approx(-theta / 2, abs=1e-6)


def test_without_weights_the_gradient_is_another():
    states = idealised(SOSMC(nothing, LangevinMove(0.2), Along(-0.1), 0.0), scaled())
    shares = np.exp(states[0].weights.logs)
    assert np.sum(shares * states[-1].point.x[:, 0] ** 2) < 0.95 * math.exp(0.3)


def loss(theta):
    """mu = 1, L = 2, least at 1."""
    return 0.5 * (theta - 1) ** 2 + np.log(np.cosh(theta - 1))


@pytest.mark.parametrize("gamma", [0.1, 0.5])
def test_the_idealised_scheme_converges_at_its_rate(gamma):
    """Prop. 1, for gamma up to 1 / L; the iterates are those of gradient descent."""
    kernel = SOSMC(
        lambda x, theta: x - 1 + array_namespace(x).tanh(theta - 1), LangevinMove(0.2), SGD(gamma), threshold=0.0
    )
    theta, found = 0.0, [float(state.parameters[0]) for state in idealised(kernel, shifted((), 1))]
    for k, value in enumerate(found):
        assert value == pytest.approx(theta, abs=1e-5)
        assert loss(value) <= (1 - gamma) ** k * loss(0.0) + 1e-9
        theta -= gamma * (theta - 1 + math.tanh(theta - 1))
    assert loss(found[-1]) < 0.75 * loss(0.0)


COVARIANCE = np.array([[1.0, 0.4], [0.4, 0.5]])
GRADIENT = np.array([0.6, -0.3])


def correlated():
    """N(theta, COVARIANCE)."""
    precision = np.linalg.inv(COVARIANCE)
    return Parametric(
        lambda x, theta: -0.5 * np.sum((x - theta) @ precision * (x - theta), axis=-1),
        np.zeros(2),
        score=lambda x, theta: (theta - x) @ precision,
    )


class Descent:
    """theta - gamma GRADIENT, whatever the particles say."""

    def __init__(self, gamma):
        self.gamma = gamma

    def init(self, parameters):
        return None

    def update(self, gradients, state, parameters):
        return 0 * parameters - self.gamma * GRADIENT, state


@pytest.mark.parametrize("move", [RWM(0.5), MALA(0.1)], ids=["RWM", "MALA"])
@pytest.mark.parametrize("gamma", [0.2, 0.5])
def test_the_law_of_the_effective_sample_size(move, gamma):
    """Eqs. 18 and 19: from exact draws, an invariant move, and a step of gamma; 60,000 particles, to 1 %."""
    x0 = np.random.default_rng(3).multivariate_normal(np.zeros(2), COVARIANCE, 60_000)
    kernel = SOSMC(nothing, Reversible(move), Descent(gamma), threshold=0.0)
    states, _ = walk(NumPy, kernel, correlated(), x0, noise_of(kernel, x0, 1))
    rho = math.exp(-(gamma**2) * GRADIENT @ np.linalg.solve(COVARIANCE, GRADIENT))
    assert float(states[-1].weights.ess) / len(x0) == pytest.approx(rho, rel=0.01)


def divergence(potential, theta, step, x, h):
    """chi^2(pi_{theta + step} || pi_theta) by quadrature, and the means of dU / dtheta and of its square."""
    old, new = (np.exp(-potential(x, t)) for t in (theta, theta + step))
    old, new = old / (h * old.sum()), new / (h * new.sum())
    slope = (potential(x, theta + 1e-5) - potential(x, theta - 1e-5)) / 2e-5
    return h * np.sum((new / old - 1) ** 2 * old), h * np.sum(slope * old), h * np.sum(slope**2 * old)


def middles(low, high, cells=20_000):
    h = (high - low) / cells
    return low + h * (np.arange(cells) + 0.5), h


def test_the_divergence_of_a_step_with_a_constant_normaliser():
    """Props. 2 and 3: N(theta, 1), where I is E (dU)^2 and a covariance alike. chi^2 = exp(gamma^2 g^2) - 1."""
    x, h = middles(-10.0, 11.0)
    for gamma in (0.1, 0.01):
        found, first, second = divergence(lambda x, t: 0.5 * (x - t) ** 2, 0.5, -gamma, x, h)
        assert abs(first) < 1e-9 and second == pytest.approx(1.0, abs=1e-7)
        assert found == pytest.approx(math.expm1(gamma**2), rel=1e-6)
        assert found == pytest.approx(gamma**2 * second, rel=gamma)


@pytest.mark.parametrize("theta", [0.0, 2.0])
def test_the_information_of_prop_3_is_a_covariance(theta):
    """U = -theta x on [0, 1] is bounded as Prop. 3 asks. Its proof leaves out the ratio of the normalisers."""
    x, h = middles(0.0, 1.0)
    for gamma in (0.1, 0.01):
        found, first, second = divergence(lambda x, t: -t * x, theta, -gamma, x, h)
        assert found == pytest.approx(gamma**2 * (second - first**2), rel=gamma)
        assert gamma**2 * second / found > 3.5


def test_the_condition_of_prop_2_asks_for_a_constant_normaliser():
    """E J is of the order of gamma^2 where the normaliser moves, so that Prop. 2 says nothing of such families."""
    x, _ = middles(0.0, 1.0)
    gamma = 1e-3
    for potential, small in ((lambda x, t: -t * x, False), (lambda x, t: -t * x + np.log(np.expm1(t) / t), True)):
        old, new = (np.exp(-potential(x, t)) for t in (1.0, 1.0 - gamma))
        ratio = new / new.sum() * old.sum() / old
        slope = (potential(x, 1.0 + 1e-5) - potential(x, 1.0 - 1e-5)) / 2e-5
        mean_j = np.sum((ratio - 1 - gamma * slope) ** 2 * old) / old.sum() / gamma**2
        assert (mean_j < 1e-4) == small and (small or mean_j > 0.1)


def test_prop_4_is_a_bound_and_no_equality():
    """It says sqrt(gamma^2 g' I g) + O(gamma^1.5), where Prop. 3 has the square of that. It is far above chi^2."""
    gammas = np.array([1e-1, 1e-2, 1e-3])
    found, printed = np.expm1(gammas**2), gammas  # of N(theta, 1), which satisfies what it asks for
    assert np.all(found < printed)
    off = np.abs(found - printed) / gammas**1.5
    assert np.all(np.diff(off) > 0) and off[-1] > 30  # not bounded
