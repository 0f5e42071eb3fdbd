"""Every call of a run that reaches the disk fails, once each: what was saved stays, and nothing differs.

The slow tests take some of the calls; ``python -m tests.sampling.faults --library NAME`` takes all of them.
"""

from collections import Counter

import pytest

from tests.conftest import open_library, x64
from tests.file_layer import FAULTS, FileLayer
from tests.sampling.faults import Saves, entries, more_entries, survey

NUMPY = open_library("numpy", "float64")
EVERY = {"killed": 1, "power cut": 2, "input or output error": 1, "disk full": 3, "disk full once": 3, "read-only": 3}


def check(entry, fault, work, every):
    """How many calls were struck, of a run that starts anew and of one that goes on."""
    tried = 0
    for goes_on in (False, True):
        found, wrong = survey(entry, FAULTS[fault], work, goes_on, every)
        assert not wrong, "\n".join(wrong)
        tried += found["tried"]
    return tried


@pytest.mark.parametrize(("entry", "saves", "each_save", "pieces"), [("draws", 4, 3, 0), ("fit", 4, 2, 4)])
def test_what_saves_ask_of_the_disk(entry, saves, each_save, pieces, tmp_path):
    """Five calls for each file, and one for the state before: of `draws` three files a save, of `fit` two.

    This is why the tests below try fewer calls than there were in 0.1.0, which wrote a file in pieces, a header at a
    time: 75 of the 107 calls of `draws` were writes, of six files in two saves.
    """
    layer = FileLayer(tmp_path, FAULTS["killed"])
    with Saves.watched(), layer:
        entries(NUMPY)[entry](tmp_path / "run")
    files = each_save * saves
    each = {"create": files, "write": files + pieces, "sync": 2 * files, "replace": files, "unlink": saves - 1}
    lock = Counter(mkdir=1, sync=1, create=1, truncate=1, write=1, unlink=1)  # and the folder
    assert Counter(call.split()[0] for call in layer.calls) == Counter(each) + lock + Counter(mkdir=saves)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_of_a_run(fault, tmp_path):
    assert check(entries(NUMPY)["draws"], fault, tmp_path, EVERY[fault]) > 60 // EVERY[fault]


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("entry", ["warm-up", "fit"])
def test_every_call_of_a_warm_up_and_of_a_training(entry, fault, tmp_path):
    assert check(entries(NUMPY)[entry], fault, tmp_path, 7) > 56 // 7


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_of_a_run_with_a_store(fault, tmp_path):
    every = 7 if fault in ("killed", "power cut") else 11
    assert check(entries(NUMPY)["store"], fault, tmp_path, every) > 12


@pytest.mark.slow
@pytest.mark.parametrize("entry", more_entries(NUMPY))
def test_a_kill_at_some_calls_of_all_that_takes_a_checkpoint(entry, tmp_path):
    assert check(more_entries(NUMPY)[entry], "killed", tmp_path, 7) > 8


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["sosmc", "score balance"])
def test_a_kill_at_some_calls_on_torch(entry, tmp_path):
    """Particles, and a training with derivatives in its loss."""
    assert check(more_entries(open_library("torch", "float64"))[entry], "killed", tmp_path, 7) > 8


@pytest.mark.sampled(8)
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("name", "every"), [("torch", 11), ("jax", 41)])
def test_other_libraries(name, every, fault, tmp_path):
    with x64(name, "float64"):
        runs = entries(open_library(name, "float64"))
        del runs["store"]  # whose calls are the same
        assert sum(check(entry, fault, tmp_path, every) for entry in runs.values()) > 300 // every


def test_a_finished_run_is_read_where_nothing_can_be_written(tmp_path):
    entry = entries(NUMPY)["draws"]
    first = entry(tmp_path / "run")
    layer = FileLayer(tmp_path, FAULTS["read-only"], at=0)
    with layer:
        again = entry(tmp_path / "run")
    assert layer.struck and all(first[key].tobytes() == again[key].tobytes() for key in first)
