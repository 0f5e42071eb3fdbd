"""The command of the suite: kernels of any module, rows that are kept, and reports whose times are what they say."""

import argparse
import ast
import itertools
import math
import re
import signal
import sys
from dataclasses import field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import xpsample as xps
from xpsample import cli, conformance
from xpsample.conformance import cases_of
from xpsample.conformance import cli as command
from xpsample.conformance import report as timing
from xpsample.conformance.checks import CHECKS, Outcome, Row, check_all, reference
from xpsample.conformance.cli import run as run_command
from xpsample.conformance.namespace import NAMES
from xpsample.core.devices import device_dtypes
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import PER_CHAIN
from xpsample.core.registry import backend_named
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


TWO = ("rwm", "mala")
"""Each has a row in float32 and one in float64."""


@pytest.fixture
def resumed(monkeypatch, tmp_path):
    """The command on made-up checks; it is stopped by a signal in the row of a number. What it made, and its code."""

    def resumed(*options, stop=None, by=signal.SIGINT, failing=()):
        made = []

        def check_all(cases, devices, quick):
            if len(made) == stop:
                signal.raise_signal(by)
            (case,), (device,) = cases, devices
            passed = len(made) not in failing
            made.append(f"{case.name} {device.dtype}")
            yield Row(case, device, {check: Outcome(passed, "seen") for check in CHECKS})

        monkeypatch.setattr(command, "check_all", check_all)
        kernels = [word for name in TWO for word in ("--kernel", name)]
        given = ["conformance", "--backend", "numpy", *kernels, "--resume", str(tmp_path / "rows.jsonl"), *options]
        return made, cli.main(given)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    yield resumed
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("by", "name", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_it_goes_on_after_the_rows_that_are_finished(resumed, tmp_path, capsys, monkeypatch, by, name, code):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/xpsample"])
    assert resumed(stop=3, by=by) == (["rwm float32", "rwm float64", "mala float32"], code)
    told = capsys.readouterr()
    line = rf"xpsample conformance: stopped by {name} after 3 rows; to go on: xpsample conformance .*rows.jsonl\n"
    assert re.fullmatch(line, told.err)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert resumed() == (["mala float64"], 0)
    told_then = capsys.readouterr().out
    assert resumed() == ([], 0)
    assert capsys.readouterr().out == told_then
    (tmp_path / "rows.jsonl").unlink()
    assert len(resumed()[0]) == 4
    assert capsys.readouterr().out == told_then


def test_rows_that_failed_still_fail(resumed, capsys):
    for _ in range(2):
        assert resumed(failing=(1,))[1] == 1
        told = capsys.readouterr()
        assert "3 of 4 rows passed" in told.out and "FAILED: rwm numpy cpu float64" in told.err


def test_another_command_is_refused_by_name(resumed, tmp_path, capsys):
    resumed()
    before = (tmp_path / "rows.jsonl").read_bytes()
    assert resumed("--quick") == ([], 1)
    assert "rows of another run (quick: False there, True here)" in capsys.readouterr().err
    assert resumed("--kernel", "hmc") == ([], 1)
    assert "kernels: " in capsys.readouterr().err
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_a_kernel_whose_code_changed_is_refused(tmp_path, monkeypatch, capsys):
    path = tmp_path / "their_own_kernels.py"
    path.write_text("import xpsample as xps\nKERNEL = xps.RWM(1.0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    given = ["conformance", "--backend", "numpy", "--quick", "--kernel", "their_own_kernels:KERNEL"]
    given += ["--resume", str(tmp_path / "rows.jsonl")]
    seen = dict.fromkeys(CHECKS, Outcome(True, ""))
    monkeypatch.setattr(command, "check_all", lambda cases, devices, quick: iter([Row(cases[0], devices[0], seen)]))
    assert cli.main(given) == 0
    path.write_text(path.read_text().replace("1.0", "2.0"))
    assert cli.main(given) == 1
    assert "code their_own_kernels: " in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_writes_a_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timing, "KERNELS", {"RWM": timing.KERNELS["RWM"]})
    path = tmp_path / "report.md"
    given = ["conformance", "--backend", "numpy", "--kernel", "rwm", "--quick"]
    assert cli.main([*given, "--report", str(path), "--seconds", "0.5"]) == 0
    assert f"{path} is a report to paste into an issue" in capsys.readouterr().out
    about, suite, times = path.read_text().split("\n## ")
    for what in ("| python | 3.", "| xpsample | ", "| numpy | ", "| machine | ", "| numpy cpu | "):
        assert what in about
    assert suite.startswith("Conformance\n\n2 of 2 rows passed.\n\n| kernel |")
    assert suite.count("| rwm | numpy | cpu | float") == 2
    rows = [line for line in times.splitlines() if line.startswith("| RWM")]
    assert rows
    assert rows[0].startswith("| RWM | numpy-cpu-float32 | 1 | ")


def test_an_error_of_every_check_is_printed_once(capsys, tmp_path, monkeypatch):
    (tmp_path / "unset_kernel.py").write_text("import xpsample as xps\n\nKERNEL = xps.MALA()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["conformance", "--backend", "numpy", "--quick", "--kernel", "unset_kernel:KERNEL"]) == 1
    failed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("FAILED: kernel-normal")]
    assert len(failed) == 2
    for line in failed:
        assert line.count("Set MALA.preconditioner, MALA.step_size") == line.count("every check") == 1


def test_names_of_the_standard_that_a_namespace_lacks_are_listed_first(capsys, monkeypatch):
    whole = backend_named("numpy").xp
    most = SimpleNamespace(**{name: getattr(whole, name) for name in dir(whole) if name not in ("searchsorted", "fft")})
    monkeypatch.setattr(type(backend_named("numpy")), "xp", most)
    cli.main(["conformance", "--backend", "numpy", "--quick", "--kernel", "rwm"])
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"numpy lacks 3 of the {len(NAMES)} names used: searchsorted, fft.irfft, fft.rfft"


def test_the_names_of_the_standard_are_those_that_the_library_uses():
    used, ours = set(), Path(conformance.__file__).parents[1]
    for file in ours.rglob("*.py"):
        if "experiments" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found = re.fullmatch(
                    r"(?:[\w.]+\.)?(?:xp|array_namespace\(.*\))\.((?:linalg\.|fft\.)?\w+)", ast.unparse(node)
                )
                used |= {found[1]} if found else set()
    assert used - {"linalg", "fft"} == set(NAMES), "change the names in xpsample/conformance/namespace.py"
    assert f"{len(NAMES)} names of the standard" in (ours.parent / "docs" / "array-api.md").read_text(encoding="utf-8")


def test_a_report_that_is_stopped_has_what_was_found(tmp_path, monkeypatch):
    def stopped(devices, seconds):
        yield timing.Timed("RWM", devices[0], 10, 2e-6, 3e-3, 0.4)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "timed", stopped)
    path = tmp_path / "report.md"
    assert cli.main(["conformance", "--backend", "numpy", "--kernel", "rwm", "--quick", "--report", str(path)]) == 130
    assert "2 of 2 rows passed" in path.read_text()
    assert "| RWM | numpy-cpu-float32 | 10 | 2 | 3 | 0.4 |" in path.read_text()


