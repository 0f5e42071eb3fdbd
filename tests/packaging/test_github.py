"""What is for GitHub can be read, and tests every version of Python that the package states, lowest and newest."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github"


def parsed(path):
    return pytest.importorskip("yaml").safe_load(path.read_text())


def test_every_stated_python_is_tested_and_the_lowest_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [found[1] for line in project["classifiers"] if (found := re.fullmatch(r".* :: (3\.\d+)", line))]
    jobs = parsed(FOLDER / "workflows" / "tests.yml")["jobs"]
    assert jobs["newest"]["strategy"]["matrix"]["python"] == stated
    lowest = project["requires-python"].removeprefix(">=")
    assert lowest == stated[0] == jobs["lowest"]["steps"][1]["with"]["python-version"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert any("--resolution lowest-direct" in command for command in commands)
    extras = {name for command in commands for name in re.findall(r"\[([\w-]+)\]", command)}
    assert extras and extras <= set(project["optional-dependencies"])
    assert ".ci/run" in commands and (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_forms_ask_for_something_by_a_name_of_its_own():
    for path in (FOLDER / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        form = parsed(path)
        names = [part["id"] for part in form["body"]]
        assert form["name"] and form["description"] and len(set(names)) == len(names)


@pytest.mark.slow
def test_github_can_read_the_workflow_and_the_forms():
    pytest.importorskip("check_jsonschema")
    forms = "ISSUE_TEMPLATE/[!c]*.yml"
    for schema, files in (("workflows", "workflows/*.yml"), ("issue-forms", forms), ("issue-config", "**/config.yml")):
        found = sorted(FOLDER.glob(files))
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.github-{schema}", *found]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found and done.returncode == 0, done.stdout + done.stderr


def test_links_lead_somewhere():
    text = (FOLDER / "CONTRIBUTING.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all((FOLDER / link).exists() for link in links)
