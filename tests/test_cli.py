"""The command line, called in the process; one test goes through ``python -m xpsample``."""

import argparse
import json
import os
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path

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


def test_no_or_unknown_command_or_experiment(capsys):
    assert exit_code() == exit_code("dance") == 2
    assert "dance" in capsys.readouterr().err
    assert cli.main(["run", "breast-canser"]) == cli.main(["run", "zzz"]) == 2
    error = capsys.readouterr().err
    assert "did you mean breast-cancer?" in error and "there are: breast-cancer" in error


def test_list_shows_experiments_kernels_and_libraries_in_groups(capsys, monkeypatch):
    monkeypatch.setattr(cli, "_devices", lambda name: "here" if name == "numpy" else "not looked at")
    assert cli.main(["list"]) == 0
    text = capsys.readouterr().out
    for name in (*EXPERIMENTS, "MALA", "SRMC", "cupy", "torch"):
        assert f"\n    {name} " in text
    assert "numpy             here" in text
    groups, title = {}, ""
    for line in text.splitlines():
        if line.startswith("    "):
            groups[title].add(line.split()[0])
        elif line.strip():
            title = line.strip()
            groups.setdefault(title, set())
    for title, name in (("SRMC: score-repellent Monte Carlo", "srmc-mse"), ("without a paper", "breast-cancer")):
        assert name in groups[title]
    assert all(name.startswith("hiss-") for name in groups["HiSS: hyperbolic secant-squared Gibbs sampling"])
    assert groups["of the papers"] == {"HiSS", "SOSMC", "SRLD", "SRMC"}
    assert {"GWG", "TwoOpt"} < groups["on discrete spaces"] and "SVGD" in groups["of particles"]
    assert cli.main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in found["experiments"]} == set(EXPERIMENTS)
    assert {"name": "numpy", "group": "", "about": "here"} in found["libraries"]
    assert next(row for row in found["kernels"] if row["name"] == "GWG")["group"] == "on discrete spaces"


def test_devices_of_libraries():
    assert cli._devices("numpy") == "cpu (float32, float64)"
    assert cli._devices("a_library_that_is_not_there") == "not installed"


def test_experiment_options_and_errors(capsys, monkeypatch):
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--times", type=int, default=1)

    def run(args: argparse.Namespace) -> int:
        if args.times == 13:
            raise XpsampleError("thirteen is out of range")
        return args.times

    experiment = types.SimpleNamespace(add_arguments=add_arguments, run=run)
    monkeypatch.setitem(sys.modules, "made_up", types.SimpleNamespace(EXPERIMENT=experiment))
    monkeypatch.setattr(cli, "EXPERIMENTS", {"made-up": Entry("made_up", "A made-up one.")})
    assert cli.main(["run", "made-up", "--times", "7"]) == 7
    assert exit_code("run", "made-up", "--help") == 0
    assert "--times" in capsys.readouterr().out
    assert exit_code("run", "made-up", "--nonsense") == 2
    capsys.readouterr()
    assert cli.main(["run", "made-up", "--times", "13"]) == 1
    assert capsys.readouterr().err == "xpsample: thirteen is out of range\n  docs: troubleshooting#xpsampleerror\n"


def test_help_is_called_as_the_command_was(capsys, monkeypatch):
    for path, called in (("/usr/bin/xpsample", "xpsample"), ("/lib/xpsample/__main__.py", "python -m xpsample")):
        monkeypatch.setattr(sys, "argv", [path])
        for command in (["run"], ["run", "srmc-mse"], ["list"], ["citation"], ["conformance"]):
            assert exit_code(*command, "--help") == 0
            text = capsys.readouterr().out
            assert text.startswith(f"usage: {called} {' '.join(command)} [-h]")
        assert "__main__" not in text


def test_help_says_how_long_quick_takes(capsys):
    assert exit_code("run", "srmc-mse", "--help") == 0
    seconds = EXPERIMENTS["srmc-mse"].quick
    assert f"to see that it works: about {seconds} s on one core" in " ".join(capsys.readouterr().out.split())
    assert all(entry.quick is not None for entry in EXPERIMENTS.values())


# ---- what ends a command early ---------------------------------------------------------------------------------------


def shell(command):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=100, env=environment)


@pytest.mark.parametrize("command", ["citation", "run --help"])
def test_a_closed_pipe_is_quiet(command):
    done = shell(f"{sys.executable} -m xpsample {command} | true; echo ${{PIPESTATUS[0]}}")
    assert done.stdout in ("141\n", "0\n") and not done.stderr  # argparse prints help, and minds no error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line():
    done = shell(f"{sys.executable} -m xpsample citation srmc > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "xpsample: [Errno 28] No space left on device\n"


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_list", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "xpsample: stopped by Ctrl-C\n"


def test_ctrl_c_while_the_command_is_imported(monkeypatch, capsys):
    class Interrupted:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "xpsample.cli", Interrupted())
    assert import_module("xpsample.__main__").main() == 130
    assert capsys.readouterr() == ("", "")


def test_the_command_line_imports_no_more_than_it_needs():
    script = "import sys, xpsample.cli; print({'numpy', 'importlib.metadata', 'xpsample.kernels'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n"


# ---- completion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("xpsample ci", {"citation "}),
        ("xpsample run srmc-s", {"srmc-strength", "srmc-sweeps"}),
        ("xpsample run srmc-mse --rh", {"--rho "}),
        ("xpsample run srmc-mse --backend num", {"numpy "}),
        ("xpsample conformance --kernel sr-mala-", {"sr-mala-adaptive", "sr-mala-difference", "sr-mala-untilted"}),
        ("xpsample citation srm", {"srmc "}),
    ],
)
def test_completion(line, expected, tmp_path):
    pytest.importorskip("argcomplete")
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words")}
    subprocess.run([sys.executable, "-c", "from xpsample.cli import main; main()"], env=os.environ | asked, check=True)
    assert set((tmp_path / "words").read_text().split("\n")) == expected


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
    done = subprocess.run([sys.executable, "-m", "xpsample", "citation", "hmc"], capture_output=True, text=True)
    assert done.returncode == 0 and "Duane" in done.stdout and not done.stderr
    assert cli.main(["citation", "SRMC(HMC)"]) == 0
    assert "Score-Repellent" in capsys.readouterr().out
    assert cli.main(["citation"]) == 0
    assert "srmc" in capsys.readouterr().out
    assert cli.main(["citation", "srcm"]) == 1
    assert "did you mean srmc?" in capsys.readouterr().err
