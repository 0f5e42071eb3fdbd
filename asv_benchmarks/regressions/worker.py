"""A side's process: reads requests, a JSON line each, and answers each with one.

``{"time": name}`` is answered by ``{"seconds": CPU seconds}``, ``{"count": name}`` by ``{"value": number}``; where that
cannot be, ``{"cannot": why, "here": whether what it needs is installed}``. The first answer, unasked, has the names of
what can be timed and counted.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import asv_benchmarks  # noqa: F401  (sets one thread, before any array library is imported)


@cache
def run_named(name: str) -> Callable[[], Any]:
    """A run that has been called once."""
    from asv_benchmarks.regressions.measures import TIMED

    run = TIMED[name]()
    run()
    return run


def answer(request: dict[str, str]) -> dict[str, Any]:
    """What a request asks for."""
    from asv_benchmarks.regressions.measures import COUNTED

    if "count" in request:
        return {"value": COUNTED[request["count"]]()}
    run = run_named(request["time"])
    began = time.process_time()
    run()
    return {"seconds": time.process_time() - began}


def library(tree: Path) -> dict[str, Any]:
    """The names of the measures, if the library that is imported here is that of the tree, and they can use it."""
    import xpsample

    found = Path(xpsample.__file__).resolve()
    if tree.resolve() not in found.parents:
        raise ImportError("xpsample is imported from elsewhere than the tree that is measured")
    from asv_benchmarks.regressions.measures import COUNTED, TIMED

    return {"timed": list(TIMED), "counted": list(COUNTED)}


def told(question: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer, or why there is none."""
    try:
        return question()
    except Exception as error:
        return {"cannot": f"{type(error).__name__}: {error}", "here": not isinstance(error, NotImplementedError)}


def main() -> None:
    """Serve until there are no more requests; what else is printed goes to stderr."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    tree = Path(sys.argv[1])
    print(json.dumps(told(lambda: library(tree))), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(told(lambda request=request: answer(request))), file=out, flush=True)


if __name__ == "__main__":
    main()
