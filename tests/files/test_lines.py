"""Files of rows: what is in them comes back or is refused, whatever happens to the process or to the file."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.damage import damages
from xpsample.core.errors import CheckpointError, CheckpointWarning
from xpsample.files import common
from xpsample.files.lines import RowsFile, opened_rows

IDENTITY = {"settings": {"chains": 3}, "sizes": {8: 0.1}, "seed": 1}  # whose key comes back as text
ROWS = [{"name": "one", "value": 0.1 + 0.2, "none": None}, {"name": "two", "value": math.inf, "list": [1, 2]}]


@pytest.fixture
def path(tmp_path):
    """A file with two rows."""
    path = tmp_path / "deeper" / "rows.jsonl"
    with opened_rows(path) as rows:
        rows.begin(IDENTITY)
        for row in ROWS:
            rows.add(row)
    return path


def test_rows_come_back(path):
    with opened_rows(path) as rows:
        rows.check(IDENTITY)
        assert rows.rows == ROWS and rows.begun and not rows.finished
        rows.add({"name": "three", "value": math.nan})
        rows.finish()
    found = RowsFile(path)
    assert math.isnan(found.rows[2]["value"]) and found.finished
    assert [path.name for path in path.parent.iterdir()] == ["rows.jsonl"]  # the lock is gone
    assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())


def test_beginning_anew_leaves_nothing(path):
    with opened_rows(path) as rows:
        rows.begin({"seed": 2})
    found = RowsFile(path)
    found.check({"seed": 2})
    assert found.rows == []


def test_another_run_is_refused_by_name(path):
    with pytest.raises(CheckpointError, match=r"rows of another run \(settings chains: 3 there, 4 here\)"):
        RowsFile(path).check(IDENTITY | {"settings": {"chains": 4}})


def test_a_row_that_was_being_written_is_dropped(path):
    whole = path.read_bytes()
    begin = whole[:-1].rfind(b"\n") + 1
    for length in range(begin, len(whole)):
        path.write_bytes(whole[:length])
        with opened_rows(path) as rows:
            assert rows.rows == ROWS[:1]
            rows.add(ROWS[1])
        assert path.read_bytes() == whole
    for length in range(whole.find(b"\n")):  # it is the first line
        path.write_bytes(whole[:length])
        assert not RowsFile(path).begun


def test_damage_is_one_error_that_names_the_file(path):
    content = path.read_bytes()
    for damaged in damages(content):
        path.write_bytes(damaged)
        if damaged.startswith(content[: content.rfind(b"\n", 0, -1) + 1]) and not damaged.endswith(b"\n"):
            assert RowsFile(path).rows == ROWS[:1]  # the last line lost its end, and is dropped
        elif content.startswith(damaged) and damaged.count(b"\n") < 2:
            assert RowsFile(path).rows == []
        else:
            with pytest.raises(CheckpointError, match=r"rows.jsonl .*begin anew"):
                RowsFile(path)


def test_lines_that_were_swapped_or_removed_are_damage(path):
    head, one, two = path.read_bytes().splitlines(keepends=True)
    for lines in ([head, two, one], [head, two], [one, two]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(CheckpointError, match=r"rows.jsonl cannot be read"):
            RowsFile(path)


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b'{"schema": 3}\n', b"[]\n"])
def test_a_file_of_somebody_else_is_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"), opened_rows(path):
        pass
    assert path.read_bytes() == content


def test_another_schema_is_refused_with_the_reason(path, monkeypatch):
    monkeypatch.setattr(common, "SCHEMA", 99)
    with pytest.raises(CheckpointError, match=r"schema version \d+ and this .* of xpsample reads 99: use the version"):
        RowsFile(path)


def test_a_row_that_cannot_be_written_is_written_with_the_next(path, monkeypatch):
    whole = RowsFile(path).rows
    with opened_rows(path) as rows:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full_disk)
            with pytest.warns(CheckpointWarning, match=r"could not be saved to .*rows.jsonl .*No space left"):
                rows.add({"number": 3})
        rows.add({"number": 4})
    assert RowsFile(path).rows == [*whole, {"number": 3}, {"number": 4}]


def full_disk(*_args):
    raise OSError(28, "No space left on device")


# ---- several processes, and killed ones ------------------------------------------------------------------------------


def test_a_file_in_use_is_refused_and_says_by_whom(path):
    refused = pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()} on .*, since 20")
    with opened_rows(path), refused, opened_rows(path):
        pass


WRITER = """
import sys
from pathlib import Path
from xpsample.files.lines import opened_rows
with opened_rows(Path(sys.argv[1])) as rows:
    if not rows.begun:
        rows.begin({"seed": 1})
    while True:
        rows.add({"number": len(rows.rows), "text": "x" * 500})
        print(len(rows.rows), flush=True)
"""


def test_no_row_is_lost_by_a_kill(tmp_path):
    """The writer says each row that it has put down; it is killed at random instants, lock and all."""
    path, rng, told = tmp_path / "rows.jsonl", random.Random(0), 0
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            first = int(process.stdout.readline())
            assert first > told
            time.sleep(rng.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
            told = max([first, *map(int, process.stdout.read().splitlines())])
        found = RowsFile(path).rows
        assert len(found) >= told
        assert [row["number"] for row in found] == list(range(len(found)))
        assert path.with_name("rows.jsonl.lock").exists()  # stale, and the next one gets in


def test_the_number_of_another_process_does_not_block(path):
    """A lock file that names a process which runs now, as after a reuse of its number, is free all the same."""
    lock = path.with_name("rows.jsonl.lock")
    lock.write_text(f"process {os.getpid()} on this-machine, since 2001-01-01 00:00:00")
    with opened_rows(path) as rows:
        assert rows.rows == ROWS
    assert not lock.exists()
