"""The table of messages, docs/developer/messages.md: each error and finding of the source, and a test that sees it.

pytest --messages seen.tsv PATH ...     # notes which test sees which message
python -m tests.messages seen.tsv       # writes the table anew; tests that it has stay if they still exist
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "developer" / "messages.md"
PACKAGES = ("xpsample", "backends")
LONGEST = 90  # characters of a message that a row shows
ROW = re.compile(r"\| `(?P<text>.+)` \| `(?P<module>\S+)` \| (?:`(?P<test>\S+)`|-) \|")
BUILT_IN = ("TypeError", "ValueError", "AttributeError", "OSError", "EOFError", "IndexError", "FrozenInstanceError")

Message = tuple[str, str]
"""Path of the module, and the start of the text; of a finding ``finding: kind``."""


def text_of(node: ast.expr) -> str:
    """Text of a string or an f-string, with ... for what is filled in; empty without any text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "..." for part in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@cache
def messages_of(path: Path) -> list[tuple[range, str]]:
    """Messages of a module, each with its lines."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name, text = ast.unparse(call.func).split(".")[-1], text_of(call.args[0])
        lines = range(node.lineno, (node.end_lineno or 0) + 1)
        if name in ("Finding", "of_worst", "of_columns"):
            found += [(lines, f"finding: {text}")] if text else []
        elif name not in BUILT_IN and (isinstance(node, ast.Raise) or re.search(r"Error$|^warn", name)):
            short = text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " ..."
            found += [(lines, short.replace("`", "'").replace("\n", " "))] if re.search(r"\w", text) else []
    return found


def messages() -> set[Message]:
    """All messages of the source."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {(path.relative_to(ROOT).as_posix(), text) for path in paths for _, text in messages_of(path)}


def table() -> dict[Message, str | None]:
    """Rows of the page: a test of each message, or None."""
    rows = map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines())
    return {(row["module"], row["text"].replace("\\|", "|")): row["test"] for row in rows if row}


def exists(test: str) -> bool:
    """Return whether a file of tests has a test."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def raised_here() -> list[Message]:
    """Messages at the innermost line with one, of the lines of the source that are running."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path, own = Path(frame.f_code.co_filename), frame.f_code.co_name in ("__init__", "warn_caller")
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES and not own:
            name = path.relative_to(ROOT).as_posix()
            if found := [(name, text) for lines, text in messages_of(path) if frame.f_lineno in lines]:
                return found
        frame = frame.f_back
    return []


def main(*seen: str) -> None:
    """Write the table anew, with the tests of files that `pytest --messages` wrote."""
    tests = {message: test for message, test in table().items() if test and exists(test)}
    for name in seen:
        for line in Path(name).read_text(encoding="utf-8").splitlines():
            *message, test = line.split("\t")
            tests.setdefault((message[0], message[1]), test)
    head = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if not ROW.fullmatch(line)]
    rows = []
    for module, text in sorted(messages()):
        test = tests.get((module, text))
        rows.append(f"| `{text.replace('|', chr(92) + '|')}` | `{module}` | {f'`{test}`' if test else '-'} |")
    PAGE.write_text("\n".join(head + rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
