"""Slowdowns that are put in on purpose are caught; what cannot be compared is said, and is no failure."""

import shutil
import subprocess
from pathlib import Path

import pytest

from asv_benchmarks import commits
from asv_benchmarks.regressions import __main__ as command
from asv_benchmarks.regressions.compare import BaseCannot, Compared, NewCannot, Seen, compare, factor

ROOT = Path(__file__).parents[2]


@pytest.fixture
def edited(tmp_path):
    """A copy of the library with a line replaced: ``edited(file, old, new)`` gives the folder."""

    def edit(file, old, new):
        for folder in ("xpsample", "backends"):
            shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
        text = (tmp_path / file).read_text()
        assert text.count(old) == 1
        (tmp_path / file).write_text(text.replace(old, new))
        return tmp_path

    return edit


def slower(found):
    return {one.name for one in found if one.slower}


# ---- slowdowns -------------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_copies_of_the_state_at_each_step_are_caught(edited):
    """Twenty, so that a step takes many times as long whatever else the machine does."""
    plain = "new, info = step(state, numbers)"
    copy = "state = tree.map(lambda a: program.backend.xp.asarray(a, copy=True), state)"
    copies = f"for _ in range(20):\n                    {copy}\n                "
    slow = edited("xpsample/sampling/eager.py", plain, f"{copies}{plain}")
    found = compare(ROOT, slow, ["numpy-mala-1", "evaluations-mala"], rounds=3, more_rounds=3)
    assert slower(found) == {"numpy-mala-1"}


@pytest.mark.release
def test_rows_that_are_copied_at_each_block_are_caught(edited):
    written = "tree.map(lambda buffer, *"
    copied = f"buffers = tree.map(lambda a: a.copy(), buffers)\n        {written}"
    slow = edited("xpsample/sampling/eager.py", written, copied)
    assert slower(compare(ROOT, slow, ["memory-mala-*"], 1, 1)) == {"memory-mala-draws"}


def test_another_evaluation_at_each_step_is_caught(edited):
    more = "proposal, current, target.costs.evaluate.times(2))"
    slow = edited("xpsample/kernels/rwm.py", 'noise["accept"], proposal, current)', f'noise["accept"], {more}')
    assert slower(compare(ROOT, slow, ["evaluations-rwm"], 1, 1)) == {"evaluations-rwm"}


def test_a_second_compilation_is_caught(edited):
    pytest.importorskip("jax")
    slow = edited("backends/xpsample_jax/programs.py", "if key in self._kept:", "if False:")
    found = compare(ROOT, slow, ["compilations-mala-*"], 1, 1)
    assert slower(found) == {"compilations-mala-second"}
    assert next(one.first for one in found if one.name == "compilations-mala-second").factor == float("inf")


def test_the_library_is_as_fast_as_itself():
    """Counts alone, since a time is no certain thing on a busy machine. Its shorter blocks take less memory."""
    found = compare(ROOT, ROOT, ["evaluations-*", "memory-mala-moments"], 1, 1)
    assert len(found) > 20 and not slower(found)
    assert {one.first.factor for one in found if one.name.startswith("evaluations")} == {1.0}
    assert all(one.first.factor == pytest.approx(1, abs=0.1) for one in found)
    assert factor(2.0, 3.0) == 1.5 and factor(0, 0) == 1 and factor(0, 2) == float("inf")


# ---- what cannot be compared -----------------------------------------------------------------------------------------


def test_a_base_that_lacks_what_the_measures_use_is_said(tmp_path):
    with pytest.raises(NewCannot, match="imported from elsewhere"):
        compare(ROOT, tmp_path, ["evaluations-mala"])
    (tmp_path / "xpsample").mkdir()
    (tmp_path / "xpsample" / "__init__.py").write_text("")
    with pytest.raises(BaseCannot, match="No module named 'xpsample"):
        compare(tmp_path, ROOT, ["evaluations-mala"])
    with pytest.raises(NewCannot, match="the new library cannot run the measures: ModuleNotFoundError"):
        compare(ROOT, tmp_path, ["evaluations-mala"])


def test_a_base_that_fails_in_a_measure_is_skipped_and_a_new_library_is_not(edited):
    broken = edited("xpsample/kernels/rwm.py", "proposal = target", 'raise ValueError("broken")\n        _ = target')
    first, second = compare(broken, ROOT, ["evaluations-rwm", "evaluations-mala"])
    assert first.first is None and second.first.factor == 1
    assert first.skipped.startswith("base: FunctionError") and first.skipped.endswith("ValueError: broken")
    with pytest.raises(NewCannot, match=r"evaluations-rwm fails with the new library: .*ValueError: broken"):
        compare(ROOT, broken, ["evaluations-rwm"])


