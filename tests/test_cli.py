"""The command line, called in the process; one test goes through ``python -m xpsample``."""

import argparse
import subprocess
import sys
import types

import pytest

import xpsample
from xpsample import cli
from xpsample.core.errors import XpsampleError
from xpsample.experiments import EXPERIMENTS, Entry


def exit_code(*argv):
    with pytest.raises(SystemExit) as stopped:
        cli.main(argv)
    return stopped.value.code


def test_help_and_version(capsys):
    assert exit_code("--help") == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("list", "run", "citation", "conformance", "run breast-cancer"))
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"xpsample {xpsample.__version__}\n"
    assert exit_code("run", "--help") == 0
    assert "breast-cancer" in capsys.readouterr().out


def test_module_can_be_run():
    done = subprocess.run([sys.executable, "-m", "xpsample", "citation", "hmc"], capture_output=True, text=True)
    assert done.returncode == 0 and "Duane" in done.stdout and not done.stderr


def test_no_or_unknown_command(capsys):
    assert exit_code() == 2
    assert exit_code("dance") == 2
    assert "dance" in capsys.readouterr().err


def test_list_shows_experiments_kernels_and_libraries(capsys, monkeypatch):
    monkeypatch.setattr(cli, "_devices", lambda name: "here" if name == "numpy" else "not looked at")
    assert cli.main(["list"]) == 0
    text = capsys.readouterr().out
    for name in (*EXPERIMENTS, "MALA", "SRMC", "cupy", "torch"):
        assert f"\n  {name} " in text
    assert "numpy             here" in text


def test_devices_of_libraries():
    assert cli._devices("numpy") == "cpu (float32, float64)"
    assert cli._devices("a_library_that_is_not_there") == "not installed"


def test_run_unknown_experiment(capsys):
    assert cli.main(["run", "breast-canser"]) == 2
    assert "did you mean breast-cancer?" in capsys.readouterr().err
    assert cli.main(["run", "zzz"]) == 2
    assert "there are: breast-cancer" in capsys.readouterr().err


def test_experiment_options_and_errors(capsys, monkeypatch):
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--times", type=int, default=1)

    def run(args: argparse.Namespace) -> int:
        if args.times == 13:
            raise XpsampleError("thirteen is out of range")
        return args.times

    monkeypatch.setitem(sys.modules, "made_up", types.SimpleNamespace(add_arguments=add_arguments, run=run))
    monkeypatch.setattr(cli, "EXPERIMENTS", {"made-up": Entry("made_up", "A made-up one.")})
    assert cli.main(["run", "made-up", "--times", "7"]) == 7
    assert exit_code("run", "made-up", "--help") == 0
    assert "--times" in capsys.readouterr().out
    assert exit_code("run", "made-up", "--nonsense") == 2
    capsys.readouterr()
    assert cli.main(["run", "made-up", "--times", "13"]) == 1
    assert capsys.readouterr().err == "xpsample: thirteen is out of range\n"


def test_conformance_is_delegated(monkeypatch):
    seen = []
    suite = types.SimpleNamespace(
        add_arguments=lambda parser: parser.add_argument("--quick", action="store_true"),
        run=lambda args: seen.append(args.quick) or 0,
    )
    monkeypatch.setitem(sys.modules, "xpsample.conformance.cli", suite)
    assert cli.main(["conformance", "--quick"]) == 0
    assert seen == [True]


def test_citation(capsys):
    assert cli.main(["citation", "SRMC(HMC)"]) == 0
    assert "Score-Repellent" in capsys.readouterr().out
    assert cli.main(["citation"]) == 0
    assert "srmc" in capsys.readouterr().out
    assert cli.main(["citation", "srcm"]) == 1
    assert "did you mean srmc?" in capsys.readouterr().err
