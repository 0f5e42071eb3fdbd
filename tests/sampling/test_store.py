"""Draws beyond memory: a run whose rows go to a zarr store is the run that keeps them."""

import importlib
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zarr

import xpsample as xps
from tests.conftest import open_library
from tests.file_layer import FAULTS, FileLayer
from tests.sampling.checkpoint_support import KERNEL, TARGET, same, start
from xpsample import load, sample
from xpsample.core import tree
from xpsample.core.errors import CheckpointError, HyperparameterError, StoreError, TraceError
from xpsample.sampling import checkpoint, loop, store
from xpsample.sampling.store import RowStore
from xpsample.trace import stored as on_disk
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.ising import potts

NUMPY = open_library("numpy", "float64")


@pytest.fixture
def where(tmp_path):
    return tmp_path / "run.zarr"


@pytest.fixture
def saved(tmp_path):
    """Where a checkpoint will be."""
    return tmp_path / "saved"


@pytest.fixture(autouse=True)
def chunks_of_37(monkeypatch):
    """Of the runs of `recorded`: so that a few hundred draws are several chunks, and no block ends where one does."""
    monkeypatch.setattr(store, "CHUNK", 37 * 300 * (2 * 8 + 2 * 8 + 2 + 2 * 8))


def recorded(where):
    theta = xps.Record("theta", lambda state: {"theta": state.theta})
    return (xps.Draws(store=where), xps.Statistics(), xps.Moments(), theta)


def run(library, draws, where=None, **settings):
    settings = {"seed": 3, "progress": False, "recorders": recorded(where)} | settings
    return sample(TARGET, KERNEL, start(library), draws, **settings)


def in_memory(part):
    """A tree whose arrays on the disk are read."""
    return tree.map(lambda leaf: leaf[...] if isinstance(leaf, on_disk.StoredRows) else leaf, part)


def same_traces(library, stored, kept):
    for part in ("draws", "statistics", "recorded", "state"):
        same(library, getattr(kept, part), in_memory(getattr(stored, part)))
    assert json.dumps(stored.run_statistics.evaluations) == json.dumps(kept.run_statistics.evaluations)
    np.testing.assert_array_equal(stored.run_statistics.moved, kept.run_statistics.moved)
    assert stored.diagnose() == kept.diagnose()


@pytest.mark.sampled(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("burn_in", "thinning"), [(0, 1), (10, 3)])
def test_rows_on_the_disk_are_those_in_memory(tmp_path, library, burn_in, thinning):
    settings = {"burn_in": burn_in, "thinning": thinning}
    kept, stored = run(library, 300, **settings), run(library, 300, tmp_path / "run.zarr", **settings)
    same_traces(library, stored, kept)
    assert type(stored.draws[-1]) is type(kept.draws) and stored.draws.shape == (300, 300, 2)
    node = zarr.open_group(tmp_path / "run.zarr", mode="r")["posterior/x"]
    assert node.chunks == (37, 300, 2) and node.nchunks == 9
    read = load(tmp_path / "run.zarr", like=start(library))
    same(library, in_memory(read.statistics), kept.statistics)
    same(library, read.draws[...], kept.draws)
    assert read.run_statistics.steps == kept.run_statistics.steps and read.metadata["kernel"] == kept.metadata["kernel"]


def test_rows_of_no_numbers(tmp_path):
    recorders = [xps.Draws(store=tmp_path / "run.zarr"), xps.Record("none", lambda state: state.point.x[..., :0])]
    run(NUMPY, 100, recorders=recorders, checkpoint=tmp_path / "saved")
    trace = run(NUMPY, 120, recorders=recorders, checkpoint=tmp_path / "saved")
    assert trace.recorded["none"][...].shape == (120, 300, 0)


