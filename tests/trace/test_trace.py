"""Traces: summaries, ArviZ output, and files that are written whole or not at all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample
from tests.damage import damages
from xpsample.core import tree
from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.metrics import mcse_mean
from xpsample.sampling.load import load
from xpsample.trace.summary import RunStatistics, Summary
from xpsample.trace.trace import Trace

LIBRARIES = ["numpy", "torch", "jax.numpy", "array_api_strict"]


class Moments(NamedTuple):
    mean: Any
    count: Any


def make_trace(xp=numpy_xp, n=200, chains=(2, 3), dim=2, **changes):
    rng = np.random.default_rng(3)

    def array(values, dtype="float32"):
        return xp.asarray(np.asarray(values, dtype=dtype))

    parts = {
        "draws": array(rng.normal(size=(n, *chains, dim))),
        "statistics": {
            "acceptance_probability": array(rng.uniform(size=(n, *chains))),
            "moved": array(rng.uniform(size=(n, *chains)) < 0.7, "bool"),
            "diverged": array(np.zeros((n, *chains)), "bool"),
            "log_density": array(rng.normal(size=(n, *chains))),
        },
        "recorded": {
            "moments": Moments(array(rng.normal(size=(*chains, dim))), array(n, "int32")),
            "histograms": {"coarse": (array([1, 2], "int32"), None), "fine": [array([0.5])]},
        },
        "run_statistics": RunStatistics(
            steps=2 * n,
            acceptance_probability=rng.uniform(size=chains),
            moved=rng.uniform(size=chains),
            diverged=np.ones(chains, dtype=np.int64),
            evaluations={"log_density": 1.0, "score": 2.5, "hvp": 0.0},
        ),
        "state": None,
        "metadata": {"kernel": "MALA(step_size=0.1)", "backend": "numpy", "seed": 2**100, "seconds": 1.5},
    }
    return Trace(**parts | changes)


def assert_same_arrays(actual, expected):
    assert to_host(actual).dtype == to_host(expected).dtype
    np.testing.assert_array_equal(to_host(actual), to_host(expected))


# ---- summary -----------------------------------------------------------------------------------------------


def test_summary_agrees_with_arviz():
    stats = pytest.importorskip("arviz_stats.base").array_stats
    trace = make_trace()
    summary = trace.summary(by=())
    draws = trace.draws.reshape(200, 6, 2).astype(np.float64)
    assert summary.method == "rank-normalized, split R-hat"
    np.testing.assert_allclose(summary.mean, draws.mean(axis=(0, 1)))
    np.testing.assert_allclose(summary.sd, draws.std(axis=(0, 1), ddof=1))
    np.testing.assert_allclose(summary.mcse, mcse_mean(draws))
    for i in range(2):
        chains = draws[:, :, i].T
        assert summary.ess_bulk[i] == pytest.approx(stats.ess(chains, method="bulk"))
        assert summary.ess_tail[i] == pytest.approx(stats.ess(chains, method="tail", prob=(0.05, 0.95)))
        assert summary.rhat[i] == pytest.approx(stats.rhat(chains, method="rank"))


def test_groups_of_a_sweep_are_kept_apart():
    trace = make_trace(n=400)
    trace.draws[:, 1] += 5
    whole = trace.summary()
    assert whole.mean.shape == (2, 2) and whole.chains == 3
    for group in range(2):
        alone = make_trace(n=400, draws=trace.draws[:, group]).summary()
        for name in ("mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"):
            np.testing.assert_allclose(getattr(whole, name)[group], getattr(alone, name), err_msg=name)
    assert np.all(whole.rhat < 1.02) and np.all(trace.summary(by=()).rhat > 1.5)
    np.testing.assert_array_equal(trace.summary(by=0).rhat, whole.rhat)
    assert trace.summary(by=1).mean.shape == (3, 2) and trace.summary(by=(0, 1)).mean.shape == (2, 3, 2)
    lines = str(whole).splitlines()
    assert [line for line in lines if line.startswith("group")] == ["group 0", "group 1"]
    for wrong in (2, -1, (0, 0), "a"):
        with pytest.raises(TraceError, match="by must name chain axes, of which there are 2"):
            trace.summary(by=wrong)


@pytest.mark.filterwarnings("error")
def test_summary_of_awkward_coordinates():
    draws = np.random.default_rng(0).normal(size=(100, 2, 4))
    draws[..., 0] = 0.1
    draws[7, 1, 1] = np.nan
    draws[..., 2] = draws[..., 2] > -1  # ones and a few zeros: the upper tail is every draw
    summary = make_trace(draws=draws).summary()
    for values in (summary.ess_bulk, summary.ess_tail, summary.rhat):
        np.testing.assert_array_equal(np.isnan(values), [True, True, False, False])
    assert summary.sd[0] == pytest.approx(0, abs=1e-12)
    one = make_trace(draws=draws[:1, 0, 2:]).summary()
    assert np.all(np.isnan(one.sd)) and np.all(np.isnan(one.ess_bulk))


def test_summary_text():
    trace = make_trace(metadata={"names": ["slope", "intercept"]})
    lines = str(trace.summary(by=())).splitlines()
    assert lines[0].split() == ["mean", "sd", "5%", "95%", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert [line.split()[0] for line in lines[1:3]] == ["slope", "intercept"]
    assert len({len(line) for line in lines[:3]}) == 1
    assert lines[3] == "200 draws of 6 chains"
    assert lines[4] == "ESS and R-hat: rank-normalized, split R-hat"
    assert lines[5].startswith("acceptance probability 0.3")
    assert lines[6] == "divergences: 6 in 2400 steps"
    assert lines[7] == "evaluations per step and chain: 1 log_density, 2.5 score, 0 hvp"


def test_summary_text_of_many_coordinates_is_short():
    values = np.ones(1000)
    names = tuple(f"x[{i}]" for i in range(1000))
    summary = Summary(
        names, *[values] * 8, method="plain", draws=1, chains=1, run_statistics=make_trace().run_statistics
    )
    text = str(summary)
    assert "... 970 more coordinates" in text
    assert "x[27]" in text and "x[28]" not in text and "x[998]" in text and "x[999]" in text


def test_default_names():
    assert make_trace().summary().names == ("x[0]", "x[1]")
    with pytest.raises(TraceError, match="3 names for 2 coordinates"):
        make_trace(metadata={"names": "abc"}).summary()


def test_a_trace_without_draws_says_what_to_do():
    for trace in (make_trace(draws=None), make_trace(n=0)):
        for action in (trace.summary, trace.to_arviz):
            with pytest.raises(TraceError, match=r"no draws .*moments.*Rerun with Draws\(\)"):
                action()


def test_repr_is_short():
    text = repr(make_trace())
    assert "(200, 2, 3, 2) float32" in text and "MALA" in text and "numpy" in text
    assert len(text) < 250
    assert "draws=None" in repr(make_trace(draws=None))


def test_a_notebook_shows_what_it_holds_and_the_table(monkeypatch):
    trace = make_trace()
    html = trace._repr_html_()
    assert "Trace(draws=(200, 2, 3, 2)" in html and trace.summary()._repr_html_() in html
    monkeypatch.setattr("xpsample.trace.trace.SHOWN", 100)
    assert "Trace(draws=" in trace._repr_html_() and "<table>" not in trace._repr_html_()
    target, kernel = xpsample.Target(lambda x: -0.5 * np.sum(x**2, -1)), xpsample.RWM(1.0)
    moments = xpsample.sample(target, kernel, np.zeros((4, 2)), 50, recorders=[xpsample.Moments()], seed=1)
    assert "<table>" in moments._repr_html_()
    assert "<table>" not in make_trace(draws=None)._repr_html_()


# ---- ArviZ -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_to_arviz(library):
    pytest.importorskip("arviz_base")
    trace = make_trace(pytest.importorskip(library))
    datatree = trace.to_arviz()
    x = datatree["posterior"]["x"]
    assert x.dims == ("chain", "draw", "x_dim") and x.shape == (6, 200, 2)
    np.testing.assert_array_equal(x[4, 5], to_host(trace.draws)[5, 1, 1])
    stats = datatree["sample_stats"]
    assert set(stats.data_vars) == {"acceptance_rate", "moved", "diverging", "lp"}
    assert stats["lp"].dims == ("chain", "draw")
    np.testing.assert_array_equal(stats["lp"][4], to_host(trace.statistics["log_density"])[:, 1, 1])
    assert datatree.attrs["kernel"] == "MALA(step_size=0.1)"
    assert json.loads(datatree.attrs["run_statistics"])["diverged"] == [[1, 1, 1], [1, 1, 1]]
    named = make_trace(chains=(), metadata={"names": ["a", "b"]}).to_arviz()["posterior"]
    assert list(named["x_dim"].values) == ["a", "b"] and named["x"].shape == (1, 200, 2)


@pytest.mark.parametrize(
    ("missing", "extra", "use"),
    [
        ("xarray", "arviz", lambda trace, folder: trace.to_arviz()),
        ("h5netcdf", "io", lambda trace, folder: trace.save(folder / "run.nc")),
    ],
)
def test_what_is_not_installed_is_named(tmp_path, monkeypatch, missing, extra, use):
    pytest.importorskip("arviz_base")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf'pip install "xpsample\[{extra}\]"'):
        use(make_trace(), tmp_path)


# ---- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_npz_round_trip(tmp_path, library):
    trace = make_trace(pytest.importorskip(library))
    trace.save(tmp_path / "run.npz")
    parts = ("draws", "statistics", "recorded")
    expected = dict(tree.items([getattr(trace, name) for name in parts]))
    for like in (None, trace.draws):
        again = load(tmp_path / "run.npz", like=like)
        assert type(again.draws) is (np.ndarray if like is None else type(trace.draws))
        found = dict(tree.items([getattr(again, name) for name in parts]))
        assert list(found) == list(expected)
        for name, array in found.items():
            assert type(array) is type(again.draws)
            assert_same_arrays(array, expected[name])
        assert type(again.recorded["moments"]).__name__ == "Moments"
        assert again.recorded["histograms"]["coarse"][1] is None
        assert again.run_statistics.steps == 400 and type(again.run_statistics.steps) is int
        assert again.run_statistics.evaluations == trace.run_statistics.evaluations
        for name in ("acceptance_probability", "moved", "diverged"):
            assert_same_arrays(getattr(again.run_statistics, name), getattr(trace.run_statistics, name))
        assert again.metadata == trace.metadata and again.state is None


def test_npz_holds_plain_arrays_under_slashed_names(tmp_path):
    make_trace(draws=None).save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        assert {"statistics/moved", "recorded/moments/mean", "run_statistics/moved"} <= set(file.files)
        assert json.loads(file["header"].item())["schema"] == 3
    again = load(tmp_path / "run.npz")
    assert again.draws is None and again.recorded["moments"].count == 200


def test_netcdf_round_trip(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("arviz_base")
    trace = make_trace(metadata={"seed": 2**100, "thinning": 2, "device": None, "names": ["a", "b"]})
    trace.save(tmp_path / "run.nc")
    with xarray.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as datatree:
        xarray.testing.assert_equal(datatree.load(), trace._datatree())
        assert datatree.attrs["seed"] == str(2**100)
        assert datatree.attrs["thinning"] == 2
        assert datatree.attrs["device"] == "null"
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]
    with pytest.raises(TraceError, match="open_datatree"):
        load(tmp_path / "run.nc")


@pytest.mark.parametrize("name", ["run.pkl", "run"])
def test_bad_suffix(tmp_path, name):
    with pytest.raises(TraceError, match=r"must be \.npz or \.nc"):
        make_trace().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".npz", ".nc"])
def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"run{suffix}"
    if suffix == ".nc":
        pytest.importorskip("h5netcdf")
        pytest.importorskip("arviz_base")
    make_trace().save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    writer = "numpy.lib.format.write_array" if suffix == ".npz" else "xarray.DataTree.to_netcdf"
    monkeypatch.setattr(writer, fail)
    with pytest.raises(TraceError, match=r"disk full.*free space"):
        make_trace(n=10).save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("suffix", [".npz", ".nc"])
def test_a_file_that_cannot_grow_is_an_error_and_not_the_end_of_the_process(tmp_path, suffix):
    """As on a full disk: HDF5 crashes there."""
    pytest.importorskip("resource")
    pytest.importorskip("arviz_base")
    pytest.importorskip("h5netcdf")
    make_trace(n=2000).save(tmp_path / "run.npz")
    script = """
