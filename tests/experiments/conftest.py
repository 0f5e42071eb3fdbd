"""A quick run of the experiment that a module of tests is about."""

import importlib.util
import json
import sys
import types

import pytest

from tests.experiments.quick_runs import QUICK
from xpsample import cli
from xpsample.cli import main
from xpsample.experiments import Entry


@pytest.fixture(scope="module")
def quick_run(request, tmp_path_factory):
    """Makes a run of the table, whose report and figures are as it says; gives its folder."""

    def run(name):
        row, folder = QUICK[name], tmp_path_factory.mktemp("run")
        for need in row.needs.split():
            request.getfixturevalue("data_folder") if need == "data" else pytest.importorskip(need)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, row.without, None)
            assert main(["run", name, "--quick", "--out", str(folder), *row.options.split()]) == 0
        text = (folder / "report.txt").read_text()
        assert not [words for words in row.report if words not in text] and row.silent not in text
        drawn = {path.stem for path in folder.glob("*.png") if path.read_bytes().startswith(b"\x89PNG")}
        assert drawn >= set(row.figures.split()) if importlib.util.find_spec("matplotlib") else not drawn
        return folder

    return run


@pytest.fixture(scope="module")
def out(request, quick_run):
    """The folder of the run that a module names in RUN."""
    return quick_run(request.module.RUN)


@pytest.fixture
def rows(out):
    """The rows of its results."""
    return json.loads((out / "results.json").read_text())


@pytest.fixture
def run_it(monkeypatch, tmp_path):
    """Runs an experiment through the command line, in ``tmp_path / "out"``; gives the exit code."""

    def run_it(experiment, *options):
        monkeypatch.setitem(sys.modules, "made_up", types.SimpleNamespace(EXPERIMENT=experiment))
        monkeypatch.setattr(cli, "EXPERIMENTS", {"made-up": Entry("made_up", "A made-up one.")})
        return cli.main(["run", "made-up", "--out", str(tmp_path / "out"), *options])

    return run_it
