"""The folder of an experiment: what it may overwrite, and what not."""

import json

import pytest

from xpsample.core.errors import XpsampleError
from xpsample.experiments.folder import LIST, OwnFolder


def finished(path, experiment="one"):
    folder = OwnFolder(path, experiment)
    for name in ("report.txt", "results.csv", "maps/a.npz"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(f"{name} of {experiment}")
    folder.close()


def test_it_is_made_with_its_parents(tmp_path):
    OwnFolder(tmp_path / "a" / "b", "one")
    assert json.loads((tmp_path / "a" / "b" / LIST).read_text()) == {"experiment": "one", "files": {}}


def test_its_own_files_are_overwritten_and_hidden_ones_do_not_count(tmp_path):
    put(".gitignore")(tmp_path)
    put(".cache/a")(tmp_path)
    finished(tmp_path)
    finished(tmp_path)
    assert set(json.loads((tmp_path / LIST).read_text())["files"]) == {"report.txt", "results.csv", "maps/a.npz"}


def put(name, text="mine"):
    def put(path):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text)

    return put


def linked(path):
    (path / "results.csv").rename(path.parent / "elsewhere.csv")
    (path / "results.csv").symlink_to(path.parent / "elsewhere.csv")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (put("notes.md"), "notes.md"),
        (put("report.txt"), "report.txt"),
        (put("maps/b.npz"), "maps/b.npz"),
        (linked, "results.csv"),
        (put(LIST, "{"), LIST),
        (put(LIST, "[]"), LIST),
        (lambda path: (path / LIST).unlink(), "report.txt"),
    ],
)
def test_files_that_it_did_not_make_are_left_alone(tmp_path, change, named):
    out = tmp_path / "out"
    finished(out)
    with pytest.raises(XpsampleError, match="that two did not make"):
        OwnFolder(out, "two")
    change(out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(XpsampleError, match=f"{out} holds files that one did not make, .*--out") as raised:
        OwnFolder(out, "one")
    assert named in str(raised.value)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_few_of_many_files_are_named(tmp_path):
    for i in range(9):
        put(f"{i}.txt")(tmp_path)
    with pytest.raises(XpsampleError, match=r"since: \d.txt, \d.txt, \d.txt, \.\.\.\. Nothing was written"):
        OwnFolder(tmp_path, "one")


def test_a_killed_run_can_be_run_again(tmp_path):
    finished(tmp_path)
    folder = OwnFolder(tmp_path, "one")
    for name in ("report.txt", "more.npz"):
        folder.file(name).write_text("half a re")  # then it is killed
    finished(tmp_path)
    assert "more.npz" in (tmp_path / LIST).read_text()


def test_a_place_that_cannot_be_written_to(tmp_path):
    put("out")(tmp_path)
    for path in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(XpsampleError, match=r"cannot write to .*; --out names the folder"):
            OwnFolder(path, "one")
