"""The suite itself, for every kernel on every library in both precisions."""

import pytest

from xpsample.conformance import CHECKS, reference, run_check, scenarios
from xpsample.conformance.cli import run as run_command
from xpsample.core.devices import DeviceDtype

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
BIT_FOR_BIT = {"driven = eager", "resume exact", "alpha 0 = base"}
"""Of these, which do not turn on the precision, the tests make those of float64 only: on JAX each compiles anew."""


COMPILED_FIRST = ("rwm", "mala", "hmc", "sr-mala", "srld")
"""Those that the first tier runs on JAX, where each compiles for seconds: a walk, gradients, a loop, a history."""


LEFT = ("ensemble", "ensemble-de", "elliptical", "slice")
"""Those that the first tier leaves out: there they have steps by hand alone."""


def kernels():
    """All scenarios by name; those of the first tier on array-api-strict, torch and JAX are marked.

    These are the first one of every kernel, and of the wrappers one of each kind; on JAX a few of these. Other settings
    of a kernel, and other bases of a wrapper, run there on NumPy.
    """
    seen = set()
    for name, scenario in SCENARIOS.items():
        kind = type(scenario.kernel(reference().array))
        first = name in ("sr-mala", "srld") or (scenario.base is None and kind not in seen)
        seen.add(kind)
        on = ("torch", "jax") if name in COMPILED_FIRST else ("torch",)
        early = pytest.mark.first_tier(*on) if first else pytest.mark.numpy_first
        yield pytest.param(name, marks=pytest.mark.slow if name in LEFT else early)


def made(check, device):
    """Whether the tests make a check at a place: all are made, but not where another one there says as much.

    The law of NumPy's chains in float64 is that of all whose chains are the same to 1e-10. Runs of array-api-strict are
    driven and saved by the code of NumPy's; `tests/sampling/test_checkpoint.py` resumes some.
    """
    if check == "resume exact" and device.backend.name == "array_api_strict":
        return False
    if check in BIT_FOR_BIT:
        return device.dtype == "float64"
    return check != "invariant" or device.dtype == "float32" or device.backend is reference().backend


def place_of(library):
    """The suite's place for a test library."""
    return DeviceDtype(library.backend, library.name, library.device, library.dtype)


@pytest.mark.parametrize("name", list(kernels()))
def test_kernel_conforms(name, typed_library):
    device = place_of(typed_library)
    checks = [check for check in CHECKS if made(check, device)]
    outcomes = {check: run_check(check, SCENARIOS[name], device, quick=True) for check in checks}
    failed = {check: outcome.detail for check, outcome in outcomes.items() if outcome.passed is False}
    assert not failed
    least = 3 if device.dtype == "float64" else 2
    assert sum(outcome.passed is True for outcome in outcomes.values()) >= least


def test_every_kernel_of_the_library_is_in_the_suite():
    from xpsample import kernels

    def names(kernel):
        inner = names(kernel.base) if hasattr(kernel, "base") else set()
        return {type(kernel).__name__} | inner

    public = {name: value for name, value in vars(kernels).items() if isinstance(value, type)}
    classes = {name for name, value in public.items() if issubclass(value, kernels.Kernel)} - {
        "Kernel",
        "MemorylessKernel",
    }
    covered = set().union(*(names(s.kernel(reference().array)) for s in SCENARIOS.values()))
    assert classes | {"Annealed", "SRMC", "HiSS", "SRLD", "SVGD", "StochasticSVGD"} == covered


def test_command_prints_the_table(capsys, monkeypatch):
    import argparse

    monkeypatch.setenv("COLUMNS", "80")
    args = argparse.Namespace(
        backend=["numpy"], kernel=["mala", "sr-mala"], quick=True, markdown=False, resume=None, report=None
    )
    assert run_command(args) == 0
    out = capsys.readouterr().out
    assert out.startswith("mala  ") and "sr-mala  " in out and "checks passed" in out
    assert "4 of 4 rows passed" in out
    assert max(map(len, out.splitlines())) <= 80
    for name, hint in (("no-such-kernel", "there are: rwm"), ("sr-mal", "did you mean sr-mala")):
        args.kernel = [name]
        assert run_command(args) == 2
        assert hint in capsys.readouterr().err
