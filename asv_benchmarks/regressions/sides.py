"""The two sides: a process each, which measures the library of one tree with the benchmarks of this checkout."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from asv_benchmarks.commits import search_path


class Cannot(Exception):
    """A side cannot measure something; `here` is False where a library or a device is not installed."""

    def __init__(self, why: str, here: bool = True) -> None:
        super().__init__(why)
        self.here = here


class Side:
    """A process for the library of a tree, to be used in a ``with`` statement.

    Parameters
    ----------
    tree : path
        A checkout, with the folders `xpsample` and `backends`.
    benchmarks : path
        A folder with `asv_benchmarks` and nothing else that can be imported.
    errors : path
        Where the process's error output goes.
    """

    def __init__(self, tree: Path, benchmarks: Path, errors: Path) -> None:
        self.tree, self.benchmarks, self.errors = tree, benchmarks, errors

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.benchmarks), search_path(self.tree)])}
        # Without -P the folder that this runs in would come first on the path, and may have a library of its own.
        command = [sys.executable, "-P", "-m", "asv_benchmarks.regressions.worker", str(self.tree)]
        with open(self.errors, "a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()

    def begin(self) -> tuple[list[str], list[str]]:
        """Names of what can be timed and counted; `Cannot` where the library lacks what they use."""
        names = self._answer()
        return names["timed"], names["counted"]

    def count(self, name: str) -> float:
        """A number of `measures.COUNTED`."""
        return self._ask({"count": name})["value"]

    def time(self, name: str) -> float:
        """CPU seconds of one run of `measures.TIMED`."""
        return self._ask({"time": name})["seconds"]

    def _ask(self, request: Mapping[str, str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says so
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.errors.read_text(encoding="utf-8").strip().splitlines()[-1:]
            raise Cannot(f"the process ended with {self.process.wait()}: {' '.join(last)}")
        told = json.loads(line)
        if "cannot" in told:
            raise Cannot(told["cannot"], told["here"])
        return told
