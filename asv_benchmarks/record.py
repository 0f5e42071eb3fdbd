"""Record what asv measures of commits, in the small form in which results are kept.

``python -m asv_benchmarks.record MACHINE COMMIT ...``, from the root of the checkout.

A commit's library is measured by this checkout's benchmarks in the environment that is active; nothing is installed. A
file of `results` has no paths and no host name, and numbers of four digits, without asv's own times.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from asv_benchmarks.commits import ROOT, extract, git, search_path

RESULTS = ROOT / "asv_benchmarks" / "results"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LIBRARIES = ("numpy", "torch", "jax", "blackjax", "numpyro")
MACHINE = {"arch": "", "cpu": "", "num_cpu": "", "os": "", "ram": ""}
KEPT = ("result", "params", "version")
"""Of asv's columns."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and keep the results."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.record", description=__doc__)
    parser.add_argument("machine", help="a name that says what it is and not whose, such as ci-2core")
    parser.add_argument("commits", nargs="*", default=["HEAD"], help="by default HEAD")
    parser.add_argument("--bench", action="append", default=[], metavar="REGEX", help="these benchmarks only")
    args = parser.parse_args(arguments)
    for commit in args.commits:
        with TemporaryDirectory() as folder:
            path = record(args.machine, commit, extract(commit, Path(folder)), args.bench)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes", flush=True)
    return 0


def record(machine: str, commit: str, tree: Path, bench: Sequence[str] = ()) -> Path:
    """Measure the library of a tree, and keep the results as those of a commit; gives the file."""
    commit = git("rev-parse", f"{commit}^{{commit}}")
    with TemporaryDirectory() as folder:
        measured = json.loads(measure(machine, commit, tree, bench, Path(folder)).read_text(encoding="utf-8"))
    path = RESULTS / machine / f"{commit[:8]}-python{PYTHON}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"machine": machine, **MACHINE, "version": 1}
    (path.parent / "machine.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    kept = small(measured, machine)
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in kept.pop("results").items()]
    path.write_text(json.dumps(kept)[:-1] + ',\n"results": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    return path


def measure(machine: str, commit: str, tree: Path, bench: Sequence[str], folder: Path) -> Path:
    """Run asv, which leaves its file in the folder."""
    config = folder / "asv.conf.json"
    settings = {
        "version": 1,
        "project": "xpsample",
        "repo": str(ROOT),
        "branches": ["HEAD"],
        "environment_type": "virtualenv",  # asks for one; --python=same is what is used
        "benchmark_dir": str(ROOT / "asv_benchmarks" / "benchmarks"),
        "results_dir": str(folder / "results"),
        "default_benchmark_timeout": 600,
    }
    config.write_text(json.dumps(settings), encoding="utf-8")
    # asv looks for what it knows of the machine in the home folder, and takes the library from its own search path.
    known = {machine: {"machine": machine, **MACHINE}, "version": 1}
    (folder / ".asv-machine.json").write_text(json.dumps(known), encoding="utf-8")
    environment = {**os.environ, "HOME": str(folder), "ASV_PYTHONPATH": search_path(tree), "PYTHONPATH": ""}
    command = [sys.executable, "-m", "asv", "run", "--config", str(config), "--machine", machine, "--python=same"]
    command += ["--launch-method", "forkserver", "--set-commit-hash", commit]
    command += [word for pattern in bench for word in ("--bench", pattern)]
    # 2 where a benchmark failed, which is a result, too.
    done = subprocess.run(command, cwd=folder, env=environment)
    if done.returncode not in (0, 2):
        raise RuntimeError(f"asv ended with {done.returncode}")
    (found,) = (folder / "results" / machine).glob(f"{commit[:8]}-*.json")
    return found


def small(measured: dict[str, Any], machine: str) -> dict[str, Any]:
    """What is kept of a file of asv: columns that its pages use, and names that say nothing of whose machine it was."""
    at = [measured["result_columns"].index(column) for column in KEPT]
    results = {
        name: [rounded(row[i]) if i < len(row) else None for i in at] for name, row in measured["results"].items()
    }
    return {
        "commit_hash": measured["commit_hash"],
        "date": measured["date"],
        "env_name": f"python{PYTHON}",
        "env_vars": {},
        "params": {"machine": machine, **MACHINE, "python": PYTHON},
        "python": PYTHON,
        "requirements": {},
        "libraries": {name: found for name in LIBRARIES if (found := installed(name))},
        "result_columns": list(KEPT),
        "results": results,
        "durations": {},
        "version": measured["version"],
    }


def rounded(value: Any) -> Any:
    """Numbers with four digits, in lists, too."""
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def installed(name: str) -> str | None:
    """The version of a library, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