def test_brackets_read_as_numpy_does(tmp_path):
    kept, stored = run(NUMPY, 100).draws, run(NUMPY, 100, tmp_path / "a").draws
    keys = (-1, 5, slice(3), slice(-10, None), slice(None, None, 40), slice(80, 3, -7), slice(50, 20), slice(None))
    for rows in keys:
        for rest in ((), (0,), (..., 1), (slice(4, 9), slice(None)), (-1, 1)):
            np.testing.assert_array_equal(stored[(rows, *rest)], kept[(rows, *rest)])
    np.testing.assert_array_equal(stored[..., 0], kept[..., 0])
    np.testing.assert_array_equal(np.asarray(stored), kept)
    assert len(stored) == 100 and stored.ndim == 3 and stored.dtype == np.float64
    for wrong in (100, (0, 300), (0, 0, 0, 0), [1, 2], np.zeros(100, bool)):
        with pytest.raises(IndexError):
            stored[wrong]


@pytest.mark.slow
def test_a_compiled_run_has_one_program(tmp_path):
    library = open_library("jax", "float32")
    executables = importlib.import_module("xpsample_jax.programs").EXECUTABLES
    run(library, 100, tmp_path / "100.zarr")
    kept = len(executables)
    run(library, 301, tmp_path / "301.zarr")
    assert len(executables) == kept


# ---- killed, stopped and resumed ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_extended_run_equals_one_run(tmp_path, library, monkeypatch):
    whole = run(library, 200, burn_in=10, thinning=2)
    settings = {"burn_in": 10, "thinning": 2, "checkpoint": xps.Checkpoint(tmp_path / "saved", every=0.0)}
    for draws, seconds in ((1, 1.0), (37, 1e-9), (200, 1.0)):
        monkeypatch.setattr(loop, "SECONDS", seconds)  # other blocks
        resumed = run(library, draws, tmp_path / "run.zarr", **settings)
    same_traces(library, resumed, whole)
    assert not list((tmp_path / "saved").glob("rows-*"))  # no second copy
    again = run(library, 200, tmp_path / "run.zarr", **settings)
    same_traces(library, again, whole)


def test_fewer_draws_are_the_first_ones(tmp_path, where):
    settings = {"recorders": recorded(where)[:2], "checkpoint": tmp_path / "saved"}
    whole = in_memory(run(NUMPY, 200, **settings).draws)
    fewer = run(NUMPY, 60, **settings)
    same(NUMPY, fewer.draws[...], whole[:60])
    assert fewer.to_arviz().posterior.sizes["draw"] == 60 and fewer.summary().draws == 60
    same(NUMPY, run(NUMPY, 200, **settings).draws[...], whole)
    same(NUMPY, load(tmp_path / "saved").draws[...], whole)


def test_rows_beyond_the_checkpoint_are_written_anew(tmp_path, where):
    whole, saved = run(NUMPY, 200), tmp_path / "saved"
    run(NUMPY, 50, where, checkpoint=saved)
    shutil.copytree(saved, tmp_path / "old")
    run(NUMPY, 200, where, checkpoint=saved)
    resumed = run(NUMPY, 80, where, checkpoint=tmp_path / "old")
    same(NUMPY, resumed.draws[...], whole.draws[:80])
    assert zarr.open_group(where, mode="r")["posterior/x"].shape[0] == 80
    with pytest.raises(StoreError, match=r"run\.zarr cannot be read .*has 80 rows of .*, and 200 were counted"):
        run(NUMPY, 200, where, checkpoint=saved)


def test_a_run_that_was_killed_before_its_first_save_begins_anew(tmp_path, where, monkeypatch):
    monkeypatch.setattr(checkpoint.SavedRun, "save", lambda *args, **kwargs: None)
    run(NUMPY, 50, where, checkpoint=tmp_path / "saved")
    monkeypatch.undo()
    zarr.open_group(where).create_group("theirs")
    again = run(NUMPY, 80, where, recorders=recorded(where)[:2], checkpoint=tmp_path / "saved")
    same(NUMPY, again.draws[...], run(NUMPY, 80).draws)
    assert {*zarr.open_group(where)} == {"posterior", "sample_stats", "theirs"}  # and none of the other recorders


