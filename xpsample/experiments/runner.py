"""The runner of experiments: options, devices, progress, tables, files and figures, the same for all of them.

An experiment is a module with its settings, a function that measures, its columns and its figure, and at its end the
value ``EXPERIMENT`` that names them. See ``docs/developer/experiments.md``.
"""

import argparse
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar, final

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.describe import describe
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import ConvergenceWarning, DivergenceWarning, RepellenceWarning
from xpsample.core.registry import backend_named, installed_backends, registered_backends
from xpsample.core.terminal import CLOSED_PIPE, Progress, close_stdout, ended_by
from xpsample.experiments import EXPERIMENTS
from xpsample.experiments.files import plain_row, write_rows
from xpsample.experiments.folder import OwnFolder
from xpsample.experiments.table import Columns, Row, table
from xpsample.experiments.unfinished import Unfinished, unfinished
from xpsample.kernels import Kernel
from xpsample.sampling.identity import made_with
from xpsample.sampling.interrupts import terminable
from xpsample.sampling.sampler import sample
from xpsample.score_mh.losses import TrainingLoss
from xpsample.score_mh.training import Fitted, fit
from xpsample.targets import AbstractTarget
from xpsample.trace.trace import Trace

Size = TypeVar("Size")

NO_SETTINGS = ("again", "backend", "command", "out", "paper", "quick", "resume")
"""Options that no result depends on, or that show in a run's size and devices."""


