"""Commands say what they do when they would be silent."""

import sys
import time

import pytest

from xpsample.core import terminal
from xpsample.core.terminal import Progress


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    monkeypatch.setattr(terminal, "SILENCE", 2.0)


@pytest.fixture
def at_once(as_users_have_it, monkeypatch):
    monkeypatch.setattr(terminal, "SILENCE", 0.0)


def said(capsys, part):
    """What was written to stderr, as soon as there is this part in it."""
    text, began = "", time.monotonic()
    while part not in text:
        assert time.monotonic() - began < 20
        text += capsys.readouterr().err
        time.sleep(0.01)
    return text


def test_silence_is_told(capsys, at_once):
    with Progress("waiting") as progress:
        assert said(capsys, "waiting").startswith("  waiting, 0 s\n")
        with progress.doing("digging"):
            said(capsys, "digging")
        said(capsys, "waiting")
        with progress.doing(None):
            capsys.readouterr()
            time.sleep(0.5)
            assert capsys.readouterr() == ("", "")
        progress.say("found")
        assert capsys.readouterr().out == "found\n"


def test_who_prints_is_not_told_of_silence(capsys):
    with Progress("waiting") as progress:
        progress.say("found")
        time.sleep(0.5)
    assert capsys.readouterr() == ("found\n", "")


def test_elsewhere_than_on_a_terminal_lines_come_ever_more_seldom(capsys):
    progress = Progress("waiting")
    for second in range(1, 300):
        progress._tell(float(second))
    assert capsys.readouterr().err.splitlines() == [f"  waiting, {second} s" for second in (2, 10, 50, 250)]


def test_on_a_terminal_one_line_counts_and_goes_away(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    progress = Progress("waiting for something far too long")
    for second in (1.0, 2.0, 2.2, 3.0):
        progress._tell(second)
    progress.say("found")
    clear = "\r\033[K"
    assert capsys.readouterr() == ("found\n", f"  waiting for someth 2 s{clear}  waiting for someth 3 s{clear}")


def test_where_no_thread_can_start_lines_are_printed_all_the_same(capsys, monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(terminal.Thread, "start", refused)
    with Progress("waiting") as progress:
        progress.say("done")
    assert capsys.readouterr().out == "done\n"
