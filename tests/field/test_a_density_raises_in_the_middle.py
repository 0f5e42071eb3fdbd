"""A density raises in the middle of a run: what was kept is whole, and the same call goes on to the same numbers."""

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample.core import tree
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
    kept = {"draws": trace.draws, "recorded": trace.recorded, "state": trace.state}
    return {
        name: np.asarray(leaf) if isinstance(leaf, StoredRows) else library.host(leaf)
        for name, leaf in tree.items(kept)
    }


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
