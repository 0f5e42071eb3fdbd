"""Wording of pages, docstrings, comments and messages."""

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
CEILING = 95
UNWANTED = re.compile(
    r"\b(?i:take) (?!(?:place|part|care|advantage|long|time|into|a (?:look|while)|some|about|\d|at least|more time)\b)"
    r"|(?:^|[.:;] )Where\b|(?:^|[.] )(?:So|Nor|Of|There,)\b"
    r"|^\"{3}(?:What|Where|How|Who|Of|As|They|Those|That|Whether)\b"
    r"|\b(?:that|those) (?:of|that|which)\b(?! the user)|\b(?:of|by|from|for|in|to) what\b"
    r"|\b(?:of (?:its|their|one's|your|my) own|of yours|of ours)\b|\b[Mm]end(?:s|ed|ing)?\b|\bbeside\b|[,;] else\b"
    r"|\b(?:left|leaves?|leaving) (?:it |them |something |what is )?out\b|\b(?:go|goes|went|going) on\b"
    r"|\b(?:is|are|was|were) asked (?:for|of|to)\b|\belsewhere\b|\b[Hh]yper-parameter"
)
BRITISH = re.compile(
    r"(?<![\w./`])(?:(?:un)?(?:normal|standard|optim|initial|marginal|minim|maxim|regular|general|synchron|organ|recogn)"
    r"is(?:e|ed|es|er|ers|ing|ation|ations)|colour\w*|behaviour\w*|cent(?:re|res|red|ring)|neighbour\w*"
    r"|favour\w*|model(?:led|ling)|label(?:led|ling)|gr(?:ey|eys)|licence|metres?|kilometres?)(?![\w(=`'\"]| : )",
    re.IGNORECASE,
)


def prose(path):
    """Lines of a page outside its code, or of a module's comments and strings."""
    text = path.read_text()
    if path.suffix == ".md":
        return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S).split("\n")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = (tokenize.COMMENT, tokenize.STRING)
    return [line.strip("# ") for token in tokens if token.type in kinds for line in token.string.split("\n")]


def sources():
    """Pages and modules, without the changelog, the table that quotes the modules' messages, and what is built."""
    paths = [ROOT / "README.md", *(p for d in ("docs", "xpsample", "backends") for p in (ROOT / d).rglob("*"))]
    omitted = {"_build", "_generated", "changelog.md", "messages.md"}
    return [p for p in paths if p.suffix in (".md", ".py") and not omitted & {*p.parts}]


def test_unwanted_phrases_do_not_spread():
    """The ceiling is the count of November 2026 and a few more; lower it as the count falls."""
    count = sum(len(UNWANTED.findall(line.strip())) for path in sources() for line in prose(path))
    assert count <= CEILING, f"{count} unwanted phrases (expected at most {CEILING}): reword the added lines"


def test_spelling_is_american():
    """Names of code, titles of papers and what readers search for keep their spelling."""
    kept = re.compile(r"stochastic optimisation|:::\{index\}", re.IGNORECASE)
    lines = [(path, line) for path in sources() for line in prose(path) if not kept.search(line)]
    wrong = [f"{path.relative_to(ROOT)}: {line.strip()}" for path, line in lines if BRITISH.search(line)]
    assert not wrong, "\n".join(wrong)
