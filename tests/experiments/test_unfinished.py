"""Runs of experiments that are stopped: nothing that is finished is lost, and a resumed run is an uninterrupted one."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.damage import damages
from xpsample import MALA, FiniteDifference
from xpsample.core.errors import CheckpointError, CheckpointWarning
from xpsample.experiments.runner import Experiment
from xpsample.experiments.unfinished import NAME, ROWS, unfinished
from xpsample.files.atomic import exclusive
from xpsample.optimize.optimizers import Adam
from xpsample.score_mh import Denoising, init_score_network
from xpsample.zoo.gaussian import gaussian

MADE = """
import sys, time, types
import numpy as np
from pathlib import Path
from xpsample import FiniteDifference, MALA, cli
from xpsample.experiments import Entry
from xpsample.experiments.runner import Experiment
from xpsample.optimize.optimizers import Adam
from xpsample.core import terminal
from xpsample.sampling import loop
from xpsample.score_mh import Denoising, init_score_network
from xpsample.zoo.gaussian import gaussian

loop.SECONDS = 1e-9  # blocks of two steps
terminal.SILENCE = float("inf")  # a busy machine says what it waits for

def slow(number):
    with open(sys.argv[1] + ".calls", "a") as file:
        file.write(f"{number}\\n")
    time.sleep(0.02)
    return {"squares": np.arange(number) ** 2}

def measure(run):
    rows = np.random.default_rng(0).standard_normal((32, 1))
    for number in range(8):
        began = time.perf_counter()
        trace = run.sample(gaussian(np.eye(1)), MALA(0.5 + 0.1 * number), np.zeros((2, 1)), 60)
        network = init_score_network(1, 2, seed=number)
        found = run.fit(Denoising(0.5), network, rows, epochs=3, gradient=FiniteDifference(1e-3))
        squares = run.once(lambda: slow(number))["squares"]
        run.shown[f"draws {number}"] = trace.draws
        run.say(str(number))
        row = {"number": np.int64(number), "mean": np.mean(trace.draws), "seconds": time.perf_counter() - began}
        yield row | {"loss": float(found.losses[-1]), "squares": np.sum(squares), "nothing": np.nan}
    run.save("draws", **run.shown)

