"""The suite on kernels from elsewhere: a kernel of any module by its name, right ones and wrong ones."""

import argparse
from dataclasses import field
from typing import Any

import pytest

import xpsample as xps
from xpsample.conformance import cases_of, check_all, reference
from xpsample.conformance.cli import run as run_command
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import PER_CHAIN
from xpsample.kernels import ADJUSTED, ChainState, Kernel, metropolis
from xpsample.targets import Capability

MODULE = """
import xpsample as xps
from xpsample.conformance import cases_of
KERNEL = xps.MALA(0.5)
ELSEWHERE = cases_of("far", KERNEL, ["no-such-library"])
SOMETHING = 3
"""


class AlwaysLower(Kernel):
    """A walk that forgets that it proposes 0.8 x more often than x: it says that it is invariant, and is not."""

    step_size: Any = field(metadata=PER_CHAIN)
    requires = Capability.LOG_DENSITY | Capability.REAL
    traits = ADJUSTED

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return xps.RWM(1.0).noise(x)

    def step(self, target, state, noise):
        x = target.refresh(state.point)
        normal, uniform = noise.values()
        y = target.evaluate(0.8 * x.x + self.step_size * normal)
        point, info = metropolis(target, y.log_density - x.log_density, uniform, y, x, target.costs.evaluate)
        return ChainState(point), info


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "their_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "their_kernels"


def arguments(kernel):
    return argparse.Namespace(backend=["numpy"], kernel=[kernel], quick=True, markdown=False, resume=None, report=None)


def test_command_takes_a_kernel_of_any_module(module, capsys):
    assert run_command(arguments(f"{module}:KERNEL")) == 0
    out = capsys.readouterr().out
    assert "kernel-banana" in out and "kernel-normal" in out and "4 of 4 rows passed" in out


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("their_kernels:NONE", "nothing can be loaded from their_kernels:NONE"),
        ("no_such_module:KERNEL", "No module named 'no_such_module'"),
        ("their_kernels:SOMETHING", "must be a Kernel"),
        ("their_kernels:ELSEWHERE", "written for none of these libraries"),
    ],
)
def test_command_says_what_it_cannot_take(module, where, message, capsys):
    assert run_command(arguments(where)) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def failed(kernel):
    return {
        check
        for row in check_all(cases_of("theirs", kernel), [reference()], quick=True)
        for check, outcome in row.outcomes.items()
        if outcome.passed is False
    }


def test_a_wrong_kernel_fails_and_a_right_one_passes():
    assert failed(AlwaysLower(0.5)) == {"invariant"}
    assert failed(xps.RWM(0.5)) == set()
    assert "invariant" in failed(xps.RWM())  # the checks tune nothing


def test_kernels_of_each_kind_get_targets_that_they_can_move_on():
    assert failed(xps.GWG()) == set()
    (first, second) = cases_of("theirs", xps.ULA(0.2))
    assert first.biased and second.biased
    with pytest.raises(HyperparameterError, match="must be a Kernel"):
        cases_of("theirs", xps.ULA)


@pytest.mark.first_cases(1)
def test_a_kernel_of_another_library_is_compared_with_its_own_second_run(library):
    if library.backend is reference().backend:
        pytest.skip("NumPy's own chain is the reference")
    from tests.conformance.test_conformance import place_of

    rows = check_all(cases_of("theirs", xps.RWM(0.5), [library.backend.name]), [reference(), place_of(library)], True)
    assert [row.outcomes["same chain"].passed for row in rows] == [True, True]
