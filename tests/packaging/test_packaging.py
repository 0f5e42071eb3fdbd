"""The rules of the package's shape: no array library named or imported by the core, and backends of one form."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

import xpsample
from xpsample.core.backend import Autodiff, Backend
from xpsample.core.errors import BackendError
from xpsample.core.registry import ENTRY_POINT_GROUP, _entry_points, backend_named, installed_backends

ROOT = Path(xpsample.__path__[0]).parent
CORE = sorted((ROOT / "xpsample").rglob("*.py"))
BACKENDS = sorted((ROOT / "backends").glob("xpsample_*"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LIBRARIES = {"torch", "jax", "jaxlib", "cupy", "array_api_strict", "mlx", "dpnp", "tensorflow", "dask"}
HARD = {"numpy", "array_api_compat", "array_api_extra", "xpsample"}
OPTIONAL = """
pandas pymc pytensor argcomplete tqdm typing_extensions arviz arviz_base arviz_stats
arviz_plots h5netcdf xarray zarr matplotlib ot pooch PIL skimage sklearn
"""

if not (ROOT / "pyproject.toml").is_file():
    pytest.skip("these tests read the source tree", allow_module_level=True)


def relative(path):
    return str(path.relative_to(ROOT))


@cache
def parse(path):
    return ast.parse(path.read_text(), filename=str(path))


def imports(tree):
    """(dotted name, whether it is imported with the module) of everything that is imported somewhere."""
    later = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    inside = {id(n) for node in later for n in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) not in inside


# ---- what the source says --------------------------------------------------------------------------------------------


def test_the_core_imports_its_three_dependencies_only():
    """Imports others within functions, on demand, and an array library nowhere, not even a compat module of one."""
    for path in CORE:
        for name, at_module_level in imports(parse(path)):
            parts = name.split(".")
            assert not LIBRARIES & set(parts), f"{relative(path)}: {name}"
            allowed = HARD | sys.stdlib_module_names | (set() if at_module_level else set(OPTIONAL.split()))
            assert parts[0] in allowed, f"{relative(path)}: {name}"


def test_the_core_names_no_array_library():
    """Has no text in the code that is a library's name or a module of it, so nothing can be compared with one."""
    for path in CORE:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = node.value.partition(".")[0] in LIBRARIES
                assert not named, f"{relative(path)}, line {node.lineno}: {node.value!r}"


def test_the_core_compares_no_backend_by_name():
    for path in CORE:
        for node in ast.walk(parse(path)):
            if isinstance(node, (ast.Compare, ast.match_case)):
                texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                named = texts & (LIBRARIES | {"numpy"})
                assert not named, f"{relative(path)}, line {getattr(node, 'lineno', '?')}"


ADAPTED = {
    "from_numpyro.py": {"numpyro"},
    "from_module.py": {"flax", "numpyro"},
    "from_pymc.py": {"pymc"},
    "from_pyro.py": {"pyro"},
}
"""Files of a backend for models that another library made of the backend's arrays, and that library."""


@pytest.mark.parametrize("package", BACKENDS, ids=lambda path: path.name)
def test_a_backend_imports_its_own_library_only(package):
    for path in package.rglob("*.py"):
        found = {name.split(".")[0] for name, _ in imports(parse(path))}
        own = {name for name, target in entry_points().items() if target.startswith(f"{package.name}:")}
        assert found <= HARD | sys.stdlib_module_names | own | {package.name} | ADAPTED.get(path.name, set())


def test_files_are_read_in_two_sittings():
    for path in [*CORE, *(p for b in BACKENDS for p in sorted(b.rglob("*.py")))]:
        assert len(path.read_text().splitlines()) <= 450, relative(path)


def test_public_names_have_docstrings():
    for path in CORE:
        tree = parse(path)
        if path.name != "__main__.py":
            assert ast.get_docstring(tree), relative(path)
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{relative(path)}: {node.name}"


