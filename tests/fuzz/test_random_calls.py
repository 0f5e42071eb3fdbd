"""Random models and runs: each ends fine or with one of our errors, and none hangs."""

import pytest

from tests.conftest import open_library, x64
from tests.fuzz.random_calls import KINDS, survey


def check(name, kind, cases, folder, monkeypatch):
    monkeypatch.chdir(folder)
    pytest.importorskip("torch")  # arrays of another library are among the values
    with x64(name, "float64"):
        found, wrong = survey(open_library(name, "float64"), folder, kind, cases, number=1)
    assert not wrong, "\n".join(wrong)
    assert found["fine"] > cases // 10


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_few(kind, tmp_path, monkeypatch):
    check("numpy", kind, 60, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_many(name, kind, tmp_path, monkeypatch, request):
    """As many as ``--fuzz`` says, or 200 for a release, else 50; a tenth on JAX, which compiles."""
    options = request.config.option
    cases = (options.fuzz or (200 if options.release else 50)) // (10 if name == "jax" else 1)
    check(name, kind, cases, tmp_path, monkeypatch)
