"""One table of targets on discrete spaces: every state by the definition, on every library, and what is refused."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.zoo.enumeration import NUMPY, check_between, check_states
from xpsample import sample
from xpsample.core.errors import CapabilityError, HyperparameterError, PositionError
from xpsample.kernels import GWG
from xpsample.metrics.discrete import exact_probabilities, prominent_states
from xpsample.spaces import Binary, OneHot, Spins
from xpsample.spaces.discrete import Permutations
from xpsample.targets import Capability
from xpsample.zoo.ising import cross_diagonal, internal_energy, ising_couplings, ising_lattice, potts
from xpsample.zoo.rbm import RBM, gibbs_sweep, log_normalizer, rbm
from xpsample.zoo.tsp import tsp

CRITICAL = math.log(1 + math.sqrt(2)) / 2
RNG = np.random.default_rng(0)
MACHINE = RBM(RNG.standard_normal((5, 3)), RNG.standard_normal(5), RNG.standard_normal(3))
CITIES = np.random.default_rng(0).random((5, 2)) * 10
ORDERS = np.array(list(itertools.permutations(range(5))))


class Case(NamedTuple):
    """A target, its number of coordinates, and the definition of one position's log density."""

    target: Any
    dim: int
    direct: Callable
    has_score: bool = True


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


def lattice(shape, periodic):
    pairs, field = list(bonds(shape, periodic)), np.random.default_rng(2).standard_normal(math.prod(shape))
    target = ising_lattice(shape, 0.7, field, periodic)
    return Case(target, len(field), lambda s: 0.7 * sum(s[i] * s[j] for i, j in pairs) + field @ s)


def clock(shape, states, periodic, one_hot):
    pairs, sites = list(bonds(shape, periodic)), math.prod(shape)
    field = np.random.default_rng(1).standard_normal((sites, states))

    def direct(x):
        x = x.reshape(sites, states).argmax(-1) if one_hot else x.astype(int)
        return 0.6 * sum(x[i] == x[j] for i, j in pairs) + sum(row[k] for row, k in zip(field, x, strict=True))

    target = potts(shape, states, 0.6, field, periodic, one_hot=one_hot)
    return Case(target, sites * states if one_hot else sites, direct, one_hot)


def couplings(space, pairs=None):
    """Those of all pairs by a matrix with a diagonal, or of some pairs, one of them twice."""
    rng, dim = np.random.default_rng(4), 5 if pairs is None else 6
    field = np.random.default_rng(5).standard_normal(dim)
    if pairs is None:
        w = rng.standard_normal((dim, dim))
        w = given = w + w.T
    else:
        given, w = rng.standard_normal(len(pairs)), np.zeros((dim, dim))
        for (i, j), weight in zip(pairs, given, strict=True):
            w[i, j] += weight
            w[j, i] += weight
    target = ising_couplings(given, field, None if pairs is None else np.array(pairs), space)
    return Case(target, dim, lambda x: 0.5 * x @ w @ x + field @ x)


def machine(v):
    """log of the sum over the hidden states, one by one."""
    inputs = MACHINE.hidden_bias + v @ MACHINE.weights
    return np.log(sum(np.exp(v @ MACHINE.visible_bias + h @ inputs) for h in Binary().states(3)))


PAIRS = [[0, 3], [1, 2], [2, 3], [2, 3]]
LATTICES, CLOCKS = [(7,), (3, 3), (2, 4), (2, 2, 2)], [((2, 3), 3), ((4,), 4), ((2, 2, 2), 2)]
EVERYWHERE = {
    "torus": lattice((2, 3), True),
    "grid": lattice((2, 3), False),
    "couplings": couplings(Spins()),
    "pairs of spins": couplings(Spins(), PAIRS),
    "pairs of bits": couplings(Binary(), PAIRS),
    "Potts": clock((2, 2), 3, False, True),
    "Potts of integers": clock((2, 2), 3, False, False),
    "RBM": Case(rbm(MACHINE), 5, machine),
}
ON_NUMPY = {
    "couplings of bits": couplings(Binary()),
    "no pairs": Case(ising_couplings(1.0, np.array([0.5, -1.0, 0.0]), []), 3, lambda x: 0.5 * x[0] - x[1]),
    **{f"lattice {shape} {wrapped}": lattice(shape, wrapped) for shape in LATTICES for wrapped in (True, False)},
    **{
        f"Potts {shape} {states} {wrapped} {one_hot}": clock(shape, states, wrapped, one_hot)
        for shape, states in CLOCKS
        for wrapped in (True, False)
        for one_hot in (True, False)
    },
}


def check(case, library):
    check_states(case.target, case.dim, case.direct, library, case.has_score)
    if case.has_score:
        check_between(case.target, np.random.default_rng(3).standard_normal((4, case.dim)), library)


