"""Every public call with one bad argument: it ends with one of our errors, or the argument has a meaning after all.

No call shows an error of Python's or of an array library's that a bad argument caused, none takes an argument that has
no meaning, and none hangs.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import xpsample as xps
from tests.conftest import Library, open_library, x64
from tests.fuzz.calls import calls
from tests.fuzz.outcomes import outcome
from tests.fuzz.uses import Call, density, gaussian, ones, real
from tests.fuzz.values import VALUES, Value, strange_positions
from xpsample.spaces.json_form import SPACES
from xpsample.spaces.space import Constrained


def outcome_of(call: Call, argument: str, value: Value, library: Library) -> tuple[str, str]:
    """The outcome of a call whose argument is replaced by a value."""
    good = {name: a.good(library) for name, a in call.arguments.items()}
    bad = value.make(library, good[argument])

    def run() -> Any:
        return call.then(call.make(**good | {argument: bad}), library)

    return outcome(run, argument, call.arguments[argument].takes(value.tag))


def survey(library: Library, folder: Path, every: int) -> tuple[Counter, list[str]]:
    """Outcomes of every so many of all calls with one bad argument, and what is wrong with them."""
    pairs = [(call, argument) for call in calls(str(folder)) for argument in call.arguments]
    cases = [(call, argument, value) for call, argument in pairs for value in VALUES]
    found: Counter = Counter()
    wrong: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for call, argument, value in cases[::every]:
            kind, message = outcome_of(call, argument, value, library)
            found[kind] += 1
            if kind not in ("fine", "ours"):
                wrong.append(f"{kind}: {call.name}({argument}={value.name}) {message[:200]}")
    return found, wrong


OWN = {"Binary", "LowRankCovariance", "Permutations", "Spins", "Trace"}
"""Public names whose arguments are not a user's but the library's own, or checked where a kernel takes the value."""

OWN |= {name for name in xps.__all__ if name.endswith(("Error", "Warning", "Interrupted"))}

OWN |= {kind.__name__ for kind in SPACES.values() if issubclass(kind, Constrained)}  # spaces/test_constrained_input.py


def test_every_public_name_that_takes_arguments_is_called(tmp_path):
    made: dict[str, set] = {}
    for call in calls(str(tmp_path)):
        made.setdefault(call.name.partition(" ")[0], set()).update(call.arguments)
    for name in set(xps.__all__) - OWN:
        arguments = {a for a in inspect.signature(getattr(xps, name)).parameters if not a.startswith("_")}
        missing = arguments - made.get(name, set()) - {"data", "parameters"}  # a tree of anything; spaces by name
        assert not missing, f"{name} is called without {missing}"


def test_a_sample_of_calls_with_a_bad_argument(tmp_path):
    pytest.importorskip("torch")  # arrays of another library are among the values
    found, wrong = survey(open_library("numpy", "float64"), tmp_path, every=47)
    assert not wrong, "\n".join(wrong)
    assert found["ours"] > 500 and found["fine"] > 20


@pytest.mark.slow
@pytest.mark.parametrize(("name", "every"), [("numpy", 1), ("torch", 3), ("jax", 37)])
def test_calls_with_a_bad_argument(name, every, tmp_path, request):
    """For a release all on NumPy, every third on torch and every 37th on JAX; otherwise about a fourth of these."""
    if not request.config.option.release:
        every = 4 * every + 1
    with x64(name, "float64"):
        found, wrong = survey(open_library(name, "float64"), tmp_path, every)
    assert not wrong, "\n".join(wrong)
    assert found["ours"] > 10 * found["fine"] > 0


# ---- start positions -------------------------------------------------------------------------------------------------

TAKEN = {"other byte order", "matrix subclass", "inference", "parameter"}
"""Strange start positions that a run may take."""


def sample_from(make: Callable[[], Any], target: Any, kernel: Any) -> Any:
    return xps.sample(target, kernel, make(), 2, seed=0, progress=False)


@pytest.mark.first_tier
@pytest.mark.parametrize("kernel", [xps.RWM(0.5), xps.HMC(0.1, 2), xps.SingleFlip()], ids=["RWM", "HMC", "SingleFlip"])
def test_strange_start_positions(library, kernel):
    discrete = isinstance(kernel, xps.SingleFlip)
    host = library.host((ones if discrete else real)(library))
    target = xps.Target(density, space=xps.Binary()) if discrete else gaussian()
    wrong = []
    for name, make in strange_positions(library, host).items():
        run = partial(sample_from, make, target, kernel)
        kind, message = outcome(run, "x0", name in TAKEN)
        if kind not in ("fine", "ours"):
            wrong.append(f"{kind}: {name} {message}")
    assert not wrong, "\n".join(wrong)
