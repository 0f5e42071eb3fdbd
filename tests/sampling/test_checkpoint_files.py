"""The files of a checkpoint: who may write them, what identifies a run, and damage."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from tests.conftest import open_library
from tests.damage import every_damage
from tests.sampling.checkpoint_support import run, start
from xpsample import (
    MALA,
    RWM,
    Checkpoint,
    Draws,
    Moments,
    Portable,
    Record,
    Statistics,
    Target,
    load,
)
from xpsample.core.errors import CheckpointError, CheckpointWarning
from xpsample.files import atomic, folder
from xpsample.files.common import digest_of
from xpsample.files.folder import INDEX, LOCK
from xpsample.sampling import checkpoint as checkpoints
from xpsample.sampling import loop
from xpsample.zoo.gaussian import gaussian

# ---- several processes ---------------------------------------------------------------------------------------


def test_a_directory_in_use_is_refused_and_says_by_whom(tmp_path):
    refused = pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()} on .*, since 20")
    with atomic.exclusive(tmp_path / LOCK), refused:
        run(20, tmp_path)
    run(20, tmp_path)
    assert not (tmp_path / LOCK).exists()


THREE = """
    import sys
    import numpy as np
    from xpsample import MALA, Checkpoint, sample
    from xpsample.zoo.gaussian import gaussian
    for number in range(12):
        settings = dict(checkpoint=Checkpoint(f"{sys.argv[2]}/{number}", every=0), progress=False)
        try:
            sample(gaussian(np.eye(2)), MALA(0.3), np.ones((300, 2)), 600, seed=int(sys.argv[1]), **settings)
        except ValueError as error:
            print(type(error).__name__, flush=True)
        else:
            print("whole", flush=True)