EXPERIMENT = Experiment(
    name="made-up", title="A made-up one", settings={"full": 1, "quick": 2}, measure=measure,
    columns={"number": ("number", "d"), "mean": ("mean", ".6f")},
    conclude=lambda run, rows: f"mean {np.mean([row['mean'] for row in rows]):.6f}",
    options=lambda parser: parser.add_argument("--times", type=int, default=1),
)
sys.modules["made_up"] = types.SimpleNamespace(EXPERIMENT=EXPERIMENT)
cli.EXPERIMENTS = {"made-up": Entry("made_up", "A made-up one.")}
sys.exit(cli.main(["run", "made-up", "--out", *sys.argv[1:]]))
"""


def begin(out, *options):
    command = [sys.executable, "-c", MADE, str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def whole(out, *options):
    with begin(out, *options) as process:
        told, error = process.communicate()
    assert process.returncode == 0, error
    return told


def stopped(out, seconds, rows, *options, by=signal.SIGKILL):
    """End a run so many seconds after so many of its rows are on the disk; what it told, its errors, its exit code."""
    with begin(out, *options) as process:
        while len(on_disk(out)) < rows and process.poll() is None:
            time.sleep(0.005)
        time.sleep(seconds)
        process.send_signal(by)
        told, error = process.communicate()
    return told, error, process.returncode


def on_disk(out):
    path = Path(out) / NAME / ROWS
    return path.read_bytes().split(b"\n")[1:-1] if path.exists() else []


def results(out, *times):
    rows = json.loads((out / "results.json").read_text())
    return [{key: value for key, value in row.items() if key not in times} for row in rows]


def test_kills_lose_nothing_and_change_nothing(tmp_path):
    whole(tmp_path / "a")
    rng, out, before = random.Random(1), tmp_path / "b", []
    for kill in range(3):
        *_, code = stopped(out, rng.uniform(0.0, 0.15), 2 * kill + 1, "--resume")
        assert code == -signal.SIGKILL
        found = on_disk(out)
        assert found[: len(before)] == before and len(found) > 2 * kill
        before = found
    assert f"goes on after {len(before)} rows of results" in whole(out, "--resume")
    assert on_disk(out)[: len(before)] == before  # their times are those of the run that measured them
    assert results(tmp_path / "a", "seconds") == results(out, "seconds")
    with np.load(tmp_path / "a" / "draws.npz") as a, np.load(out / "draws.npz") as b:
        assert a.files == b.files and all(np.array_equal(a[key], b[key]) for key in a.files)
    reports = [(folder / "report.txt").read_text() for folder in (tmp_path / "a", out)]
    assert all(reports[0].split("\n\n")[1:3] == report.split("\n\n")[1:3] for report in reports)  # table, conclusion
    calls = (tmp_path / "b.calls").read_text().split()
    assert sorted(set(calls)) == sorted("01234567") and len(calls) <= 8 + 3  # at most the one that each kill met
    assert [path.name for path in (out / NAME).iterdir()] == [ROWS]


@pytest.mark.parametrize(
    ("by", "name", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)], ids=["int", "term"]
)
def test_a_signal_ends_it_and_one_line_says_how_to_go_on(tmp_path, by, name, code):
    whole(tmp_path / "a", "--times", "3")
    told, error, ended = stopped(tmp_path / "b", 0, 3, "--times", "3", by=by)
    # A machine that is busy is told what it waits for.
    error = [line for line in error.splitlines() if "loading array libraries" not in line]
    assert ended == code and not error
    count = len(on_disk(tmp_path / "b"))
    (line,) = [line for line in told.splitlines() if line.startswith("stopped by")]
    again = f"run made-up --out {tmp_path / 'b'} --times 3 --resume"
    assert line.startswith(f"stopped by {name}, with {count} rows of results; to go on: ") and line.endswith(again)
    assert len(results(tmp_path / "b")) == count
    whole(tmp_path / "b", "--times", "3", "--resume")
    assert results(tmp_path / "a", "seconds") == results(tmp_path / "b", "seconds")


def test_a_closed_pipe_keeps_the_rows(tmp_path):
    (tmp_path / "made.py").write_text(MADE)
    command = f"{sys.executable} {tmp_path / 'made.py'} {tmp_path / 'out'} | head -4; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "A made-up one\nfull size, seed 0, on numpy-cpu-float64\n0\n1\n141\n" and not done.stderr
    assert 1 <= len(results(tmp_path / "out")) < 8
    assert "stopped by a closed pipe" in (tmp_path / "out" / "report.txt").read_text()


# ---- in this process -------------------------------------------------------------------------------------------------


@pytest.fixture
def run_it(run_it):
    """Runs an experiment of a measure through the command line, in ``tmp_path / "out"``; gives the exit code."""

    def run_measure(measure, *options):
        experiment = Experiment(
            name="made-up",
            title="A made-up one",
            settings={"full": 100, "quick": 1},
            measure=measure,
            columns={"name": ("name", "s")},
            conclude=lambda run, rows: f"values: {[row.get('value') for row in rows]}",
        )
        return run_it(experiment, *options)

    return run_measure


def two(run):
    yield {"name": "one", "value": 1.0}
    yield {"name": "two", "value": 2.0}


def half(run):
    yield {"name": "one", "value": 1.0}
    raise KeyboardInterrupt


def test_without_resume_an_unfinished_run_is_not_lost(run_it, tmp_path, capsys):
    """A finished row is taken as it was: its times cannot be measured again."""
    assert run_it(half, "--resume") == 130  # which begins where there is nothing
    capsys.readouterr()
    assert run_it(two) == 1
    told = capsys.readouterr()
    assert "holds a run that was stopped, with 1 row of results: continue with --resume" in told.err and not told.out
    assert run_it(lambda run: [{"name": "one", "value": 9.0}, {"name": "two", "value": 2.0}], "--resume") == 0
    assert [row["value"] for row in results(tmp_path / "out")] == [1.0, 2.0]
    assert "values: [1.0, 2.0]" in (tmp_path / "out" / "report.txt").read_text()


def test_a_finished_run_is_not_made_again(run_it, tmp_path, capsys):
    assert run_it(two) == 0
    before = (tmp_path / "out" / "report.txt").read_bytes()
    assert run_it(lambda run: pytest.fail("it is finished"), "--resume") == 0
    assert "is finished: nothing is left to do" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.txt").read_bytes() == before
    assert run_it(two) == 0  # without it, it is


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--seed", "1"], "options seed: 0 there, 1 here"), (["--quick"], "size: full there, quick here; settings: 100")],
)
def test_other_settings_are_refused_by_name(run_it, tmp_path, capsys, options, named):
    assert run_it(half) == 130
    before = on_disk(tmp_path / "out")
    assert run_it(two, "--resume", *options) == 1
    assert f"holds the rows of another run ({named}" in capsys.readouterr().err
    assert on_disk(tmp_path / "out") == before


@pytest.mark.parametrize("what", ["versions", "code", "devices"])
def test_other_versions_and_another_code_are_refused(run_it, monkeypatch, capsys, what):
    assert run_it(half) == 130
    runner = "xpsample.experiments.runner"
    made = sys.modules[runner].made_with
    monkeypatch.setattr(f"{runner}.made_with", lambda devices: made(devices) | {what: "others"})
    assert run_it(two, "--resume") == 1
    assert f"{what}: " in capsys.readouterr().err


def test_a_row_that_is_another_one_now_is_refused(run_it, capsys):
    assert run_it(half) == 130
    assert run_it(lambda run: [{"name": "uno", "value": 1.0}], "--resume") == 1
    assert "the same run made {'name': 'uno'" in capsys.readouterr().err


def test_a_damaged_file_of_rows_is_one_error_that_names_it(run_it, tmp_path, capsys):
    assert run_it(half) == 130
    path = tmp_path / "out" / NAME / ROWS
    path.write_bytes(path.read_bytes().replace(b'"value": 1.0', b'"value": 7.0'))
    for options in ((), ("--resume",)):
        capsys.readouterr()
        assert run_it(two, *options) == 1
        error = capsys.readouterr().err
        assert f"{path} cannot be read" in error and "remove it and begin anew" in error and error.count("\n") == 2
    path.unlink()
    assert run_it(two) == 0


def test_a_folder_in_use_is_refused(run_it, tmp_path, capsys):
    (tmp_path / "out" / NAME).mkdir(parents=True)
    with exclusive(tmp_path / "out" / NAME / f"{ROWS}.lock"):
        assert run_it(two) == 1
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err


def test_a_file_that_was_being_written_does_not_keep_a_run_from_going_on(run_it, tmp_path):
    """A kill between a file of the run's and the next row."""

    def killed(run):
        yield {"name": "one", "value": 1.0}
        run.file("arrays.npz").write_bytes(b"half of i")
        os.kill(os.getpid(), signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX's, of forks; the child makes no use of it
        process = os.fork()
    if process == 0:
        run_it(killed)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "out" / "arrays.npz").exists()
    assert run_it(two, "--resume") == 0


