"""Joint Bernoulli tables: the paper's energy, its derivatives, probabilities of 0."""

import itertools

import numpy as np
import pytest

from tests.zoo.enumeration import DENSITY, check_between, check_states
from xpsample.experiments.hiss.joint_bernoulli import LOG_OF_ZERO, isolated_modes, joint_bernoulli
from xpsample.metrics.discrete import exact_probabilities
from xpsample.targets import Capability

TABLE = np.random.default_rng(0).random((2, 2, 2))
TABLE /= TABLE.sum()
BETWEEN = np.random.default_rng(1).random((4, 3))


def energy(x, table):
    """Section 6.1 of the HiSS paper, term by term."""
    return sum(
        np.prod([x[n] ** a[n] * (1 - x[n]) ** (1 - a[n]) for n in range(len(x))]) * np.log(table[a])
        for a in itertools.product((0, 1), repeat=len(x))
    )


def test_every_state_on_every_library(typed_library):
    check_states(joint_bernoulli(3 * TABLE), 3, lambda x: np.log(TABLE[tuple(x.astype(int))]), typed_library)


def test_between_the_states_it_is_the_papers_energy(library):
    target = joint_bernoulli(TABLE)
    expected = [energy(x, TABLE) for x in BETWEEN]
    np.testing.assert_allclose(target.log_density(BETWEEN, target.data), expected, rtol=1e-12)
    check_between(target, BETWEEN, library)


def test_the_papers_table():
    table = isolated_modes()
    assert table.shape == (2, 2, 2, 2) and np.isclose(table.sum(), 1) and np.sum(table > 1e-3) == 3
    np.testing.assert_allclose(exact_probabilities(joint_bernoulli(table), 4), table.ravel(), rtol=1e-12)
    assert table.ravel()[0b1110] / table.ravel()[0b0000] == pytest.approx(0.294102 / 0.588204)


def test_impossible_states(library):
    table = TABLE.copy()
    table[1, 0, 1] = 0.0
    target, states = joint_bernoulli(table), library.array(np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    point = target.prepare(states, DENSITY | Capability.SCORE | Capability.DIFFERENCES).evaluate(states)
    differences, score = library.host(point.differences)[..., 0], library.host(point.score)
    assert differences[0, 0] == -np.inf and np.all(np.isfinite(differences[0, 1:])) and np.all(np.isfinite(score))
    here = np.log(table[0, 0, 1] / table.sum())
    np.testing.assert_allclose(score[0, 0], LOG_OF_ZERO - here, rtol=1e-12)
    np.testing.assert_allclose(differences[0, 1], np.log(table[0, 1, 1]) - np.log(table[0, 0, 1]), rtol=1e-12)
    assert exact_probabilities(target, 3)[0b101] == 0.0
