"""A pool as Python makes it by default, or a script without a guard: the run says what to type, and nobody waits."""

import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import xpsample as xps
from xpsample.core import registry
from xpsample.core.errors import CapabilityError
from xpsample.core.worker_processes import SPAWNING
from xpsample.sampling.workers import Workers

SPAWN = r'give ProcessPoolExecutor\(mp_context=multiprocessing.get_context\("spawn"\)\)'


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
@pytest.mark.parametrize("made", [True, False])
def test_a_fork_of_a_process_with_threads_is_refused(differentiating, made):
    """XLA's threads and OpenMP's are not in a fork, which waits for them for ever."""
    x0 = differentiating.array(np.zeros((4, 2)))
    executor = forking() if made else forking
    with pytest.raises(CapabilityError, match=SPAWN):
        xps.sample(xps.Target(density), xps.RWM(1.0), x0, 4, seed=1, shards=2, executor=executor)


def test_the_line_to_type_works():
    import multiprocessing  # noqa: F401

    with eval(SPAWNING) as pool:
        Workers(pool).executor()


def test_other_executors_are_taken(monkeypatch):
    """A spawning pool and threads beside any library; a forking one where none was seen that keeps threads."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as spawning, ThreadPoolExecutor() as threads:
        for pool in (spawning, threads):
            assert Workers(pool).executor() is pool
    monkeypatch.setattr(registry, "_by_type", {np.ndarray: xps.backend_of(np.zeros(1))})
    with forking() as pool:
        assert Workers(pool).executor() is pool


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
    assert 'put what the script runs under if __name__ == "__main__":' in told.stderr
    assert "bootstrapping phase" not in told.stderr
    assert "put what it runs under" in told.stderr.split("WorkerError")[-1]
