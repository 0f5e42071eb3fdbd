"""Evidence from parallel tempering against closed forms, against SMC, and what is refused."""

import math
import warnings

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, HyperparameterError, TraceError

BETAS = (1.0, 0.6, 0.3, 0.1, 0.0)
WIDE = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
NARROW = xps.Target(lambda x: -0.5 * np.sum((x - 1) ** 2, axis=-1), score=lambda x: 1 - x)
BRIDGE, EXACT = xps.Bridge(WIDE, NARROW), -2 * math.log(3)


def run(target=BRIDGE, x0=(4, 2), draws=100, betas=BETAS, base=None, **settings):
    kernel = xps.ParallelTempering(
        xps.MALA(np.reshape([1.0, 1.2, 1.6, 2.5, 3.5], (5, 1))) if base is None else base, betas
    )
    given = {"seed": 1, "burn_in": 50, "recorders": [xps.Draws(), xps.Rungs()]} | settings
    x0 = np.zeros(x0) if isinstance(x0, tuple) else x0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs
        return xps.sample(target, kernel, x0, draws, **given)


def test_stepping_stones_are_the_sums_written_out():
    trace = run()
    betas, density = trace.recorded["rungs"]
    np.testing.assert_allclose(betas, BETAS)
    x = trace.draws
    np.testing.assert_allclose(density[..., 0], NARROW.log_density(x) - WIDE.log_density(x))
    found = xps.tempering_log_normalizer(trace, 2.0)
    stones = sum(
        np.log(np.mean(np.exp((BETAS[k] - BETAS[k + 1]) * density[..., k + 1]))) for k in range(len(BETAS) - 1)
    )
    np.testing.assert_allclose(found.stepping_stones.value, stones + 2.0)
    means, variances = np.mean(density, axis=(0, 1)), np.var(density, axis=(0, 1))
    h = -np.diff(BETAS)
    integral = np.sum(h * (means[:-1] + means[1:]) / 2 - h**2 * (variances[:-1] - variances[1:]) / 12)
    np.testing.assert_allclose(found.thermodynamic.value, integral + 2.0)


@pytest.mark.slow
def test_the_errors_hold_over_200_runs():
    """95 % of 200 within 1.96 errors: 177 or fewer, and 199 or more, have probability 3e-4 each for exact errors."""
    trace = run(x0=(200, 4, 2), draws=400, base=xps.MALA(np.reshape([1.0, 1.2, 1.6, 2.5, 3.5], (5, 1, 1))))
    found = xps.tempering_log_normalizer(trace)
    stones = found.stepping_stones
    assert stones.value.shape == stones.standard_error.shape == stones.weight_ess.shape == (200,)
    assert 177 < np.sum(np.abs(stones.value - EXACT) < 1.96 * stones.standard_error) < 199
    # The other one has the error of its rule in it, and holds more often.
    other = found.thermodynamic
    assert np.sum(np.abs(other.value - EXACT) < 1.96 * other.standard_error) > 177
    assert abs(np.mean(stones.value) - EXACT) < 0.02 and abs(np.mean(other.value) - EXACT) < 0.05


def test_a_finite_space():
    """Spins in a field: the sum over four states is in closed form; 4 errors."""
    field = np.array([1.0, -0.5])
    target = xps.Target(lambda x: x @ field, score=lambda x: field + 0 * x, space=xps.Binary())
    trace = run(target, (8, 2), 200, (1.0, 0.5, 0.0), xps.Gibbs())
    found = xps.tempering_log_normalizer(trace, 2 * math.log(2)).stepping_stones
    assert abs(found.value - np.sum(np.log1p(np.exp(field)))) < 4 * found.standard_error < 0.3


@pytest.mark.first_cases(1)
def test_the_same_on_every_library(library):
    xp = library.xp
    wide = xps.Target(lambda x: -0.5 * xp.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
    narrow = xps.Target(lambda x: -0.5 * xp.sum((x - 1) ** 2, axis=-1), score=lambda x: 1 - x)
    settings = {"draws": 30, "seed": xps.Portable(2), "base": xps.MALA(1.0)}
    found = xps.tempering_log_normalizer(run(xps.Bridge(wide, narrow), library.array(np.zeros((4, 2))), **settings))
    on_numpy = xps.tempering_log_normalizer(run(**settings))
    np.testing.assert_allclose(found.stepping_stones.value, on_numpy.stepping_stones.value, rtol=1e-9)
    np.testing.assert_allclose(found.thermodynamic[:2], on_numpy.thermodynamic[:2], rtol=1e-8)


@pytest.mark.parametrize("declared", [True, False])
def test_a_rung_that_stays_inside_a_bound_is_refused(declared):
    """A half normal in a normal: at beta = 0 the rung samples the half one, and the constant 1 / 2 would be 1."""
    half = xps.Target(lambda x: np.where(x[..., 0] > 0, -0.5 * x[..., 0] ** 2, -np.inf), constrained=declared)
    bridge = xps.Bridge(xps.Target(lambda x: -0.5 * x[..., 0] ** 2), half)
    with pytest.raises((CapabilityError, TraceError), match="inside which the rung at beta = 0 stays"):
        xps.tempering_log_normalizer(run(bridge, np.ones((4, 1)), 100, (1.0, 0.0), xps.RWM(2.0)))


def test_rungs_too_far_apart_have_no_error():
    """From a scale of 10,000 in one step, a few draws at most have all of the weight."""
    wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 1e8, score=lambda x: -x / 1e8)
    base = xps.MALA(np.reshape([1.0, 1e4], (2, 1)))
    trace = run(xps.Bridge(wide, NARROW), 1e4 * np.random.default_rng(1).normal(size=(4, 2)), 300, (1.0, 0.0), base)
    assert xps.tempering_log_normalizer(trace).stepping_stones.standard_error == np.inf


def test_files_and_stores_have_them_too(tmp_path):
    trace = run()
    trace.save(tmp_path / "run.npz")
    pytest.importorskip("zarr")
    stored = run(recorders=[xps.Draws(store=tmp_path / "run.zarr"), xps.Rungs()])
    for other in (xps.load(tmp_path / "run.npz"), stored):
        np.testing.assert_array_equal(
            xps.tempering_log_normalizer(other).stepping_stones, xps.tempering_log_normalizer(trace).stepping_stones
        )


def test_what_does_not_fit_says_what_would():
    with pytest.raises(CapabilityError, match="Rungs records ParallelTempering"):
        xps.sample(NARROW, xps.MALA(0.5), np.zeros((4, 2)), 10, seed=1, recorders=[xps.Rungs()])
    with pytest.raises(TraceError, match=r"Rungs\(\)"):
        xps.tempering_log_normalizer(run(draws=10, recorders=[xps.Draws()]))
    with pytest.raises(HyperparameterError, match=r"ends in 0\.5"):
        xps.tempering_log_normalizer(run(draws=10, betas=(1.0, 0.5), base=xps.MALA(0.5)))
    with pytest.raises(CapabilityError, match="accepts or rejects"):
        xps.tempering_log_normalizer(run(draws=10, base=xps.ULA(0.1)))
    with pytest.raises(TraceError, match="shard"):
        xps.tempering_log_normalizer(run(draws=10, base=xps.MALA(0.5), shards=2))