@final
class Run(Generic[Size]):
    """Context of an experiment's functions: its size, devices, seed, and output.

    Parameters
    ----------
    size : Size
        The experiment's settings that the options chose.
    args : argparse.Namespace
        The options, the experiment's own ones too.
    devices : list of DeviceDtype
        Devices and dtypes to run on.
    name : str
        Name of the experiment.
    progress : Progress, optional
        Printer of the progress.
    unfinished : Unfinished, optional
        Storage of finished parts, from which a stopped run can resume. Without it nothing is stored.

    Attributes
    ----------
    seed : int
    out : pathlib.Path
        The folder of all files.
    shown : dict
        Results of the measure for the tables, the conclusion and the figure, in addition to its rows.
    """

    def __init__(
        self,
        size: Size,
        args: argparse.Namespace,
        devices: list[DeviceDtype],
        name: str = "",
        progress: Progress | None = None,
        unfinished: Unfinished | None = None,
    ) -> None:
        self.size = size
        self.args: argparse.Namespace = args
        self.devices: list[DeviceDtype] = devices
        self.seed: int = args.seed
        self.out: Path = args.out
        self.shown: dict[str, Any] = {}
        self.folder: OwnFolder = OwnFolder(self.out, name)
        self._lines: list[str] = []
        self._progress = Progress(name) if progress is None else progress
        self._unfinished = unfinished

    def say(self, text: str = "") -> None:
        """Print at once, and add to ``report.txt``."""
        self._lines.append(text)
        self._progress.say(text)

    def table(
        self,
        rows: Sequence[Row],
        columns: Columns,
        keys: Sequence[str] | None = None,
        title: str = "",
        legend: str = "",
    ) -> None:
        """Print a table that fits the terminal, and put it in one piece into ``report.txt``; see `table`."""
        before, after = f"\n{title}\n" if title else "\n", f"\n\n{legend}" if legend else ""
        width = shutil.get_terminal_size((sys.maxsize, 24)).columns  # no limit without a terminal and COLUMNS
        self._lines.append(before + table(rows, columns, keys) + after)
        self._progress.say(before + table(rows, columns, keys, width) + after)

    def doing(self, label: str) -> AbstractContextManager[None]:
        """Around what may take long: says so while it does, on stderr."""
        return self._progress.doing(label)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """`doing`, followed by a line with the time taken."""
        began = time.perf_counter()
        with self.doing(label):
            yield
        self.say(f"  {label}: {time.perf_counter() - began:.1f} s")

    def sample(
        self,
        target: AbstractTarget,
        kernel: Kernel,
        x0: Array,
        draws: int,
        *,
        label: str = "",
        quiet: bool = False,
        **options: Any,
    ) -> Trace:
        """`xpsample.sample` with the run's seed, a bar of progress and a checkpoint.

        The `label` is as for `step`; a run without a label prints no line. A `quiet` run omits the warning about
        divergences, for experiments that count them. The options are as for `xpsample.sample`; `seed` may be another
        one.
        """
        what = self.step(label) if label else nullcontext()
        with what, self._bar(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # experiments measure that separately,
            warnings.simplefilter("ignore", RepellenceWarning)  # and use the strengths of their papers
            if quiet:
                warnings.simplefilter("ignore", DivergenceWarning)
            return sample(target, kernel, x0, draws, **({"seed": self.seed} | self.checkpoint() | options))

    def fit(self, loss: TrainingLoss, parameters: tree.Tree, data: Array, **options: Any) -> Fitted:
        """`xpsample.score_mh.fit` with the run's seed, a bar of progress and a checkpoint; `options` are its own."""
        with self._bar():
            return fit(loss, parameters, data, **({"seed": self.seed} | self.checkpoint() | options))

    def once(self, make: Callable[[], Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
        """Arrays by name from a long computation other than `sample` and `fit`. A resumed run does not repeat it.

        The result of `make` depends on the experiment's settings alone.
        """
        return make() if self._unfinished is None else self._unfinished.once(make)

    def _bar(self) -> AbstractContextManager[None]:
        return self._progress.doing(None) if _shows_bar() else nullcontext()

    def checkpoint(self) -> dict[str, Path]:
        """The argument ``checkpoint=`` of long computations other than `sample` and `fit`; empty without storage."""
        return {} if self._unfinished is None else {"checkpoint": self._unfinished.next()}

    def file(self, name: str) -> Path:
        """The path of a file that is to be written, in the folder of all files."""
        return self.folder.file(name)

    def save(self, name: str, **arrays: Any) -> None:
        """Arrays into ``NAME.npz``."""
        np.savez_compressed(self.file(f"{name}.npz"), **arrays)

    def close(self) -> None:
        """Write ``report.txt``, and which files the run made."""
        self.file("report.txt").write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        self.folder.close()


def widest(where: list[DeviceDtype]) -> list[DeviceDtype]:
    """Select the widest dtype on the first device of each kind, such as cpu or cuda."""
    kept: dict[tuple[str, str], DeviceDtype] = {}
    for device in where:
        key = (device.backend.name, device.name.partition(":")[0])
        if key not in kept or (kept[key].name == device.name and device.dtype > kept[key].dtype):
            kept[key] = device
    return list(kept.values())


def float32(found: list[DeviceDtype]) -> list[DeviceDtype]:
    """Select float32 on the first device of each kind: for models that need no more digits."""
    return widest([device for device in found if device.dtype == "float32"])


def one_float32(found: list[DeviceDtype]) -> list[DeviceDtype]:
    """Select the first device in float32."""
    return float32(found)[:1]


@final
@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[Size]):
    """An experiment: settings, a measure, columns, a conclusion and figures.

    Parameters
    ----------
    name, title : str
        What ``xpsample run`` calls it, and the first line of its report.
    settings : mapping of str to Size
        ``"full"``, ``"quick"`` for seconds, and ``"paper"`` where the paper's own are beyond the full ones.
    measure : callable
        Takes the `Run`, yields rows for ``results.csv`` and ``results.json``; what came before an error is kept.
    columns : mapping
        Columns of the table, see `xpsample.experiments.table.table`.
    conclude : callable
        Takes the run and the rows, gives the lines "what came out".
    paper : str
        The lines "beside the paper"; nothing for an experiment that is of no paper.
    keys : sequence of str, optional
        Columns that name a row: a table that is split repeats them.
    legend : str
        Text below the table.
    tell : callable, optional
        Prints the tables, where one of all rows is not it. Takes the run and the rows.
    figures : mapping of str to callable
        File name without ending to a function that takes an empty matplotlib figure, the run and the rows. A figure
        that it leaves empty is not written.
    options : callable, optional
        Adds options of the experiment's own to an `argparse.ArgumentParser`.
    devices : callable
        Selects where to run from all devices and dtypes.
    backends : sequence of str, optional
        Backends used without ``--backend``; None for every installed one.
    trains : bool, optional
        Whether networks are trained: ``--quick`` then uses an installed library with autodiff that compiles nothing,
        since compiling takes longer than the few updates.
    """

    name: str
    title: str
    settings: Mapping[str, Size]
    measure: Callable[[Run[Size]], Iterable[Row]]
    columns: Columns = field(default_factory=dict)
    conclude: Callable[[Run[Size], list[Row]], str]
    paper: str = ""
    keys: Sequence[str] | None = None
    legend: str = ""
    tell: Callable[[Run[Size], list[Row]], None] | None = None
    figures: Mapping[str, Callable[[Any, Run[Size], list[Row]], None]] = field(default_factory=dict)
    options: Callable[[argparse.ArgumentParser], None] | None = None
    devices: Callable[[list[DeviceDtype]], list[DeviceDtype]] = widest
    backends: Sequence[str] | None = ("numpy",)
    trains: bool = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Options of all experiments, and this one's own."""
        default = "every installed one" if self.backends is None else ", ".join(self.backends)
        default += "; with --quick an eager one with autodiff, if installed" if self.trains else ""
        backend = parser.add_argument(
            "--backend",
            action="append",
            metavar="NAME",
            help=f"array library to run on; may be given several times (default: {default})",
        )
        backend.completer = lambda **_: registered_backends()  # for argcomplete
        sizes = parser.add_mutually_exclusive_group()
        sizes.add_argument(
            "--quick", action="store_true", help=f"a small version, to see that it works{_takes(self.name)}"
        )
        if "paper" in self.settings:
            sizes.add_argument("--paper", action="store_true", help="the paper's size, which takes much longer")
        parser.add_argument(
            "--seed", type=_seed, default=0, help="seed of the runs, not negative (default: %(default)s)"
        )
        parser.add_argument(
            "--out",
            type=Path,
            default=Path("xpsample-out") / self.name,
            metavar="DIR",
            help="where the files go (default: %(default)s)",
        )
        parser.add_argument(
            "--resume",
            action="store_true",
            help="continue the run that was stopped in that folder, which needs the same options; begin if there "
            "is none",
        )
        if self.options is not None:
            self.options(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Run it, print what it finds, and write the files; the exit code."""
        began, names = time.perf_counter(), args.backend or self._backends(args.quick)
        chosen = "quick" if args.quick else "paper" if getattr(args, "paper", False) else "full"
        with one_thread(), terminable(), Progress("loading array libraries") as progress:
            devices = self.devices(device_dtypes(names))
            identity = self._identity(chosen, args, devices)
            with unfinished(args.out) as done:
                done.check(identity, args.resume)
                if args.resume and done.finished:
                    progress.say(f"{args.out} holds this run, and it is finished: nothing is left to do")
                    return 0
                run = Run(self.settings[chosen], args, devices, self.name, progress, done)
                done.begin(identity)
                head = [self.title, f"{chosen} size, seed {run.seed}, on {', '.join(map(str, devices))}"]
                if done.goes_on:
                    head.append(f"goes on after {done.progress}; times below are of what was left to do")
                return self._finish(run, done, [*head, *missing(names)], began)

    def _backends(self, quick: bool) -> list[str] | None:
        """Backends without ``--backend``; None is every installed one."""
        for name in installed_backends() if quick and self.trains else ():
            autodiff = backend_named(name).autodiff
            if autodiff is not None and autodiff.compiled(len) is len:
                return [name]
        return None if self.backends is None else list(self.backends)

    def _finish(self, run: Run[Size], done: Unfinished, head: Sequence[str], began: float) -> int:
        """Measure and report what is not done yet; the exit code."""
        rows: list[Row] = []
        again = run.args.again if run.args.resume else f"{run.args.again} --resume"

        def stopped(what: str) -> None:
            # In one piece, to be copied.
            run.say(f"\nstopped by {what}, with {done.progress}; to go on: {again}")

        try:
            with run.doing(self.name):
                for line in head:
                    run.say(line)
                for row in self.measure(run):
                    rows.append(done.row(len(rows), plain_row(row)))  # one by one: those before an error are kept
                self._report(run, rows)
        except KeyboardInterrupt as error:
            by, code = ended_by(error)
            stopped(by)
            return code
        except BrokenPipeError:
            close_stdout()
            stopped("a closed pipe")
            return CLOSED_PIPE
        except Exception as error:
            stopped(type(error).__name__)
            raise
        finally:
            write_rows(run.file, done.rows)
            run.say(f"\nfiles are in {run.out}; the whole took {time.perf_counter() - began:.0f} s")
            run.close()
        done.finish()
        return 0

    def _identity(self, chosen: str, args: argparse.Namespace, devices: Sequence[DeviceDtype]) -> dict[str, Any]:
        """Everything that its results depend on, as JSON values."""
        options = {name: value for name, value in vars(args).items() if name not in NO_SETTINGS}
        settings = {"experiment": self.name, "size": chosen, "settings": describe(self.settings[chosen])}
        return settings | {"options": describe(options)} | made_with(devices)

    def _report(self, run: Run[Size], rows: list[Row]) -> None:
        """Tables, conclusion, the paper's, figures."""
        if self.tell is not None:
            self.tell(run, rows)
        else:
            run.table(rows, self.columns, self.keys, legend=self.legend)
        what = "a quick run, which decides nothing" if run.args.quick else "what came out"
        run.say(f"\n{what}\n{self.conclude(run, rows)}")
        if self.paper:
            run.say(f"\nbeside the paper\n{self.paper}")
        for name, plot in self.figures.items():
            with run.doing(f"figure {name}.png"):
                _draw(f"{name}.png", plot, run, rows)


def _takes(name: str) -> str:
    entry = EXPERIMENTS.get(name)
    return "" if entry is None or entry.quick is None else f": about {entry.quick} s on one core"


def _shows_bar() -> bool:
    """Return whether `xpsample.sample` shows a bar."""
    return sys.stderr.isatty() and find_spec("tqdm") is not None


def _draw(name: str, plot: Callable[[Any, Run[Any], list[Row]], None], run: Run[Any], rows: list[Row]) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        run.say(f'no {name}: it needs matplotlib, pip install "xpsample[plot]"')
        return
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)  # no window system, whatever the user's matplotlib is set up for
    plot(figure, run, rows)
    if figure.axes:
        figure.savefig(run.file(name), dpi=110, metadata={"Software": ""})


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("a seed is a whole number that is not negative")
    return int(text)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let libraries that are loaded inside start one OpenMP thread, unless the user has set OMP_NUM_THREADS.

    On the small arrays of an experiment threads gain nothing, and on a busy machine they wait for each other: a
    hundredfold loss was seen. Libraries loaded before are not affected.
    """
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