def test_rows_under_a_checkpoint_count_when_it_is_saved(where, saved, monkeypatch):
    """And are on the disk by then. Until then only full chunks are written, which do not count yet."""
    run(NUMPY, 50, where, checkpoint=saved)
    seen, append = [], RowStore.append

    def appended(self, buffers, rows, run_statistics, whole):
        append(self, buffers, rows, run_statistics, whole)
        seen.append((whole, len(load(where).draws), zarr.open_group(where, mode="r")["posterior/x"].shape[0]))

    monkeypatch.setattr(RowStore, "append", appended)
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    run(NUMPY, 90, where, checkpoint=saved)
    assert sum(not whole for whole, *_ in seen) > 10
    assert all(counted == 50 for _, counted, _ in seen)
    assert {there for whole, _, there in seen if not whole} == {50, 74} and seen[-1][2] == 90
    assert len(load(where).draws) == 90


def test_what_a_killed_run_left_is_removed_and_nothing_else(where, saved):
    run(NUMPY, 50, where, checkpoint=saved)
    before = {path for path in where.rglob("*") if path.is_file()}
    left = [where / ".zarr.json.0123456789ab.tmp", where / "posterior/x/c/0/0/.0.0123456789ab.tmp"]
    others = [where / "sample_stats/mine/1", where / "notes.txt"]
    for path in left + others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    run(NUMPY, 50, where, checkpoint=saved)
    assert {path for path in where.rglob("*") if path.is_file()} - before == {*others}


def test_metadata_that_were_changed_do_not_become_right_by_going_on(where, saved):
    run(NUMPY, 50, where, checkpoint=saved)
    changed = where / "posterior" / "x" / "zarr.json"
    changed.write_text(changed.read_text().replace('"draw"', '"warp"'))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"posterior/x/zarr.json is not as it was written"):
            run(NUMPY, 80, where, checkpoint=saved)


def test_another_checkpoint_does_not_begin_anew_in_the_place_of_draws(tmp_path, where):
    run(NUMPY, 50, where, checkpoint=tmp_path / "saved")
    for other in ({"checkpoint": tmp_path / "svaed"}, {}):
        with pytest.raises(StoreError, match=r"run\.zarr holds 50 draws that another checkpoint counts: pass that one"):
            run(NUMPY, 20, where, **other)
    again = run(NUMPY, 80, where, checkpoint=tmp_path / "saved")
    same(NUMPY, again.draws[...], run(NUMPY, 80).draws)


@pytest.mark.slow
def test_every_write_that_fails_leaves_the_draws_before_it(tmp_path, monkeypatch):
    """Also where arrays of a group have rows already that the others lack."""
    pytest.importorskip("arviz_base")
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    whole, counts, plain = run(NUMPY, 80), set(), FileLayer(tmp_path, FAULTS["disk full"])
    with plain:
        run(NUMPY, 80, tmp_path / "run.zarr")
    for at in range(20, len(plain.calls), 7):
        root = tmp_path / str(at)
        root.mkdir()
        where, layer = root / "run.zarr", FileLayer(root, FAULTS["disk full"], at)
        full = pytest.raises(StoreError, match=r"run\.zarr cannot be written to .*No space left on device.*same call")
        with layer, full:
            run(NUMPY, 80, where)
        try:
            read = load(where)
        except TraceError:
            continue  # there were none
        count = len(read.draws)
        counts.add(count)
        same(NUMPY, read.draws[...], whole.draws[:count])
        assert np.all(np.isfinite(read.run_statistics.moved))
        tree_of = read.to_arviz()
        np.testing.assert_array_equal(tree_of.posterior["x"], np.reshape(whole.draws[:count], (count, 300, 2)))
        np.testing.assert_array_equal(tree_of.sample_stats["diverging"], whole.statistics["diverged"][:count])
    assert counts == {37, 74}


