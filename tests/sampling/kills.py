"""Kills runs and trainings at random instants, makes the same call again, and compares with an uninterrupted one.

``python -m tests.sampling.kills --library numpy --kills 5`` prints a line of JSON for each kernel of the conformance
suite, for those that are in none of its scenarios, and for each other entry point that takes a checkpoint. Every run is
a process of its own, forked from one that has imported everything and computed nothing.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import xpsample as xps
from tests.conftest import Library, open_library
from tests.fuzz import uses
from xpsample import sosmc
from xpsample.conformance import Scenario, scenarios
from xpsample.core import tree
from xpsample.core.errors import CheckpointError
from xpsample.core.registry import to_host
from xpsample.experiments.srmc.rbm_training import train_rbm
from xpsample.files.folder import INDEX
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

LENGTH = 150
"""Draws of a run, and epochs of a training."""

WARM_UP = 300
"""Steps that no kill is beyond: all kills of a run come within the first 2/3 * LENGTH saves, one every two steps."""

IN_USE = 3
"""Exit code of a run whose folder another process has."""

Entry = Callable[[Library, int, xps.Checkpoint | None], Any]
"""Library, length and checkpoint to the result, a tree of arrays."""


def _sampled(
    target: Any, kernel: Any, x0: Any, draws: int, checkpoint: xps.Checkpoint | None, warmup: int | None = None
) -> Any:
    recorders = (*xps.sample.__kwdefaults__["recorders"], xps.Moments())
    settings = {"seed": 11, "burn_in": 10, "thinning": 2, "recorders": recorders, "progress": False, "warmup": warmup}
    trace = xps.sample(target, kernel, x0, draws, checkpoint=checkpoint, **settings)
    return {
        "draws": trace.draws,
        "statistics": trace.statistics,
        "recorded": trace.recorded,
        "state": trace.state,
        "run_statistics": dict(vars(trace.run_statistics)),
        "warmup": trace.warmup or {},
    }


def _scenario(scenario: Scenario) -> Entry:
    def run(library: Library, draws: int, checkpoint: xps.Checkpoint | None) -> Any:
        x0 = library.array(scenario.stationary.draw(np.random.default_rng(3), 6))
        return _sampled(scenario.target(library.array), scenario.kernel(library.array), x0, draws, checkpoint)

    return run


def _on_reals(
    make_target: Callable[[Library], Any], make_kernel: Callable[[Library], Any], warmup: int | None = None
) -> Entry:
    def run(library: Library, draws: int, checkpoint: xps.Checkpoint | None) -> Any:
        return _sampled(make_target(library), make_kernel(library), uses.real(library), draws, checkpoint, warmup)

    return run


def _on_the_disk(library: Library, draws: int, checkpoint: xps.Checkpoint | None) -> Any:
    """A run whose rows go to a store of several chunks, beside the checkpoint; in memory without one."""
    store.CHUNK = 7 * 6 * 3 * 8
    where = None if checkpoint is None else f"{checkpoint.path}.zarr"
    recorders = (xps.Draws(store=where), xps.Statistics(), xps.Moments())
    settings = {"seed": 11, "burn_in": 10, "thinning": 2, "recorders": recorders, "progress": False}
    trace = xps.sample(uses.gaussian(), xps.RWM(1.0), uses.real(library), draws, checkpoint=checkpoint, **settings)
    return {"draws": trace.draws[...], "moved": trace.statistics["moved"][...], "state": trace.state}


def _fit(loss: Any, start: Any, **settings: Any) -> Entry:
    def run(library: Library, epochs: int, checkpoint: xps.Checkpoint | None) -> Any:
        rows = library.array(np.random.default_rng(0).standard_normal((64, 2)))
        own = {name: value(rows) if callable(value) else value for name, value in settings.items()}
        own |= {"gradient": _gradient(library)}
        given = {"steps_per_epoch": 2, "batch_size": 16, "optimizer": Adam(0.01), "seed": 4, "progress": False} | own
        found = fit(loss, start, rows, epochs=epochs, checkpoint=checkpoint, **given)
        return {name: value for name, value in found._asdict().items() if value is not None}

    return run


def _trained_rbm(library: Library, updates: int, checkpoint: xps.Checkpoint | None) -> Any:
    rows = library.array((np.random.default_rng(0).random((50, 5)) < 0.4).astype(np.float64))
    return train_rbm(rows, 3, 2 * updates, seed=1, batch=8, checkpoint=checkpoint, progress=False)._asdict()


def _gradient(library: Library) -> Any:
    """Derivatives that need no other library."""
    return xps.FiniteDifference(1e-3) if library.backend.autodiff is None else xps.Auto()


def _family(library: Library) -> Any:
    return xps.Parametric(uses.potential, np.zeros(2), gradient=_gradient(library))


def entries() -> dict[str, Entry]:
    """All that takes a checkpoint, by name. "fit score balance" has derivatives in its loss, which NumPy has not."""
    balance = ScoreBalance(LangevinProposal(0.4), score_network, init_score_network(2, 6, seed=3))
    score, acceptance = init_score_network(2, 6, seed=1), init_acceptance_network(2, 6, seed=5, blocks=1)
    return {scenario.name: _scenario(scenario) for scenario in scenarios()} | {
        "warm-up": _on_reals(lambda lib: uses.gaussian(), lambda lib: xps.HMC(), WARM_UP),
        "store": _on_the_disk,
        "minibatch": _on_reals(lambda lib: uses.rows_posterior(), lambda lib: xps.Minibatch(xps.ULA(0.1), 2)),
        "ais": _on_reals(lambda lib: uses.gaussian(), lambda lib: xps.AIS(xps.RWM(0.5), (0.0, 0.5, 1.0))),
        "tempered-smc": _on_reals(
            lambda lib: uses.gaussian(), lambda lib: xps.TemperedSMC(xps.RWM(0.5), (0.0, 0.5, 1.0), moves=1)
        ),
        "sosmc": _on_reals(
            _family, lambda lib: xps.SOSMC(sosmc.MarginalLikelihood(), LangevinMove(0.1), sosmc.SGD(0.1))
        ),
        "pcd": _on_reals(_family, lambda lib: PCD(RowBatches(uses.real(lib)), sosmc.SGD(0.1), 0.1)),
        "train_rbm": _trained_rbm,
        "fit": _fit(Denoising(0.5), score),
        "fit with patience": _fit(Denoising(0.5), score, validation=lambda rows: rows[:20, ...], patience=10**6),
        "fit score balance": _fit(balance, acceptance),
    }


# ---- processes -------------------------------------------------------------------------------------------------------


def _child(library: str, entry: Entry, report: Callable[[str], None], out: Path, folder: Path | None = None) -> None:
    """Make the run, with a checkpoint in the folder where there is one; `report` hears of every save.

    With a checkpoint a run has blocks of one step, each with a save after it.
    """
    open_lib, checkpoint = open_library(library, "float64"), None
    warnings.simplefilter("ignore")

    def reported(save: Callable[..., None]) -> Any:
        def saved(self: Any, *args: Any, **kwargs: Any) -> None:
            save(self, *args, **kwargs)
            report(f"{self.path.name != 'warmup':d} {self.step}")

        return saved

    if folder is not None:
        loop.SECONDS = training.SECONDS = 1e-9
        for kept in (SavedRun, SavedTraining):
            kept.save = reported(kept.save)  # type: ignore[method-assign]
        checkpoint = xps.Checkpoint(folder, every=0.0)
    result = {path: to_host(leaf) for path, leaf in tree.items(entry(open_lib, LENGTH, checkpoint))}
    np.savez(out, **{f"x/{path}": array for path, array in result.items()})


def _start(*run: Any) -> tuple[int, Iterator[str]]:
    """Fork a process for `_child`; its id, and the lines that it reports."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(reading)
            library, entry, *rest = run
            _child(library, entry, lambda line: os.write(writing, f"{line}\n".encode()), *rest)
            code = 0
        except CheckpointError as error:
            code = IN_USE if "is in use by" in str(error) else 1
            raise
        finally:
            if code not in (0, IN_USE):
                sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
                sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    return process, iter(os.fdopen(reading))