@pytest.mark.parametrize("name", ON_NUMPY)
def test_every_state(name):
    check(ON_NUMPY[name], NUMPY)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_every_library(name, typed_library):
    check(EVERYWHERE[name], typed_library)


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
        (lambda: potts((3, 1), 3, 1.0), "at least 2 sites"),
        (lambda: potts((3, 3), 1, 1.0), "states"),
        (lambda: potts((3, 3), 3, 1.0, np.ones(9)), r"\(3,\) or \(9, 3\); got \(9,\)"),
        (lambda: rbm(MACHINE._replace(hidden_bias=np.zeros(4))), r"got \(5, 3\), \(5,\) and \(4,\)"),
        (lambda: log_normalizer(RBM(np.zeros((30, 30)), np.zeros(30), np.zeros(30))), "too many"),
        (lambda: tsp(np.ones((3, 3))), r"\(n, 2\)"),
        (lambda: tsp(CITIES, 0.0), "temperature"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


# ---- Ising and Potts models ------------------------------------------------------------------------------------------


def test_internal_energy(typed_library):
    for shape, periodic in itertools.product([*LATTICES, (2, 3)], (True, False)):
        states = Spins().states(math.prod(shape))[::5]
        expected = [-sum(s[i] * s[j] for i, j in bonds(shape, periodic)) / len(s) for s in states]
        found = typed_library.host(internal_energy(typed_library.array(states), shape, periodic))
        np.testing.assert_allclose(found, expected, atol=1e-14 if typed_library.dtype == "float64" else 1e-6)


def test_the_papers_small_model():
    w = cross_diagonal()
    np.testing.assert_array_equal(w, [[10.0 if j in (i, 8 - i) else 0.0 for j in range(9)] for i in range(9)])
    p = exact_probabilities(ising_couplings(w, 0.1), 9)
    prominent = prominent_states(p)
    assert np.sum(prominent) == 32 and p[prominent].sum() == pytest.approx(1, abs=1e-7)


def test_potts_of_two_states_are_ising_and_integers_have_no_score(library):
    p = exact_probabilities(potts((2, 3), 2, 0.8, one_hot=False), 6)
    np.testing.assert_allclose(p, exact_probabilities(ising_lattice((2, 3), 0.4), 6), rtol=1e-12)
    x = library.array(np.zeros((2, 4), dtype="int64"))
    with pytest.raises(CapabilityError, match="one_hot=True"):
        sample(potts((2, 2), 3, 0.5, one_hot=False), GWG(), x, 1, seed=1)


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


def test_a_coupling_that_is_a_numpy_number_keeps_float32():
    for target, one in ((ising_lattice((2, 3), np.float64(0.3)), [1, 1]), (potts((2, 3), 2, np.float64(0.3)), [1, 0])):
        x = np.tile(np.asarray(one, dtype=np.float32), (4, 6 if one == [1, 0] else 3))
        assert target.prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density.dtype == np.float32


# ---- restricted Boltzmann machines -----------------------------------------------------------------------------------


def test_normaliser_by_either_side():
    log_z = np.log(sum(np.exp(machine(v)) for v in Binary().states(5)))
    other = RBM(MACHINE.weights.T, MACHINE.hidden_bias, MACHINE.visible_bias)
    assert log_normalizer(MACHINE) == pytest.approx(log_z, rel=1e-12)
    assert log_normalizer(other) == pytest.approx(log_z, rel=1e-12)
    wide = RBM(np.zeros((30, 16)), np.zeros(30), np.zeros(16))
    assert log_normalizer(wide) == pytest.approx(46 * np.log(2), rel=1e-12)


def test_large_inputs_do_not_overflow(library32):
    model = RBM(np.full((2, 2), 500.0), np.zeros(2), np.array([-1000.0, 0.0]))
    v = library32.array(np.array([[1.0, 1.0], [0.0, 0.0]]))
    bound = rbm(model).prepare(v, Capability.LOG_DENSITY | Capability.SCORE | Capability.DIFFERENCES)
    point = bound.evaluate(v)
    np.testing.assert_allclose(library32.host(point.log_density), [1000 + np.log(2), np.log(2)], rtol=1e-6)
    assert np.all(np.isfinite(library32.host(point.score))) and np.all(np.isfinite(library32.host(point.differences)))


def test_a_gibbs_sweep_leaves_the_visible_units_distribution(library):
    """20,000 exact draws, one sweep, chi-squared over 32 states: error probability 1e-4 a library, one seed."""
    p, rng, n = exact_probabilities(rbm(MACHINE), 5), np.random.default_rng(7), 20_000
    start = Binary().states(5)[rng.choice(32, n, p=p)]
    model = RBM(*(library.array(a) for a in MACHINE))
    uniforms = library.array(rng.random((n, 3))), library.array(rng.random((n, 5)))
    after = gibbs_sweep(model, library.array(start), *uniforms)
    assert np.mean(library.host(after) != start) > 0.2
    number = library.host(after).astype(int) @ [16, 8, 4, 2, 1]
    assert chisquare(np.bincount(number, minlength=32), n * p).pvalue > 1e-4


# ---- tours -----------------------------------------------------------------------------------------------------------


def test_every_tour(typed_library):
    """As floating numbers and as integers."""
    pairs = [zip(order, np.roll(order, -1), strict=True) for order in ORDERS]
    expected = np.array([-sum(np.hypot(*(CITIES[a] - CITIES[b])) for a, b in pair) / 2 for pair in pairs])
    for orders, rtol in ((ORDERS.astype(float), 1e-12 if typed_library.dtype == "float64" else 1e-5), (ORDERS, 1e-5)):
        x = typed_library.array(orders)
        found = tsp(CITIES, 2.0).prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
        np.testing.assert_allclose(typed_library.host(found), expected, rtol=rtol)


@pytest.mark.parametrize("x", [[[0.0, 1.0, 1.0]], [[1, 2, 3]], [[0.0, 0.5, 2.0]]])
def test_what_is_no_permutation_is_refused(x, library):
    with pytest.raises(PositionError, match=r"each of 0 \.\. 2 once"):
        Permutations().check(library.xp, library.array(np.array(x)))
