"""Ising models: every state by the definition, any lattice, the paper's couplings, and Kaufman's exact energy."""

import itertools
import math

import numpy as np
import pytest

from tests.zoo.enumeration import NUMPY, check_between, check_states
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import GWG
from xpsample.metrics import mcse_mean
from xpsample.metrics.discrete import exact_probabilities, prominent_states
from xpsample.sampling.sampler import sample
from xpsample.spaces import Binary, OneHot, Spins
from xpsample.targets import Capability
from xpsample.zoo.ising import cross_diagonal, internal_energy, ising_couplings, ising_lattice, potts

CRITICAL = math.log(1 + math.sqrt(2)) / 2


def bonds(shape, periodic):
    """Pairs of sites, each bond once."""
    number = np.arange(math.prod(shape)).reshape(shape)
    for site in itertools.product(*(range(n) for n in shape)):
        for axis, length in enumerate(shape):
            after = list(site)
            after[axis] += 1
            if after[axis] == length:
                if not periodic:
                    continue
                after[axis] = 0
            yield number[site], number[tuple(after)]


def definition(shape, periodic, coupling, field):
    pairs = list(bonds(shape, periodic))
    return lambda s: coupling * sum(s[i] * s[j] for i, j in pairs) + field @ s


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("shape", [(7,), (3, 3), (2, 4), (2, 2, 2)])
def test_every_state_of_a_lattice(shape, periodic):
    field = np.random.default_rng(2).standard_normal(math.prod(shape))
    target = ising_lattice(shape, 0.7, field, periodic)
    check_states(target, math.prod(shape), definition(shape, periodic, 0.7, field), NUMPY)
    check_between(target, np.random.default_rng(3).standard_normal((4, math.prod(shape))), NUMPY)
    states = target.space.states(math.prod(shape))[::5]
    expected = [-sum(s[i] * s[j] for i, j in bonds(shape, periodic)) / len(s) for s in states]
    np.testing.assert_allclose(internal_energy(states, shape, periodic), expected, atol=1e-14)


@pytest.mark.parametrize("periodic", [True, False])
def test_every_library(periodic, typed_library):
    field = np.arange(6.0) / 6
    target = ising_lattice((2, 3), 0.4, field, periodic)
    check_states(target, 6, definition((2, 3), periodic, 0.4, field), typed_library)
    states = target.space.states(6)
    energy = internal_energy(typed_library.array(states), (2, 3), periodic)
    np.testing.assert_allclose(typed_library.host(energy), internal_energy(states, (2, 3), periodic), atol=1e-6)


def test_any_couplings(typed_library):
    w = np.random.default_rng(4).standard_normal((5, 5))
    w, b = w + w.T, np.random.default_rng(5).standard_normal(5)  # with a diagonal
    target = ising_couplings(w, b)
    check_states(target, 5, lambda s: 0.5 * s @ w @ s + b @ s, typed_library)
    check_between(target, np.random.default_rng(3).standard_normal((4, 5)), typed_library)


@pytest.mark.parametrize("space", [Spins(), Binary()], ids=str)
def test_couplings_of_pairs(space, typed_library):
    pairs, b = np.array([[0, 3], [1, 2], [2, 3], [2, 3]]), np.random.default_rng(5).standard_normal(6)  # a pair twice
    weights = np.random.default_rng(4).standard_normal(4)
    w = np.zeros((6, 6))
    for (i, j), weight in zip(pairs, weights, strict=True):
        w[i, j] += weight
        w[j, i] += weight
    target = ising_couplings(weights, b, pairs, space)
    check_states(target, 6, lambda x: 0.5 * x @ w @ x + b @ x, typed_library)
    check_between(target, np.random.default_rng(3).standard_normal((4, 6)), typed_library)


def test_couplings_of_bits():
    w = np.random.default_rng(4).standard_normal((5, 5))
    target = ising_couplings(w + w.T, 0.3, space=Binary())  # with a diagonal
    check_states(target, 5, lambda x: x @ w @ x + 0.3 * np.sum(x), NUMPY)
    check_between(target, np.random.default_rng(3).standard_normal((4, 5)), NUMPY)


def test_couplings_of_no_pairs():
    target = ising_couplings(1.0, np.array([0.5, -1.0, 0.0]), [])
    check_states(target, 3, lambda x: 0.5 * x[0] - x[1], NUMPY)


