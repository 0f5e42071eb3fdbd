"""The command of the suite with ``--resume``: rows that are finished are kept, and not made again."""

import re
import signal
import sys

import pytest

from xpsample import cli
from xpsample.conformance import cli as command
from xpsample.conformance.checks import CHECKS, Outcome, Row

NAMES = ("rwm", "mala")
"""Each has a row in float32 and one in float64."""


@pytest.fixture
def conformance(monkeypatch, tmp_path):
    """The command on made-up checks; it is stopped by a signal in the row of a number. What it made, and its code."""

    def conformance(*options, stop=None, by=signal.SIGINT, failing=()):
        made = []

        def check_all(cases, devices, quick):
            if len(made) == stop:
                signal.raise_signal(by)
            (case,), (device,) = cases, devices
            passed = len(made) not in failing
            made.append(f"{case.name} {device.dtype}")
            yield Row(case, device, {check: Outcome(passed, "seen") for check in CHECKS})

        monkeypatch.setattr(command, "check_all", check_all)
        kernels = [word for name in NAMES for word in ("--kernel", name)]
        given = ["conformance", "--backend", "numpy", *kernels, "--resume", str(tmp_path / "rows.jsonl"), *options]
        return made, cli.main(given)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    yield conformance
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("by", "name", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_it_goes_on_after_the_rows_that_are_finished(conformance, tmp_path, capsys, monkeypatch, by, name, code):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/xpsample"])
    assert conformance(stop=3, by=by) == (["rwm float32", "rwm float64", "mala float32"], code)
    told = capsys.readouterr()
    line = rf"xpsample conformance: stopped by {name} after 3 rows; to go on: xpsample conformance .*rows.jsonl\n"
    assert re.fullmatch(line, told.err)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert conformance() == (["mala float64"], 0)
    resumed = capsys.readouterr().out
    assert conformance() == ([], 0)
    assert capsys.readouterr().out == resumed
    (tmp_path / "rows.jsonl").unlink()
    assert len(conformance()[0]) == 4
    assert capsys.readouterr().out == resumed


def test_rows_that_failed_still_fail(conformance, capsys):
    for _ in range(2):
        assert conformance(failing=(1,))[1] == 1
        told = capsys.readouterr()
        assert "3 of 4 rows passed" in told.out and "FAILED: rwm numpy cpu float64" in told.err


def test_another_command_is_refused_by_name(conformance, tmp_path, capsys):
    conformance()
    before = (tmp_path / "rows.jsonl").read_bytes()
    assert conformance("--quick") == ([], 1)
    assert "rows of another run (quick: False there, True here)" in capsys.readouterr().err
    assert conformance("--kernel", "hmc") == ([], 1)
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
