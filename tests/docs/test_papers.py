"""The index of the papers is alive: its names import, its links lead somewhere, its counts are those of its tables."""

import ast
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "papers.md"
PAGES = sorted((DOCS / "papers").glob("*.md"))
WORDS = (
    "whole",
    "reproduced",
    "in part",
    "differs",
    "does not hold as printed",
    "not run",
    "not built",
    "nothing to build",
)
WITHOUT_A_REASON = {"whole", "reproduced", "nothing to build"}
HEADS = {name: ["in the paper", "verdict", "in the library", "page"] for name in ("Method", "Theory", "Settings")}
HEADS["Experiments"] = ["in the paper", "verdict", "size and seeds: paper, here", "page"]


class Row(NamedTuple):
    """A row of a table: its section, and its cells by the heads of their columns."""

    section: str
    cells: dict[str, str]

    @property
    def word(self) -> str:
        """The first word group of the verdict."""
        found = re.match(r"\*\*([^*]+)\*\*", self.cells["verdict"])
        return found.group(1) if found else ""


def cells(line: str) -> list[str]:
    """The cells of a line of a table; a bar within a cell has a backslash before it."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables(page: Path) -> dict[str, list[list[str]]]:
    """The lines of the table of each section that has one, without the line under the heads."""
    found: dict[str, list[list[str]]] = {}
    for section in page.read_text().split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        lines = [cells(line) for line in text.splitlines() if line.startswith("|")]
        if lines:
            found[title.strip()] = [lines[0], *lines[2:]]
    return found


def rows(page: Path) -> list[Row]:
    return [
        Row(name, dict(zip(head, line, strict=True))) for name, (head, *lines) in tables(page).items() for line in lines
    ]


def by_page(test):
    return pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)(test)


@by_page
def test_tables_have_their_form(page):
    assert "\n## Run first\n" in page.read_text()
    for name, (head, *lines) in tables(page).items():
        assert head == HEADS[name]
        assert [line for line in lines if len(line) != 4 or not all(line)] == []
    twice = [what for what, number in Counter(row.cells["in the paper"] for row in rows(page)).items() if number > 1]
    assert twice == []


@by_page
def test_every_verdict_is_one_of_the_list_with_its_reason(page):
    for row in rows(page):
        verdict = row.cells["verdict"]
        assert row.word in WORDS, verdict
        reason = verdict.removeprefix(f"**{row.word}**")
        assert re.fullmatch(r": .+\.", reason) or (not reason and row.word in WITHOUT_A_REASON), verdict
        assert len(re.findall(r"\.(?: [A-Z`]|$)", reason)) <= 2, f"more than two sentences: {verdict}"
        assert row.word != "not run" or "hour" in reason, f"no estimate: {verdict}"


def imported(name: str) -> object:
    """What a dotted name stands for: the longest module, then attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@cache
def functions(file: str) -> set[str]:
    nodes = ast.walk(ast.parse((ROOT / file).read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@by_page
def test_every_name_imports_and_every_test_is_there(page):
    for row in rows(page):
        cell = row.cells.get("in the library", "--")
        named = re.findall(r"`([^`]+)`", cell)
        assert named or cell == "--", f"neither a name nor --: {cell}"
        for name in named:
            file, _, test = name.partition("::")
            if test:
                assert test in functions(file), name
            else:
                imported(name)


@cache
def anchors(page: Path) -> set[str]:
    """Of the titles, as the site makes them."""
    slugify = pytest.importorskip("mdit_py_plugins.anchors.index").slugify
    return {slugify(re.sub("`", "", title)) for title in re.findall(r"^#{1,3} (.+)$", page.read_text(), re.MULTILINE)}


def links(text: str) -> list[str]:
    """The addresses of links to our own pages."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]


@pytest.mark.parametrize("page", [INDEX, *PAGES], ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


@by_page
def test_pages_of_a_row_are_links(page):
    for row in rows(page):
        assert row.cells["page"] == "--" or links(row.cells["page"]), row.cells["page"]


def papers() -> dict[str, Path]:
    return {page.stem: page for page in PAGES}


def test_every_experiment_of_a_paper_is_in_its_table():
    for experiment in (DOCS / "experiments").glob("*-*.md"):
        (page,) = (page for paper, page in papers().items() if experiment.stem.startswith(f"{paper}-"))
        linked = {link.partition("#")[0] for row in rows(page) for link in links(row.cells["page"])}
        assert f"../experiments/{experiment.name}" in linked


def test_the_index_leads_to_every_page_and_has_their_counts():
    text = INDEX.read_text()
    toctree = re.search(r"```\{toctree\}\n(?::.*\n)*\n(.*?)```", text, re.DOTALL)
    assert sorted(toctree.group(1).split()) == [f"papers/{name}" for name in sorted(papers())]
    head, _, *lines = [
        cells(line) for line in text.partition("\n## Row by row\n")[2].splitlines() if line.startswith("|")
    ]
    assert head == ["paper", "rows", *WORDS]
    counted = []
    for line in lines:
        page = (INDEX.parent / links(line[0])[0]).resolve()
        words = Counter(row.word for row in rows(page))
        counted.append([line[0], *map(str, (words.total(), *(words[word] for word in WORDS)))])
    assert lines == counted, "the lines should be\n" + "\n".join(f"| {' | '.join(line)} |" for line in counted)
    assert sorted(links(line[0])[0] for line in lines) == [f"papers/{page.name}" for page in PAGES]