def test_samplings_trainings_and_other_work_are_made_once(run_it, tmp_path):
    seen = []

    def measure(stop, run):
        draws = run.sample(gaussian(np.eye(1)), MALA(0.5), np.zeros((2, 1)), 20).draws
        rows, network = np.random.default_rng(0).standard_normal((32, 1)), init_score_network(1, 2, seed=1)
        settings = {"epochs": 2, "gradient": FiniteDifference(1e-3), "optimizer": Adam(0.01)}
        losses = run.fit(Denoising(0.5), network, rows, **settings).losses
        made = run.once(lambda: {"made": seen.append(1) or np.arange(3.0)})["made"]
        if stop:
            raise KeyboardInterrupt
        yield {"name": "one", "draws": draws.sum(), "losses": losses.sum(), "made": made.sum()}

    assert run_it(lambda run: measure(True, run)) == 130
    pieces = sorted(path.name for path in (tmp_path / "out" / NAME).iterdir())
    assert pieces == ["00001", "00002", "00003", ROWS]
    assert run_it(lambda run: measure(False, run)) == 1  # there is something to lose, though no row
    assert run_it(lambda run: measure(False, run), "--resume") == 0
    assert len(seen) == 1


def test_a_damaged_result_is_one_error_that_names_it(tmp_path):
    with unfinished(tmp_path) as first:
        first.begin({})
        made = first.once(lambda: {"made": np.arange(30.0), "also": np.ones((2, 3), dtype=np.float32)})
    for path in sorted((tmp_path / NAME / "00001").iterdir()):
        content = path.read_bytes()
        for damaged in damages(content):
            path.write_bytes(damaged)
            refused = pytest.raises(CheckpointError, match=rf"00001/{path.name} .*remove|schema version")
            with unfinished(tmp_path) as again, refused:
                again.once(lambda: pytest.fail("it is there"))
        path.write_bytes(content)
    with unfinished(tmp_path) as again:
        found = again.once(lambda: pytest.fail("it is there"))
    assert all(np.array_equal(found[name], made[name]) for name in {*found, *made})


def test_a_full_disk_is_a_warning(run_it, monkeypatch, tmp_path):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("xpsample.files.folder.write_arrays", full)

    def measure(run):
        yield {"name": "one", "value": run.once(lambda: {"made": np.ones(3)})["made"].sum()}

    with pytest.warns(CheckpointWarning, match=r"00001 .*No space left.*resumed one makes it again"):
        assert run_it(measure) == 0
    assert results(tmp_path / "out") == [{"name": "one", "value": 3.0}]
