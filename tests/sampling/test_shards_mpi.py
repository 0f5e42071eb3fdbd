"""Sharded runs in the ranks of MPI, one of which is killed: the same call on other ranks gives the same draws."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"),
    pytest.mark.skipif(shutil.which("mpiexec") is None, reason="there is no mpiexec"),
]

MODEL = '''
import os
import signal
from pathlib import Path

import numpy as np
import xpsample as xps

CALLS = []


def log_density(x):
    return -0.5 * (x**2).sum(-1)


def score(x):
    """Its process is killed, once, in the middle of a shard."""
    CALLS.append(x)
    if len(CALLS) == 100 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return -x


def run(executor=None, **settings):
    target = xps.Target(log_density, score=score)
    x0 = np.random.default_rng(0).normal(size=(7, 2))
    return xps.sample(target, xps.HMC(), x0, 60, seed=1, warmup=30, shards=5, executor=executor, **settings)
'''

SCRIPT = """
import numpy as np

import xpsample as xps
from mpi4py.futures import MPIPoolExecutor

import model

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        trace = model.run(pool, checkpoint=xps.Checkpoint("run", every=0.0))
    np.save("draws.npy", trace.draws)
"""


def mpiexec(folder: Path, ranks: int) -> subprocess.CompletedProcess:
    """A command in so many ranks, also of root and on few cores, which Open MPI refuses otherwise."""
    allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe")
    more = dict.fromkeys(allowed, "1") | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    command = ["mpiexec", "-n", str(ranks), sys.executable, "-m", "mpi4py.futures", "script.py"]
    env = os.environ | more | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_a_rank_is_killed_and_the_same_call_on_other_ranks_gives_the_same_draws(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "script.py").write_text(SCRIPT)
    killed = mpiexec(tmp_path, 3)
    assert killed.returncode != 0 and (tmp_path / "killed").exists(), killed.stderr
    assert not (tmp_path / "draws.npy").exists()
    begun = [folder.name for folder in (tmp_path / "run").iterdir()]
    again = mpiexec(tmp_path, 4)
    assert again.returncode == 0, again.stderr
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import model

    assert begun and np.array_equal(np.load("draws.npy"), model.run().draws)
