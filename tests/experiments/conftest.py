"""A quick run of the experiment that a module of tests is about."""

import json

import pytest

from xpsample.cli import main


@pytest.fixture(scope="module")
def out(request, tmp_path_factory):
    """The folder of the run that a module names in RUN, with its options; NEEDS has modules, and "data"."""
    for name in getattr(request.module, "NEEDS", ()):
        request.getfixturevalue("data_folder") if name == "data" else pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("run")
    assert main(["run", *request.module.RUN.split(), "--quick", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def rows(out):
    """The rows of its results."""
    return json.loads((out / "results.json").read_text())
