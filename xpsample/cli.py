"""The command line: `xpsample list`, `run NAME`, `citation NAME`, `conformance`."""

import argparse
import difflib
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import xpsample
from xpsample.citation import citation, known_names
from xpsample.core.errors import BackendError, XpsampleError
from xpsample.core.registry import backend_named, installed_backends, registered_backends
from xpsample.experiments import EXPERIMENTS
from xpsample.kernels import Kernel

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process when not given.

    Returns
    -------
    int
        Exit code: 0, 1 for an error that xpsample reports, 2 for a command that is not understood.
    """
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if args.command is _conformance:
        args.options = rest  # argparse.REMAINDER takes no option as the first of the rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return args.command(args)
    except XpsampleError as error:
        print(f"xpsample: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xpsample",
        description=xpsample.__doc__,
        epilog="Start with: xpsample run breast-cancer",
    )
    parser.add_argument("--version", action="version", version=f"xpsample {xpsample.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="show experiments, kernels and array libraries")
    listing.set_defaults(command=_list)

    run = commands.add_parser(
        "run",
        help="run an experiment",
        description="Run an experiment; `xpsample run NAME --help` shows its options.",
        epilog=f"experiments: {', '.join(EXPERIMENTS)}",
    )
    run.add_argument("name", metavar="NAME", help="an experiment of `xpsample list`")
    run.add_argument("options", nargs=argparse.REMAINDER, help="its options")
    run.set_defaults(command=_run)

    cite = commands.add_parser("citation", help="print BibTeX of a method")
    cite.add_argument("names", nargs="*", metavar="NAME", help="such as srmc or hmc; none lists those known")
    cite.set_defaults(command=_citation)

    conformance = commands.add_parser(
        "conformance",
        help="check kernels on the installed array libraries",
        description="Check kernels on the installed array libraries; options go to the suite.",
        add_help=False,
    )
    conformance.set_defaults(command=_conformance)
    return parser


def _run(args: argparse.Namespace) -> int:
    experiment = EXPERIMENTS.get(args.name)
    if experiment is None:
        near = difflib.get_close_matches(args.name, EXPERIMENTS)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(EXPERIMENTS)}"
        print(f"xpsample run: no experiment is called {args.name!r}; {hint}", file=sys.stderr)
        return USAGE_ERROR
    return _delegate(experiment.load(), f"xpsample run {args.name}", experiment.summary, args.options)


def _conformance(args: argparse.Namespace) -> int:
    module = import_module("xpsample.conformance.cli")
    return _delegate(module, "xpsample conformance", module.__doc__, args.options)


def _delegate(module: Any, prog: str, description: str | None, options: Sequence[str]) -> int:
    """Run a module that has ``add_arguments(parser)`` and ``run(args) -> int``."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    module.add_arguments(parser)
    return module.run(parser.parse_args(options))


def _citation(args: argparse.Namespace) -> int:
    if args.names:
        print(citation(*args.names))
    else:
        print("xpsample citation NAME prints BibTeX; the names are:\n  " + "\n  ".join(known_names()))
    return 0


def _list(args: argparse.Namespace) -> int:
    _section("Experiments (xpsample run NAME)", [(name, e.summary) for name, e in EXPERIMENTS.items()])
    found = ((name, getattr(xpsample, name)) for name in sorted(xpsample.__all__))
    kernels = [(name, _first_line(kind)) for name, kind in found if _is_kernel(kind)]
    _section("Kernels (xpsample.NAME)", kernels)
    _section("Array libraries", [(name, _devices(name)) for name in registered_backends()])
    return 0


def _is_kernel(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Kernel)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def _devices(name: str) -> str:
    if name not in installed_backends():
        return "not installed"
    try:
        devices = backend_named(name).devices()
    except BackendError as error:
        return str(error)
    return ", ".join(f"{d.name} ({', '.join(d.dtypes)})" for d in devices) or "installed, no device found"


def _section(title: str, rows: Sequence[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in rows), default=0)
    print(title)
    for name, text in rows:
        print(f"  {name:{width}}  {text}")
    print()
