"""The site: `make docs` builds it from these pages and the docstrings, without a network."""

from __future__ import annotations

import inspect
import re
from importlib import import_module, metadata
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import unmask

project, author = "unmask", "The authors of unmask"
version = release = metadata.version("unmask")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["conf.py"]
html_theme = "furo"
html_title = f"unmask {version}"
html_copy_source = html_show_sourcelink = html_show_copyright = html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
html_extra_path: list[str] = []
myst_heading_anchors = 4
myst_links_external_new_tab = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
highlight_language = "python"
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure", "autodoc.import_object"]


class Names(SphinxDirective):
    """`.. names:: unmask.samplers`: what a room's door shows, each with its docstring."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        room = import_module(self.arguments[0])
        lines = []
        names = getattr(room, "PLACES", None) or room.__all__
        for name in sorted(names, key=str.lower):
            thing = getattr(room, name)
            if room is not unmask and getattr(unmask, name, None) is thing:
                continue  # it stands at the front door
            kind = "class" if inspect.isclass(thing) else "function" if callable(thing) else "data"
            lines += [f".. auto{kind}:: {self.arguments[0]}.{name}", "   :members:" if kind == "class" else "", ""]
        return self.parse_text_to_nodes("\n".join(lines))


def as_written(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: paragraphs as they stand, options ("name: what it is") one a line, and what is
    indented as a block of its own."""
    shown: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        found = block.split("\n")
        plain = [re.sub(r"([\\*|_])", r"\\\1", line).strip() for line in found]
        if all(line.startswith(" ") for line in found):
            shown += ["::", "", *found, ""]
        elif all(re.match(r"\w+: | +", line) for line in found):
            shown += [
                *(
                    "  " * line.startswith(" ") + "* " * (not line.startswith(" ")) + text
                    for line, text in zip(found, plain, strict=True)
                ),
                "",
            ]
        else:
            shown += [*plain, ""]
    lines[:] = [re.sub(r"`([^`]+)`", lambda code: f"``{code[1]}``".replace("\\", ""), line) for line in shown]


def setup(app: Sphinx) -> None:
    app.add_directive("names", Names)
    app.connect("autodoc-process-docstring", as_written)
