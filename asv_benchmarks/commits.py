"""A commit's library beside this checkout's benchmarks, without touching the repository."""

import io
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


class NoCommit(Exception):
    """There is no such commit, or no repository."""


def git(*arguments: str, repository: Path = ROOT) -> str:
    """What git says, without the last line's end; `NoCommit` where it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise NoCommit("git is not installed") from error
    except subprocess.CalledProcessError as error:
        raise NoCommit((error.stderr.strip() or f"git {' '.join(arguments)} failed").splitlines()[0]) from error
    return done.stdout.rstrip("\n")


def extract(commit: str, into: Path, repository: Path = ROOT) -> Path:
    """The files of a commit, in a folder."""
    git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", repository=repository)
    done = subprocess.run(["git", "archive", "--format=zip", commit], cwd=repository, capture_output=True, check=True)
    with zipfile.ZipFile(io.BytesIO(done.stdout)) as files:
        files.extractall(into)
    return into


def copy_benchmarks(into: Path) -> Path:
    """This checkout's `asv_benchmarks`, alone in a folder, so that it can be imported beside any commit's library."""
    unneeded = shutil.ignore_patterns(".asv", "results", "__pycache__")
    shutil.copytree(ROOT / "asv_benchmarks", into / "asv_benchmarks", ignore=unneeded)
    return into


def search_path(*folders: Path) -> str:
    """For PYTHONPATH: folders, each with its `backends`."""
    return os.pathsep.join(str(one) for folder in folders for one in (folder, folder / "backends"))
