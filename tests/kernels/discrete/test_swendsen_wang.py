"""Cluster updates: their matrix, steps by hand with a union of sets, who may use them, and labels on every library."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.discrete.discrete_support import ERROR, invariance_error, misfit, step_from_every_state
from tests.kernels.support import walk
from xpsample.core.errors import CapabilityError, HyperparameterError, LogDensityError
from xpsample.core.special import minimum_at, minimum_by_sort
from xpsample.kernels import Trait
from xpsample.targets.bonds import Bonds
from xpsample.zoo.ising import ising_couplings, ising_lattice, lattice_pairs, potts


@dataclass(frozen=True, eq=False)
class Model:
    """A ferromagnet by its definition: gains of pairs, and log weights of the values of every variable."""

    target: Any
    pairs: np.ndarray
    gains: np.ndarray
    field: np.ndarray
    choices: int = 2

    @property
    def dim(self):
        return len(self.field) * (self.choices if isinstance(self.target.space, xps.OneHot) else 1)

    @property
    def states(self):
        return self.target.space.states(self.dim)

    @property
    def values(self):
        """The value of each variable, from 0, (states, variables)."""
        return np.array(list(itertools.product(range(self.choices), repeat=len(self.field))))

    @property
    def log_pi(self):
        v = self.values
        equal = v[:, self.pairs[:, 0]] == v[:, self.pairs[:, 1]]
        return equal @ self.gains + np.sum(self.field[np.arange(len(self.field)), v], axis=-1)

    def index(self, x):
        v = x.reshape(len(x), len(self.field), -1)
        v = np.argmax(v, axis=-1) if v.shape[-1] > 1 else (v[..., 0] > 0 if self.choices == 2 else v[..., 0])
        return v.astype(int) @ self.choices ** np.arange(len(self.field))[::-1]


def clusters(n, pairs):
    """The sets of variables that pairs join, as the least of each one's set."""
    of = list(range(n))
    for i, j in pairs:
        a, b = sorted((of[i], of[j]))
        of = [a if k == b else k for k in of]
    return of


def matrix(model, held_too=True):
    """Transitions, by all ways to close bonds and to hold variables."""
    n, v, q = len(model.field), model.values, model.choices
    surplus = model.field[np.arange(n), v] - model.field.min(axis=-1)
    result = np.zeros((len(v), len(v)))
    for s, state in enumerate(v):
        can = np.flatnonzero(state[model.pairs[:, 0]] == state[model.pairs[:, 1]])
        for closed in itertools.product((0, 1), repeat=len(can)):
            p = np.where(closed, -np.expm1(-model.gains[can]), np.exp(-model.gains[can])).prod()
            of = clusters(n, model.pairs[can][np.array(closed, dtype=bool)])
            for held in itertools.product((0, 1), repeat=n if held_too else 0):
                weight = np.where(held, -np.expm1(-surplus[s]), np.exp(-surplus[s])).prod() if held_too else 1.0
                if weight == 0:
                    continue
                stay = {of[i] for i in range(n) if held_too and held[i]}
                free = sorted(set(of) - stay)
                for new in itertools.product(range(q), repeat=len(free)):
                    to = [state[i] if of[i] in stay else new[free.index(of[i])] for i in range(n)]
                    result[s, np.dot(to, q ** np.arange(n)[::-1])] += p * weight / q ** len(free)
    return result


PAIRS = np.array([[0, 1], [1, 2], [2, 3], [0, 2]])
GAINS = np.array([0.5, 1.0, 0.3, 0.8])
FIELD = np.array([0.3, -0.5, 0.0, 0.8])
SPIN_FIELD = np.stack([-FIELD, FIELD], axis=-1)


def _matrix_of(weights):
    w = np.zeros((4, 4))
    w[tuple(PAIRS.T)] = weights
    return w + w.T


def _bits():
    """In fields that cancel what the couplings of bits add to them, and leave FIELD."""
    own = FIELD - 0.5 * np.bincount(PAIRS.ravel(), np.repeat(2 * GAINS, 2))
    return ising_couplings(2 * GAINS, own, PAIRS, xps.Binary())


