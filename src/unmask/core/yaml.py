"""YAML restricted to the types of JSON: no dates, octals, underscores, aliases or foreign tags.

A scalar that looks like another type stays text. Keys of a mapping are text, and each occurs once. This module is
imported with the first YAML file, because the yaml package loads slowly.
"""

from __future__ import annotations

import math
import re
from typing import Any

from unmask.core.errors import needed, shown

with needed("sweep", "a file of YAML"):
    import yaml
    from yaml import YAMLError
    from yaml.composer import ComposerError
    from yaml.constructor import ConstructorError

__all__ = ["YAMLError", "parse"]

TAG = "tag:yaml.org,2002:"
PLAIN = {  # pattern and first characters
    "null": (r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
}


def parse(text: str, depth: int) -> Any:
    """The content of a text of one document; raises a YAMLError, or a ValueError of the parser."""
    loader = _Loader(text, depth)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A loader with fewer resolvers and constructors than its parent."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 -- as their class declares them
    yaml_constructors: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text)
        self.depth = depth  # levels that are left

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "an alias; write its content", self.peek_event().start_mark)
        if self.depth < 0:
            raise ComposerError(None, None, "it is nested too deep", self.peek_event().start_mark)
        self.depth -= 1
        node = super().compose_node(parent, index)
        self.depth += 1
        return node

    def plain(self, node: Any) -> Any:
        text = self.construct_scalar(node)
        kind = node.tag.removeprefix(TAG)
        if not re.fullmatch(PLAIN[kind][0], text):
            raise ConstructorError(None, None, f"{shown(text)} is no {kind}", node.start_mark)
        if kind == "bool":
            return text.lower() == "true"
        value = None if kind == "null" else int(text) if kind == "int" else float(text)
        if value in (math.inf, -math.inf):
            raise ConstructorError(None, None, "a number is too large", node.start_mark)
        return value

    def text(self, node: Any) -> str:
        text = str(self.construct_scalar(node))
        text.encode()  # an error for half of a pair of surrogates
        return text

    def mapping(self, node: Any) -> dict[str, Any]:
        names = [self.construct_object(name, deep=True) for name, _ in node.value]
        for name, (part, _) in zip(names, node.value, strict=True):
            if not isinstance(name, str) or names.count(name) > 1:
                problem = "occurs twice" if isinstance(name, str) else "is not a name; write it in quotes"
                raise ConstructorError(None, None, f"{shown(name)} {problem}", part.start_mark)
        return {name: self.construct_object(part, deep=True) for name, (_, part) in zip(names, node.value, strict=True)}


for _kind, (_pattern, _first) in PLAIN.items():
    _Loader.add_implicit_resolver(TAG + _kind, re.compile(f"^{_pattern}$"), _first)
    _Loader.add_constructor(TAG + _kind, _Loader.plain)
_Loader.add_constructor(f"{TAG}str", _Loader.text)
_Loader.add_constructor(f"{TAG}seq", lambda loader, node: loader.construct_sequence(node, deep=True))
_Loader.add_constructor(f"{TAG}map", _Loader.mapping)
_Loader.add_constructor(None, _Loader.construct_undefined)