def test_a_report_of_a_stopped_suite_says_so(tmp_path, monkeypatch):
    def one(cases, where, quick):
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(1)
        return check_all(cases, where, quick)

    made, path = [], tmp_path / "report.md"
    monkeypatch.setattr(command, "check_all", one)
    assert cli.main(["conformance", "--backend", "numpy", "--kernel", "rwm", "--quick", "--report", str(path)]) == 130
    assert "1 of 1 rows passed, then the suite was stopped.\n" in path.read_text()


def test_a_report_that_cannot_be_written_is_known_before_the_suite_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "check_all", None)
    given = ["conformance", "--backend", "numpy", "--kernel", "rwm", "--report", str(tmp_path / "none" / "report.md")]
    assert cli.main(given) == 1
    assert "none" in capsys.readouterr().err


@pytest.fixture
def clock(monkeypatch):
    """A clock that runs move on: `cost(steps, chains)` seconds each, and one more for the first."""

    class Clock:
        now, first = 0.0, True

        def perf_counter(self):
            return self.now

        monotonic = perf_counter

        def sample(self, target, kernel, x0, steps, **settings):
            self.now += self.cost(steps, x0.shape[0]) + self.first
            self.first = False
            return type("Run", (), {"state": x0})

    made = Clock()
    monkeypatch.setattr(timing, "time", made)
    monkeypatch.setattr(timing, "sample", made.sample)
    return made


def test_a_busy_machine_gives_no_negative_times(clock):
    """One long run of two is slow, or both are."""
    slow = iter([2.0] + 9 * [1.0])
    clock.cost = lambda steps, chains: 0.001 + 0.002 * steps * (1.0 if steps == timing.SHORT else next(slow))
    found = timing._time("RWM", reference(), 10)
    assert found.step == pytest.approx(0.002) and found.run == pytest.approx(0.001)
    slow = itertools.repeat(2.0)
    found = timing._time("RWM", reference(), 10)
    assert found.step == pytest.approx(0.004, rel=0.1) and math.isnan(found.run)


def test_a_time_that_is_not_known_has_a_dash(tmp_path):
    devices = [reference()]
    text = timing.report(devices, [], [timing.Timed("RWM", devices[0], 10, 2e-6, math.nan, 0.4)])
    assert "| RWM | numpy-cpu-float64 | 10 | 2 | - | 0.4 |" in text


def test_a_step_is_told_from_what_a_run_costs_by_itself(clock):
    clock.cost = lambda steps, chains: 0.25 + 0.002 * steps
    found = timing._time("RWM", reference(), 10)
    assert found.step == pytest.approx(0.002)
    assert found.run == pytest.approx(0.25)
    assert found.first == pytest.approx(1.25 + 0.002 * timing.SHORT)


def test_the_benchmark_ends_when_its_time_is_up(clock):
    """And begins with nothing that would not end by then."""
    clock.cost = lambda steps, chains: 1e-4 * chains * steps
    places = device_dtypes(["numpy"])
    found = [(time.kernel, time.chains) for time in timing.timed(places, 100.0)]
    assert {time.device.dtype for time in timing.timed(places, 1e-9)} <= {"float32"}
    assert found[: len(timing.KERNELS)] == list(itertools.product(timing.KERNELS, [1]))
    assert max(chains for _, chains in found) == 1000
    assert 50 < clock.now < 100
