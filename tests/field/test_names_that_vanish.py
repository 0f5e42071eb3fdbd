"""Names of parameters and axes: each is in the table, in every file and in ArviZ, or refused where the model is made.

ArviZ has axes "chain" and "draw" of its own, xarray makes an axis of a variable that is called like one, and a slash
makes a group in NetCDF and zarr.
"""

import tempfile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xpsample as xps
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.names import OF_FILES, TAKEN, exported

REFUSED = {
    "chain": ({"chain": xps.Real()}, {}, "'chain', the name of an axis in ArviZ.* such as 'chain_'"),
    "draw": ({"draw": xps.Positive(2)}, {}, "'draw', the name of an axis in ArviZ"),
    "sample": ({"sample": xps.Real()}, {}, "'sample', the name of an axis in ArviZ"),
    "an axis chain": ({"b": xps.Real(2)}, {"b": "chain"}, "an axis of b cannot be called 'chain'"),
    "an axis draw": ({"b": xps.Real(2)}, {"b": "draw"}, "an axis of b cannot be called 'draw'"),
    "like its axis": ({"b": xps.Real(2)}, {"b": "b"}, "an axis of b and the parameter 'b' have one name"),
    "like another's axis": ({"b": xps.Real(2), "s": xps.Real()}, {"b": "s"}, "axis of b and the parameter 's'"),
    "like a default axis": ({"b": xps.Real(2), "b_dim_0": xps.Real()}, {}, "the parameter 'b_dim_0' have one name"),
    "an axis twice": ({"b": xps.Real(2, 2)}, {"b": ("s", "s")}, "the axes of b must have different names"),
    "an axis of two sizes": ({"b": xps.Real(3), "c": xps.Real(2)}, {"b": "c_dim_0"}, "'c_dim_0' has 3 .* 2 in c"),
    "empty": ({"": xps.Real()}, {}, "files cannot have as a name"),
    "an empty axis": ({"b": xps.Real(2)}, {"b": ""}, "files cannot have as a name"),
    "a dot": ({".": xps.Real()}, {}, "files cannot have as a name"),
    "a slash": ({"/": xps.Real()}, {}, "files cannot have as a name"),
    "a null": ({"a\0b": xps.Real()}, {}, "files cannot have as a name"),
    "no text": ({"\ud800": xps.Real()}, {}, "files cannot have as a name"),
    "a file of stores": ({"zarr.json": xps.Real()}, {}, "files cannot have as a name"),
    "a slash for a dot": ({"a/b": xps.Real(), "a.b": xps.Real()}, {}, "would have one name in files and in ArviZ"),
    "axes, too": ({"a": xps.Real(2, 3)}, {"a": ("k/l", "k.l")}, "the axes 'k/l' and 'k.l' would have one name"),
    "rows of a table": ({"a": xps.Real(2), "a[0]": xps.Real()}, {}, "two rows of a table would be called the same"),
}


def log_density(p):
    return -0.5 * sum(np.sum(np.reshape(value, (len(value), -1)) ** 2, axis=-1) for value in p)


@pytest.mark.parametrize(("spaces", "dims", "message"), REFUSED.values(), ids=REFUSED)
def test_what_would_vanish_is_refused_by_name(spaces, dims, message):
    with pytest.raises(HyperparameterError, match=message):
        xps.Model(log_density, dims=dims, **spaces)


WORTH_A_TRY = [
    *("x", "draws", "log_density", "lp", "diverged", "diverging", "acceptance_rate", "energy", "posterior", "header"),
    *[
        "a b",
        " a",
        "a.b",
        "a/b",
        "/a",
        "a/",
        "a//b",
        "a\\b",
        "a[0]",
        "a:b",
        "a\nb",
        "a%2Fb",
        "c/0",
        "[",
        "β",
        "数",
        "🐟",
    ],
    *("count", "index", "_fields", "class", "self", "1a", "__zarr", "zarr.json/x", "mean", "...", "x" * 200),
]
NAMES = st.one_of(st.sampled_from(WORTH_A_TRY), st.text(max_size=20)).filter(
    lambda name: (
        not any(name.casefold() == own for own in (*TAKEN, "data", "gradient", "constrained", "dims", "coords"))
        and bool(exported(name))
        and exported(name) not in OF_FILES
        and "\0" not in name
        and name.isprintable() | ("\n" in name)
    )
)
"""Those that a model can have. (Text that cannot be written, and the model's own options, are left out.)"""


def made(names, **settings):
    """A run of two draws of parameters of these names, numbers and vectors in turn."""
    spaces = {name: xps.Real() if i % 2 else xps.Real(2) for i, name in enumerate(names)}
    model = xps.Model(log_density, **spaces)
    x0 = np.random.default_rng(0).normal(size=(3, model.space.dim))
    return xps.sample(model, xps.RWM(0.5), x0, 2, seed=1, progress=False, **settings), spaces


def assert_in_arviz(tree, trace, names):
    posterior = tree["posterior"]
    assert sorted(posterior.data_vars) == sorted(map(exported, names))
    for name in names:
        found = posterior[exported(name)].transpose("chain", "draw", ...)
        np.testing.assert_array_equal(found.values, np.swapaxes(trace[name], 0, 1))


def legal(names):
    """Whether they can be in one model."""
    try:
        made(names)
    except HyperparameterError:
        return False
    return True


@pytest.mark.slow
@settings(max_examples=8, derandomize=True)
@given(st.lists(NAMES, min_size=1, max_size=4, unique_by=exported).filter(legal))
@example(["A", "a", "B", "b"])
@example(WORTH_A_TRY)
def test_every_name_is_in_the_table_in_every_file_and_in_a_store(names):
    pytest.importorskip("h5netcdf")
    pytest.importorskip("zarr")
    xarray = pytest.importorskip("xarray")
    names = [name for i, name in enumerate(names) if exported(name) not in map(exported, names[:i])]
    trace, spaces = made(names)
    labels = [[f"{name}[0]", f"{name}[1]"] if space.shape else [name] for name, space in spaces.items()]
    assert list(trace.summary().names) == [label for own in labels for label in own]
    assert_in_arviz(trace.to_arviz(), trace, names)
    with tempfile.TemporaryDirectory() as folder:
        trace.save(f"{folder}/a.npz")
        trace.save(f"{folder}/a.nc")
        stored, _ = made(names, recorders=[xps.Draws(store=f"{folder}/run"), xps.Statistics()])
        assert_in_arviz(stored.to_arviz(), trace, names)
        for path in ("a.npz", "run"):
            loaded = xps.load(f"{folder}/{path}")
            assert loaded.parameters == tuple(names)
            for name in names:
                np.testing.assert_array_equal(loaded[name][:], trace[name])
        with xarray.open_datatree(f"{folder}/a.nc") as tree:
            assert_in_arviz(tree, trace, names)


def test_axes_keep_their_names_and_labels(tmp_path):
    """With a slash, too, and in every file."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    model = xps.Model(log_density, b=xps.Real(2), dims={"b": "of/b"}, coords={"of/b": ["one", "two"]})
    x0 = np.zeros((3, 2))
    trace = xps.sample(model, xps.RWM(0.5), x0, 2, seed=1, progress=False)
    kept = xps.sample(model, xps.RWM(0.5), x0, 2, seed=1, progress=False, recorders=[xps.Draws(store=tmp_path / "z")])
    trace.save(tmp_path / "a.nc")
    with xarray.open_datatree(tmp_path / "a.nc") as tree:
        for found in (trace.to_arviz(), kept.to_arviz(), tree):
            assert list(found["posterior"]["b"]["of.b"].values) == ["one", "two"]
