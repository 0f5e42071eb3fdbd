"""Fails every call of a run that reaches the disk, makes the same call again, and compares with an uninterrupted one.

``python -m tests.sampling.faults --library numpy`` prints a line of JSON for each entry point and kind of fault.
"""

import argparse
import itertools
import json
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import zarr

import xpsample as xps
from tests.conftest import Library, open_library, x64
from tests.file_layer import FAULTS, Fault, FileLayer, Killed
from tests.fuzz.uses import gaussian, potential, real, rows_posterior
from xpsample import sosmc
from xpsample.core import tree
from xpsample.core.errors import CheckpointError, CheckpointWarning, StoreError
from xpsample.core.registry import to_host
from xpsample.experiments.srmc.rbm_training import train_rbm
from xpsample.files.folder import INDEX, Folder
from xpsample.optimize.optimizers import Adam
from xpsample.particles.pcd import PCD
from xpsample.sampling import loop, store
from xpsample.sampling.checkpoint import SavedRun
from xpsample.score_mh import (
    Denoising,
    LangevinProposal,
    ScoreBalance,
    fit,
    init_acceptance_network,
    init_score_network,
    score_network,
    training,
)
from xpsample.score_mh.saved_training import SavedTraining
from xpsample.sosmc import LangevinMove, RowBatches

Arrays = dict[str, np.ndarray]
Entry = Callable[[Path | None], Arrays]
"""The folder of a checkpoint to the arrays of a result."""


def _host(result: Any) -> Arrays:
    return {path: to_host(leaf) for path, leaf in tree.items(result)}


def _run(library: Library, kernel: Any, *recorders: Any, target: Any = None, draws: int = 4, **settings: Any) -> Entry:
    settings |= {"seed": 11, "progress": False, "recorders": (xps.Draws(), *recorders)}

    def call(folder: Path | None) -> Arrays:
        checkpoint = None if folder is None else xps.Checkpoint(folder, every=0.0)
        trace = xps.sample(target or gaussian(), kernel, real(library), draws, checkpoint=checkpoint, **settings)
        kept = {"draws": trace.draws, "statistics": trace.statistics, "recorded": trace.recorded, "state": trace.state}
        return _host(kept | {"warmup": trace.warmup or {}, "run_statistics": dict(vars(trace.run_statistics))})

    return call


def _stored(library: Library) -> Entry:
    """A run whose rows go to a store, of two chunks, in the folder of the checkpoint; in memory without one."""

    def call(folder: Path | None) -> Arrays:
        where, checkpoint = None, None
        if folder is not None:
            where, checkpoint = folder / "draws.zarr", xps.Checkpoint(folder, every=0.0)
        recorders = (xps.Draws(store=where), xps.Moments())
        settings = {"seed": 11, "progress": False, "recorders": recorders, "checkpoint": checkpoint}
        one_by_one = {"async.concurrency": 1, "threading.max_workers": 1}  # a kill ends all that zarr does
        with mock.patch.object(store, "CHUNK", 2 * 4 * 2 * 8), zarr.config.set(one_by_one):
            trace = xps.sample(gaussian(), xps.RWM(0.5), real(library), 5, **settings)
            return _host({"draws": np.asarray(trace.draws), "recorded": trace.recorded, "state": trace.state})

    return call


def _training(library: Library, loss: Any, start: Any, patience: int | None = None) -> Entry:
    rows = library.array(np.random.default_rng(0).standard_normal((16, 2)))
    settings = {"steps_per_epoch": 1, "batch_size": 8, "optimizer": Adam(0.01), "seed": 4, "progress": False}
    settings |= {"gradient": _gradient(library)}
    if patience is not None:
        settings |= {"patience": patience, "validation": rows[:5, ...]}

    def call(folder: Path | None) -> Arrays:
        checkpoint = None if folder is None else xps.Checkpoint(folder, every=0.0)
        found = fit(loss, start, rows, epochs=4, checkpoint=checkpoint, **settings)
        return _host({name: value for name, value in found._asdict().items() if value is not None})

    return call


