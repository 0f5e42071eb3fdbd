"""The examples in docstrings are run, and every public name has one."""

import doctest
import importlib
import operator
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import xpsample

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

ROOMS = ("xpsample", "xpsample_torch", "xpsample_jax")


def modules():
    """The names of those that have examples."""
    found = []
    for room in ROOMS:
        for info in pkgutil.walk_packages(find_spec(room).submodule_search_locations, f"{room}."):
            if not info.name.endswith("__main__") and ">>> " in Path(find_spec(info.name).origin).read_text():
                found.append(info.name)
    return found


@pytest.fixture(autouse=True)
def own_generator():
    """Modules of torch draw their weights from its global generator."""
    with pytest.importorskip("torch").random.fork_rng(devices=[]):
        yield


@pytest.mark.parametrize("name", modules())
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("name", xpsample.__all__)
def test_every_public_name_has_an_example(name):
    value = getattr(xpsample, name)
    assert ">>> " in value.__doc__ or (isinstance(value, type) and issubclass(value, BaseException))


def test_what_public_names_point_to_exists():
    docscrape = pytest.importorskip("numpydoc.docscrape")
    neighbors = {
        neighbor
        for name in xpsample.__all__
        for entry, _ in docscrape.get_doc_object(getattr(xpsample, name))["See Also"]
        for neighbor, _ in entry
    }
    assert "HMC" in neighbors
    for neighbor in neighbors:
        operator.attrgetter(neighbor)(xpsample)
