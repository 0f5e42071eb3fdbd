"""A store of draws with a changed character loads as other draws or other metadata, or raises a raw error.

All that `zarr.json` files say is under a digest. A store with any character changed is refused by one error that names
it, or holds what was written.
"""

import json
import shutil

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import StoreError, TraceError

pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    where = tmp_path_factory.mktemp("store") / "run.zarr"
    names = {"dims": {"m": "who"}, "coords": {"who": ["a", "b"]}}
    model = xps.Model(lambda p: -np.sum(p.m**2, -1) - p.s, m=xps.Real(2), s=xps.Positive(), **names)
    recorders = (xps.Draws(store=str(where)), xps.Statistics())
    xps.sample(model, xps.RWM(0.5), np.zeros((3, 3)), 20, seed=1, recorders=recorders, progress=False)
    return where


def told(where):
    """All that a user reads of a store, as text."""
    trace = xps.load(where)
    numbers = [np.asarray(trace.draws), *(np.asarray(trace[name]) for name in ("m", "s"))]
    numbers += [np.asarray(rows) for _, rows in sorted(trace.statistics.items())]
    shown = [trace.metadata, vars(trace.run_statistics), sorted(trace.statistics), [a.tolist() for a in numbers]]
    return json.dumps(shown, default=str)


@pytest.mark.parametrize("kind", ["removed", "empty", "of another array"])
def test_metadata_that_are_missing_or_of_another_array_are_refused(written, tmp_path, kind):
    shutil.copytree(written, tmp_path / "run.zarr")
    at = tmp_path / "run.zarr/posterior/m/zarr.json"
    if kind == "removed":
        at.unlink()
    else:
        at.write_bytes(b"" if kind == "empty" else (written / "posterior/s/zarr.json").read_bytes())
    with pytest.raises(StoreError, match=r"run\.zarr cannot be read"):
        xps.load(tmp_path / "run.zarr")


def test_a_store_that_was_written_by_an_older_version_is_refused_in_one_line(written, tmp_path):
    shutil.copytree(written, tmp_path / "run.zarr")
    at = tmp_path / "run.zarr/zarr.json"
    content = json.loads(at.read_text())
    content["attributes"]["xpsample"] = json.dumps(json.loads(content["attributes"]["xpsample"]) | {"schema": 1})
    at.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="has schema version 1 and this version of xpsample reads"):
        xps.load(tmp_path / "run.zarr")


def in_arviz(where):
    """What a user reads of the store, and all numbers and names that ArviZ gets."""
    numbers, found = told(where), xps.load(where).to_arviz()
    groups = {}
    for name in ("posterior", "sample_stats", "unconstrained_posterior"):
        group = found[name]  # of a DataTree, or of InferenceData a Dataset
        groups[name] = (group.to_dataset() if hasattr(group, "to_dataset") else group).to_dict()
    return numbers, json.dumps(groups, default=str, sort_keys=True)


def damages(content: bytes):
    """A file that is gone, empty, cut, longer, or has a bit changed at one of 20 places."""
    yield from (None, b"", content[: len(content) // 2], content[:-1], content + b"x", bytes(len(content)))
    for place in range(0, len(content), max(1, len(content) // 20)):
        yield content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_every_damage_of_every_file_is_refused_or_changes_nothing(written, tmp_path, every):
    pytest.importorskip("xarray")
    where, right, refusals = tmp_path / "run.zarr", in_arviz(written), []
    shutil.copytree(written, where)
    files = [path.relative_to(written) for path in sorted(written.rglob("*")) if path.is_file()]
    tried = [(name, damaged) for name in files for damaged in damages((written / name).read_bytes())][::every]
    for name, damaged in tried:
        (where / name).unlink() if damaged is None else (where / name).write_bytes(damaged)
        try:
            assert in_arviz(where) == right, name
        except (StoreError, TraceError) as error:
            refusals.append(str(error))
        (where / name).write_bytes((written / name).read_bytes())
    assert len(refusals) > 0.9 * len(tried) and all(str(where) in refusal for refusal in refusals)
    assert in_arviz(where) == right
