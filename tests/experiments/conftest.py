"""Quick runs of the table, and runs of made-up experiments."""

import importlib.util
import json
import sys
import types

import pytest

from tests.experiments.quick_runs import QUICK
from xpsample import cli
from xpsample.experiments import Entry


@pytest.fixture(scope="module")
def quick(request, tmp_path_factory):
    """The rows and the folder of a run of the table, made once for a module; report and figures are as it says."""
    made = {}

    def run(name):
        row, folder = QUICK[name], tmp_path_factory.mktemp("run")
        for need in row.needs.split():
            request.getfixturevalue("data_folder") if need == "data" else pytest.importorskip(need)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, row.without, None)
            assert cli.main(["run", name, "--quick", "--out", str(folder), *row.options.split()]) == 0
        text = (folder / "report.txt").read_text()
        assert not [words for words in row.report if words not in text] and row.silent not in text
        drawn = {path.stem for path in folder.glob("*.png") if path.read_bytes().startswith(b"\x89PNG")}
        assert drawn >= set(row.figures.split()) if importlib.util.find_spec("matplotlib") else not drawn
        return json.loads((folder / "results.json").read_text()), folder

    return lambda name: made.get(name) or made.setdefault(name, run(name))


@pytest.fixture
def rows_of(tmp_path):
    """Runs an experiment in its quick size with options; gives its rows and its report."""

    def run(name, *options):
        assert cli.main(["run", name, "--quick", "--out", str(tmp_path), *options]) == 0
        return json.loads((tmp_path / "results.json").read_text()), (tmp_path / "report.txt").read_text()

    return run


@pytest.fixture
def run_it(monkeypatch, tmp_path):
    """Runs an experiment through the command line, in ``tmp_path / "out"``; gives the exit code."""

    def run_it(experiment, *options):
        monkeypatch.setitem(sys.modules, "made_up", types.SimpleNamespace(EXPERIMENT=experiment))
        monkeypatch.setattr(cli, "EXPERIMENTS", {"made-up": Entry("made_up", "A made-up one.")})
        return cli.main(["run", "made-up", "--out", str(tmp_path / "out"), *options])

    return run_it
