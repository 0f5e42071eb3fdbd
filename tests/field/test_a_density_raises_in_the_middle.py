"""A density raises in the middle of a run: what was kept is whole, and the same call goes on to the same numbers."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample.core import tree
from xpsample.core.errors import FunctionError
from xpsample.sampling import loop, store
from xpsample.trace.stored import StoredRows


@pytest.fixture(autouse=True)
def blocks_of_a_step_and_chunks_of_ten_draws(monkeypatch):
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    monkeypatch.setattr(store, "CHUNK", 10 * 4 * 2 * 8)


class GoesAway:
    """A callback, after whose 25th step the service is away that the density asks."""

    def __init__(self, flag):
        self.flag = flag

    def on_start(self, run): ...

    def on_block(self, run):
        if run.step == 25:
            self.flag.touch()

    def on_end(self, run): ...


def run(library, flag, folder, stored=True, saved=True, callbacks=()):
    def log_density(x):
        if flag.exists():
            raise ConnectionError("the service is away")
        return -0.5 * (x**2).sum(-1)

    recorders = [xps.Draws(store=folder / "run.zarr" if stored else None), xps.Moments()]
    settings = {"recorders": recorders, "callbacks": callbacks, "seed": 1, "progress": False}
    checkpoint = xps.Checkpoint(folder / "saved", every=0.0) if saved else None
    x0 = library.array(np.ones((4, 2)))
    return xps.sample(xps.Target(log_density), xps.RWM(0.5), x0, 60, checkpoint=checkpoint, **settings)


def arrays(library, trace):
    """All numbers of a trace, on the host."""
    kept = tree.items({"draws": trace.draws, "recorded": trace.recorded, "state": trace.state})
    return {name: np.asarray(leaf) if isinstance(leaf, StoredRows) else library.host(leaf) for name, leaf in kept}


@pytest.mark.first_tier
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.first_cases(1)
def test_what_was_saved_is_whole_and_the_same_call_goes_on(tmp_path, name, stored):
    library, flag = open_library(name, "float64"), tmp_path / "away"
    whole = arrays(library, run(library, flag, tmp_path / "whole", stored))
    with pytest.raises(ConnectionError, match="the service is away"):  # and no warning of the disk
        run(library, flag, tmp_path / "part", stored, callbacks=[GoesAway(flag)])
    for where in ("saved", "run.zarr") if stored else ("saved",):
        part = xps.load(tmp_path / "part" / where)
        np.testing.assert_array_equal(np.asarray(part.draws), whole["draws"][:24])
    with pytest.raises(ConnectionError, match="the service is away"):
        run(library, flag, tmp_path / "part", stored)
    flag.unlink()
    again = arrays(library, run(library, flag, tmp_path / "part", stored))
    assert again.keys() == whole.keys()
    assert all(again[part].tobytes() == whole[part].tobytes() for part in whole)


def test_a_store_alone_has_all_draws_before_the_error(tmp_path):
    library, flag = open_library("numpy", "float64"), tmp_path / "away"
    whole = np.asarray(run(library, flag, tmp_path / "whole", saved=False).draws)
    with pytest.raises(ConnectionError, match="the service is away") as caught:
        run(library, flag, tmp_path / "part", saved=False, callbacks=[GoesAway(flag)])
    np.testing.assert_array_equal(np.asarray(caught.value.trace.draws), whole[:25])
    np.testing.assert_array_equal(np.asarray(xps.load(tmp_path / "part" / "run.zarr").draws), whole[:25])


class FailsAt:
    """A normal density whose call of a number fails, as where a solver of the user's does not converge."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise FloatingPointError("the solver did not converge")
        return -0.5 * (x * x).sum(-1)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_the_error_of_single_steps_is_the_users_own(name):
    x0 = pytest.importorskip(name).ones((3, 2))
    with pytest.raises((FloatingPointError, FunctionError), match="the solver did not converge") as caught:
        list(itertools.islice(xps.steps(xps.Target(FailsAt(40)), xps.RWM(1.0), x0, seed=1), 100))
    shown = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert any(isinstance(error, FloatingPointError) for error in shown)


def test_a_run_that_fails_leaves_those_of_other_threads_alone():
    """Both threads are inside of a run when the first one fails."""
    both = threading.Barrier(2, timeout=30)

    def draws(density):
        return xps.sample(xps.Target(density), xps.RWM(1.0), np.ones((3, 2)), 200, seed=1, progress=False).draws

    def met(at):
        density = FailsAt(at)

        def log_density(x):
            if density.calls == 30:
                both.wait()
            return density(x)

        return draws(log_density)

    alone = draws(FailsAt(0))
    with ThreadPoolExecutor(2) as pool:
        fails, well = pool.submit(met, 50), pool.submit(met, 0)
        with pytest.raises((FloatingPointError, FunctionError)):
            fails.result()
        np.testing.assert_array_equal(well.result(), alone)
    np.testing.assert_array_equal(draws(FailsAt(0)), alone)
