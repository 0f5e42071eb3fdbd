"""BibTeX for every method, by name or from the kernel that was run."""

import difflib
import re
from dataclasses import fields, is_dataclass
from importlib.resources import files
from typing import Any

from xpsample.core.errors import XpsampleError
from xpsample.core.version import __version__

ALIASES = {
    "independentmh": "independent",
    "underdampedlangevin": "underdamped",
    "srmala": "srmc",
    "srhmc": "srmc",
    "wdbc": "breastcancer",
    "minibatch": "sgld",
    "cosinecycles": "csgld",
    "delayedacceptance": "delayed",
    "temperedsmc": "smc",
    "paralleltempering": "tempering",
    "blocks": "independent",  # Tierney (1994), also on kernels in turn
    "dula": "dlp",
    "dmala": "dlp",
    "singleflip": "rwm",
    "chromaticgibbs": "gibbs",
    "sweep": "rwm",
    "ellipticalslice": "elliptical",
}
"""Other spellings, class names among them, of the keys of `REFERENCES`."""


def _read() -> dict[str, tuple[str, ...]]:
    """The entries of ``references.bib`` by the name of the method that stands before them in a comment."""
    text = files("xpsample").joinpath("references.bib").read_text(encoding="utf-8")
    sections = re.split(r"^% (\S+)\n", text.replace("VERSION", __version__), flags=re.MULTILINE)
    return {
        name: tuple(entry.strip() for entry in re.split(r"\n\n+", entries.strip()))
        for name, entries in zip(sections[1::2], sections[2::2], strict=True)
    }


REFERENCES = _read()
"""BibTeX of every method."""


def citation(*what: Any) -> str:
    """BibTeX entries of methods.

    Parameters
    ----------
    *what : str or kernel
        Names (``"srmc"``, ``"SRMC(HMC)"``; case and hyphens do not matter), or kernels, whose parts are cited with
        them: ``citation(SRMC(HMC(...), alpha=1.0))`` returns SRMC and HMC, as does a kernel's text, such as
        ``trace.metadata["kernel"]``. Nothing gives xpsample itself.

    Returns
    -------
    str
        Every entry once, in the order asked for.

    Raises
    ------
    XpsampleError
        For a name that is not known; the message has the nearest ones.
    """
    entries = [entry for item in what or ("xpsample",) for name in _names(item) for entry in REFERENCES[name]]
    return "\n\n".join(dict.fromkeys(entries))


def known_names() -> list[str]:
    """The names that `citation` takes."""
    return sorted(REFERENCES)


def _names(item: Any) -> list[str]:
    if isinstance(item, str):
        if "=" in item and (shown := re.findall(r"(\w+)\(", item)):
            return [_key(shown[0]), *(_KEYS[name] for name in map(_plain, shown[1:]) if name in _KEYS)]
        return [_key(part) for part in re.split(r"[(),\s]+", item) if part]
    if not is_dataclass(item) or isinstance(item, type):
        raise XpsampleError(f"citation takes names and kernels; got {item!r}")
    return [_key(type(item).__name__), *_parts(item)]


def _parts(owner: Any) -> list[str]:
    """Names of the methods inside a kernel; its other values (schedules, choices) have none and are skipped."""
    names: list[str] = []
    for f in fields(owner):
        value = getattr(owner, f.name)
        if is_dataclass(value) and not isinstance(value, type):
            name = _plain(type(value).__name__)
            names += ([_KEYS[name]] if name in _KEYS else []) + _parts(value)
    return names


def _plain(name: str) -> str:
    return re.sub(r"[-_]", "", name.lower())


_KEYS = {_plain(name): name for name in REFERENCES}
_KEYS |= {alias: _KEYS[name] for alias, name in ALIASES.items()}


def _key(name: str) -> str:
    plain = _plain(name)
    if plain not in _KEYS:
        near = difflib.get_close_matches(plain, _KEYS, n=3)
        known = ", ".join(dict.fromkeys(_KEYS[n] for n in near) if near else known_names())
        raise XpsampleError(
            f"no citation is known for {name!r}; " + (f"did you mean {known}?" if near else f"known: {known}")
        )
    return _KEYS[plain]
