"""Weights by hand; resampling schemes against the definition of unbiasedness, and what each of them promises beside."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

from xpsample.particles import resampling
from xpsample.particles.weights import Weights, effective_sample_size


def test_weights_by_hand(typed_library):
    library, xp = typed_library, typed_library.xp
    start = Weights.equal(xp, library.array(np.zeros((2, 4))))
    np.testing.assert_array_equal(library.host(start.ess), [4.0, 4.0])
    gains = np.log(np.asarray([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 8.0, 0.0]]), where=[[True] * 4, [0, 0, 1, 0]], out=None)
    gains = np.where([[True] * 4, [False, False, True, False]], gains, -math.inf) + 80.0
    weights = start.times(xp, library.array(gains))
    np.testing.assert_allclose(np.exp(library.host(weights.logs)), [[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0]], rtol=1e-5)
    np.testing.assert_allclose(library.host(weights.ess), [100 / 30, 1.0], rtol=1e-5)
    np.testing.assert_allclose(library.host(weights.log_normalizer), np.log([2.5, 2.0]) + 80.0, rtol=1e-6)
    again = weights.times(xp, library.array(np.asarray([[math.nan, 0.0, 0.0, 0.0], [5.0, 5.0, 0.0, 5.0]])))
    np.testing.assert_allclose(np.exp(library.host(again.logs)), [[0, 2 / 9, 3 / 9, 4 / 9], [0, 0, 1, 0]], rtol=1e-5)
    reset = again.reset(xp, library.array(np.asarray([True, False])))
    np.testing.assert_allclose(np.exp(library.host(reset.logs)), [[0.25] * 4, [0, 0, 1, 0]], rtol=1e-5)
    np.testing.assert_array_equal(library.host(reset.ess), library.host(again.ess))


def test_the_effective_sample_size_is_at_most_the_number(library32):
    equal = library32.array(np.full((1, 10_000), 123.4))
    assert library32.host(effective_sample_size(library32.xp, equal))[0] == 10_000


SCHEMES = [resampling.Multinomial(), resampling.Stratified(), resampling.Systematic(), resampling.Residual()]
WEIGHTS = np.asarray([0.31, 0.0, 0.09, 0.25, 0.05, 0.3])
REPLICATES, BOUND = 20_000, 5.0
"""A mean of REPLICATES counts may be off by 5 standard errors: error probability 6e-7 a particle, seed fixed."""


def counts(scheme, weights, replicates=REPLICATES, xp=numpy_xp, array=np.asarray, host=np.asarray):
    """Copies of every particle, (replicates, particles)."""
    particles = len(weights)
    spec = scheme.noise((replicates,), particles)
    uniforms = np.random.default_rng(3).random(spec.shape)
    rows = np.broadcast_to(weights, (replicates, particles))
    index = host(scheme.ancestors(xp, array(rows), array(uniforms)))
    return np.sum(index[..., None] == np.arange(particles), axis=1)


def off(copies, weights):
    """By how many standard errors the mean counts are off; those that never vary must be exact."""
    mean, error = np.mean(copies, axis=0), np.std(copies, axis=0, ddof=1) / np.sqrt(len(copies))
    gap = np.abs(mean - copies.shape[-1] * weights)
    return np.max(np.where(error > 0, gap / np.where(error > 0, error, 1.0), np.where(gap < 1e-9, 0.0, np.inf)))


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_each_particle_has_its_share_on_average(scheme):
    copies = counts(scheme, WEIGHTS)
    assert np.all(np.sum(copies, axis=-1) == len(WEIGHTS))
    assert np.all(copies[:, 1] == 0)
    assert off(copies, WEIGHTS) < BOUND
    expected = len(WEIGHTS) * WEIGHTS
    if isinstance(scheme, resampling.Residual):
        assert np.all(copies >= np.floor(expected))
    if isinstance(scheme, resampling.Stratified):
        assert np.all(np.abs(copies - expected) < 2)
    if isinstance(scheme, resampling.Systematic):
        assert np.all(np.abs(copies - expected) < 1)


@dataclass(frozen=True)
class Left(resampling.Resampling):
    """Systematic with no random place: always the left end of each part."""

    def noise(self, runs, particles):
        return resampling.Systematic().noise(runs, particles)

    def ancestors(self, xp, weights, uniforms):
        return resampling.Systematic().ancestors(xp, weights, 0.0 * uniforms)


@dataclass(frozen=True)
class Floors(resampling.Resampling):
    """Residual whose rest is drawn with the full weights."""

    def noise(self, runs, particles):
        return resampling.Residual().noise(runs, particles)

    def ancestors(self, xp, weights, uniforms):
        exact, drawn = resampling.Residual().ancestors(xp, weights, uniforms), resampling.search(xp, weights, uniforms)
        certain = xp.sum(xp.floor(weights.shape[-1] * weights), axis=-1, keepdims=True)
        return xp.where(xp.arange(weights.shape[-1]) < certain, exact, drawn)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("scheme", [Left(), Floors()], ids=repr)
def test_biased_schemes_are_caught(scheme):
    assert off(counts(scheme, WEIGHTS), WEIGHTS) > 20


@pytest.mark.sampled(3)
@pytest.mark.parametrize("particles", [1, 7, 1000])
@pytest.mark.parametrize("scheme", SCHEMES[1:], ids=repr)
def test_equal_weights_change_nothing(scheme, particles, typed_library):
    library = typed_library
    weights = library.array(np.full((2, particles), 1 / particles))
    uniforms = np.random.default_rng(0).random(scheme.noise((2,), particles).shape)
    uniforms[0] = 0.01  # far from where rounding decides
    uniforms[1] = 0.99
    index = library.compiled(partial(scheme.ancestors, library.xp))(weights, library.array(uniforms))
    np.testing.assert_array_equal(library.host(index), np.broadcast_to(np.arange(particles), (2, particles)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_the_same_ancestors_on_every_library(scheme, library):
    def copies(**place):
        return counts(scheme, WEIGHTS, 20, **place)

    np.testing.assert_array_equal(copies(xp=library.xp, array=library.array, host=library.host), copies())


@pytest.mark.parametrize("scheme", SCHEMES[1:], ids=repr)
def test_a_million_equal_weights_in_float32(scheme):
    """Sums in float32 are off by more than a share of 1e-6; a rounded 1 - 1e-7 is one copy."""
    particles = 1_000_000
    weights = np.full((1, particles), 1 / particles, dtype=np.float32)
    uniforms = np.full(scheme.noise((1,), particles).shape, 0.4, dtype=np.float32)
    np.testing.assert_array_equal(scheme.ancestors(numpy_xp, weights, uniforms)[0], np.arange(particles))


@pytest.mark.parametrize("scheme", [resampling.Stratified(), resampling.Systematic()], ids=repr)
def test_shares_of_a_million_particles_in_float32(scheme):
    """Groups of 1,000 particles get their share, to the two particles at their ends."""
    weights = np.random.default_rng(0).random((1, 1_000_000)).astype(np.float32)
    weights /= np.sum(weights, dtype=np.float64)
    uniforms = np.random.default_rng(1).random(scheme.noise((1,), 1_000_000).shape).astype(np.float32)
    copies = np.bincount(scheme.ancestors(numpy_xp, weights, uniforms)[0], minlength=1_000_000)
    groups = np.sum(np.reshape(copies, (1000, 1000)), axis=-1)
    expected = 1_000_000 * np.sum(np.reshape(weights.astype(np.float64), (1000, 1000)), axis=-1)
    np.testing.assert_array_less(np.abs(groups - expected), 2.1)


def test_residual_resampling_of_a_million_in_float32():
    """Nearly equal weights are resampled, too: 0.97 is no whole number that was rounded."""
    weights = (1.0 + 0.05 * np.random.default_rng(0).random((1, 1_000_000))).astype(np.float32)
    weights /= np.sum(weights, dtype=np.float64)
    uniforms = np.random.default_rng(1).random((1, 1_000_000)).astype(np.float32)
    copies = np.bincount(resampling.Residual().ancestors(numpy_xp, weights, uniforms)[0], minlength=1_000_000)
    expected = 1_000_000 * weights[0].astype(np.float64)
    assert np.all(copies >= np.floor(expected))
    few = expected < 0.98
    assert np.mean(copies[few]) == pytest.approx(np.mean(expected[few]), abs=0.012)


def test_the_search_by_hand(library):
    weights = library.array(np.asarray([[0.0, 2.0, 0.0, 1.0, 1.0, 0.0]]))
    points = library.array(np.asarray([[0.0, 0.4999, 0.5, 0.7499, 0.75, 0.999999]]))
    np.testing.assert_array_equal(library.host(resampling.search(library.xp, weights, points)), [[1, 1, 3, 3, 4, 4]])


def test_what_belongs_to_a_particle_goes_with_it(library):
    index = library.array(np.asarray([[2, 2, 0], [0, 0, 0]]))
    tree = {
        "x": library.array(np.arange(12.0).reshape(2, 3, 2)),
        "density": library.array(np.arange(6.0).reshape(2, 3)),
        "run": library.array(np.asarray([[1.0], [2.0]])),
        "none": None,
    }
    new = resampling.take_ancestors(library.xp, library.array(np.asarray([True, False])), index, tree)
    np.testing.assert_array_equal(library.host(new["density"]), [[2, 2, 0], [3, 4, 5]])
    np.testing.assert_array_equal(library.host(new["x"])[0], [[4, 5], [4, 5], [0, 1]])
    np.testing.assert_array_equal(library.host(new["x"])[1], np.arange(6.0, 12.0).reshape(3, 2))
    assert new["run"] is tree["run"] and new["none"] is None
    index = library.array(np.asarray([[2, 2, 0], [1, 0, 1]]))
    both = resampling.take_ancestors(
        library.xp, library.array(np.asarray([True, True])), index, (tree["x"], tree["density"]) * 2
    )
    np.testing.assert_array_equal(library.host(both[0])[1], [[8, 9], [6, 7], [8, 9]])
    np.testing.assert_array_equal(library.host(both[1]), [[2, 2, 0], [4, 3, 4]])
    assert both[2] is both[0] and both[3] is both[1]  # what is shared is taken once
