"""Sphinx settings. ``sphinx-build -W --keep-going -b html docs docs/_build/html`` needs no network."""

import os
import re
import sys
from pathlib import Path
from typing import Any

from numpydoc.xref import DEFAULT_LINKS

import xpsample

sys.path.insert(0, str(Path(__file__).parent))

project = "xpsample"
author = "The xpsample developers"
copyright = "2026, The xpsample developers"  # noqa: A001 (Sphinx's name)
version = release = xpsample.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "numpydoc",
]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # the tutorials run again where they have changed
nb_execution_timeout = 120
nb_execution_raise_on_error = True
os.environ["TQDM_DISABLE"] = "1"  # a page needs no progress bars
exclude_patterns = ["_build", "_generated", "support.md"]
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = True  # types of parameters link to their pages
numpydoc_xref_ignore = "all"  # but for these
numpydoc_xref_aliases = {word: word for word in DEFAULT_LINKS}
numpydoc_xref_aliases |= {name: f"xpsample.{name}" for name in xpsample.__all__}
numpydoc_xref_aliases |= {
    "AbstractTarget": "xpsample.targets.AbstractTarget",
    "Acceptance": "xpsample.targets.Acceptance",
    "GradientChoice": "xpsample.gradients.GradientChoice",
    "Kernel": "xpsample.kernels.Kernel",
    "NoiseSource": "xpsample.sampling.noise.NoiseSource",
    "Recorder": "xpsample.trace.recorders.Recorder",
    "RunStatistics": "xpsample.trace.trace.RunStatistics",
    "Space": "xpsample.spaces.Space",
}

html_theme = "furo"
html_title = f"xpsample {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "search.js")
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1f5f99",
        "color-brand-content": "#1f5f99",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb3d5",
        "color-brand-content": "#7fb3d5",
    },
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# All of their colors for code have a contrast of 4.5 or more.
pygments_style, pygments_dark_style = "default", "monokai"

SITE = os.environ.get("READTHEDOCS_CANONICAL_URL")
if SITE:  # where the site will be; only then is the network needed, for the inventories of other projects
    extensions += ["sphinx.ext.intersphinx", "sphinxext.opengraph"]
    html_baseurl = ogp_site_url = SITE
    picture = "_generated/pictures/hmc.png"
    ogp_social_cards = {
        "image": picture,
        "image_mini": picture,
        "line_color": "#1f5f99",
    }
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3/", None),
        "numpy": ("https://numpy.org/doc/stable/", None),
        "array-api": ("https://data-apis.org/array-api/latest/", None),
        "torch": ("https://docs.pytorch.org/docs/stable/", None),
        "jax": ("https://docs.jax.dev/en/latest/", None),
        "arviz": ("https://python.arviz.org/en/stable/", None),
    }
    numpydoc_xref_aliases |= DEFAULT_LINKS | {
        "array": "array_api.array",
        "bool": ":class:`python:bool`",
    }
    numpydoc_xref_aliases |= {
        name: f":class:`{name}`"
        for name in ("numpy.ndarray", "torch.nn.Module", "pathlib.Path")
    }
    html_theme_options |= {  # links to edit a page
        "source_repository": os.environ.get(
            "READTHEDOCS_GIT_CLONE_URL", ""
        ).removesuffix(".git"),
        "source_branch": "main",
        "source_directory": "docs/",
    }

GENERATED = Path(__file__).parent / "_generated"


def draw_pictures(app: Any) -> None:
    """Draw the pictures of the algorithms."""
    import pictures  # in this folder

    pictures.draw_all(GENERATED / "pictures")


def escape_shapes(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Shapes such as (*chains, dim) are no emphasis: escape their stars outside literals."""
    for i, line in enumerate(lines):
        parts = re.split(r"(``.*?``)", line)
        parts[::2] = [re.sub(r"\*(?=[a-z])", r"\\*", part) for part in parts[::2]]
        lines[i] = "".join(parts)


def link_classes(app: Any, env: Any, node: Any, content: Any) -> Any:
    """The classes of `xpsample` by their own names, in the docstrings of its rooms too."""
    name = node["reftarget"]
    if (
        node.get("refdomain") != "py"
        or name.split(".")[0] not in xpsample.__all__
        or not name[:1].isupper()
    ):
        return None
    found = f"xpsample.{name}"
    return env.get_domain("py").resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], found, node, content
    )


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.connect("missing-reference", link_classes)
    app.connect("builder-inited", draw_pictures)
    app.connect("autodoc-process-docstring", escape_shapes, priority=100)