def _rbm(library: Library) -> Entry:
    rows = library.array((np.random.default_rng(0).random((50, 5)) < 0.4).astype(np.float64))

    def call(folder: Path | None) -> Arrays:
        checkpoint = None if folder is None else xps.Checkpoint(folder, every=0.0)
        return _host(train_rbm(rows, 3, 4, seed=1, batch=8, checkpoint=checkpoint, progress=False)._asdict())

    return call


def _gradient(library: Library) -> Any:
    """Derivatives that need no other library."""
    return xps.FiniteDifference(1e-3) if library.backend.autodiff is None else xps.Auto()


def entries(library: Library) -> dict[str, Entry]:
    """Runs with a save every two steps, by name."""
    return {
        "draws": _run(library, xps.RWM(0.5)),
        "warm-up": _run(library, xps.RWM(), xps.Statistics(), xps.Moments(), burn_in=2, warmup=4),
        "fit": _training(library, Denoising(0.5), init_score_network(2, 3, seed=1)),
        "store": _stored(library),
    }


def more_entries(library: Library) -> dict[str, Entry]:
    """All else that takes a checkpoint, by name. The loss of "score balance" has derivatives, which NumPy has not."""
    balance = ScoreBalance(LangevinProposal(0.4), score_network, init_score_network(2, 6, seed=3))
    family = xps.Parametric(potential, np.zeros(2), gradient=_gradient(library))
    walk, betas = xps.RWM(0.5), (0.0, 0.5, 1.0)
    sosmc_kernel = xps.SOSMC(sosmc.MarginalLikelihood(), LangevinMove(0.1), sosmc.SGD(0.1))
    found = {
        "minibatch": _run(library, xps.Minibatch(xps.ULA(0.1), 2), target=rows_posterior()),
        "ais": _run(library, xps.AIS(walk, betas)),
        "tempered-smc": _run(library, xps.TemperedSMC(walk, betas, moves=1)),
        "sosmc": _run(library, sosmc_kernel, target=family),
        "pcd": _run(library, PCD(RowBatches(real(library)), sosmc.SGD(0.1), 0.1), target=family),
        "train_rbm": _rbm(library),
        "fit with patience": _training(library, Denoising(0.5), init_score_network(2, 3, seed=1), patience=10**6),
    }
    if library.backend.autodiff is not None:
        found["score balance"] = _training(library, balance, init_acceptance_network(2, 6, seed=5, blocks=1))
    return found


# ---- one fault -------------------------------------------------------------------------------------------------------


@dataclass
class Saves:
    """How far the checkpoints of a run are: the last step of which a save has ended, by folder."""

    steps: dict[str, int]

    @classmethod
    @contextmanager
    def watched(cls) -> Iterator["Saves"]:
        """Those made in the context, with a save every two steps."""
        saves = cls({})

        def noted(save: Callable[..., None]) -> Callable[..., None]:
            def saved(self: Any, *args: Any, **kwargs: Any) -> None:
                save(self, *args, **kwargs)
                saves.steps[str(self.path)] = self.step

            return saved

        with ExitStack() as patches:
            for kept in (SavedRun, SavedTraining):
                patches.enter_context(mock.patch.object(kept, "save", noted(kept.save)))
            for module in (loop, training):
                patches.enter_context(mock.patch.object(module, "SECONDS", 1e-9))
            yield saves

    def lost(self) -> bool:
        """Whether any of them is not on the disk."""
        return any(step > _step(Path(folder)) for folder, step in self.steps.items())


def _step(folder: Path) -> int:
    with suppress(FileNotFoundError, ValueError):
        return json.loads((folder / INDEX).read_text())["step"]
    return -1


def _same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(
        a[key].dtype == b[key].dtype and a[key].shape == b[key].shape and a[key].tobytes() == b[key].tobytes()
        for key in a
    )


def _readable(root: Path) -> bool:
    """Whether all checkpoints under a folder can be read."""
    try:
        for index in root.rglob(INDEX):
            folder = Folder(index.parent)
            folder.state(), folder.rows()
    except CheckpointError:
        return False
    return True


