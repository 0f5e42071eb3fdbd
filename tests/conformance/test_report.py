"""The report: what the suite found, and times that are what they say."""

import ast
import itertools
import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from xpsample import cli, conformance
from xpsample.conformance import cli as command
from xpsample.conformance import report as timing
from xpsample.conformance.checks import check_all, reference
from xpsample.conformance.namespace import NAMES
from xpsample.core.devices import device_dtypes
from xpsample.core.registry import backend_named


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
