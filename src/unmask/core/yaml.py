"""YAML restricted to the types of JSON: no dates, octals, underscores, aliases or tags.

A scalar that looks like another type stays text. Keys of a mapping are text, and each occurs once. This module is
imported with the first YAML file, because the yaml package loads slowly.
"""

from __future__ import annotations

import math
import re
from typing import Any

from unmask.core.entries import perhaps
from unmask.core.errors import needed, shown

with needed("sweep", "a file of YAML"):
    import yaml
    from yaml import MarkedYAMLError

YAMLError = yaml.YAMLError
FORMS = (str.lower, str.title, str.upper)
CONSTANTS = {"null": None, "true": True, "false": False}
WORDS = {"": None, "~": None} | {form(word): value for word, value in CONSTANTS.items() for form in FORMS}
WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
NUMBER = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")


def parse(text: str, depth: int) -> Any:
    """The content of a text of one document; raises a YAMLError, or a ValueError of the parser."""
    loader = _Loader(text)
    loader.depth = depth
    try:
        node = loader.get_single_node()
    finally:
        loader.dispose()
    return perhaps(_value, node)


class _Loader(yaml.BaseLoader):  # type: ignore[misc]
    """Nodes without aliases and tags, nested at most to a depth."""

    depth: int  # levels that are left

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = "an alias; write its content"
        elif tag := getattr(event, "tag", None):
            problem = f"the tag {shown(tag)}; leave it out"
        elif self.depth < 0:
            problem = "it is nested too deep"
        if problem is not None:
            raise MarkedYAMLError(None, None, problem, event.start_mark)

        self.depth -= 1
        node = super().compose_node(parent, index)
        self.depth += 1
        return node


def _value(node: Any) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return list(map(_value, node.value))
    if isinstance(node, yaml.MappingNode):
        content = dict[str, Any]()
        for key, value in node.value:
            if not isinstance(name := _value(key), str) or name in content:
                problem = "occurs twice" if isinstance(name, str) else "is not a name; write it in quotes"
                raise MarkedYAMLError(None, None, f"{shown(name)} {problem}", key.start_mark)
            content[name] = _value(value)
        return content
    text = str(node.value)
    text.encode()  # an error for half of a pair of surrogates
    if node.style:  # in quotes, or a block
        return text
    if text in WORDS:
        return WORDS[text]
    if WHOLE.fullmatch(text):
        return int(text)
    if not NUMBER.fullmatch(text):
        return text
    if math.isinf(number := float(text)):
        raise MarkedYAMLError(None, None, "a number is too large", node.start_mark)
    return number
