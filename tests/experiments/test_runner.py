"""The runner of experiments, on small made-up ones: options, devices, tables, files, figures, and what goes wrong."""

import argparse
import csv
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.quick_runs import QUICK
from xpsample import MALA, Target
from xpsample.cli import main
from xpsample.core.devices import DeviceDtype, device_dtypes
from xpsample.core.errors import DivergenceWarning, XpsampleError
from xpsample.experiments import EXPERIMENTS
from xpsample.experiments.runner import Experiment, Run, float32, one_thread, widest
from xpsample.experiments.table import columns, interval, mean_and_error, means_and_errors, table
from xpsample.zoo.gaussian import gaussian

ROWS = [
    {"name": "one", "value": 1.5, "value_se": 0.25},
    {"name": "two", "value": math.nan, "far": np.float32(2.0), "out": np.float64(math.inf)},
]
WITH_PAPER = {"full": 100, "quick": 1, "paper": 9000}


def made_up(measure=lambda run: ROWS, **changes):
    defaults = {
        "columns": {"name": ("name", "s"), "value": ("value", ".2f+-")},
        "settings": {"full": 100, "quick": 1},
        "conclude": lambda run, rows: f"{len(rows)} rows of {run.size}",
    }
    return Experiment(**{"name": "made-up", "title": "A made-up one", "measure": measure} | defaults | changes)


@pytest.fixture
def seen():
    """What a made-up experiment has seen, in order."""
    return []


@pytest.fixture
def seeing(seen):
    """Makes a made-up experiment that notes something of its run."""

    def make(note, **changes):
        return made_up(lambda run: seen.append(note(run)) or ROWS, **changes)

    return make


@pytest.fixture
def a_run(tmp_path):
    return Run(None, argparse.Namespace(seed=5, out=tmp_path), device_dtypes(["numpy"]))


@pytest.fixture
def report(tmp_path):
    return lambda: (tmp_path / "out" / "report.txt").read_text()


@pytest.fixture
def results(tmp_path):
    return lambda: json.loads((tmp_path / "out" / "results.json").read_text())


# ---- options and devices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "size"), [((), 100), (("--quick",), 1), (("--paper",), 9000)])
def test_options_choose_the_settings(run_it, report, options, size):
    assert run_it(made_up(settings=WITH_PAPER), *options) == 0
    assert f"2 rows of {size}\n" in report()


def test_the_widest_dtype_of_each_kind_of_device():
    backend, devices = device_dtypes(["numpy"])[0].backend, ("cpu", "cuda:0", "cuda:1")
    every = [DeviceDtype(backend, device, None, dtype) for device in devices for dtype in ("float32", "float64")]
    assert [(p.name, p.dtype) for p in widest(every)] == [("cpu", "float64"), ("cuda:0", "float64")]
    assert [p.dtype for p in widest(every[:1])] == ["float32"]


WRONG_OPTIONS = {
    "paper without its settings": ({}, ["--paper"], "--paper"),
    "paper and quick": ({"settings": WITH_PAPER}, ["--paper", "--quick"], "not allowed with"),
    "seed -1": ({}, ["--seed", "-1"], "a seed is a whole number that is not negative"),
    "seed 1.5": ({}, ["--seed", "1.5"], "a seed is a whole number that is not negative"),
    "seed one": ({}, ["--seed", "one"], "a seed is a whole number that is not negative"),
}