def classes():
    """Every class of the core and of the installed backends, once."""
    names = ["xpsample"] + [m.name for m in pkgutil.walk_packages(xpsample.__path__, "xpsample.")]
    for name in installed_backends():
        package = sys.modules[type(backend_named(name)).__module__.partition(".")[0]]
        names += [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        if name.endswith("__main__") or (name.endswith("plot") and importlib.util.find_spec("matplotlib") is None):
            continue
        module = importlib.import_module(name)
        yield from (c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == name)


def ours(cls):
    return cls.__module__.startswith("xpsample")


def test_public_methods_have_docstrings():
    """Their own, or that of the abstract method that they fill in, or of the attribute that a base class documents."""
    missing = [
        f"{cls.__module__}.{cls.__qualname__}.{name}"
        for cls in classes()
        if not cls.__name__.startswith("_")
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        if not inspect.getdoc(getattr(cls, name))
        if not any(f"\n    {name} : " in (base.__doc__ or "") for base in cls.__mro__[1:])
    ]
    assert missing == []


def test_no_concrete_method_is_overridden():
    overridden = [
        f"{cls.__module__}.{cls.__qualname__}.{name} overrides {base.__qualname__}'s"
        for cls in classes()
        for base in cls.__mro__[1:]
        if ours(base)
        for name, value in vars(base).items()
        if not name.startswith("_") and name in vars(cls)
        if callable(value) or isinstance(value, (property, classmethod, staticmethod))
        if not getattr(value, "__isabstractmethod__", False)
    ]
    assert overridden == []


def test_every_class_is_abstract_or_final():
    bases = {base for cls in classes() for base in cls.__mro__[1:] if ours(base)}
    assert Backend in bases
    abstract = {b for b in bases if inspect.isabstract(b) or Protocol in b.__bases__}
    concrete = [f"{b.__module__}.{b.__qualname__}" for b in bases - abstract]
    assert sorted(concrete) == [
        "xpsample.core.errors.DiagnosisWarning",
        "xpsample.core.errors.XpsampleError",
        "xpsample.core.fields.FrozenDataclass",
    ]


# ---- what is imported ------------------------------------------------------------------------------------------------


def python(script, *arguments):
    """Run a script in a fresh interpreter with warnings as errors; its last line."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


LOADED = """
import sys
print(sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "jax", "cupy", "array_api_strict"}))
"""


def test_listing_the_backends_imports_none():
    assert python("import xpsample; xpsample.installed_backends()" + LOADED) == "[]"


NUMPY_RUN = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "jax", "jaxlib", "cupy", "array_api_strict"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
import numpy as np
import xpsample as xps

target = xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x, hvp=lambda x, v: -v)
kernel = xps.SRMC(xps.MALA(0.3), alpha=1.0, tilt=xps.Exact())
trace = xps.sample(target, kernel, np.zeros((4, 2)), 400, seed=1, burn_in=50, thinning=4, check=True)
assert trace.draws.shape == (400, 4, 2)
trace.save(sys.argv[1])
np.testing.assert_array_equal(xps.load(sys.argv[1]).draws, trace.draws)
assert "0.3" in repr(trace) and "x[1]" in str(trace.summary())
"""


def test_a_numpy_run_works_where_no_other_library_can_be_imported(tmp_path):
    assert python(NUMPY_RUN + LOADED, str(tmp_path / "run.npz")) == "[]"


@pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
def test_sampling_one_library_imports_no_other(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    script = f"""
import importlib
import xpsample as xps

xp = importlib.import_module("{library}" + (".numpy" if "{library}" == "jax" else ""))
target = xps.Target(lambda x: -0.5 * xp.sum(x * x, axis=-1), score=lambda x: -x)
trace = xps.sample(target, xps.MALA(0.3), xp.zeros((4, 2), dtype=xp.float32), 5, seed=1)
assert tuple(trace.draws.shape) == (5, 4, 2)
"""
    assert python(script + LOADED) == str([library])


# ---- backends --------------------------------------------------------------------------------------------------------


def entry_points():
    return PROJECT["project"]["entry-points"][ENTRY_POINT_GROUP]


def test_every_backend_in_the_tree_has_an_entry_point_and_is_shipped():
    packages = {target.partition(":")[0] for target in entry_points().values()}
    assert packages == {path.name for path in BACKENDS}
    shipped = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert shipped == {"xpsample", *(f"backends/{name}" for name in packages)}


def test_the_installed_entry_points_are_those_of_the_project():
    assert {name: entry.value for name, entry in _entry_points().items()} == entry_points()


@pytest.mark.parametrize("name", sorted(entry_points()))
def test_an_entry_point_loads_or_its_library_is_missing(name):
    if name in installed_backends():
        backend = backend_named(name)
        assert backend.name == name and isinstance(backend, Backend)
    else:
        assert importlib.util.find_spec(name) is None
        with pytest.raises(BackendError, match=f"the backend of '{name}' cannot be loaded"):
            backend_named(name)


def public(cls):
    return {name for name in (*vars(cls), *inspect.get_annotations(cls)) if not name.startswith("_")}


def test_the_protocol_has_under_a_dozen_members():
    assert len(public(Backend)) < 12


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.name)
def test_a_backend_has_the_protocols_members_and_no_others(path):
    """Read from its source, so that it holds for libraries that are not installed as well."""
    tree = parse(path / "backend.py")
    (cls,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and "Backend" in {ast.unparse(b) for b in n.bases}]
    members = {n.name for n in cls.body if isinstance(n, ast.FunctionDef)}
    members |= {t.id for n in cls.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    assert {m for m in members if not m.startswith("_")} == public(Backend)


@pytest.mark.parametrize("name", sorted(entry_points()))
def test_autodiff_has_its_protocols_members_and_no_others(name):
    if name not in installed_backends():
        pytest.skip(f"{name} is not installed")
    autodiff = backend_named(name).autodiff
    if autodiff is not None:
        assert isinstance(autodiff, Autodiff) and public(type(autodiff)) == public(Autodiff)


# ---- what is shipped -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_wheel_holds_the_core_its_data_and_every_backend(tmp_path):
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel can be built here without the network")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "xpsample", "backends"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    expected = {name.removeprefix("backends/") for name in tracked.stdout.split()}
    assert len(expected) > 40 and expected <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