def test_until_stops_where_it_does_in_memory(where, library):
    x0 = library.array(np.random.default_rng(0).normal(size=(4, 2)))
    settings = {"seed": 1, "progress": False, "until": xps.Until(ess=500)}
    make = partial(sample, gaussian(np.eye(2)), xps.MALA(0.5), x0, 50_000, **settings)
    kept, stored = make(), make(recorders=(xps.Draws(store=where), xps.Statistics()))
    assert stored.draws.shape == kept.draws.shape and len(stored.draws) < 5000
    same(library, stored.draws[...], kept.draws)


def test_two_runs_are_kept_apart(where):
    refused = pytest.raises(StoreError, match=r"run\.zarr is in use by process \d+")
    with RowStore(str(where)).locked(), refused:
        run(NUMPY, 20, where)


@pytest.mark.slow
def test_a_short_run_takes_little_room_and_can_be_extended(tmp_path, where, saved, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 2**23)
    whole = run(NUMPY, 200)
    for draws, chunks in ((1, 1), (10, 3), (200, 50)):
        trace = run(NUMPY, draws, where, checkpoint=saved)
        assert zarr.open_group(where, mode="r")["posterior/x"].nchunks == chunks
    same(NUMPY, trace.draws[...], whole.draws)
    run(NUMPY, 200, tmp_path / "long.zarr")
    assert zarr.open_group(tmp_path / "long.zarr", mode="r")["posterior/x"].nchunks == 1
    gaussian_run = partial(sample, gaussian(np.eye(2)), xps.RWM(1.0), np.zeros((4, 2)), 50, seed=1, progress=False)
    gaussian_run(recorders=[xps.Draws(store=tmp_path / "small.zarr"), xps.Statistics()])
    assert sum(path.stat().st_size for path in (tmp_path / "small.zarr").rglob("*") if path.is_file()) < 2**17


