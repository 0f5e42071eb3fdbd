"""The root of the package: names that are imported when they are asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

import pytest

import xpsample

HEAVY = {"numpy", "array_api_compat", "importlib.metadata"}


def modules_after(statement):
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_root_imports_nothing():
    loaded = modules_after("import xpsample")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("xpsample.")} == {
        "xpsample.core",
        "xpsample.core.lazy_imports",
        "xpsample.core.version",
    }


def test_a_name_imports_what_it_needs_and_no_library():
    loaded = modules_after("from xpsample import MALA, Target, sample")
    assert {"xpsample.kernels.mala", "xpsample.sampling.sampler"} <= loaded
    # The namespace of a library comes with its first array: that of NumPy takes twice the time of NumPy itself.
    assert not loaded & {"array_api_compat.numpy", "importlib.metadata", "xpsample.srmc", "xpsample.zoo"}
    assert not loaded & {
        "array_api_extra",
        "xpsample.kernels.nuts",
        "xpsample.metrics.discrete",
        "xpsample.sampling.parallel",
    }


def test_a_run_without_workers_files_or_models_imports_nothing_for_them():
    """Each was a tenth of NumPy's own time or more, in every process."""
    loaded = modules_after("from xpsample import HMC, Target, sample") - modules_after("import numpy")
    assert not loaded & {"multiprocessing", "concurrent.futures", "zipfile", "hashlib", "json", "html", "numpy.random"}
    assert not loaded & {"xpsample.core.describe", "xpsample.sampling.checkpoint", "xpsample.sampling.store"}
    assert not loaded & {"xpsample.targets.model", "xpsample.targets.tilted", "xpsample.spaces.categorical"}


def test_type_checkers_see_the_names_that_are_there():
    """A name that is imported as itself is one that a stub gives on (PEP 484); any other one would be hidden."""
    stub = ast.parse(Path(xpsample.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names = [alias for node in stub.body for alias in node.names]
    assert [alias.name for alias in names] == [alias.asname for alias in names]
    assert {alias.name for alias in names} == {*xpsample.__all__, *rooms(), "__version__"}


def test_stubs_and_packages_name_the_same_modules():
    for stub in [Path(xpsample.__file__).with_suffix(".pyi"), *STUBS]:
        package = import_module(".".join(stub.parent.relative_to(Path(xpsample.__file__).parent.parent).parts))
        named = {
            resolve_name(f".{module}", package.__name__): sorted(names.split())
            for module, names in package._NAMES.items()
        }
        typed = {}
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            for alias in node.names:
                if node.module != package.__name__ and alias.name != "__version__":
                    typed.setdefault(node.module, []).append(alias.name)
        assert named == {module: sorted(names) for module, names in typed.items()}


STUBS = sorted(Path(xpsample.__file__).parent.glob("*/__init__.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.parent.name)
def test_a_room_that_imports_names_when_asked_has_them_all(stub):
    """None is also a module of the room, which would take its place as soon as anything imports that."""
    room = getattr(xpsample, stub.parent.name)
    names = {alias.name for node in ast.parse(stub.read_text(encoding="utf-8")).body for alias in node.names}
    assert {*dir(room)} == {*room.__all__} == names and all(hasattr(room, name) for name in names)
    assert not names & {path.stem for path in stub.parent.iterdir()}
    with pytest.raises(AttributeError, match=f"module '{room.__name__}' has no attribute 'MLA'"):
        room.MLA  # noqa: B018


def rooms():
    every = {path.parent.name for path in Path(xpsample.__file__).parent.glob("*/__init__.py")}
    return every - {"conformance", "experiments"}  # of the command line


def test_a_name_is_the_one_of_its_home():
    from xpsample.kernels.mala import MALA

    assert xpsample.MALA is MALA and vars(xpsample)["MALA"] is MALA
    assert dir(xpsample) == sorted([*xpsample.__all__, "__version__"])
    assert all(hasattr(xpsample, name) for name in xpsample.__all__)


def test_rooms_are_reached_without_an_import():
    script = "import xpsample; print(xpsample.zoo.__name__, xpsample.metrics.split_rhat.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "xpsample.zoo split_rhat\n"
    assert all(getattr(xpsample, room).__name__ == f"xpsample.{room}" for room in rooms())


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="module 'xpsample' has no attribute 'MLA'"):
        xpsample.MLA  # noqa: B018
    with pytest.raises(ImportError, match="MLA"):
        from xpsample import MLA  # noqa: F401
