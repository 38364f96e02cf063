"""YAML restricted to the types of JSON: no dates, octals, underscores, merged mappings or foreign tags.

A scalar that looks like another type stays text. Keys of a mapping are text, and each occurs once. This module is
imported with the first YAML file, because the yaml package loads slowly.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml import YAMLError
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from unmask.core.errors import shown

__all__ = ["YAMLError", "parse"]

TAG = "tag:yaml.org,2002:"
DIGITS = 400  # of a number, at most
PLAIN = {  # pattern, first characters, and name in errors
    "null": (r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""], "null"),
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF"), "true or false"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789"), "a whole number"),
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
        "a number",
    ),
}


def parse(text: str, depth: int) -> Any:
    """The content of a text of one document; raises a YAMLError, or a ValueError of the parser."""
    loader = _Loader(text, depth)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A loader without the resolvers and constructors of its parent."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 -- as their class declares them
    yaml_constructors: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text)
        self.depth, self.deepest = 0, depth

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > self.deepest:
            raise ComposerError(None, None, f"it is more than {self.deepest} deep", self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def scalar(self, node: Any) -> Any:
        kind, text = node.tag.removeprefix(TAG), self.construct_scalar(node)
        pattern, _, wanted = PLAIN[kind]
        if not re.fullmatch(pattern, text) or len(text) > DIGITS:
            raise ConstructorError(None, None, f"{shown(text)} is not {wanted}", node.start_mark)
        if kind == "bool":
            return text.lower() == "true"
        return None if kind == "null" else int(text) if kind == "int" else float(text)

    def sequence(self, node: Any) -> list[Any]:
        return list(self.construct_sequence(node, deep=True))

    def mapping(self, node: Any) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise ConstructorError(None, None, "expected a mapping", node.start_mark)
        entries: dict[str, Any] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):  # its aliases may expand to millions of values
                raise ConstructorError(None, None, f"a {name.id} is not a name; write a text", name.start_mark)
            key = self.construct_object(name, deep=True)
            if not isinstance(key, str):
                raise ConstructorError(None, None, f"{shown(key)} is not a name; write it in quotes", name.start_mark)
            if key in entries:
                raise ConstructorError(None, None, f"{shown(key)} occurs twice in one mapping", name.start_mark)
            entries[key] = self.construct_object(value, deep=True)
        return entries


for _kind, (_pattern, _first, _) in PLAIN.items():
    _Loader.add_implicit_resolver(TAG + _kind, re.compile(f"^{_pattern}$"), _first)
    _Loader.add_constructor(TAG + _kind, _Loader.scalar)
_Loader.add_constructor(f"{TAG}str", _Loader.construct_scalar)
_Loader.add_constructor(f"{TAG}seq", _Loader.sequence)
_Loader.add_constructor(f"{TAG}map", _Loader.mapping)
_Loader.add_constructor(None, _Loader.construct_undefined)
