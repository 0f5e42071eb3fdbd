"""The command line: `xpsample list`, `run NAME`, `citation NAME`, `conformance`."""

import argparse
import difflib
import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import xpsample
from xpsample.core.errors import BackendError, XpsampleError
from xpsample.core.terminal import CLOSED_PIPE, Progress, close_stdout, ended_by
from xpsample.experiments import EXPERIMENTS, PAPERS, Entry


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default, the arguments of the process.

    Returns
    -------
    int
        Exit code: 0, 1 for an error that xpsample reports, 2 for a command that is not understood, and as in a shell
        130 after Ctrl-C, 143 after SIGTERM and 141 if what is printed is not read to its end.
    """
    try:
        try:
            return _command(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # here, where errors of it are reported
    except KeyboardInterrupt as error:
        by, code = ended_by(error)
        print(f"xpsample: stopped by {by}", file=sys.stderr)
        return code
    except BrokenPipeError:
        close_stdout()
        return CLOSED_PIPE
    except (XpsampleError, OSError) as error:
        print("\n  ".join([f"xpsample: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            close_stdout()
        return 1


def _command(argv: Sequence[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        import argcomplete

        argcomplete.autocomplete(_parser(os.environ["COMP_LINE"].split()), always_complete_options="long")
    names = [word for word in argv if not word.startswith("-")]
    if names[:1] == ["run"] and len(names) > 1 and names[1] not in EXPERIMENTS:
        near = difflib.get_close_matches(names[1], EXPERIMENTS)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(EXPERIMENTS)}"
        print(f"xpsample run: no experiment is called {names[1]!r}; {hint}", file=sys.stderr)
        return 2  # as argparse's
    args = _parser(argv).parse_args(argv)
    return args.command(args)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for a command line of these words: of experiments and the suite, only those named are imported."""
    as_module = Path(sys.argv[0]).parts[-2:] == ("xpsample", "__main__.py")
    prog = "python -m xpsample" if as_module else "xpsample"
    again = shlex.join([*prog.split(), *words])
    parser = argparse.ArgumentParser(
        prog=prog, description=xpsample.__doc__, epilog=f"Start with: {prog} run breast-cancer"
    )
    parser.add_argument("--version", action="version", version=f"xpsample {xpsample.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="show experiments, kernels and array libraries")
    listing.add_argument("--json", action="store_true", help="as JSON, for programs")
    listing.set_defaults(command=_list)

    run = commands.add_parser(
        "run", help="run an experiment", description=f"Run an experiment; `{prog} run NAME --help` shows its options."
    )
    experiments = run.add_subparsers(title="experiments", metavar="NAME", required=True)
    for name, entry in EXPERIMENTS.items():
        one = experiments.add_parser(name, help=_summary(entry), description=_summary(entry))
        if name in words:
            _delegate(one, entry.load(), again)

    cite = commands.add_parser("citation", help="print BibTeX of a method")
    named = cite.add_argument("names", nargs="*", metavar="NAME", help="such as srmc or hmc; none lists those known")
    named.completer = _known_names  # type: ignore[attr-defined]  # for argcomplete
    cite.set_defaults(command=_citation)

    about = "check kernels on the installed array libraries"
    conformance = commands.add_parser("conformance", help=about, description=f"{about.capitalize()}.")
    if "conformance" in words:
        _delegate(conformance, import_module("xpsample.conformance.cli"), again)
    return parser


def _delegate(parser: argparse.ArgumentParser, module: Any, again: str) -> None:
    """Add the command of a module with ``add_arguments(parser)`` and ``run(args) -> int``, typed as `again`."""
    module.add_arguments(parser)
    parser.set_defaults(command=module.run, again=again)


def _summary(entry: Entry) -> str:
    return f"{entry.paper} paper, {entry.summary}" if entry.paper else entry.summary


def _known_names(**_: Any) -> list[str]:
    from xpsample.citation import known_names

    return known_names()


def _citation(args: argparse.Namespace) -> int:
    from xpsample.citation import citation

    if args.names:
        print(citation(*args.names))
    else:
        print("xpsample citation NAME prints BibTeX; the names are:\n  " + "\n  ".join(_known_names()))
    return 0


def _list(args: argparse.Namespace) -> int:
    sections = {
        "experiments": ("Experiments (xpsample run NAME)", _experiments),
        "kernels": ("Kernels (xpsample.NAME)", _kernels),
        "libraries": ("Array libraries", _libraries),
    }
    rows: dict[str, list[dict[str, str]]] = {}
    with Progress("loading array libraries") as progress:
        for kind, (title, find) in sections.items():
            rows[kind] = [{"name": name, "group": group, "about": about} for name, group, about in find()]
            if not args.json:
                width, lines = max(len(row["name"]) for row in rows[kind]), [title]
                for group, members in itertools.groupby(rows[kind], lambda row: row["group"]):
                    lines += ["", f"  {group}"] if group else []
                    lines += [f"    {row['name']:{width}}  {row['about']}" for row in members]
                progress.say("\n".join(lines) + "\n")
        if args.json:
            progress.say(json.dumps(rows, indent=2))
    return 0


def _experiments() -> Iterator[tuple[str, str, str]]:
    for paper, title in PAPERS.items():
        yield from ((name, title, entry.summary) for name, entry in EXPERIMENTS.items() if entry.paper == paper)


def _kernels() -> Iterator[tuple[str, str, str]]:
    """Names of the kernels at the root, their groups, and the first lines of their docstrings."""
    from xpsample.kernels import Kernel

    groups = {  # the last whose package a kernel is defined in
        "xpsample": "of the papers",
        "xpsample.kernels": "on real spaces, and around other kernels",
        "xpsample.kernels.discrete": "on discrete spaces",
        "xpsample.particles": "of particles",
    }
    found = []
    for name in dir(xpsample):
        kind = getattr(xpsample, name)
        if isinstance(kind, type) and issubclass(kind, Kernel):
            package = max((p for p in groups if kind.__module__.startswith(p)), key=len)
            found.append((name, groups[package], " ".join((kind.__doc__ or "").partition("\n\n")[0].split())))
    for group in groups.values():
        yield from (row for row in found if row[1] == group)


def _libraries() -> Iterator[tuple[str, str, str]]:
    from xpsample.core.registry import registered_backends

    return ((name, "", _devices(name)) for name in registered_backends())


def _devices(name: str) -> str:
    from xpsample.core.registry import backend_named, installed_backends

    if name not in installed_backends():
        return "not installed"
    try:
        devices = backend_named(name).devices()
    except BackendError as error:
        return str(error)
    return ", ".join(f"{d.name} ({', '.join(d.dtypes)})" for d in devices) or "installed, no device found"
