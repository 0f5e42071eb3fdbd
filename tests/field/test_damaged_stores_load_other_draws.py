"""A store of draws with a changed character loads as other draws or other metadata, or raises a raw error.

All that `zarr.json` files say is under a digest. A store with any character changed is refused by one error that names
it, or holds what was written.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import StoreError, TraceError

pytest.importorskip("zarr")
EVERY = 97
"""Every so many characters are changed, and all of them by ``--full``."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    where = tmp_path_factory.mktemp("store") / "run.zarr"
    model = xps.Model(
        lambda p: -np.sum(p.m**2, -1) - p.s,
        m=xps.Real(2),
        s=xps.Positive(),
        dims={"m": "who"},
        coords={"who": ["a", "b"]},
    )
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


def changed(content: bytes, every: int):
    """Texts with one character changed: a digit by another one, anything else by a letter, and a letter by a digit."""
    for place in range(0, len(content), every):
        old = content[place : place + 1]
        new = b"7" if old.isalpha() or old == b"3" else b"3" if old.isdigit() else b"x"
        yield content[:place] + new + content[place + 1 :]


def is_refused(where, right):
    """Whether a store is refused by an error that names it; what loads is right."""
    try:
        found = told(where)
    except StoreError as error:
        return str(where) in str(error)
    return found != right and pytest.fail("other draws or metadata were loaded")


@pytest.mark.slow
@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.release)])
def test_no_changed_character_of_the_metadata_changes_what_loads(written, tmp_path, every):
    where, right = tmp_path / "run.zarr", told(written)
    shutil.copytree(written, where)
    names = [path.relative_to(written) for path in sorted(written.rglob("zarr.json"))]
    assert len(names) > 8
    refused = 0
    for name in names:
        content = (written / name).read_bytes()
        for damaged in changed(content, every if name.parent == Path() else max(1, every // 10)):
            (where / name).write_bytes(damaged)
            refused += is_refused(where, right)
        (where / name).write_bytes(content)
    assert refused > 100 and told(where) == right


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
    about = json.loads(content["attributes"]["xpsample"])
    content["attributes"]["xpsample"] = json.dumps(about | {"schema": 1})
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
    """A file that is gone, empty, cut, longer, or has a bit changed at one of several places."""
    yield from (None, b"", content[: len(content) // 2], content[:-1], content + b"x", bytes(len(content)))
    for place in range(0, len(content), max(1, len(content) // 5)):
        yield content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
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
