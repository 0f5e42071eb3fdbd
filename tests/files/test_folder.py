"""A folder keeps a state, rows that are only added to, and an identity; it knows nothing of runs."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.damage import damages
from xpsample.core.errors import CheckpointError, StoreError, reading
from xpsample.files.common import SCHEMA, check_room, check_schema, digest_of, locked, sealed, unsealed
from xpsample.files.folder import INDEX, LOCK, Folder, Keeper

ROWS = np.arange(24.0).reshape(12, 2)


def keep(keeper, stop, step=None):
    """State number `stop`, and rows up to there."""
    new = {"x": ROWS[keeper.count : stop], "flags": ROWS[keeper.count : stop, 0] > 3}
    keeper.save(stop if step is None else step, {"carry/x": np.asarray(stop)}, new, stop, {"identity": {"seed": 1}})


@pytest.fixture
def kept(tmp_path):
    keeper = Keeper(tmp_path / "deeper" / "run")
    for stop in (4, 4, 9):
        keep(keeper, stop)
    return keeper


def test_what_was_kept_is_read(kept):
    found = Folder(kept.path)
    assert found.content["identity"] == {"seed": 1} and found.state()["carry/x"] == 9
    np.testing.assert_array_equal(found.rows()["x"], ROWS[:9])
    np.testing.assert_array_equal(found.rows(2)["flags"], ROWS[:2, 0] > 3)
    assert found.rows(12)["x"].shape == (12, 2)


def test_only_what_is_new_is_written(kept):
    """Files of rows stay as they were written, and there is one state."""
    before = {path.name: path.stat().st_mtime_ns for path in kept.path.iterdir() if path.name.startswith("rows")}
    again = Keeper(kept.path)
    again.go_on(Folder(kept.path))
    keep(again, 12)
    after = {path.name: path.stat().st_mtime_ns for path in kept.path.iterdir() if path.name.startswith("rows")}
    assert len(before) == 2 and len(after) == 3 and before.items() <= after.items()
    assert len(list(kept.path.glob("state-*"))) == 1
    np.testing.assert_array_equal(Folder(kept.path).rows()["x"], ROWS)


def test_digests_are_those_of_the_files(kept):
    """They are taken while the files are written, and not read again."""
    content = Folder(kept.path).content
    digests = {content["state"][0]: content["state"][1]} | {name: digest for name, *_, digest in content["rows"]}
    assert len(digests) == 3
    assert {name: hashlib.sha256((kept.path / name).read_bytes()).hexdigest() for name in digests} == digests


def all_of(found):
    return {name: array.tobytes() for name, array in (found.state() | found.rows()).items()}


def is_refused(path, whole):
    """Whether a folder is refused by an error that says so; what is read is right."""
    try:
        found = all_of(Folder(path))
    except CheckpointError as error:
        return "cannot be read" in str(error) or "schema version" in str(error)
    return found != whole and pytest.fail("another state or other rows were read")


def test_any_damage_is_one_error_that_names_the_file(kept):
    whole, refused = all_of(Folder(kept.path)), 0
    for path in sorted(kept.path.iterdir()):
        content = path.read_bytes()
        for damaged in damages(content):
            path.write_bytes(damaged)
            refused += is_refused(kept.path, whole)
        path.write_bytes(content)
        path.rename(path.with_suffix(".away"))
        with pytest.raises((CheckpointError, FileNotFoundError)):
            all_of(Folder(kept.path))
        path.with_suffix(".away").rename(path)
    assert refused > 200


def test_a_folder_of_an_earlier_version_is_refused_in_one_line(kept):
    content = json.loads((kept.path / INDEX).read_text())
    (kept.path / INDEX).write_text(json.dumps(content | {"schema": 2}))
    with pytest.raises(CheckpointError, match=rf"has schema version 2 and this .* reads {SCHEMA}:"):
        Folder(kept.path)


def test_what_another_process_kept_in_between_is_not_lost(kept):
    other = Keeper(kept.path)
    other.go_on(Folder(kept.path))
    keep(other, 12)
    with pytest.raises(OSError, match="another process has changed"):
        keep(kept, 11)
    assert Folder(kept.path).state()["carry/x"] == 12


def test_a_lock_clears_what_killed_processes_left(kept):
    left = [
        "state-000000000512-0123456789ab.npz",
        f".{INDEX}.0123456789ab.tmp",
        f"rows-000000000009-000000000012-{'0' * 12}.npz",
    ]
    others = ["state-of-the-art.npz", "rows.npz", ".notes.tmp", f"{INDEX}.old", ".other.npz.0123456789ab.tmp"]
    for name in left + others:
        (kept.path / name).write_bytes(b"half of it")
    with kept.locked():
        names = {path.name for path in kept.path.iterdir()}
        assert not names & set(left) and names >= {*others, LOCK}
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"), Keeper(kept.path).locked():
            pass
    assert not (kept.path / LOCK).exists()


def test_the_parts_that_all_clients_share(tmp_path):
    content = sealed({"a": Path("b")})
    assert unsealed("here", dict(content), StoreError, "go away") == {"schema": SCHEMA, "a": "b"}
    assert content["digest"] == digest_of({"schema": SCHEMA, "a": "b"})
    with pytest.raises(ValueError, match="not as it was written"):
        unsealed("here", content | {"a": 2}, StoreError, "go away")
    with pytest.raises(StoreError, match=r"here has schema version 1 .* or go away"):
        check_schema("here", 1, StoreError, "go away")
    with pytest.raises(StoreError, match=r"write 1e\+21 GB"):
        check_room(tmp_path, 1e30, StoreError)
    check_room(tmp_path / "not there", 1e30, StoreError)
    damaged = pytest.raises(StoreError, match=r"here cannot be read \(ValueError: nonsense\): do that")
    with damaged, reading("here", StoreError, "do that"):
        raise ValueError("nonsense")
    with pytest.raises(MemoryError), reading("here", StoreError, "do that"):
        raise MemoryError
    taken = pytest.raises(StoreError, match="here is in use by process")
    with locked(tmp_path / "new" / "here", StoreError) as alone, taken, locked(tmp_path / "new" / "here", StoreError):
        assert (tmp_path / "new" / "here.lock").exists()
    assert alone
    with pytest.raises(BlockingIOError), locked(tmp_path / "here", StoreError):
        raise BlockingIOError  # of what is done within, which is no lock's
