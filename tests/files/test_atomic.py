"""Files that are whole or not there, and a folder that one process uses at a time."""

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from xpsample.files.atomic import ABANDONED, exclusive, replacing


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a[1].txt"
    path.write_text("old")
    with pytest.raises(TypeError), replacing(path) as temporary, temporary.open("w") as file:
        json.dump(["half", object()], file)
    assert path.read_text() == "old"
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_share_a_temporary_file(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as one, replacing(path) as other:
        assert one != other
        one.write_text("1")
        other.write_text("2")
    assert path.read_text() == "1"


def test_what_a_killed_write_left_goes_with_a_later_one(tmp_path):
    old, new, others = (tmp_path / name for name in (".a.0.tmp", ".a.1.tmp", ".b.0.tmp"))
    for path in (old, new, others):
        path.write_text("")
    past = time.time() - 2 * ABANDONED
    for path in (old, others):
        os.utime(path, (past, past))
    with replacing(tmp_path / "a") as temporary:
        temporary.write_text("")
    assert {p.name for p in tmp_path.iterdir()} == {"a", ".a.1.tmp", ".b.0.tmp"}


def test_a_lock_is_held_by_one_and_gone_afterwards(tmp_path):
    lock = tmp_path / "lock"
    with exclusive(lock) as alone:
        assert alone
        with pytest.raises(BlockingIOError, match=rf"process {os.getpid()} on "), exclusive(lock):
            pass
        assert lock.exists()
    assert not lock.exists()
    with exclusive(lock):
        pass


def test_a_lock_leaves_no_file_open(tmp_path):
    before = len(os.listdir("/dev/fd"))
    with exclusive(tmp_path / "lock"):
        with pytest.raises(BlockingIOError), exclusive(tmp_path / "lock"):
            pass
        assert len(os.listdir("/dev/fd")) == before + 1
    assert len(os.listdir("/dev/fd")) == before


def test_a_killed_process_holds_no_lock(tmp_path):
    lock = tmp_path / "lock"
    code = "import sys, time; from pathlib import Path; from xpsample.files.atomic import exclusive\n"
    code += "with exclusive(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(BlockingIOError, match=rf"process {process.pid} on "), exclusive(lock):
            pass
        process.kill()
    assert lock.exists()
    with exclusive(lock):
        assert lock.read_text().startswith(f"process {os.getpid()} ")


def test_never_two_at_once(tmp_path):
    """Many threads take and free the lock, whose file comes and goes."""
    inside, most, taken = [], [], []

    def work():
        for _ in range(200):
            try:
                with exclusive(tmp_path / "lock"):
                    inside.append(1)
                    most.append(len(inside))
                    taken.append(1)
                    inside.pop()
            except BlockingIOError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(taken) > 10


def test_a_lock_whose_file_goes_while_it_is_taken(tmp_path, monkeypatch):
    """The one who waited must not hold a file that is no longer there, where the next makes one of his own."""
    lock, holding, flock = tmp_path / "lock", ExitStack(), fcntl.flock
    holding.enter_context(exclusive(lock))

    def late(file, how):
        holding.close()
        return flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive(lock):
        assert lock.exists()
        with pytest.raises(BlockingIOError), exclusive(lock):
            pass