@pytest.mark.parametrize(("changes", "options", "told"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_wrong_options(run_it, capsys, changes, options, told):
    with pytest.raises(SystemExit):
        run_it(made_up(**changes), *options)
    assert told in capsys.readouterr().err


def test_own_options_and_the_seed_reach_the_measure(run_it, seeing, seen):
    own = seeing(
        lambda run: (run.seed, run.args.times),
        options=lambda parser: parser.add_argument("--times", type=int, default=1),
    )
    assert run_it(own, "--seed", "3", "--times", "7") == 0
    assert seen == [(3, 7)]


def test_help_shows_the_defaults(run_it, capsys):
    for backends, told in ((("numpy",), "(default: numpy)"), (None, "(default: every installed one)")):
        with pytest.raises(SystemExit):
            run_it(made_up(backends=backends), "--help")
        text = " ".join(capsys.readouterr().out.split())
        assert told in text
    parser = argparse.ArgumentParser()
    made_up().add_arguments(parser)
    assert parser.parse_args([]).out == Path("xpsample-out/made-up")


def test_devices_are_picked_and_named(run_it, report, seeing, seen):
    def note(run):
        return [str(device) for device in run.devices]

    for changes in ({}, {"devices": float32}, {"devices": list}):
        assert run_it(seeing(note, **changes)) == 0
        assert f"full size, seed 0, on {seen[-1][0]}" in report()
    assert seen[:2] == [["numpy-cpu-float64"], ["numpy-cpu-float32"]]
    assert sorted(seen[2]) == ["numpy-cpu-float32", "numpy-cpu-float64"]
    # Networks are trained by the declared backends unless the run is quick.
    trained = seeing(lambda run: {device.backend.name for device in run.devices}, trains=True)
    assert run_it(trained) == run_it(trained, "--quick") == 0
    assert seen[3:] == [{"numpy"}, {"torch"} if importlib.util.find_spec("torch") else {"numpy"}]


def test_what_is_missing_is_said(run_it, monkeypatch, capsys):
    monkeypatch.setattr("xpsample.experiments.runner.missing", lambda names: [f"{names}: no device"])
    assert run_it(made_up()) == run_it(made_up(), "--backend", "numpy") == run_it(made_up(backends=None)) == 0
    text = capsys.readouterr().out
    assert text.count("['numpy']: no device\n") == 2 and "None: no device\n" in text


def test_no_library_is_loaded_for_an_unknown_backend():
    script = "import sys; from xpsample.cli import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    command = ["run", "srmc-mse", "--backend", "torch", "--backend", "nompy"]
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True)
    assert done.stdout == "1 False\n" and done.stderr.startswith("xpsample: no backend is registered for 'nompy'")
    assert "numpy" in done.stderr and "Traceback" not in done.stderr


def test_an_experiment_runs_in_one_thread(run_it, monkeypatch, seeing, seen):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert run_it(seeing(lambda run: os.environ["OMP_NUM_THREADS"])) == 0
    assert seen == ["1"] and "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # the user's setting is left
    with one_thread():
        assert os.environ["OMP_NUM_THREADS"] == "3"


# ---- what it prints and writes ---------------------------------------------------------------------------------------


def test_rows_are_written_in_full(run_it, results, tmp_path):
    assert run_it(made_up(lambda run: [])) == 0  # no rows are no files
    assert not (tmp_path / "out" / "results.json").exists()
    assert run_it(made_up()) == 0
    assert results() == [
        {"name": "one", "value": 1.5, "value_se": 0.25, "far": None, "out": None},
        {"name": "two", "value": None, "value_se": None, "far": 2.0, "out": None},
    ]
    with open(tmp_path / "out" / "results.csv", newline="") as file:
        assert list(csv.DictReader(file))[1] == {"name": "two", "value": "", "value_se": "", "far": "2.0", "out": ""}


def test_the_report_is_what_was_printed_in_this_order(run_it, report, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # lines of a report are not broken
    assert run_it(made_up(lambda run: run.say("of this kind") or ROWS, legend="value  is one", paper="the same")) == 0
    text = report()
    assert text == capsys.readouterr().out
    told = ["A made-up one", "full size, seed 0", "of this kind", "one   1.50 +- 0.25", "value  is one"]
    told += ["what came out\n2 rows of 100", "beside the paper\nthe same", "files are in"]
    places = [text.index(part) for part in told]
    assert places == sorted(places)
    assert run_it(made_up(), "--quick") == 0
    assert "a quick run, which decides nothing\n2 rows of 1" in report()
    assert "what came out" not in report() and "beside the paper" not in report()  # it has none
    assert run_it(made_up(lambda run: [])) == 0
    assert "(no rows)" in report()


def test_own_tables_replace_the_one_of_all_rows(run_it, capsys):
    def tell(run, rows):
        run.table(rows[:1], {"name": ("who", "s")}, title="the first", legend="no more")

    assert run_it(made_up(tell=tell)) == 0
    text = capsys.readouterr().out
    assert "\nthe first\nwho\n---\none\n\nno more\n" in text and "value" not in text


def test_tables_fit_the_terminal_and_the_report_has_them_in_one_piece(run_it, report, monkeypatch, capsys):
    columns = {"name": ("name", "s")} | {key: (f"heading {key}", ".1f") for key in "abcdef"}
    rows = [dict.fromkeys("abcdef", 1.0) | {"name": "some name"}]
    monkeypatch.setenv("COLUMNS", "40")
    assert run_it(made_up(lambda run: rows, columns=columns)) == 0
    printed = capsys.readouterr().out
    assert printed.count("\nsome name  ") == 3  # 9 + 2 + 9 + 2 + 9 are 31, and one more are 42
    assert all(len(line) <= 40 for line in printed.splitlines() if "heading" in line)
    assert report().count("\nsome name  ") == 1


def test_steps_are_told_and_what_takes_long_while_it_does(run_it, monkeypatch, capsys):
    monkeypatch.setattr("xpsample.core.terminal.SILENCE", 0.05)

    def measure(run):
        with run.step("standing"):
            pass
        with run.doing("digging"):
            time.sleep(0.5)
        time.sleep(0.5)
        return ROWS

    assert run_it(made_up(measure)) == 0
    told = capsys.readouterr()
    assert "  standing: 0.0 s\n" in told.out
    assert {"  digging, 0 s", "  made-up, 0 s"} <= set(told.err.splitlines())


def test_sampling_takes_the_seed_and_says_its_label(a_run, capsys):
    one, same, other = (
        a_run.sample(gaussian(np.eye(1)), MALA(0.5), np.zeros((2, 1)), 3, label=label, **options).draws
        for label, options in (("a", {}), ("b", {"seed": 5}), ("", {"seed": 6}))
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["  a", "  b"]


def test_divergences_are_warned_of_unless_they_are_counted(a_run):
    target = Target(lambda x: np.where(abs(x[..., 0]) > 0.1, np.nan, 0.0), score=lambda x: 0.0 * x)
    with pytest.warns(DivergenceWarning):
        a_run.sample(target, MALA(1.0), np.zeros((4, 1)), 5)
    trace = a_run.sample(target, MALA(1.0), np.zeros((4, 1)), 5, quiet=True)
    assert np.sum(trace.run_statistics.diverged) > 0


# ---- figures ---------------------------------------------------------------------------------------------------------


def draw(figure, run, rows):
    figure.subplots().plot([row.get("value") for row in rows])


def test_figures_are_drawn_and_one_that_fails_keeps_the_results(run_it, results, tmp_path):
    pytest.importorskip("matplotlib")
    assert run_it(made_up(figures={"plot": draw, "empty": lambda figure, run, rows: None})) == 0
    assert (tmp_path / "out" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "out" / "empty.png").exists()
    with pytest.raises(KeyError):
        run_it(made_up(lambda run: ROWS[:1], figures={"plot": lambda figure, run, rows: rows[0]["no such key"]}))
    assert len(results()) == 1


def test_without_matplotlib_the_rest_is_there(run_it, report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run_it(made_up(figures={"plot": draw})) == 0
    assert 'no plot.png: it needs matplotlib, pip install "xpsample[plot]"' in report()
    found = {path.name for path in (tmp_path / "out").glob("[!.]*")}
    assert found == {"made-by-xpsample.json", "report.txt", "results.csv", "results.json"}


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (XpsampleError("out of range"), 1, "xpsample: out of range\n  docs: troubleshooting#xpsampleerror\n"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError(), None, ""),
    ],
)
def test_what_was_measured_before_an_error_is_kept(run_it, results, report, capsys, error, code, told):
    def stopping(run):
        yield ROWS[0]
        raise error

    if code is None:  # an error of the code is not swallowed
        with pytest.raises(ZeroDivisionError):
            run_it(made_up(stopping))
    else:
        assert run_it(made_up(stopping)) == code
    assert capsys.readouterr().err == told
    assert [row["name"] for row in results()] == ["one"]
    by = "Ctrl-C" if code == 130 else type(error).__name__
    assert f"stopped by {by}, with 1 row of results" in report() and "what came out" not in report()


def test_files_of_others_are_not_overwritten(run_it, seeing, seen, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.csv").write_text("mine")
    assert run_it(seeing(lambda run: run)) == 1 and not seen
    assert "holds files that made-up did not make" in capsys.readouterr().err
    (tmp_path / "out" / "results.csv").unlink()
    assert run_it(made_up()) == run_it(made_up(), "--quick") == 0


def test_a_folder_that_cannot_be_written_to_is_one_clear_error(run_it, seeing, seen, tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    assert run_it(seeing(lambda run: run)) == 1
    told = capsys.readouterr()
    assert told.err.startswith(f"xpsample: cannot write to {tmp_path / 'out'}: ") and "--out" in told.err
    assert told.err.count("\n") == 2 and not told.out and not seen  # the second line names the entry in the docs


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_table_aligns():
    rows = [{"a": "x", "b": 1.0, "c": 2}, {"a": "longer", "b": 10.0, "c": 3}]
    shown = "name       b\n------  ----\nx        1.0\nlonger  10.0"
    assert table(rows, {"a": ("name", "s"), "b": ("b", ".1f")}) == shown
    assert columns("target | alpha g | mse .2e+- mean error | kind s sort") == {
        "target": ("target", "s"),
        "alpha": ("alpha", "g"),
        "mse": ("mean error", ".2e+-"),
        "kind": ("sort", "s"),
    }


@pytest.mark.parametrize(
    ("row", "spec", "cell"),
    [
        ({"a": 1.25}, ".1f", "1.2"),
        ({"a": 1.25, "a_se": 0.5}, ".2f+-", "1.25 +- 0.50"),
        ({"a": 1.25, "a_se": None}, ".2f+-", "1.25"),
        ({"a": 1.25, "a_se": math.nan}, ".2f+-", "1.25"),
        ({"a": 1.25}, ".2f+-", "1.25"),
        ({"a": 1, "a_low": 0, "a_high": 3}, "d(low-high)", "1 (0-3)"),
        ({"a": 1, "b": 2}, lambda row: f"{row['a']} of {row['b']}", "1 of 2"),
        ({"a": None}, ".1f", "-"),
        ({"a": math.nan}, ".1f+-", "-"),
        ({"a": math.inf}, ".1f", "inf"),
        ({}, ".1f", ""),
        ({"a": "none"}, ".1f", "none"),
    ],
)
def test_cells(row, spec, cell):
    assert table([row], {"a": ("a", spec)}).split("\n")[2:] == [cell]


def test_blocks_repeat_the_keys():
    rows = [{"k": "key", "n": 7, "x": 1.0, "y": 2.0, "z": 3.0}]
    specs = columns("k | n d | x .1f | y .1f | z .1f")
    blocks = [block.split("\n") for block in table(rows, specs, ("k", "n"), 16).split("\n\n")]
    assert [block[0].split() for block in blocks] == [["k", "n", "x", "y"], ["k", "n", "z"]]
    assert [block[2].split() for block in blocks] == [["key", "7", "1.0", "2.0"], ["key", "7", "3.0"]]
    # The leading columns of text are keys by default; a block has a column that is none, though it is too wide.
    narrow = table(rows, specs, width=4).split("\n\n")
    assert [block.split("\n")[0].split() for block in narrow] == [["k", column] for column in "nxyz"]
    assert "\n\n" not in table(rows, specs, width=21)
    assert "\n\n" in table(rows, specs, width=20)


def test_mean_and_error():
    assert mean_and_error("a", [1.0, 2.0, 3.0]) == {"a": 2.0, "a_se": pytest.approx(1 / math.sqrt(3))}
    assert math.isnan(mean_and_error("a", [1.0])["a_se"])
    assert interval({"a": 1.0, "a_se": 2.0}, "a") == pytest.approx((-2.92, 4.92))
    found = means_and_errors({"b": [2.0, 2.0], "a": [1.0, 2.0, 3.0]})
    assert list(found) == ["b", "b_se", "a", "a_se"] and list(found.values())[:3] == [2.0, 0.0, 2.0]


def test_the_experiment_of_the_page_runs(run_it, results, report):
    page = Path(__file__).parents[2] / "docs" / "developer" / "experiments.md"
    namespace = {}
    exec(re.search("```python\n(.*?)```", page.read_text(), re.DOTALL)[1], namespace)
    assert run_it(namespace["EXPERIMENT"], "--quick") == 0
    assert [row["step_size"] for row in results()] == [0.1, 0.5, 1.0]
    assert "smallest error with step size" in report()


# ---- the registry ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_entry_is_its_experiment(name):
    assert set(QUICK) == set(EXPERIMENTS)  # a quick run of each in the table
    experiment = EXPERIMENTS[name].load()
    assert experiment.name == name and {"full", "quick"} <= set(experiment.settings) <= {"full", "quick", "paper"}
    assert (experiment.tell is None) == bool(experiment.columns)


def test_the_list_imports_no_experiment():
    script = "import sys; from xpsample.cli import main; main(['list']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "xpsample.experiments" in loaded
    assert [name for name in loaded if name.startswith("xpsample.experiments.")] == []


@pytest.mark.parametrize("name", [name for name, row in QUICK.items() if "data" in row.needs])
def test_without_data_one_line_says_what_to_set(name, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("XPSAMPLE_DATA", raising=False)
    for need in set(QUICK[name].needs.split()) - {"data"}:
        pytest.importorskip(need)
    assert main(["run", name, "--quick", "--out", str(tmp_path), *QUICK[name].options.split()]) == 1
    assert "set XPSAMPLE_DATA" in capsys.readouterr().err