import resource, signal, sys
from xpsample.core import tree
from xpsample.core.errors import TraceError
from xpsample.sampling.load import load

trace = load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    trace.save(sys.argv[2])
except TraceError as error:
    print(error)
"""
    root, out = Path(xpsample.__path__[0]).parent, tmp_path / "out"
    out.mkdir()
    arguments = [sys.executable, "-c", script, str(tmp_path / "run.npz"), str(out / f"run{suffix}")]
    ended = subprocess.run(arguments, cwd=root, check=True, capture_output=True, text=True)
    assert "too large" in ended.stdout
    assert list(out.iterdir()) == []


def test_files_that_are_no_traces(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(FileNotFoundError):
        load(path)
    np.savez(path, x=np.ones(3))
    for content in (path.read_bytes(), b"", b"PK\x03\x04 cut short", b"text"):
        path.write_bytes(content)
        with pytest.raises(TraceError, match="not a trace"):
            load(path)
    lacking = ('{"schema": 3}', '{"schema": 3, "structure": {"dict": {}}, "metadata": {}}')
    for header in ("{", "[]", "3", "[" * 10_000, *lacking):
        np.savez(path, header=np.asarray(header))
        with pytest.raises(TraceError, match=r"run.npz cannot be read .*damaged, or not a trace"):
            load(path)


def test_schema_version_and_damage(tmp_path):
    path = tmp_path / "run.npz"
    make_trace().save(path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].item())
    np.savez(path, **arrays | {"header": json.dumps(header | {"schema": 1})})
    with pytest.raises(TraceError, match=r"schema version 1 .* reads 3"):
        load(path)
    del arrays["statistics/moved"]
    np.savez(path, **arrays)
    with pytest.raises(TraceError, match="KeyError: 'statistics/moved'"):
        load(path)


def test_every_damage_is_one_error_that_names_the_file(tmp_path):
    path = tmp_path / "run.npz"
    trace = make_trace(n=3)
    trace.save(path)
    refused, all_of_them = 0, list(damages(path.read_bytes()))
    for damaged in all_of_them:
        path.write_bytes(damaged)
        try:
            found = load(path)
        except TraceError as error:
            refused += str(path) in str(error)
        else:  # a date, or another part of the archive that holds no numbers
            assert_same_arrays(found.draws, trace.draws)
            assert sorted(found.statistics) == sorted(trace.statistics)
            refused += 1
    assert refused == len(all_of_them)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recorded": {"texts": np.asarray([{}], dtype=object)}}, "recorded/texts has dtype object"),
        ({"recorded": {"a": {"b": np.ones(1)}, "a/b": np.ones(1)}}, "recorded/a/b"),
        ({"recorded": {"a": {1: np.ones(1)}}}, "only text keys"),
        ({"metadata": {"kernel": object()}}, "metadata cannot be written as JSON"),
    ],
)
def test_what_cannot_be_saved(tmp_path, changes, message):
    with pytest.raises(TraceError, match=message):
        make_trace(**changes).save(tmp_path / "run.npz")
    assert list(tmp_path.iterdir()) == []
