"""Tables of figures are those that were recorded, and pages say when, of which commit and by what."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from asv_benchmarks import pages
from asv_benchmarks.commits import git

NAMES = sorted(path.stem for path in pages.KEPT.glob("*.json"))
SAID = re.compile(r"(\d{1,2} [A-Z][a-z]+ \d{4}) at (?:`([0-9a-f]{7})`|a commit that was not kept)")
PAGES = [page for page in sorted(pages.DOCS.rglob("*.md")) if not page.relative_to(pages.DOCS).parts[0].startswith("_")]


def of_figures(table: list[str]) -> bool:
    """Whether a table has eight cells or more that begin with a number, and a third of them do."""
    cells = [cell.strip() for line in table[2:] for cell in line.split("|")[1:-1]]
    numbers = sum(bool(re.match(r"[-<*~`]*\d", cell)) for cell in cells)
    return numbers >= max(8, len(cells) / 3)


def said(text: str) -> list[tuple[str, str]]:
    """(date, commit) of the lines that say when tables were recorded."""
    return [found for line in re.findall(r"^Recorded: (.*)$", text, re.MULTILINE) for found in SAID.findall(line)]


def without_recorded(page: Path) -> str:
    """The text of a page, without the tables that are kept and the lines below them."""
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(pages.DOCS))
    for kept in (kept for kept in map(pages.read, NAMES) if kept["page"] == name):
        text = text.replace(pages.on_page(kept), "")
    return text


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_table_that_was_recorded(name):
    kept = pages.read(name)
    assert set(kept) == {"page", "command", "commit", "date", "versions", "table"}
    assert pages.on_page(kept) in (pages.DOCS / kept["page"]).read_text(encoding="utf-8"), (
        f"docs/{kept['page']} has other figures than {name}.json; `python -m asv_benchmarks.pages {name}` records them"
    )


def test_pages_with_figures_say_when_they_were_recorded():
    texts = {str(page.relative_to(pages.DOCS)): without_recorded(page) for page in PAGES}
    silent = {name for name, text in texts.items() if any(map(of_figures, pages.tables(text))) and not said(text)}
    assert silent - {"papers.md"} == set(), "no line `Recorded: DATE at COMMIT.` (papers.md counts other tables' rows)"


def test_commits_that_pages_name_are_there():
    if not (pages.ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("the history is not here")
    commits = {commit for page in PAGES for _, commit in said(page.read_text(encoding="utf-8")) if commit}
    assert len(commits) > 5
    done = subprocess.run(
        ["git", "cat-file", "--batch-check"], input="\n".join(commits), capture_output=True, text=True, cwd=pages.ROOT
    )
    assert [line for line in done.stdout.splitlines() if " commit " not in line] == []


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch):
    """A page with a recorded table, and what its command prints now."""
    kept = {"page": "page.md", "command": "python figures.py 3", "commit": "0000000", "date": "1 May 2020"}
    kept |= {"versions": {}, "table": ["| n | s |", "| --- | --- |", "| 1 | 0.5 |"]}
    for name, where in (("ROOT", tmp_path), ("DOCS", tmp_path), ("KEPT", tmp_path)):
        monkeypatch.setattr(pages, name, where)
    monkeypatch.setattr(pages, "git", lambda *words: "" if words[0] == "status" else "1234567")
    (tmp_path / "speed.json").write_text(json.dumps(kept))
    (tmp_path / "page.md").write_text(f"Before.\n\n{pages.on_page(kept)}\n\nAfter.\n")
    (tmp_path / "figures.py").write_text('import sys\nprint(f"| n | s |\\n| --- | --- |\\n| {sys.argv[1]} | 0.7 |")\n')
    return tmp_path


def test_a_table_is_recorded_anew(elsewhere):
    assert pages.main(["speed"]) == 0
    kept = pages.read("speed")
    assert kept["table"][2] == "| 3 | 0.7 |" and kept["commit"] == "1234567" and "numpy" in kept["versions"]
    text = (elsewhere / "page.md").read_text()
    assert text == f"Before.\n\n{pages.on_page(kept)}\n\nAfter.\n"
    assert said(text) == [(kept["date"], "1234567")]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [("page.md", "0.5", "0.6", "another table than speed.json"), ("figures.py", "| n", "| m", "prints no table")],
)
def test_nothing_is_recorded_over_another_table(elsewhere, file, old, new, message):
    changed = elsewhere / file
    changed.write_text(changed.read_text().replace(old, new))
    with pytest.raises(pages.NotRecorded, match=message):
        pages.record("speed")


def test_changes_that_no_commit_has_are_not_measured(elsewhere, monkeypatch):
    monkeypatch.setattr(pages, "git", lambda *words: " M xpsample/kernels/mala.py")
    with pytest.raises(pages.NotRecorded, match="commit them first"):
        pages.record("speed")