def test_a_base_that_lacks_a_kernel_runs_the_others(edited):
    older = edited("xpsample/__init__.py", " Slice ", " ")
    first, second = compare(older, ROOT, ["evaluations-rwm", "evaluations-slice"])
    assert first.first.factor == 1 and second.first is None
    assert second.skipped == "base: AttributeError: module 'xpsample' has no attribute 'Slice'"


def test_a_process_that_ends_is_no_skip(edited):
    gone = edited("xpsample/kernels/rwm.py", "proposal = target", "__import__('os')._exit(3)\n        _ = target")
    with pytest.raises(NewCannot, match="the process ended with 3"):
        compare(ROOT, gone, ["evaluations-rwm"])


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two commits that differ in the library; the command takes it for the checkout."""

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *arguments], cwd=tmp_path, check=True)

    git("init", "-q")
    (tmp_path / "xpsample").mkdir()
    (tmp_path / "backends").mkdir()
    for i in range(2):
        (tmp_path / "xpsample" / "__init__.py").write_text(f"version = {i}\n")
        git("add", "-A")
        git("commit", "-q", "-m", f"commit {i}\n\nSlower: meant-* other")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(commits, "ROOT", tmp_path)
    monkeypatch.setattr(command.git, "__kwdefaults__", {"repository": tmp_path})
    monkeypatch.setattr(command.extract, "__defaults__", (tmp_path,))
    return tmp_path


def timed(name, first, second=None):
    looks = [None if f is None else Seen(0.1, 0.1 * f, f, f - 0.1, f + 0.1) for f in (first, second)]
    return Compared(name, True, *looks)


def test_the_base_is_the_last_commit_with_another_library(repository, monkeypatch, capsys):
    library = repository / "xpsample" / "__init__.py"

    def seen(base, new, only, say):
        bases.append((base / "xpsample" / "__init__.py").read_text())
        return [timed("numpy-mala-1", 1.0)]

    bases = []
    monkeypatch.setattr(command, "compare", seen)
    assert command.main([]) == 0
    library.write_text("version = 2\n")
    assert command.main([]) == 0
    assert bases == ["version = 0\n", "version = 1\n"]
    library.write_text("version = 1\n")
    capsys.readouterr()
    assert command.main(["HEAD"]) == 0
    assert capsys.readouterr().out.startswith("regressions: skipped, the library is that of ")


def test_what_is_slower_in_both_looks_fails_with_a_table_unless_the_commit_message_names_it(
    repository, monkeypatch, capsys
):
    found = [timed("numpy-mala-1", 1.4, 1.3), timed("jax-mala-1", 1.3, 1.1), timed("torch-mala-1", 0.5)]
    found.append(Compared("compilations-mala-first", False, Seen(3, 3, 1.0, 1.0, 1.0)))
    monkeypatch.setattr(command, "compare", lambda base, new, only, say: found)
    assert command.main([]) == 1
    said = capsys.readouterr().out
    rows = {line.split()[0]: line for line in said.splitlines() if "ms" in line}
    assert "100.0 ms  140.0 ms    1.40   1.30  1.50  1.30   SLOWER" in rows["numpy-mala-1"]
    assert rows["jax-mala-1"].endswith("not confirmed") and rows["torch-mala-1"].endswith("faster")
    assert "1 counts are the same" in said and "Slower: numpy-mala-1" in said
    found[:] = [timed("meant-mala-1", 1.4, 1.3), timed("other", 2.0, 2.0)]
    assert command.main([]) == 0
    assert "slower, as meant" in capsys.readouterr().out


@pytest.mark.parametrize(("error", "code"), [(BaseCannot("no such name"), 0), (NewCannot("mala fails"), 1)])
def test_what_cannot_be_measured_is_one_line(repository, monkeypatch, capsys, error, code):
    def fail(*args, **settings):
        raise error

    monkeypatch.setattr(command, "compare", fail)
    assert command.main([]) == code
    (line,) = capsys.readouterr().out.splitlines()
    assert str(error) in line and ("skipped" in line) == (code == 0)


def test_without_a_commit_to_compare_with_it_is_skipped(repository, capsys):
    assert command.main(["nosuchcommit"]) == 0
    shutil.rmtree(repository / ".git")
    assert command.main([]) == 0
    assert capsys.readouterr().out.count("regressions: skipped, there is no commit to compare with") == 2


def test_false_alarms_are_those_that_both_looks_take_for_slower(repository, monkeypatch, capsys):
    looks = [[timed("a", 1.0)], [timed("a", 1.3, 1.1)], [timed("a", 1.3, 1.3), timed("b", 1.0)]]
    trees = []
    monkeypatch.setattr(command, "compare", lambda *args, say: trees.append(args[:2]) or looks[len(trees) - 1])
    assert command.main(["HEAD", "--false-alarms", "3"]) == 0
    assert all(base == new for base, new in trees)
    assert capsys.readouterr().out.splitlines()[-1] == "1 false alarms in 3 comparisons, 2 of which had a second look"