ROW, RINGS = np.array([[0, 1], [1, 2]]), np.repeat([[0, 1], [2, 3], [0, 2], [1, 3]], 2, axis=0)
THREE = np.random.default_rng(0).standard_normal((3, 3))
MODELS = {
    "spins": Model(ising_couplings(GAINS / 2, FIELD, PAIRS), PAIRS, GAINS, SPIN_FIELD),
    "spins, no field": Model(ising_couplings(_matrix_of(GAINS / 2)), PAIRS, GAINS, np.zeros((4, 2))),
    "bits": Model(_bits(), PAIRS, GAINS, np.stack([np.zeros(4), FIELD], axis=-1)),
    "rings of two": Model(ising_lattice((2, 2), 0.2), RINGS, np.full(8, 0.4), np.zeros((4, 2))),
    "potts": Model(potts((3,), 3, 0.7, THREE, periodic=False, one_hot=False), ROW, np.full(2, 0.7), THREE, 3),
    "one-hot": Model(potts((3,), 3, 0.7, THREE, periodic=False), ROW, np.full(2, 0.7), THREE, 3),
}  # fmt: skip
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def known(model, x):
    kernel = xps.SwendsenWang()
    return kernel.on_target(model.target.prepare(x, kernel.requires), x)


@every_model
def test_a_step_is_its_matrix(model):
    expected = matrix(model)
    assert invariance_error(expected, model.log_pi) < 1e-12
    found, info = step_from_every_state(model, known(model, model.states), 160_000 // len(model.states), seed=1)
    assert misfit(found, expected) > math.log(ERROR)
    np.testing.assert_array_equal(info.moved, found != np.arange(len(found))[:, None])


def test_a_field_that_holds_nothing_would_give_another_distribution():
    model = MODELS["spins"]
    assert invariance_error(matrix(model, held_too=False), model.log_pi) > 0.01


@pytest.mark.sampled(3)
@pytest.mark.parametrize("chains", [1, 5])
@pytest.mark.parametrize("name", ["lattice", "potts"])
def test_two_steps_by_hand(name, chains, library):
    """A union of sets in Python; the bonds and the noise of a lattice of 12 sites, in a field."""
    rng, shape, n, q = np.random.default_rng(0), (3, 4), 12, 2 if name == "lattice" else 3
    field = 0.5 * rng.standard_normal((n, q))
    if name == "lattice":
        target, field = ising_lattice(shape, 0.45, field[:, 0]), field[:, :1] * [-1.0, 1.0]
    else:
        target = potts(shape, q, 0.9, field, one_hot=False)
    v = rng.integers(0, q, (chains, n))
    x = v * 2.0 - 1 if q == 2 else v * 1.0
    noise = {
        "bond": rng.random((2, chains, 24)),
        "held": rng.random((2, chains, n)),
        "value": rng.random((2, chains, n)),
    }
    pairs, expected = lattice_pairs(shape), []
    for t in range(2):
        for c in range(chains):
            equal = v[c, pairs[:, 0]] == v[c, pairs[:, 1]]
            of = clusters(n, pairs[equal & (noise["bond"][t, c] < 1 - math.exp(-0.9))])
            surplus = field[np.arange(n), v[c]] - field.min(axis=-1)
            held = {of[i] for i in range(n) if noise["held"][t, c, i] < 1 - math.exp(-surplus[i])}
            v[c] = [v[c, i] if of[i] in held else int(q * noise["value"][t, c, of[i]]) for i in range(n)]
        expected.append(v.copy())
    positions, _, _ = walk(library, xps.SwendsenWang(), x, noise, target)
    np.testing.assert_array_equal([(p > 0) if q == 2 else p for p in positions], expected)


def test_the_least_at_a_place(library):
    rng, n = np.random.default_rng(0), 40
    values, updates = (rng.integers(0, n + 1, n).astype("int32") for _ in range(2))
    index, expected = rng.integers(0, n, n), values.copy()
    for place, update in zip(index, updates, strict=True):
        expected[place] = min(expected[place], update)
    xp, arrays = library.backend.xp, [library.array(a) for a in (values, index, updates)]
    for least in (minimum_at, minimum_by_sort):
        np.testing.assert_array_equal(library.host(least(xp, *arrays)), expected)


def test_a_long_path_is_one_cluster():
    """Bonds that all close: 2,000 variables in a row get one value, in any order of their numbers."""
    order = np.random.default_rng(0).permutation(2000)
    target = ising_couplings(50.0, 0.0, np.stack([order[:-1], order[1:]], axis=-1))
    x0 = np.ones((20, 2000))
    draws = xps.sample(target, xps.SwendsenWang(), x0, 2, seed=1, recorders=[xps.Draws()]).draws
    assert np.all(draws == draws[..., :1]) and set(draws[0, :, 0]) == {-1.0, 1.0}


@pytest.mark.parametrize("beta", [0.4, 1.5])
def test_a_power_of_the_density_is_sampled(beta):
    model = MODELS["spins"]
    p = np.exp(beta * (model.log_pi - model.log_pi.max()))
    rng = np.random.default_rng(0)
    x0 = model.states[rng.choice(len(p), 20_000, p=p / p.sum())]
    draws = xps.sample(xps.Tempered(model.target, beta), xps.SwendsenWang(), x0, 2, seed=1).draws
    assert misfit(model.index(draws[-1])[None], p[None] / p.sum()) > math.log(ERROR)


def _one_bond(gain, neighbors=(1, 0, 0, 0), bond=(0, 0, 1, 1)):
    neighbors, bond = (np.array(ends)[:, None] for ends in (neighbors, bond))
    return Bonds(neighbors, bond, gain * np.ones((4, 1)), np.zeros((4, 2)), 1)


def stating(bonds, space=xps.Spins()):
    return xps.Target(lambda x: 0.4 * x[..., 0] * x[..., 1], bonds=lambda: bonds, space=space)


X0 = np.array([[1.0, 1, 1, 1], [1, -1, 1, 1], [1, 1, 1, 1]])
RAGGED = xps.Categorical(((-1, 1), (-1, 1), (-1, 1), (-1, 0, 1)))
PATH = xps.Bridge(MODELS["spins"].target, MODELS["spins"].target)
TWICE = "each bond twice"


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (ising_couplings([0.5, -0.3], 0.0, [[0, 1], [2, 3]]), CapabilityError, "equal; got one of -0.6. Use Sweep"),
        (xps.Target(lambda x: 0.0 * x[..., 0], space=xps.Spins()), CapabilityError, r"Target\(..., bonds=...\)"),
        (PATH, CapabilityError, r"a BridgedTarget does not have\. Use Sweep"),
        (stating(_one_bond(0.5), RAGGED), CapabilityError, "the same number of values"),
        (stating(_one_bond(0.4)), LogDensityError, "the bonds contradict the log density"),
        (stating(_one_bond(np.array([[0.6], [1.0], [0.0], [0.0]]))), LogDensityError, TWICE),
        (stating(_one_bond(0.8, neighbors=(1, 2, 0, 0))), LogDensityError, TWICE),
        (stating(_one_bond(0.8, bond=(0, 1, 0, 1))), LogDensityError, TWICE),
        (stating(_one_bond(1.6, bond=(0, 1, 1, 1))), LogDensityError, TWICE),
        (stating(_one_bond(0.8, bond=(0, 0, 0, 0))), LogDensityError, TWICE),
    ],
    ids=["sign", "none", "bridge", "values", "gain", "gains", "neighbors", "other variable", "one end", "four ends"],
)
def test_targets_without_the_right_bonds_are_refused(target, error, message):
    kernel = xps.AIS(xps.SwendsenWang(), (0.0, 0.3, 0.6, 1.0)) if target is PATH else xps.SwendsenWang()
    with pytest.raises(error, match=message):
        xps.sample(target, kernel, X0, 2, seed=1)


def test_right_bonds_are_taken_and_needed():
    kernel = xps.SwendsenWang()
    xps.sample(stating(_one_bond(0.8)), kernel, X0, 2, seed=1)
    with pytest.raises(HyperparameterError, match="knows the bonds of its target inside sample"):
        kernel.noise(X0)
    assert Trait.INVARIANT in kernel.traits
