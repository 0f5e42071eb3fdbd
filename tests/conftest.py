"""Fixtures: the array libraries, each with a device and a dtype, as one value."""

import importlib
import importlib.util
import math
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.messages import Message, raised_here
from xpsample.core import errors, terminal
from xpsample.core.backend import Backend, Device
from xpsample.core.errors import DataError, XpsampleError
from xpsample.core.registry import backend_named, compiled
from xpsample.diagnostics.findings import Finding
from xpsample.sampling import progress as progress_bars
from xpsample.zoo import data

# How long an example takes says something of the machine, and nothing of the code.
hypothesis_settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("any machine")

LIBRARIES = ("numpy", "torch", "jax", "array_api_strict", "torch-cuda", "jax-cuda", "cupy")
"""What a test runs on; those that are not here are left out by name."""

OTHERS = {"torch", "jax", "jax.numpy", "torch-cuda", "jax-cuda", "cupy"}
"""Libraries that the first tier of the tests leaves to the full one, but for what is about them."""

BY_FOLDER = ("benchmarks", "docs", "experiments")
"""Folders whose tests have a marker of the same name, and are not in the first tier."""

OF_RUNS = ("sampling", "trace")
"""Folders about runs, which the code of NumPy's drives and saves on array-api-strict: those wait for --full."""

ABOUT_JAX = ("backends", "conformance")
"""Folders whose tests run on JAX because they are about it."""

LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""Why tests are left out, and how many for that reason."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--full``: every test; ``--rest``: what it adds to the first tier; ``--release``: comparisons, too."""
    parser.addoption("--full", action="store_true", help="run every test but those of --release")
    parser.addoption("--release", action="store_true", help="run every test, and those that only a release needs")
    parser.addoption("--rest", action="store_true", help="run the tests that --full adds, and no others")
    parser.addoption("--few", type=int, help="the first case of so many tests of each file: a quick look")
    parser.addoption("--messages", metavar="FILE", help="note which test sees which message (tests/messages.py)")
    parser.addoption("--fuzz", type=int, help="random cases of each kind in the slow tests (50; with --release 200)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier, and those on libraries and devices that are not here.

    A test that is named on the command line runs, whatever its tier.
    """
    named, release = any("::" in arg for arg in config.args), config.getoption("--release")
    every = config.getoption("--full") or named or release
    rest, kept, left = config.getoption("--rest"), [], []
    reasons = config.stash[LEFT_OUT] = {}
    counts: dict[tuple[Path, str], int] = {}
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in BY_FOLDER:
            item.add_marker(folder)
        early = _in_first_tier(item) and _is_early(item, counts)
        reason = _missing_of(item)
        if not every and early == rest:
            reason = "first tier" if rest else "left for --full"
        elif reason is None and not (early or release or named) and _is_for_releases(item, counts):
            reason = "left for --release"
        if reason is None:
            kept.append(item)
        else:
            left.append(item)
            reasons[reason] = reasons.get(reason, 0) + 1
    if few := config.getoption("--few"):
        kept, more = _first_cases(kept, few)
        left += more
        reasons[f"not among the first {few} of their files"] = len(more)
    config.hook.pytest_deselected(items=left)
    # Those of the documentation come first: none of the longest is then left to one worker at the end.
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("docs") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that borrows a derivative is skipped where no library that lends one is installed."""
    try:
        return (yield)
    except XpsampleError as error:
        if "no installed library lends one" in str(error) and _missing("torch") and _missing("jax"):
            pytest.skip("no library with automatic differentiation is installed")
        raise


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells what it left out: the same as all others."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker told."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each reason for which tests were left out."""
    for reason, count in config.stash.get(LEFT_OUT, {}).items():
        terminalreporter.write_line(f"LEFT OUT [{count}] {reason}")


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _in_first_tier(item: pytest.Item) -> bool:
    """Every claim on NumPy, nearly all on array-api-strict in float64; on torch and JAX kernels and backends."""
    if any(item.get_closest_marker(name) for name in (*BY_FOLDER, "slow", "release")):
        return False
    pairs = [value if isinstance(value, tuple) else (value, "float64") for value in _params(item).values()]
    named = [pair[:2] for pair in pairs if pair and isinstance(pair[0], str)]
    mark = item.get_closest_marker("first_tier")
    about = () if mark is None else mark.args or ("torch", "jax")
    strict = item.get_closest_marker("numpy_first") is None and item.path.parent.name not in OF_RUNS

    def belongs(name: str, dtype: Any) -> bool:
        if name == "array_api_strict":
            return strict and dtype != "float32"
        return name not in OTHERS or (name in about and dtype == "float64")

    return all(belongs(*pair) for pair in named if len(pair) == 2)


def _is_early(item: pytest.Item, counts: dict[tuple[Path, str], int]) -> bool:
    """Whether a case is among those that its test has in the first tier; `counts` are those seen of each test."""
    test = item.path, getattr(item, "originalname", item.name)
    counts[test] = counts.get(test, 0) + 1
    mark = item.get_closest_marker("first_cases")
    return mark is None or counts[test] <= mark.args[0]


def _is_for_releases(item: pytest.Item, counts: dict[tuple[Path, str], int]) -> bool:
    """Whether a case is among those that only a release needs; `counts` are those seen of each sampled test or file.

    Compiling on JAX took half the time of --full, for claims that hold on NumPy and cases that the conformance suite
    compiles, too: of those, each file has every fifth.
    """
    if item.get_closest_marker("release"):
        return True
    if mark := item.get_closest_marker("sampled"):
        cases, every = f"sampled {getattr(item, 'originalname', item.name)}", mark.args[0]
    elif _on_jax(item):
        cases, every = "on JAX", 5
    else:
        return False
    counts[item.path, cases] = counts.get((item.path, cases), 0) + 1
    return counts[item.path, cases] % every != 1


def _on_jax(item: pytest.Item) -> bool:
    """Whether a case runs on JAX to repeat a claim about other libraries; those about JAX have no such parameter."""
    names = [value[0] if isinstance(value, tuple) and value else value for value in _params(item).values()]
    return item.path.parent.name not in ABOUT_JAX and any(isinstance(name, str) and name == "jax" for name in names)


def _first_cases(items: list[pytest.Item], few: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The first case of each file's first `few` tests, and all others."""
    seen: dict[Path, set[str]] = {}
    kept, left = [], []
    for item in items:
        names, name = seen.setdefault(item.path, set()), getattr(item, "originalname", item.name)
        chosen = name not in names and len(names) < few
        names.add(name)
        (kept if chosen else left).append(item)
    return kept, left


def _missing_of(item: pytest.Item) -> str | None:
    """Why the library that one of the fixtures below gives a test is not here; None where it is."""
    for fixture in ("library", "library32", "typed_library", "differentiating", "borrowing"):
        value = _params(item).get(fixture)
        name = value[0] if isinstance(value, tuple) else value
        if name in LIBRARIES and (reason := _missing(name)):
            return reason
    return None


def _note_messages(path: str) -> None:
    """With ``--messages`` errors, warnings and findings are noted as they are made, each once."""
    known: set[Message] = set()

    def noting(make: Callable[..., None]) -> Callable[..., None]:
        def note(self: Any, *args: Any, **kwargs: Any) -> None:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("[")[0].partition(" ")[0]
            for message in set(raised_here()) - known if test else ():
                known.add(message)
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write("\t".join((*message, test)) + "\n")
            make(self, *args, **kwargs)

        return note

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    for kind in [*kinds, Finding]:
        kind.__init__ = noting(kind.__init__)  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment of the session's workers, and of the children that their tests start.

    A worker takes one core: the threads of torch and XLA, in as many workers as there are cores, wait for one another
    and take many times as long. What JAX compiles is shared, for the time of the session or, where
    JAX_COMPILATION_CACHE_DIR names a folder, for longer.
    """
    if path := config.getoption("--messages"):
        _note_messages(path)
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as in the background of a shell; tests send Ctrl-C to themselves
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("NPROC", "1")  # XLA's on a CPU
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="xpsample-jax-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


@dataclass(frozen=True)
class Library:
    """An array library on one device, with the dtype that its arrays take unless another is asked for."""

    name: str
    backend: Backend
    device: Any
    dtype: str
    dtypes: tuple[str, ...]

    @property
    def xp(self) -> Any:
        """Its array API namespace."""
        return self.backend.xp

    def array(self, host: Any, dtype: str | None = None) -> Any:
        """Host values as an array of this library, on its device: floats in its dtype, others in their own."""
        host = np.asarray(host)
        wanted = dtype or (self.dtype if host.dtype.kind == "f" else str(host.dtype))
        return self.backend.xp.asarray(host.astype(wanted), device=self.device)

    def compiled(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """A function for eager calls, compiled where those would compile each operation for itself."""
        return compiled(self.backend, f)

    def host(self, array: Any) -> np.ndarray:
        """An array of this library as NumPy's; an array of another one fails the test."""
        assert self.backend.owns(array), f"{type(array)} is no {self.name} array"
        return np.array(self.backend.to_host(array))


@pytest.fixture(autouse=True)
def global_generators_left_alone() -> Iterator[None]:
    """Fail a test that draws from a global generator: its numbers would depend on the tests before it."""
    before = _global_generators()
    yield
    after = _global_generators()
    drawn = [name for name in before if name in after and before[name] != after[name]]
    assert not drawn, f"the global generator of {' and of '.join(drawn)} was drawn from or seeded"


@pytest.fixture(autouse=True)
def settings_left_alone() -> Iterator[None]:
    """Fail a test that leaves another setting of the process behind: tests after it would see it, in some orders."""
    before = _settings()
    yield
    after = _settings()
    changed = [name for name in before if name in after and before[name] != after[name]]
    assert not changed, f"{' and '.join(changed)} was changed and not put back"


def _settings() -> dict[str, Any]:
    states: dict[str, Any] = {name: signal.getsignal(getattr(signal, name)) for name in ("SIGINT", "SIGTERM")}
    if "jax" in sys.modules:
        states["jax_enable_x64"] = sys.modules["jax"].config.jax_enable_x64
    if "torch" in sys.modules:
        states["torch's default dtype"] = sys.modules["torch"].get_default_dtype()
    return states


def _global_generators() -> dict[str, bytes]:
    _, key, *position = np.random.get_state()  # noqa: NPY002
    imports = "jax" in sys.modules  # whose import draws from NumPy's
    states = {"numpy" if imports else "numpy, without jax": key.tobytes() + repr(position).encode()}
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states


def x64(name: str, dtype: str) -> AbstractContextManager:
    """Where the library needs a switch for float64, that switch for the time of a test; off again for float32.

    What a test calls by itself, outside of a run, has the products of float32 matrices that runs have on a GPU.
    """
    if not name.startswith("jax") or importlib.util.find_spec("jax") is None:
        return nullcontext()
    import jax

    if dtype != "float64":
        return jax.default_matmul_precision("highest") if name == "jax-cuda" else nullcontext()
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64(True)


def open_library(name: str, dtype: str) -> Library:
    """The library of a name in `LIBRARIES`; skips the test, and says why, where it is not here."""
    reason = _missing(name)
    if reason is not None:
        pytest.skip(reason)
    backend = backend_named(name.partition("-")[0])
    device = _devices(name)[0]
    return Library(name, backend, device.device, dtype, device.dtypes)


@cache
def _missing(name: str) -> str | None:
    """Why nothing can run on the library of a name in `LIBRARIES`; None where it can."""
    module, _, kind = name.partition("-")
    if importlib.util.find_spec(module) is None:
        return f"{module} is not installed"
    return None if _devices(name) else f"{module} finds no {kind or 'device'} here"


def _devices(name: str) -> list[Device]:
    """The devices of a name in `LIBRARIES`."""
    module, _, kind = name.partition("-")
    # array-api-strict on the device that is not its default, so that a forgotten device shows.
    wanted = kind or {"array_api_strict": "device1", "torch": "cpu", "jax": "cpu"}.get(module, "")
    if name == "jax-cuda":
        wanted = ("cuda", "gpu")
    return [device for device in backend_named(module).devices() if device.name.startswith(wanted)]


@pytest.fixture
def no_lender(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no installed library had automatic differentiation."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("torch", "jax") else found(name))


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Every library, in float64 (JAX with its 64-bit types switched on)."""
    with x64(request.param, "float64"):
        yield open_library(request.param, "float64")


@pytest.fixture(params=LIBRARIES)
def library32(request: pytest.FixtureRequest) -> Library:
    """Every library, in float32 (JAX as it comes, without 64-bit types)."""
    return open_library(request.param, "float32")


@pytest.fixture(params=[(name, dtype) for name in LIBRARIES for dtype in ("float32", "float64")], ids="-".join)
def typed_library(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Every library in float32 and in float64."""
    name, dtype = request.param
    with x64(name, dtype):
        yield open_library(name, dtype)


@pytest.fixture(params=["torch", "jax", "torch-cuda", "jax-cuda"])
def differentiating(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Every library with automatic differentiation, in float64."""
    with x64(request.param, "float64"):
        yield open_library(request.param, "float64")


@pytest.fixture(params=["numpy", "array_api_strict", "cupy"])
def borrowing(request: pytest.FixtureRequest) -> tuple[Library, Callable[[str], AbstractContextManager]]:
    """Every library without automatic differentiation, in float64, and the switch that its lender needs for that."""
    return open_library(request.param, "float64"), lambda lender: x64(lender, "float64")


@pytest.fixture(scope="session", autouse=True)
def no_silence_is_told() -> Iterator[None]:
    """A command on a busy machine says what it waits for, among what a test reads; a test that wants that sets it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "SILENCE", math.inf)
        patch.setattr(progress_bars, "SILENT", math.inf)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_downloads() -> Iterator[None]:
    """Data sets are not fetched, and none is found in the user's cache: a test that wants either brings it."""

    def refused(url: str, digest: str) -> bytes:
        raise DataError(f"{url} cannot be fetched: tests do without the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_fetch", refused)
        yield


@pytest.fixture(scope="session")
def data_folder() -> Iterator[Path]:
    """The folder of real data for the time of the session: XPSAMPLE_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("XPSAMPLE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data: {folder} is not there (set XPSAMPLE_DATA)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XPSAMPLE_DATA", str(folder))
        yield folder