def test_room_is_asked_for_all_that_is_written(tmp_path, monkeypatch):
    """Draws, the values of a model's parameters, and statistics; by the chunk."""
    model = xps.Model(lambda p: -0.5 * p.a**2, a=xps.Real())
    make = partial(sample, model, xps.RWM(0.5), np.zeros((4, 1)), 2000, seed=1, progress=False)
    bytes_of_a_row = 4 * (8 + 8 + 8 + 8 + 1 + 1)
    for free, fits in ((2000 * bytes_of_a_row - 1, False), (2000 * bytes_of_a_row, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(free, 0, free))
        recorders = (xps.Draws(store=tmp_path / f"{fits}.zarr"), xps.Statistics())
        if fits:
            assert len(make(recorders=recorders).draws) == 2000
        else:
            with pytest.raises(StoreError, match=r"would write 0\.000272 GB"):
                make(recorders=recorders)


@pytest.mark.parametrize("labels", [[0, 1], ["", "a"], [0]])
def test_labels_that_are_as_what_is_missing(tmp_path, labels):
    """A zero, or no text, which zarr leaves out by default."""
    where, settings = tmp_path / "run.zarr", {"dims": {"m": "who"}, "coords": {"who": labels}}
    model = xps.Model(lambda p: -np.sum(p.m**2, axis=-1), m=xps.Real(len(labels)), **settings)
    recorders = (xps.Draws(store=where), xps.Statistics())
    x0 = np.zeros((3, len(labels)))
    trace = sample(model, xps.RWM(0.5), x0, 20, seed=1, recorders=recorders, progress=False)
    assert list(trace.to_arviz().posterior.who.values) == labels
    (where / "posterior" / "who" / "c" / "0").unlink()
    with pytest.raises(StoreError, match="parts of posterior/who are missing"):
        load(where)


# ---- refused -------------------------------------------------------------------------------------------------------


def test_stores_of_other_runs_are_refused(tmp_path, where, saved):
    run(NUMPY, 20, where, checkpoint=saved)
    run(NUMPY, 20, tmp_path / "plain.zarr")
    for settings in ({}, {"seed": 4, "checkpoint": tmp_path / "other"}):
        with pytest.raises(
            StoreError, match=r"plain\.zarr holds 20 draws that belong to a run: use another path, or remove it"
        ):
            run(NUMPY, 20, tmp_path / "plain.zarr", **settings)
    with pytest.raises(CheckpointError, match=r"draws are in .*run\.zarr: give Draws\(store="):
        run(NUMPY, 20, checkpoint=saved)
    with pytest.raises(StoreError, match="is not the store whose draws the checkpoint counts"):
        run(NUMPY, 40, tmp_path / "new.zarr", checkpoint=saved)
    run(NUMPY, 20, checkpoint=tmp_path / "own")
    with pytest.raises(CheckpointError, match="whose draws are here: leave out"):
        run(NUMPY, 20, tmp_path / "new.zarr", checkpoint=tmp_path / "own")
    zarr.create_group(tmp_path / "theirs.zarr")
    with pytest.raises(StoreError, match="is a zarr group of something else"):
        run(NUMPY, 20, tmp_path / "theirs.zarr")
    with pytest.raises(StoreError, match=r"holds other files, such as .*"):
        run(NUMPY, 20, next((tmp_path / "own").glob("*.npz")).parent)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, and a store is a folder"):
        run(NUMPY, 20, tmp_path / "file")


def test_what_a_store_cannot_be(tmp_path, monkeypatch):
    with pytest.raises(HyperparameterError, match="store must be a path"):
        xps.Draws(store=3)
    two = [xps.Draws(store=tmp_path / "a"), xps.Draws("more", store=tmp_path / "b")]
    with pytest.raises(HyperparameterError, match="a run writes to one store"):
        run(NUMPY, 20, recorders=two)
    same_name = [xps.Record("a/b", lambda state: state.n), xps.Record("a", lambda state: {"b": state.n})]
    with pytest.raises(StoreError, match=r"two results would be stored as 'recorded/a/b'"):
        run(NUMPY, 20, recorders=[xps.Draws(store=tmp_path / "a"), *same_name])
    with pytest.raises(StoreError, match=r"would write 4\.8e\+09 GB"):
        run(NUMPY, 10**15, recorders=[xps.Draws(store=tmp_path / "large")])
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    with pytest.raises(ImportError, match=r'zarr 3: pip install "xpsample\[io\]"'):
        run(NUMPY, 20, tmp_path / "a")


@pytest.mark.parametrize("damage", ["removed", "cut", "flipped", "shorter"])
def test_a_damaged_store_is_one_error_that_names_it(where, saved, damage):
    """Wherever it is read; `tests/field/test_damaged_stores_load_other_draws.py` damages every file."""
    trace = run(NUMPY, 100, where, checkpoint=saved)
    chunk = where / "posterior" / "x" / "c" / "1" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    if damage == "removed":
        chunk.unlink()
    elif damage == "cut":
        chunk.write_bytes(content[:-100])
    elif damage == "flipped":
        content[1000] ^= 1
        chunk.write_bytes(content)
    else:
        zarr.open_array(where / "posterior" / "x").resize((50, 300, 2))
    for use in (lambda: trace.draws[30:60], trace.summary, trace.diagnose, lambda: np.asarray(trace.draws)):
        with pytest.raises(StoreError, match=r"run\.zarr cannot be read .*put a copy of it back"):
            use()
    if damage in ("removed", "shorter"):
        for read in (trace.to_arviz, lambda: load(where).draws[40], lambda: run(NUMPY, 120, where, checkpoint=saved)):
            with pytest.raises(StoreError, match=r"parts of posterior/x are missing|50 rows of posterior/x, and 100"):
                read()


# ---- what is in a store --------------------------------------------------------------------------------------------


def test_a_model_has_its_names(where):
    model = xps.Model(
        lambda p: -0.5 * np.sum(p.theta**2, axis=-1) - 0.5 * p.mu**2 - p.tau,
        mu=xps.Real(),
        tau=xps.Positive(),
        theta=xps.Real(3),
        dims={"theta": ["city"]},
        coords={"city": ["Lima", "Rome", "Oslo"]},
    )
    kept, stored = both(model, xps.RWM(0.5), model.start(np.zeros(1), (2, 4), seed=0), 60, where)
    for trace in (stored, load(where)):
        np.testing.assert_array_equal(trace.draws[...], kept.draws)
        np.testing.assert_array_equal(trace["tau"][...], kept["tau"])
        assert trace["theta"].shape == (60, 2, 4, 3)
        assert str(trace.summary()).splitlines()[:8] == str(kept.summary()).splitlines()[:8]
        assert trace.diagnose() == kept.diagnose()
        with pytest.raises(TraceError, match=r"map needs all draws in memory.*run\.zarr: slice them"):
            trace.map(lambda p: p.tau)
    ours, theirs = stored.to_arviz(), kept.to_arviz()
    for name in ("mu", "tau", "theta"):
        there = theirs.posterior[name]
        np.testing.assert_array_equal(ours.posterior[name].transpose(*there.dims), there)
    assert list(ours.posterior.city.values) == ["Lima", "Rome", "Oslo"]
    assert ours.attrs["kernel"] == theirs.attrs["kernel"] and ours.attrs["seed"] == theirs.attrs["seed"]
    assert set(theirs.sample_stats.data_vars) == set(ours.sample_stats.data_vars)


def test_groups_have_figures_of_their_own(where, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(on_disk, "READ", 3 * 12 * 50)
    monkeypatch.setattr(on_disk, "WORKED", 2 * 12 * 50)  # several passes over the columns
    x0 = np.random.default_rng(0).normal(size=(3, 4, 5))
    kept, stored = both(gaussian(np.eye(5)), xps.RWM(0.8), x0, 50, where)
    for column in ("mean", "sd", "ess_bulk", "ess_tail", "rhat"):
        np.testing.assert_allclose(getattr(stored.summary(), column), getattr(kept.summary(), column), rtol=1e-12)
    assert stored.summary().findings == kept.summary().findings
    assert stored.plot("trace_dist") is not None
    with pytest.raises(TraceError, match="has the groups of the run: omit by"):
        stored.summary(by=())
    with pytest.raises(TraceError, match=r"run\.zarr already"):
        stored.save(tmp_path / "run.npz")


def both(target, kernel, x0, draws, where):
    """A run that keeps its draws, and one that stores them."""
    make = partial(sample, target, kernel, x0, draws, seed=1, progress=False)
    return make(), make(recorders=(xps.Draws(store=where), xps.Statistics()))


@pytest.mark.parametrize("shape", [(2,), (4, 2)])
def test_one_chain_and_images(where, shape):
    image = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=(-1, -2)), space=xps.Real(2, 3))
    kept, stored = both(image, xps.RWM(0.5), np.zeros((*shape, 3)), 50, where)
    np.testing.assert_array_equal(stored["x"][...], kept["x"])
    np.testing.assert_array_equal(stored.draws[...], kept.draws)
    np.testing.assert_array_equal(stored.summary().mean, kept.summary().mean)
    posterior = stored.to_arviz().posterior["x"]
    assert posterior.dims == ("draw", "chain", "x_dim_0", "x_dim_1")
    assert posterior.shape == (50, int(np.prod(shape[:-1])), 2, 3)


def test_discrete_states(where):
    kept, stored = both(potts((2, 2), 3, 0.4, one_hot=False), xps.Gibbs(), np.zeros((4, 4)), 60, where)
    assert stored.summary().names == kept.summary().names
    assert stored.diagnose() == kept.diagnose()


def test_an_address(library):
    where = f"memory://{library.backend.name}/run.zarr"
    stored = run(library, 100, where)
    same(library, stored.draws[...], run(library, 100).draws)
    assert load(where).draws.shape == (100, 300, 2)
    with pytest.raises(TraceError, match="is no store that holds draws"):
        load("memory://other/other.zarr")
    assert not Path("memory:").exists()