"""


@pytest.mark.slow
def test_three_processes_in_one_directory(tmp_path):
    """Each run is whole, or refused before its first step; what is left belongs to one of them."""
    seeds, command = (1, 1, 2), [sys.executable, "-c", textwrap.dedent(THREE)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, str(seed), str(tmp_path)], **streams) for seed in seeds]
    outs = [process.communicate() for process in processes]
    assert [err for _, err in outs] == [""] * 3
    ends = list(zip(*(out.split() for out, _ in outs), strict=True))
    assert len(ends) == 12 and set(itertools.chain(*ends)) <= {"whole", "CheckpointError"}
    expected = {}
    for number, end in enumerate(ends):
        assert ("whole" in end[:2]) != (end[2] == "whole")
        seed = seeds[end.index("whole")]
        if seed not in expected:
            expected[seed] = run(600, None, np.ones((300, 2)), MALA(0.3), gaussian(np.eye(2)), seed=seed).draws
        np.testing.assert_array_equal(load(tmp_path / str(number)).draws, expected[seed])


@pytest.mark.slow
def test_without_locks_the_last_to_save_wins_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    calls, other = [], partial(run, 600, Checkpoint(tmp_path, every=0))

    def interfere(state):
        calls.append(state)
        if len(calls) == 3:  # within the first block, of one step
            theirs.append(other())
        return state.point.x[0]

    theirs, recorders = [], (Draws(), Record("one", interfere))
    with pytest.warns(CheckpointWarning, match="another process has changed or removed run.json"):
        mine = other(recorders=recorders)
    np.testing.assert_array_equal(mine.draws, theirs[0].draws)
    np.testing.assert_array_equal(load(tmp_path).draws, mine.draws)
    assert "one" not in load(tmp_path).recorded


# ---- before the first step, and failing saves -------------------------------------------------------------------


def full_disk(*_args, **_kwargs):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("what", ["write_arrays", "write_whole"])
def test_a_failing_save_warns_and_the_run_goes_on(tmp_path, monkeypatch, what):
    first = run(20, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(folder, what, full_disk)
        with pytest.warns(CheckpointWarning, match="could not be saved .*No space left.*before stays as it is"):
            trace = run(40, tmp_path)
    whole = run(40)
    np.testing.assert_array_equal(trace.draws, whole.draws)
    np.testing.assert_array_equal(load(tmp_path).draws, first.draws)
    assert len(list(tmp_path.iterdir())) == 3  # run.json, one state, one file of rows
    np.testing.assert_array_equal(run(40, tmp_path).draws, whole.draws)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("file", "is a file"),
        ("file/folder", "cannot be written to .*Not a directory"),
        ("full", "GB .*and 1e-05 GB are free"),
    ],
)
def test_where_nothing_can_be_saved_no_step_is_made(tmp_path, monkeypatch, path, message):
    (tmp_path / "file").write_text("")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000))
    steps = []

    def count(state):
        steps.append(1)
        return state.point.x

    with pytest.raises(CheckpointError, match=message):
        run(20, tmp_path / path, recorders=(Draws(), Statistics(), Record("steps", count)))
    assert len(steps) <= 3  # for a row and for the identity, before the first step


def test_the_state_needs_room_on_the_disk_too(tmp_path, monkeypatch):
    """It is written beside the old one: of 1,000 chains it is larger than one moment of all."""
    x0, usage = np.zeros((1000, 5)), shutil.disk_usage(tmp_path)
    target = Target(lambda x: -0.5 * (x**2).sum(-1))
    make = partial(run, 5, tmp_path / "run", x0, RWM(1.0), target, recorders=(Moments(),))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2 * x0.nbytes))
    with pytest.raises(CheckpointError, match=r"GB .*and 8e-05 GB are free"):
        make()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=20 * x0.nbytes))
    make()


TWO_PATHS = Record("a", lambda state: {"b/c": state.point.x, "b": {"c": state.point.x}})
NESTED = Record("a", lambda state: {"b": state.point.x})


@pytest.mark.parametrize(
    ("recorders", "message"),
    [
        ([TWO_PATHS], "saved as 'recorded/a/b/c'"),
        ([NESTED, Record("a/b", lambda state: state.point.x)], "'recorded/a/b'"),
        ([Record("a", lambda state: {1: state.point.x})], "only text keys"),
        ([Record("texts", lambda state: np.asarray([{}], dtype=object))], "recorded/texts has dtype object"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_the_first_step(tmp_path, recorders, message):
    calls = []

    def counted(x):
        calls.append(x)
        return -0.5 * np.sum(x**2, axis=-1)

    with pytest.raises(CheckpointError, match=message):
        run(900, tmp_path, np.zeros((1, 2)), RWM(1.0), Target(counted), recorders=recorders)
    assert len(calls) < 20  # for a row and for the identity


def test_a_seed_of_numpys_is_a_seed(tmp_path):
    for seed in (np.int64(1), Portable(np.uint32(1))):
        first, again = (run(9, tmp_path / type(seed).__name__, np.zeros((1, 2)), RWM(1.0), seed=seed) for _ in "12")
        np.testing.assert_array_equal(first.draws, again.draws)


# ---- clocks ------------------------------------------------------------------------------------------------------


def test_clocks_set_back_by_an_hour(tmp_path, monkeypatch):
    """Saves go on, the lock is held, and what other writers have under way stays."""
    jumps, steps, save = [], [], checkpoints.SavedRun.save
    for name in ("time", "monotonic"):
        clock = getattr(time, name)
        monkeypatch.setattr(time, name, lambda clock=clock: clock() - 3600 * len(jumps))
    other = tmp_path / f".{INDEX}.0123456789ab.tmp"

    def saved(self, step, *args, **kwargs):
        if step > 4 and not jumps:
            jumps.append(step)
            other.write_text("under way")
        save(self, step, *args, **kwargs)
        steps.append(self.step)
        with pytest.raises(BlockingIOError), atomic.exclusive(tmp_path / LOCK):
            pass

    monkeypatch.setattr(checkpoints.SavedRun, "save", saved)
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    trace = run(12, Checkpoint(tmp_path, every=0.0), start(chains=4))
    assert steps == list(range(1, 13)) and other.exists()
    np.testing.assert_array_equal(trace.draws, run(12, x0=start(chains=4)).draws)
    np.testing.assert_array_equal(load(tmp_path).draws, trace.draws)


# ---- identity ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", ["../secret.npz", "/secret.npz", "state-1-0123456789ab.npz/../../secret.npz"])
def test_an_index_names_no_files_elsewhere(saved, outside):
    """Even one whose digest is right."""
    np.savez(saved.parent / "secret.npz", x=np.ones(1))
    content = json.loads((saved / INDEX).read_text()) | {"state": [outside, "0" * 64]}
    del content["digest"]
    (saved / INDEX).write_text(json.dumps(content | {"digest": digest_of(content)}))
    with pytest.raises(CheckpointError, match="names files that no checkpoint has"):
        load(saved)


def test_other_versions_may_read_and_not_go_on(saved, monkeypatch):
    first = run(20, saved)
    monkeypatch.setattr(np, "__version__", "1.0")
    np.testing.assert_array_equal(run(20, saved).draws, first.draws)
    with pytest.raises(CheckpointError, match=r"numpy: .* there, 1\.0 here.*xpsample\.load"):
        run(30, saved)


def test_another_library_or_device_is_refused(tmp_path):
    library = open_library("array_api_strict", "float64")
    run(20, tmp_path, start(library))
    elsewhere = library.xp.asarray(library.host(start(library)), device=library.xp.Device("CPU_DEVICE"))
    with pytest.raises(CheckpointError, match=r"devices: \['device1'\] there, \['cpu'\] here"):
        run(30, tmp_path, elsewhere)
    with pytest.raises(CheckpointError, match="backend: array_api_strict there, numpy here"):
        run(30, tmp_path)


def test_a_target_that_differs_only_where_the_chain_is_now_is_refused(tmp_path):
    width = [1.0]

    def run_on(draws):
        def log_density(x):
            r2 = np.sum(x**2, axis=-1)
            return -np.where((r2 > 1e-4) & (r2 < 1.0), r2 / width[0], r2)  # none of the values at the start is there

        return run(draws, tmp_path, np.zeros((1, 2)) + 1e-3, RWM(0.02), Target(log_density))

    run_on(40)
    for draws in (40, 50):
        width[0] = 4.0
        with pytest.raises(CheckpointError, match=r"log density at x was .*, now .* \(x are the saved positions\)"):
            run_on(draws)
        width[0] = 1.0
        run_on(draws)


# ---- damage ------------------------------------------------------------------------------------------------------


def means_the_same(one, other):
    """Whether two texts are one JSON value, written with other white space."""
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("pattern", [INDEX, "state-*", "rows-*"])
def test_every_length_and_a_bit_of_every_byte(tmp_path, pattern):
    whole = run(4, tmp_path, np.zeros((2, 2)), RWM(0.5))
    file = next(tmp_path.glob(pattern))
    content = file.read_bytes()
    for damaged in every_damage(content):
        file.write_bytes(damaged)
        if file.name == INDEX and means_the_same(damaged, content):
            with suppress(CheckpointError):  # such as of 1e-5 that became 1E-5
                np.testing.assert_array_equal(load(tmp_path).draws, whole.draws)
        else:
            with pytest.raises(CheckpointError, match=file.name):
                load(tmp_path)