def test_the_papers_small_model():
    w = cross_diagonal()
    np.testing.assert_array_equal(w, [[10.0 if j in (i, 8 - i) else 0.0 for j in range(9)] for i in range(9)])
    p = exact_probabilities(ising_couplings(w, 0.1), 9)
    prominent = prominent_states(p)
    assert np.sum(prominent) == 32 and p[prominent].sum() == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ising_lattice((3, 1), 1.0), "at least 2 sites"),
        (lambda: ising_lattice((), 1.0), "at least 2 sites"),
        (lambda: ising_lattice((3, 3), 1.0, np.ones(3)), r"shape \(9,\); got \(3,\)"),
        (lambda: ising_couplings(np.array([[0.0, 1.0], [2.0, 0.0]])), "symmetric"),
        (lambda: ising_couplings(np.ones((2, 3))), "symmetric"),
        (lambda: ising_couplings(np.eye(3), np.ones(2)), "field"),
        (lambda: ising_couplings(np.full((2, 2), np.inf)), "finite"),
        (lambda: ising_couplings(np.ones(3), 0.0, [[0, 1]]), "one for each of the 1 pairs"),
        (lambda: ising_couplings(1.0, 0.0, [[0, 0]]), "two different numbers"),
        (lambda: ising_couplings(1.0, np.zeros(2), [[0, 2]]), "from 0 to 1"),
        (lambda: ising_couplings(np.eye(2), space=OneHot(2)), "space must be"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


# ---- the exact energy of a finite lattice ----------------------------------------------------------------------------


def kaufman_log_z(n, m, beta):
    """log Z of the n x m periodic square lattice: Kaufman, Phys. Rev. 76, 1232 (1949), as four products over angles."""
    angle = np.arange(2 * m) * np.pi / m
    gamma = np.arccosh(np.cosh(2 * beta) ** 2 / np.sinh(2 * beta) - np.cos(np.where(angle == 0, np.pi, angle)))
    gamma[0] = 2 * beta + np.log(np.tanh(beta))  # negative above the critical temperature
    logs, signs = [], []
    for part in (gamma[1::2], gamma[0::2]):
        for factors in (2 * np.cosh(0.5 * n * part), 2 * np.sinh(0.5 * n * part)):
            logs.append(np.sum(np.log(np.abs(factors))))
            signs.append(np.prod(np.sign(factors)))
    top = max(logs)
    total = sum(sign * math.exp(log - top) for sign, log in zip(signs, logs, strict=True))
    return -math.log(2) + 0.5 * n * m * math.log(2 * math.sinh(2 * beta)) + top + math.log(total)


def kaufman_energy(n, m, beta, h=1e-4):
    """Internal energy per site, -d log Z / d beta / sites, by a five-point difference."""
    f = [kaufman_log_z(n, m, beta + k * h) for k in (-2, -1, 1, 2)]
    return -(f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) / (n * m)


@pytest.mark.parametrize(("n", "m"), [(3, 4), (4, 3), (4, 4)])
@pytest.mark.parametrize("beta", [0.2, 0.4407, 0.7])
def test_kaufmans_formula_is_the_sum_over_states(n, m, beta):
    target = ising_lattice((n, m), beta)
    states = target.space.states(n * m)
    logs = target.log_density(states, target.data)
    log_z = np.logaddexp.reduce(logs)
    assert kaufman_log_z(n, m, beta) == pytest.approx(log_z, rel=1e-12)
    energy = np.exp(logs - log_z) @ internal_energy(states, (n, m))
    assert kaufman_energy(n, m, beta) == pytest.approx(energy, rel=1e-8)


def test_the_papers_critical_energy_is_that_of_its_finite_lattice():
    """-1.4402 in Appendix D.2 of the HiSS paper is exact for 24 x 24; on an infinite lattice it is -sqrt(2)."""
    assert kaufman_energy(24, 24, 0.4407) == pytest.approx(-1.440249, abs=1e-6)
    # The finite lattice approaches Onsager's value as 1 / n (Ferdinand and Fisher, 1969).
    gaps = [n * (kaufman_energy(n, n, CRITICAL) + math.sqrt(2)) for n in (24, 48, 96)]
    np.testing.assert_allclose(gaps, gaps[-1], rtol=1e-3)


@pytest.mark.slow
def test_a_run_meets_the_exact_energy():
    """Error probability 6e-5 for a normal mean at 4 standard errors; the seed is fixed."""
    x0 = np.random.default_rng(0).choice([-1.0, 1.0], size=(50, 64))
    draws = sample(ising_lattice((8, 8), 0.35), GWG(), x0, 300, seed=3, burn_in=600, thinning=10, progress=False).draws
    energy = internal_energy(draws, (8, 8))
    assert abs(energy.mean() - kaufman_energy(8, 8, 0.35)) < 4 * mcse_mean(energy[..., None])[0]


def test_a_coupling_that_is_a_numpy_number_keeps_float32():
    for target, dim in ((ising_lattice((2, 3), np.float64(0.3)), 6), (potts((2, 3), 2, np.float64(0.3)), 12)):
        x = np.tile(np.asarray([1, 0] if dim == 12 else [1, 1], dtype=np.float32), (4, dim // 2))
        assert target.prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density.dtype == np.float32