def _end(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _whole(*run: Any) -> None:
    """Wait for a run to end."""
    process, lines = _start(*run)
    list(lines)
    if code := _end(process):
        raise RuntimeError(f"a run ended with {code}")


def killed(name: str, entry: Entry, library: str, kills: int, rng: random.Random, work: Path) -> dict[str, Any]:
    """Kill a run so many times, one after the other, and compare what the last call gives."""
    folder, out = work / "run", [work / "whole.npz", work / "resumed.npz"]
    _whole(library, entry, out[0])
    done, lost, saved = 0, 0, (0, 0)
    for _ in range(kills):
        process, lines = _start(library, entry, out[1], folder)
        began = time.perf_counter()
        heard = list(islice(lines, rng.randrange(2 * LENGTH // (3 * kills))))
        time.sleep(rng.uniform(0.0, 1.5 * (time.perf_counter() - began) / (len(heard) + 1)))
        os.kill(process, signal.SIGKILL)
        done += _end(process) == -signal.SIGKILL
        reported = max([saved, *(_numbers(line) for line in (*heard, *lines))])
        saved = _saved(folder)
        lost += saved < reported
    _whole(library, entry, out[1], folder)
    with np.load(out[0]) as a, np.load(out[1]) as b:
        differing = [key for key in {*a, *b} if key not in a or key not in b or not _same(a[key], b[key])]
    return {"name": name, "library": library, "kills": done, "saved": saved[1], "lost": lost, "differing": differing}


def together(name: str, entry: Entry, library: str, times: int, rng: random.Random, work: Path) -> dict[str, Any]:
    """Start a run twice in one folder, a random while apart, kill the first every other time, and make it again."""
    began = time.perf_counter()
    _whole(library, entry, work / "whole.npz")
    whole, took = np.load(work / "whole.npz"), time.perf_counter() - began
    refused, killed, differing = 0, 0, 0
    for number in range(times):
        folder, outs = work / f"run-{number}", [work / f"{number}-{i}.npz" for i in range(3)]
        one, lines = _start(library, entry, outs[0], folder)
        time.sleep(rng.uniform(0.0, took))
        other, more = _start(library, entry, outs[1], folder)
        if number % 2:
            time.sleep(rng.uniform(0.0, took))
            os.kill(one, signal.SIGKILL)
        list(lines), list(more)
        codes = [_end(one), _end(other)]
        if not set(codes) <= {0, IN_USE, -signal.SIGKILL} or codes == [IN_USE, IN_USE]:
            raise RuntimeError(f"two runs ended with {codes}")
        refused, killed = refused + codes.count(IN_USE), killed + codes.count(-signal.SIGKILL)
        _whole(library, entry, outs[2], folder)
        for code, out in zip((*codes, 0), outs, strict=True):
            if code == 0:
                with np.load(out) as found:
                    differing += any(key not in found or not _same(whole[key], found[key]) for key in whole)
    row = {"name": name, "library": library, "times": times, "refused": refused, "killed": killed}
    return row | {"differing": differing}


def _numbers(line: str) -> tuple[int, int]:
    over, step = map(int, line.split())
    return over, step


def _saved(folder: Path) -> tuple[int, int]:
    """How far a run is saved: 1 if its warm-up is over or it has none, and the step."""
    for over, path in ((1, folder / INDEX), (0, folder / "warmup" / INDEX)):
        if path.exists():
            return over, json.loads(path.read_text())["step"]
    return 0, 0


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=("numpy", "torch", "jax"), default="numpy")
    parser.add_argument("--kills", type=int, default=5, help="of each run, one after the other (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of the instants (default: 0)")
    parser.add_argument(
        "--together", type=int, metavar="N", help="start each run twice in one folder, N times, instead"
    )
    parser.add_argument("names", nargs="*", help="which runs (default: all)")
    args = parser.parse_args(arguments)
    every, rng = entries(), random.Random(args.seed)
    for name in args.names or every:
        with tempfile.TemporaryDirectory() as work:
            attack, times = (killed, args.kills) if args.together is None else (together, args.together)
            print(json.dumps(attack(name, every[name], args.library, times, rng, Path(work))), flush=True)


if __name__ == "__main__":
    main()
