"""Nothing is lost: killed runs, extended runs, refused checkpoints."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np
import pytest

from tests.conftest import open_library
from tests.sampling.checkpoint_support import run, same, start
from xpsample import (
    RWM,
    ULA,
    Checkpoint,
    Draws,
    Moments,
    Portable,
    Record,
    Statistics,
    Target,
    load,
)
from xpsample.conformance import scenarios
from xpsample.core.errors import CheckpointError, TraceError
from xpsample.files import atomic
from xpsample.files.folder import INDEX, Folder
from xpsample.sampling.checkpoint import SavedRun, _laid_out, _order
from xpsample.sampling.noise import NoiseSource
from xpsample.trace.recorders import Recorder


@pytest.mark.parametrize("cut", [16, 33, 48])
@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_resumed_run_rounds_as_an_uninterrupted_one(tmp_path, name, cut):
    """A state's arrays lie in memory as before: else torch sums a discrete target's differences in another order."""
    library = open_library(name, "float64")
    (scenario,) = (s for s in scenarios() if s.name == "balanced-barker")
    made = {"target": scenario.target(library.array), "kernel": scenario.kernel(library.array), "seed": Portable(1)}
    made["x0"] = library.array(scenario.stationary.draw(np.random.default_rng(3), 6))
    whole = run(100, **made)
    run(cut, tmp_path, **made)
    resumed = run(100, tmp_path, **made)
    assert library.host(resumed.state.point.differences).strides == library.host(whole.state.point.differences).strides
    for statistic, values in whole.statistics.items():
        np.testing.assert_array_equal(library.host(resumed.statistics[statistic]), library.host(values))


SCRIPT = """
    import sys
    import numpy as np
    from tests.conftest import open_library
    from tests.sampling.checkpoint_support import KERNEL, TARGET, start
    from xpsample import Checkpoint, sample
    name, draws, folder = sys.argv[1:]
    library = open_library(name, "float64")
    settings = dict(seed=11, progress=False, checkpoint=Checkpoint(folder, every=0.0))
    trace = sample(TARGET, KERNEL, start(library), int(draws), **settings)
    np.save(f"{folder}.npy", library.host(trace.draws))
"""
DRAWS = {"numpy": 10_000, "torch": 3_000, "jax": 40_000, "array_api_strict": 1_000}
"""Enough to take a second or more from the 512th on: time to kill the run in."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.slow
def test_killed_run_resumes_exactly(tmp_path, name):
    open_library(name, "float32")  # skips where it is missing
    index = tmp_path / "killed" / INDEX

    def begin(folder):
        command = [sys.executable, "-c", textwrap.dedent(SCRIPT), name, str(DRAWS[name]), str(tmp_path / folder)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_ENABLE_X64": "1"}
        return subprocess.Popen(command, env=environment)

    process, deadline = begin("killed"), time.monotonic() + 120
    while not index.exists() or json.loads(index.read_text())["step"] < 512:
        assert process.poll() is None, "the run ended before it could be killed: give it more draws"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert 0 < json.loads(index.read_text())["step"] < DRAWS[name] and not (tmp_path / "killed.npy").exists()
    for folder in ("killed", "whole"):
        assert begin(folder).wait() == 0
    np.testing.assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "whole.npy"))


def test_no_pickle_and_no_leftovers_and_saves_are_spaced_in_time(tmp_path):
    run(600, Checkpoint(tmp_path / "often", every=0.0))
    names = sorted(p.name for p in (tmp_path / "often").iterdir())
    assert len([n for n in names if n.startswith("state-")]) == 1
    assert len([n for n in names if n.startswith("rows-")]) >= 3  # more where steps are slow
    assert not [n for n in names if n.endswith(".tmp")]
    for path in tmp_path.rglob("*.npz"):
        with np.load(path, allow_pickle=False) as archive:
            assert all(archive[key].dtype != object for key in archive.files)
    run(600, Checkpoint(tmp_path / "once", every=1e9))
    assert len(list((tmp_path / "once").glob("rows-*"))) == 1  # only the one at the end


@dataclass(frozen=True)
class Slow(NoiseSource):
    """Noise that takes a second by a clock of its own, whenever it is asked for."""

    clock: list[float]
    source: NoiseSource = Portable(1)

    def block(self, backend, specs, start, stop, like):
        self.clock[0] += 1.0
        return self.source.block(backend, specs, start, stop, like)

    def describe(self):
        return self.source.describe()


@pytest.mark.slow
def test_the_seconds_of_a_resumed_run_are_those_of_all_its_steps(tmp_path, monkeypatch):
    clock, save = [0.0], SavedRun._save

    def slowly(*arguments):
        save(*arguments)
        clock[0] += 100.0

    monkeypatch.setattr(SavedRun, "_save", slowly)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    before, seconds = clock[0], []
    for draws in (256, 768, 768):
        trace = run(draws, tmp_path, seed=Slow(clock))
        assert trace.metadata["seconds"] == load(tmp_path).metadata["seconds"]
        seconds.append(trace.metadata["seconds"])
    assert 1.0 <= seconds[0] < seconds[1] == seconds[2] < clock[0] - before - 200.0  # but for the looks at a row


