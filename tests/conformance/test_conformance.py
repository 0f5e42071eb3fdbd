"""The suite itself, for every kernel on every library in both precisions."""

import pytest

from tests.conftest import LIBRARIES
from xpsample.conformance import CHECKS, reference, run_check, scenarios
from xpsample.conformance.cli import run as run_command
from xpsample.core.devices import DeviceDtype

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
BIT_FOR_BIT = {"driven = eager", "resume exact", "alpha 0 = base"}
"""Checks that do not depend on the precision: tests make them in float64, on JAX in float32, where all kernels run."""


COMPILED_FIRST = ("rwm", "mala", "hmc", "sr-mala", "srld")
"""Those that the first tier runs on JAX, where each compiles for seconds: a walk, gradients, a loop, a history."""


LEFT = ("ensemble", "ensemble-de", "elliptical", "slice")
"""Those that the first tier leaves out: there they have steps by hand alone."""


EVERY, EVERY_COMPILED = 5, 3
"""Of cases that repeat another one's claim, --full runs every fifth, and of kernels' first scenarios on JAX in float32,
which compile for seconds, every third. --release runs all."""


def marks(number, name, place):
    """The tier of a scenario on one library in one dtype.

    The first scenario of every kernel, and one wrapper of each kind, run in the first tier on NumPy, torch and
    array-api-strict, and every third of them in --full on JAX in its default, float32. Other settings of a kernel and
    other bases of a wrapper run on NumPy and torch. Of all other cases, --full runs every fifth.
    """
    library, dtype = place
    first = name in FIRST
    if name in LEFT:
        yield pytest.mark.slow
    else:
        also = ("torch", "jax") if name in COMPILED_FIRST else ("torch",)
        yield pytest.mark.first_tier(*also) if first else pytest.mark.numpy_first
    on_strict = first and name not in LEFT and dtype == "float64"
    on_jax = name in COMPILED_FIRST or (first and dtype == "float32" and number % EVERY_COMPILED == 0)
    if not {"array_api_strict": on_strict, "jax": on_jax}.get(library, True) and number % EVERY:
        yield pytest.mark.release


def first_of_kinds():
    """The first scenario of every kernel, and of the wrappers one of each kind."""
    seen = set()
    for name, scenario in SCENARIOS.items():
        kind = type(scenario.kernel(reference().array))
        if name in ("sr-mala", "srld") or (scenario.base is None and kind not in seen):
            yield name
        seen.add(kind)


FIRST = set(first_of_kinds())
PLACES = [(library, dtype) for library in LIBRARIES for dtype in ("float32", "float64")]
CASES = [
    pytest.param(name, place, id=f"{'-'.join(place)}-{name}", marks=tuple(marks(i + j, name, place)))
    for i, name in enumerate(SCENARIOS)
    for j, place in enumerate(PLACES)
]


def made(check, device):
    """Whether the tests make a check at a place: all are made, but not where another one there says as much.

    The law of NumPy's chains in float64 is that of all whose chains are the same to 1e-10. Runs of array-api-strict are
    driven and saved by the code of NumPy's; `tests/sampling/test_checkpoint.py` resumes some.
    """
    if check == "resume exact" and device.backend.name == "array_api_strict":
        return False
    if check in BIT_FOR_BIT:
        return (device.dtype == "float32") == (device.backend.name == "jax")
    return check != "invariant" or device.dtype == "float32" or device.backend is reference().backend


def place_of(library):
    """The suite's place for a test library."""
    return DeviceDtype(library.backend, library.name, library.device, library.dtype)


@pytest.mark.parametrize(("name", "typed_library"), CASES, indirect=["typed_library"])
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
