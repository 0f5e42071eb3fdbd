"""Restricted Boltzmann machines: the sum over hidden states, the normaliser both ways, Gibbs sweeps."""

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.zoo.enumeration import check_between, check_states
from xpsample.core.errors import HyperparameterError
from xpsample.metrics.discrete import exact_probabilities
from xpsample.spaces import Binary
from xpsample.targets import Capability
from xpsample.zoo.rbm import RBM, gibbs_sweep, log_normalizer, rbm

RNG = np.random.default_rng(0)
MODEL = RBM(RNG.standard_normal((5, 3)), RNG.standard_normal(5), RNG.standard_normal(3))
HIDDEN = Binary().states(3)


def direct(v):
    """log of the sum over the hidden states, one by one."""
    return np.log(sum(np.exp(v @ MODEL.visible_bias + h @ MODEL.hidden_bias + v @ MODEL.weights @ h) for h in HIDDEN))


def test_every_state_on_every_library(typed_library):
    check_states(rbm(MODEL), 5, direct, typed_library)


def test_between_the_states(library):
    check_between(rbm(MODEL), np.random.default_rng(3).standard_normal((4, 5)), library)


def test_normaliser_by_either_side():
    log_z = np.log(sum(np.exp(direct(v)) for v in Binary().states(5)))
    assert log_normalizer(MODEL) == pytest.approx(log_z, rel=1e-12)
    assert log_normalizer(RBM(MODEL.weights.T, MODEL.hidden_bias, MODEL.visible_bias)) == pytest.approx(
        log_z, rel=1e-12
    )
    wide = RBM(np.zeros((30, 16)), np.zeros(30), np.zeros(16))
    assert log_normalizer(wide) == pytest.approx(46 * np.log(2), rel=1e-12)
    with pytest.raises(HyperparameterError, match="too many"):
        log_normalizer(RBM(np.zeros((30, 30)), np.zeros(30), np.zeros(30)))


def test_large_inputs_do_not_overflow(library32):
    model = RBM(np.full((2, 2), 500.0), np.zeros(2), np.array([-1000.0, 0.0]))
    v = library32.array(np.array([[1.0, 1.0], [0.0, 0.0]]))
    bound = rbm(model).prepare(v, Capability.LOG_DENSITY | Capability.SCORE | Capability.DIFFERENCES)
    point = bound.evaluate(v)
    np.testing.assert_allclose(library32.host(point.log_density), [1000 + np.log(2), np.log(2)], rtol=1e-6)
    assert np.all(np.isfinite(library32.host(point.score))) and np.all(np.isfinite(library32.host(point.differences)))


def test_a_gibbs_sweep_leaves_the_visible_units_distribution(library):
    """20,000 exact draws, one sweep, chi-squared over 32 states: error probability 1e-4 a library, one seed."""
    p, rng, n = exact_probabilities(rbm(MODEL), 5), np.random.default_rng(7), 20_000
    start = Binary().states(5)[rng.choice(32, n, p=p)]
    model = RBM(*(library.array(a) for a in MODEL))
    uniforms = library.array(rng.random((n, 3))), library.array(rng.random((n, 5)))
    after = gibbs_sweep(model, library.array(start), *uniforms)
    assert np.mean(library.host(after) != start) > 0.2
    number = library.host(after).astype(int) @ [16, 8, 4, 2, 1]
    assert chisquare(np.bincount(number, minlength=32), n * p).pvalue > 1e-4


def test_bad_shapes():
    with pytest.raises(HyperparameterError, match=r"got \(5, 3\), \(5,\) and \(4,\)"):
        rbm(MODEL._replace(hidden_bias=np.zeros(4)))