def test_a_target_without_density_can_be_checkpointed(tmp_path):
    make = partial(run, kernel=ULA(0.1), target=Target(None, score=lambda x: -x))
    make(20, tmp_path)
    np.testing.assert_array_equal(make(40, tmp_path).draws, make(40).draws)


# ---- fewer draws, and reading ------------------------------------------------------------------------------------


def test_fewer_draws_are_the_first_ones(tmp_path, library):
    make = partial(run, checkpoint=Checkpoint(tmp_path, every=0), x0=start(library), seed=3, burn_in=10)
    whole, stamp = make(300), (tmp_path / INDEX).stat().st_mtime_ns
    assert len(list(tmp_path.glob("rows-*"))) > 1
    for draws in (1, 200, 299):
        fewer = make(draws)
        same(library, fewer.draws, whole.draws[:draws, ...])
        same(library, fewer.statistics, {name: a[:draws, ...] for name, a in whole.statistics.items()})
        assert fewer.state is None and fewer.run_statistics.steps == 300
    same(library, make(300).draws, whole.draws)
    assert (tmp_path / INDEX).stat().st_mtime_ns == stamp  # nothing was written


def test_what_cannot_be_cut_back_is_refused(tmp_path):
    run(20, tmp_path, recorders=(Draws(), Moments()))
    with pytest.raises(CheckpointError, match="holds 20 draws, and moments cannot be cut back to 10"):
        run(10, tmp_path, recorders=(Draws(), Moments()))


def test_load_reads_a_checkpoint(tmp_path, library):
    pairs = Record("pairs", lambda state: {"theta": state.theta, "x": (state.point.x[..., 0], None)})
    settings = {"seed": 3, "burn_in": 10, "recorders": (Draws(), Statistics(), Moments(), pairs)}
    for draws in (100, 300):
        trace = run(draws, Checkpoint(tmp_path, every=0), start(library), **settings)
        found = load(tmp_path, like=start(library))
        assert type(found.draws) is type(trace.draws)
        same(library, (found.draws, found.statistics), (trace.draws, trace.statistics))
        assert found.recorded["moments"]._fields == trace.recorded["moments"]._fields
        same(library, tuple(found.recorded["moments"]), tuple(trace.recorded["moments"]))
        same(library, found.recorded["pairs"], trace.recorded["pairs"])
        assert found.run_statistics.evaluations == trace.run_statistics.evaluations
        assert found.state is None and found.metadata["kernel"] == trace.metadata["kernel"]
    assert isinstance(load(tmp_path).draws, np.ndarray)
    found.save(tmp_path / "run.npz")
    load(tmp_path / "run.npz")


class Doubled(Recorder):
    """A result that is made of all rows, and is none of them."""

    name: str = "doubled"

    def init(self, target, state):
        return None

    def update(self, target, carry, state, info):
        return None, state.point.x

    def result(self, target, carry, rows):
        return 2.0 * rows


def test_load_reads_a_result_that_is_made_of_the_rows(tmp_path):
    trace = run(20, tmp_path, recorders=(Draws(), Doubled()))
    np.testing.assert_array_equal(load(tmp_path).recorded["doubled"], 2.0 * trace.draws)


def test_load_in_the_burn_in_and_without_a_checkpoint(tmp_path):
    with pytest.raises(TraceError, match="holds no checkpoint"):
        load(tmp_path)
    texts = []

    def look(state):
        texts.append(repr(load(tmp_path)))
        return state.point.x

    probe = Record("look", lambda state: look(state) if (tmp_path / INDEX).exists() else state.point.x)
    run(2, Checkpoint(tmp_path, every=0), recorders=[Draws(), probe], burn_in=600)
    assert texts[0].startswith("Trace(draws=None")


def test_load_of_a_run_that_saves_at_the_same_time(saved, monkeypatch):
    """The state that was read about is gone: the index is read again."""
    rows, more = Folder.rows, partial(run, 40, saved)

    def late(self, count=None):
        monkeypatch.setattr(Folder, "rows", rows)
        more()
        return rows(self, count)

    monkeypatch.setattr(Folder, "rows", late)
    np.testing.assert_array_equal(load(saved).draws, more().draws)


@pytest.mark.slow
def test_resuming_holds_the_draws_once(tmp_path):
    """A peak of one and a half times the draws: the buffers of the run, and no second copy of them."""
    make = partial(run, 2000, tmp_path, np.zeros((1000, 2)), RWM(1.0), recorders=[Draws()])
    size = make().draws.nbytes
    tracemalloc.start()
    make()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 10e6
    assert peak < 1.5 * size


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_axes_lie_in_memory_as_they_did(order):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(order)
    again = _laid_out(np.ascontiguousarray(array), _order(array))
    assert again.strides == array.strides
    np.testing.assert_array_equal(again, array)


def test_names_are_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic, "sync_folder", synced.append)
    path = tmp_path / "a" / "b"
    run(20, path)
    assert synced[:2] == [path.parent, tmp_path]
    assert synced[2:] == [path] * 3  # rows, state and index
