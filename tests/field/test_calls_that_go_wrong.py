"""A wrong call is told what is wrong and what to type; a call that has one meaning just works."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import BackendError, CapabilityError, HyperparameterError, LogDensityError, TraceError
from xpsample.zoo.ising import ising_lattice, potts

X0 = np.zeros((4, 3))


def normal(x):
    return -0.5 * array_namespace(x).sum(x**2, axis=-1)


def model(density, **settings):
    return xps.Model(density, mu=xps.Real(), z=xps.Real(2), **settings)


def run(target, kernel=None, x0=X0, **settings):
    return xps.sample(target, kernel or xps.RWM(1.0), x0, 3, seed=1, progress=False, **settings)


# ---- what now works --------------------------------------------------------------------------------------------------


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
def test_a_model_of_a_function_of_one_chain(library):
    """`batched` hands it the parameters of one chain."""

    def of_one(p, scale):
        assert p.mu.shape == () and p.z.shape == (2,)
        return -0.5 * scale * (p.mu**2 + p.z @ p.z)

    one, all_chains = model(xps.batched(of_one), data=np.ones(())), model(lambda p: -0.5 * p.mu**2 + normal(p.z))
    x0 = library.array(np.random.default_rng(0).normal(size=(2, 4, 3)))
    draws = [library.host(xps.sample(m, xps.RWM(1.0), x0, 5, seed=xps.Portable(1)).draws) for m in (one, all_chains)]
    np.testing.assert_allclose(*draws, rtol=1e-12)


def test_starts_of_groups_whose_data_differ():
    data = np.asarray([0.0, 10.0, -10.0])[:, None, None]
    here = model(lambda p, d: normal(p.z - d) - p.mu**2, data=data)
    assert here.start(like=np.zeros(0), chains=(3, 4), seed=0).shape == (3, 4, 3)
    target = xps.Target(lambda x, d: normal(x - d), data=data)
    assert xps.start(target, np.zeros(2), chains=(3, 4), seed=0).shape == (3, 4, 2)


@pytest.mark.parametrize("number", [np.float64(2.0), np.float32(2.0), np.int64(2), np.bool_(True)])
def test_numbers_of_numpy_among_the_data(library, number):
    def log_density(x, data):
        return normal(x) * array_namespace(x).astype(data["s"], x.dtype)

    target = xps.Target(log_density, data={"s": number})
    assert run(target, x0=library.array(X0)).draws.shape == (3, 4, 3)


# ---- what is told ----------------------------------------------------------------------------------------------------


STARTS = {
    "names": (
        {"mu": np.zeros(4)},
        r"got dict; .*, or name the parameters with a Model, such as Model\(log_density, mu=",
    ),
    "a number": (1.0, r"got float; start each chain at a point, such as numpy.zeros\(\(chains, dim\)\)"),
    "a list": ([[0.0]], r"got list; make an array of it, such as numpy.asarray\(x0\)"),
}


@pytest.mark.parametrize(("x0", "advice"), STARTS.values(), ids=STARTS)
def test_starts_that_are_no_array(x0, advice):
    with pytest.raises(BackendError, match=advice):
        run(xps.Target(normal), x0=x0)


def test_a_data_frame():
    frame = pytest.importorskip("pandas").DataFrame(X0)
    with pytest.raises(BackendError, match=r"got DataFrame; pass its numbers, x0.to_numpy\(\)"):
        run(xps.Target(normal), x0=frame)
    with pytest.raises(LogDensityError, match=r"got Series: pass its numbers, .to_numpy\(\)"):
        run(xps.Target(lambda x: frame[0]))


@pytest.mark.parametrize("make", [lambda shape: ising_lattice(shape, 0.3), lambda shape: potts(shape, 3, 0.3)])
def test_a_lattice_by_its_width_alone(make):
    with pytest.raises(HyperparameterError, match=r"such as \(8, 8\), or \(8,\) for a ring; got 8"):
        make(8)
    assert make((8, 8)) is not None and make(np.asarray([8])) is not None


@pytest.mark.parametrize("kernel", [xps.RWM(1.0), xps.HMC(0.1, 2)])
def test_a_function_without_its_return(library, kernel):
    x0 = library.array(X0)
    for target in (xps.Target(lambda x: None), model(lambda p: None)):
        with pytest.raises(LogDensityError, match="None: let the function end with return"):
            run(target, kernel, x0)
    for target in (xps.Target(xps.batched(lambda x: None)), model(xps.batched(lambda p: None))):
        with pytest.raises(LogDensityError, match="gives None for a position: let it end with return"):
            run(target, kernel, x0)


@pytest.mark.parametrize(
    "density", [lambda p: normal(p), lambda p: p["mu"], lambda p: p.sigma, lambda mu, z: mu, lambda p, data: p.mu]
)
def test_densities_of_a_model_that_take_something_else(density):
    called = (
        r"called as log_density\(p\), or log_density\(p, data\) .*; p has mu, z, such as p.mu of shape \(\*chains\)"
    )
    with pytest.raises(LogDensityError, match=called):
        run(model(density))


def test_a_check_of_a_score_that_nothing_uses():
    with pytest.raises(CapabilityError, match="compares the score with the log density, and RWM uses no score"):
        run(xps.Target(normal), check=True)


def test_a_lifted_function_where_none_is_taken():
    with pytest.raises(LogDensityError, match=r"not a tuple\. Write the function for all chains"):
        xps.batched(normal)((X0,))
    for wrong in ("ValueError", (ValueError, int), 3):
        with pytest.raises(HyperparameterError, match="rejects must be a class of exceptions, such as ValueError"):
            xps.batched(normal, rejects=wrong)


# ---- raw errors of other libraries -----------------------------------------------------------------------------------


def of_names(**settings):
    return lambda: model(lambda p: normal(p.z)).start(np.zeros(0), 4, seed=1, **settings)


@pytest.mark.parametrize("number", [2**63, 2**64, 2**1000])
def test_integers_beyond_64_bits_are_numbers(number):
    assert xps.RWM(number).step_size == float(number) and xps.Until(ess=number).ess == float(number)
    assert xps.Interval(-number, number).high == float(number)
    with pytest.raises(HyperparameterError, match="draws must be a positive integer and at most"):
        xps.sample(xps.Target(normal), xps.RWM(1.0), X0, number, seed=1)
    with pytest.raises(HyperparameterError, match="step_size must be a number"):
        xps.RWM(10**400)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"values": [1.0, 2.0]}, r"values must be a mapping, such as \{'mu': 1.0\}; got \[1.0, 2.0\]"),
        ({"values": {"mu": "x"}}, "values of mu must be numbers or an array; got 'x'"),
        ({"values": {"z": np.zeros((7, 2))}}, r"values of z are of chains \(7,\), which do not fit the chains \(4,"),
        ({"scale": np.ones(4)}, r"scale must be a number or have shape \(3,\); got an array, float64 of shape \(4"),
        ({"scale": np.ones((4, 3))}, r"scale must be a number or have shape \(3,\)"),
        (None, r"function must be a function \(p\), or \(x\); got 'f'"),
    ],
)
def test_arguments_that_another_library_would_refuse(settings, message):
    with pytest.raises(xps.XpsampleError, match=message):
        run(xps.Target(normal)).map("f") if settings is None else of_names(**settings)()


def test_a_scale_and_values_that_fit():
    """Each coordinate has its scale, and each chain its value."""
    x = model(lambda p: normal(p.z)).start(np.zeros(0), (2, 500), seed=1, scale=np.asarray([5.0, 0.1, 1.0]))
    np.testing.assert_allclose(np.std(x, axis=(0, 1)), [5.0, 0.1, 1.0], rtol=0.15)
    given = of_names(values={"z": np.arange(8.0).reshape(4, 2)})()
    np.testing.assert_array_equal(given[:, 1:], np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize("suffix", ["npz", "nc"])
def test_a_trace_saved_where_there_is_no_folder(tmp_path, suffix):
    pytest.importorskip("h5netcdf")
    missing = r"cannot be written \(FileNotFoundError: No such file.*make its folder"
    with pytest.raises(TraceError, match=missing) as told:
        run(xps.Target(normal)).save(tmp_path / "none" / f"run.{suffix}")
    assert ".tmp" not in str(told.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_a_pipe_is_no_file_of_a_trace(tmp_path):
    os.mkfifo(tmp_path / "run.npz")
    with pytest.raises(TraceError, match="is neither a file nor a folder"):
        xps.load(tmp_path / "run.npz")


@pytest.mark.parametrize("metadata", [[], "text", None])
def test_a_file_whose_metadata_are_no_mapping(tmp_path, metadata):
    replace(run(xps.Target(normal)), metadata=metadata).save(tmp_path / "run.npz")
    with pytest.raises(TraceError, match="the metadata of the trace are not a mapping"):
        xps.load(tmp_path / "run.npz")


def test_targets_are_shown_without_their_data():
    data = {"x": np.zeros((2000, 30)), "y": [np.zeros(2000)]}
    target = xps.Target(normal, data=data)
    assert "data={'x': <float64 (2000, 30)>, 'y': (<float64 (2000,)>)}" in repr(target)
    shown = [target, xps.posterior(normal, lambda x, row: normal(x), np.zeros((2000, 30))), xps.Bridge(target, target)]
    shown += [xps.Tempered(target, np.zeros(99)), xps.Sampler(xps.Target(normal), xps.RWM(1.0), np.zeros((1000, 2)), 5)]
    assert all("array(" not in repr(value) and "[0" not in repr(value) for value in shown)


def test_a_notebook_shows_a_figure_once():
    """It shows open figures at the end of a cell, and what a cell returns by this method, if that raises nothing."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = run(xps.Target(normal)).plot("rank")
    figure._ipython_display_()
    pyplot.close(figure)
    with pytest.raises(NotImplementedError):
        figure._ipython_display_()
    pickle.loads(pickle.dumps(figure))


def test_warnings_are_at_the_root():
    """A filter names them before anything else of the library is imported."""
    names = "DiagnosisWarning", "ConvergenceWarning", "CheckpointWarning"
    filters = "".join(f"warnings.simplefilter('error', xps.{name}); " for name in names)
    code = f"import warnings, xpsample as xps; {filters}xps.Interrupted, xps.XpsampleError"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 0 and not told.stderr
