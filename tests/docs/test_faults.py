"""The page of faults names tests that are there."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "developer" / "faults.md"


@cache
def functions(file):
    return {node.name for node in ast.walk(ast.parse((TESTS / file).read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_fault_has_a_test_that_is_there():
    lines = PAGE.read_text().splitlines()
    faults = [line for line in lines if re.match(r"\| \d+ \|", line)]
    assert [int(line.split("|")[1]) for line in faults] == list(range(1, 34))
    for line in lines:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", line)
        assert named or line not in faults, line
        for file, name in named:
            assert name in functions(file), f"{file}::{name}"