def _checkpointed(entry: Entry, layer: FileLayer) -> tuple[Arrays | str, list[str]]:
    """Make a call over a layer: its result, or how it ended instead; and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with layer:
                result: Arrays | str = entry(layer.root / "run")
        except Killed:
            result = "killed"
        except (CheckpointError, StoreError) as error:
            result = "refused" if str(layer.root / "run") in str(error) else f"unclear: {error}"
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    return result, [str(w.message) for w in caught if issubclass(w.category, (CheckpointWarning, ResourceWarning))]


def strike(entry: Entry, whole: Arrays, steps: int, layer: FileLayer) -> tuple[list[str], str]:
    """Make a call under a fault, and the same one again without: what is wrong, if anything, and the first one's end.

    Wrong is: lost, where a save that had ended is not there; unreadable, where what is there cannot be read; differing,
    where one of the two calls gives another result; raw, where one ends with an error that is none of ours; silent,
    where the run is not saved to its end and no warning says so; and open, where a file is left open.
    """
    with Saves.watched() as saves:
        result, warned = _checkpointed(entry, layer)
        if layer.fault.power and layer.struck:
            layer.cut_power(np.random.default_rng(layer.at))
        folder = layer.root / "run"
        returned, errors = isinstance(result, dict), layer.fault.error is not None
        wrong = {
            "lost": saves.lost(),
            "unreadable": not _readable(layer.root),
            "silent": returned and not warned and _step(folder) < steps,
            "open": errors and bool(layer.left_open),
        }
        again, _ = _checkpointed(entry, FileLayer(layer.root, layer.fault))
        wrong["unreadable"] |= again == "refused"
        wrong["raw"] = any(isinstance(end, str) and end not in ("killed", "refused") for end in (result, again))
        wrong["differing"] = any(isinstance(end, dict) and not _same(end, whole) for end in (result, again))
    return [kind for kind, is_so in wrong.items() if is_so], "returned" if returned else str(result)


def survey(entry: Entry, fault: Fault, work: Path, goes_on: bool, every: int = 1) -> tuple[Counter, list[str]]:
    """Strike every so many calls of a run, which starts anew or goes on from where a kill left it.

    Gives how often it was tried, returned, was refused, was killed and was wrong in each way; and what is wrong.
    """
    with Saves.watched():
        whole = entry(None)
    plain = FileLayer(_emptied(work / "plain"), FAULTS["killed"])
    with Saves.watched() as saves:
        _checkpointed(entry, plain)
    steps = saves.steps[str(plain.root / "run")]
    if goes_on:
        begun = FileLayer(_emptied(work / "begun"), FAULTS["killed"], at=7 * len(plain.calls) // 8)
        with Saves.watched():
            _checkpointed(entry, begun)
    found: Counter = Counter()
    lines: list[str] = []
    for at in itertools.count(0, every):
        root = _emptied(work / "run")
        if goes_on:
            shutil.copytree(begun.root / "run", root / "run")
        layer = FileLayer(root, fault, at)
        wrong, end = strike(entry, whole, steps, layer)
        if not layer.struck:
            assert (wrong, end) == ([], "returned")
            return found, lines
        found.update(["tried", end if end in ("returned", "refused", "killed") else "raw", *wrong])
        if wrong:
            lines.append(f"{', '.join(wrong)} at {at}, {layer.calls[at]}: {end}")
    raise AssertionError


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each run and fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=("numpy", "torch", "jax"), default="numpy")
    parser.add_argument("--every", type=int, default=1, help="strike every so many calls (default: 1)")
    args = parser.parse_args(arguments)
    with x64(args.library, "float64"), tempfile.TemporaryDirectory() as work:
        for name, entry in entries(open_library(args.library, "float64")).items():
            for fault, goes_on in itertools.product(FAULTS, (False, True)):
                found, lines = survey(entry, FAULTS[fault], Path(work), goes_on, args.every)
                row = {"library": args.library, "run": name, "goes on": goes_on, "fault": fault, **found}
                print(json.dumps(row | {"wrong": lines}), flush=True)


if __name__ == "__main__":
    main()
