"""A pool as Python makes it by default, or a script without a guard: the run says what to type, and nobody waits."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import xpsample as xps
from xpsample.core import registry
from xpsample.core.errors import CapabilityError
from xpsample.core.worker_processes import SPAWNING, check_forks

SPAWN = r'Use ProcessPoolExecutor\(mp_context=multiprocessing.get_context\("spawn"\)\)'


def density(x):
    return -0.5 * (x**2).sum(-1)


def forking():
    return ProcessPoolExecutor(2, mp_context=get_context("fork"))


def script(tmp_path, text):
    """What a script says, and its exit status."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.run([sys.executable, "-W", "ignore", path], capture_output=True, text=True, timeout=100)


@pytest.mark.first_tier
def test_a_fork_of_a_process_with_threads_is_refused(differentiating):
    """XLA's threads and OpenMP's are not in a fork, which waits for them for ever."""
    x0 = differentiating.array(np.zeros((4, 2)))
    with forking() as pool, pytest.raises(CapabilityError, match=SPAWN):
        xps.sample(xps.Target(density), xps.RWM(1.0), x0, 4, seed=1, shards=2, executor=pool)


def test_other_executors_are_not_refused(monkeypatch):
    """The pool of the message and threads beside any library; a forking one if no library with threads was seen."""
    import multiprocessing  # noqa: F401

    with eval(SPAWNING) as spawning, ThreadPoolExecutor() as threads:
        check_forks(spawning)
        check_forks(threads)
    monkeypatch.setattr(registry, "_by_type", {np.ndarray: xps.backend_of(np.zeros(1))})
    with forking() as pool:
        check_forks(pool)


def test_a_script_without_a_guard_is_told(tmp_path):
    """Each worker imports the script, and comes to the run again."""
    told = script(
        tmp_path,
        """
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        import numpy as np
        import xpsample as xps

        def log_density(x):
            return -0.5 * (x**2).sum(-1)

        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            xps.sample(xps.Target(log_density), xps.RWM(1.0), np.zeros((4, 2)), 5, seed=1, shards=2, executor=pool)
        """,
    )
    assert told.returncode == 1
    assert 'Put what the script runs under if __name__ == "__main__":' in told.stderr
    assert "bootstrapping phase" not in told.stderr
    assert "put what it runs under" in told.stderr.split("WorkerError")[-1]


KILLED = """
    import os, sys, time
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    import numpy as np
    import xpsample as xps

    def log_density(x):
        open(f"{sys.argv[-1]}/{os.getpid()}", "w").close()
        time.sleep(0.02)
        return -0.5 * (x**2).sum(-1)

    if __name__ == "__main__":
        with ProcessPoolExecutor(2, mp_context=get_context(sys.argv[1])) as pool:
            settings, density = {"shards": 2, "executor": pool}, log_density
            if sys.argv[2] == "batched":
                settings, density = {}, xps.batched(log_density, executor=pool)
            x0 = np.zeros((4, 2))
            xps.sample(xps.Target(density), xps.RWM(1.0), x0, 10**5, seed=1, progress=False, **settings)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a worker")
@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.parametrize("work", ["shards", "batched"])
def test_workers_end_with_a_parent_that_is_killed(tmp_path, start, work):
    """They would wait for work for ever."""
    (tmp_path / "pids").mkdir()
    path = tmp_path / "killed.py"
    path.write_text(textwrap.dedent(KILLED))
    parent = subprocess.Popen([sys.executable, path, start, work, tmp_path / "pids"], stderr=subprocess.DEVNULL)

    def workers():
        return [int(p.name) for p in (tmp_path / "pids").iterdir() if int(p.name) != parent.pid]

    def alive(pid):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        return state != "Z"

    try:
        await_that(lambda: len(workers()) == 2)
        parent.kill()
        parent.wait()
        await_that(lambda: not any(map(alive, workers())))
    finally:
        parent.kill()
        for pid in filter(alive, workers()):
            os.kill(pid, signal.SIGKILL)


def await_that(true, most=60.0):
    """Wait until a condition holds, which is given much time on a busy machine."""
    end = time.monotonic() + most
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
