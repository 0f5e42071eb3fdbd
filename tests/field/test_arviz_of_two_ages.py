"""`to_arviz` gives what the installed ArviZ takes: InferenceData for ArviZ before 1.0, which PyMC before 6 brings."""

import sys
from importlib import metadata

import numpy as np
import pytest

import xpsample as xps

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture
def trace():
    model = xps.Model(lambda p: -0.5 * (p.mu**2 + np.sum(p.z**2, axis=-1)), mu=xps.Real(), z=xps.Real(2))
    x0 = np.random.default_rng(0).normal(size=(4, 3))
    return xps.sample(model, xps.RWM(1.0), x0, 200, seed=1, progress=False)


def test_functions_of_the_installed_arviz_take_it(trace):
    arviz = pytest.importorskip("arviz")
    found = trace.to_arviz()
    table = arviz.summary(found)
    assert list(table.index) == ["mu", "z[0]", "z[1]"]
    # The table is rounded to three digits.
    np.testing.assert_allclose(table["mean"], trace.summary().mean, atol=6e-4)
    assert set(arviz.ess(found).data_vars) == {"mu", "z"}
    assert "seed" in found.attrs


def test_functions_of_the_new_packages_take_it(trace):
    stats = pytest.importorskip("arviz_stats")
    found = stats.ess(trace.to_arviz())
    np.testing.assert_allclose(float(found["mu"]), trace.summary().ess_bulk[0], rtol=1e-6)


@pytest.mark.slow
def test_pymc_predicts_from_it():
    pymc = pytest.importorskip("pymc")
    arviz = pytest.importorskip("arviz")
    from xpsample.interop import pymc_model

    with pymc.Model(coords={"place": ["a", "b"]}) as theirs:
        mu = pymc.Normal("mu")
        pymc.Normal("y", mu, 1.0, observed=[1.0, 2.0], dims="place")
    model = pymc_model(theirs)
    x0 = model.start(like=np.zeros(0), chains=2, seed=0)
    found = xps.sample(model, xps.RWM(1.0), x0, 50, seed=1, progress=False).to_arviz()
    predicted = pymc.sample_posterior_predictive(found, model=theirs, progressbar=False, random_seed=1)
    assert predicted["posterior_predictive"]["y"].shape == (2, 50, 2)
    with theirs:
        pymc.compute_log_likelihood(found, progressbar=False)
    assert np.isfinite(arviz.loo(found).elpd_loo)


def test_a_store_is_given_in_the_same_form(trace, tmp_path):
    pytest.importorskip("zarr")
    pytest.importorskip("xarray")
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    recorders = [xps.Draws(store=tmp_path / "run"), xps.Statistics()]
    kept = xps.sample(target, xps.RWM(1.0), np.zeros((2, 1)), 4, seed=1, progress=False, recorders=recorders)
    assert type(kept.to_arviz()) is type(trace.to_arviz())


def test_without_the_old_package_it_is_a_datatree(trace, monkeypatch):
    xarray = pytest.importorskip("xarray")
    for found in ("1.0.0", "2.3"):
        monkeypatch.setattr(metadata, "version", lambda name, found=found: found)
        assert isinstance(trace.to_arviz(), xarray.DataTree)

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    assert isinstance(trace.to_arviz(), xarray.DataTree)
