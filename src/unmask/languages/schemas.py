"""Regular expressions of JSON texts: those of a template, and those of a JSON Schema.

A schema writes the named parts, and nothing else: an object has the keys of `properties`, in order, and a value the
types that its keywords are about. So each text that matches is a valid one, in one of its spellings, and not each valid
one matches. `oneOf` alone can accept more: it is read as `anyOf`. Parts that hold together (`allOf`, `$ref` and their
neighbors) are merged, keyword by keyword.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from operator import neg
from pathlib import Path
from typing import Any, Literal, NoReturn
from urllib.parse import unquote

from unmask.core.entries import chosen, mapped, perhaps, present, without
from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.reading import DEPTH, fit, read_json
from unmask.languages.patterns import LONGEST
from unmask.languages.quoted import CHARACTER, Quoted
from unmask.languages.ranges import MOST_DIGITS, Bound, digits_behind, least, numbers, written

TYPES = {  # of values in a JSON template
    "integer": "-?(0|[1-9][0-9]*)",
    "number": r"-?(0|[1-9][0-9]*)(\.[0-9]+)?",
    "string": '"[^"\\\\\x00-\x1f]*"',
    "boolean": "true|false",
    "null": "null",
}
MOST_WORK = 2**21  # characters that are written and keywords that are merged: at most two seconds
MOST_MULTIPLES = 1000
PLACES = 6  # digits behind the point of a number with bounds
ALONE = "a schema without recursion"
LEVELS = 2  # of lists and objects in a value that may be any
Kind = Literal["object", "array", "string", "number", "integer", "boolean", "null"]
KEYWORDS: dict[str, Any] = {  # with the types of their values
    "type": Kind | list[Kind],
    "enum": list[Any],
    "const": Any,
    "$ref": str,
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), list[Any]),
    "properties": dict[str, Any],
    "required": list[str],
    **dict.fromkeys(("additionalProperties", "items"), dict[str, Any] | bool),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), int),
    **dict.fromkeys(("pattern", "format"), str),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), int | float),
}
OF_TYPE = {  # the keywords that are about one type
    "object": {"properties", "required", "additionalProperties"},
    "array": {"prefixItems", "items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "integer": set[str](),
    "boolean": set[str](),
    "null": set[str](),
}
NOTES = {"$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples"}
NOTES |= {"deprecated", "readOnly", "writeOnly"}  # keywords that constrain nothing
KINDS = {dict: "object", list: "array", str: "string", float: "number", int: "integer", bool: "boolean"}
WIDER = {"integer": "number"}
DAYS = "(0[1-9]|1[0-9]|2[0-8])"
LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
DATE = f"([0-9]{{4}}-((0[1-9]|1[0-2])-{DAYS}|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|{LEAP}-02-29)"
CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"{CLOCK}:[0-5][0-9](\.[0-9]+)?(Z|[+-]{CLOCK})"
BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
FORMATS = {
    "date": f"^{DATE}$",
    "time": f"^{TIME}$",
    "date-time": f"^{DATE}T{TIME}$",
    "uuid": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "ipv4": rf"^{BYTE}(\.{BYTE}){{3}}$",
}
Where = tuple[str, ...]  # the way to a part of a schema
Form = dict[str, Any]  # a part of a schema, checked


def schema(template: Any, depth: int = DEPTH) -> str:
    """The regular expression of the JSON texts of a template: {"name": "string", "age": "integer", "who": ["a", "b"]}.

    A mapping has exactly its keys, in order. A list is a choice of values. A text names a type: integer, number,
    string, boolean or null. One space may follow a comma or a colon. A letter beyond ASCII may be written as its code.
    """
    if not depth:
        raise UnmaskError(f"the template is nested more than {DEPTH} deep; expected fewer levels")

    if isinstance(template, dict):
        pairs = [f"{_written(str(key))}: ?{schema(value, depth - 1)}" for key, value in template.items()]
        return r"\{" + ", ?".join(pairs) + r"\}"
    if isinstance(template, list) and template:
        return "(" + "|".join(map(_written, template)) + ")"
    if isinstance(template, str) and template in TYPES:
        return f"({TYPES[template]})"

    raise UnmaskError(
        f"the template has {shown(template)}", f"expected a mapping, a list of values, or one of {', '.join(TYPES)}"
    )


def _written(value: Any) -> str:
    """The regular expression of a value in JSON: each letter beyond ASCII as itself, or as its code."""
    text = re.escape(json.dumps(value, ensure_ascii=False))
    return re.sub("[^\x00-\x7f]", lambda sign: f"({sign[0]}|{re.escape(json.dumps(sign[0])[1:-1])})", text)


def read_schema(path: str | Path) -> str:
    """The JSON texts of a template or a JSON Schema in a file; spaces and line ends may follow, to fill the length.

    A JSON Schema has the key `$schema`, or the type "object" and `properties`.
    """
    form = read_json(path, most=4 * LONGEST)
    named = isinstance(form, dict) and ("$schema" in form or (form.get("type") == "object" and "properties" in form))
    return (json_schema if named else schema)(form) + r"[ \n]*"


def json_schema(form: Any) -> str:
    """The regular expression of JSON texts that are valid by a JSON Schema, draft 2020-12 (docs/joint-draws.md)."""
    pattern = Reading(form).pattern(form, ("#",))
    if pattern is None:
        raise UnmaskError(
            "no JSON text is valid by the schema; expected one that allows some. Look for opposed limits."
        )
    return pattern


def path(at: Where) -> str:
    """The way from the last reference."""
    return cut("/".join(at[max(number for number, part in enumerate(at) if part.startswith("#")) :]))


def either(texts: Iterable[str | None]) -> str | None:
    """An alternative of the texts that there are."""
    parts = dict.fromkeys(present(texts))
    return f"({'|'.join(parts)})" if parts else None


def times(text: str, least: int, most: int | None) -> str:
    return f"{text}{{{least},{chosen(most, '')}}}"


def anything(levels: int) -> str:
    """Any JSON value, with lists and objects up to this depth."""
    string = f'"{CHARACTER}*"'
    plain = f"{TYPES['number']}|{TYPES['boolean']}|null|{string}"
    if not levels:
        return f"({plain})"
    item = anything(levels - 1)
    return rf"({plain}|\[({item}(, ?{item})*)?\]|\{{({string}: ?{item}(, ?{string}: ?{item})*)?\}})"


ANY = anything(LEVELS)


def both(*parts: Any) -> Any:
    """The part of a schema in which some hold together."""
    limits = [part for part in parts if part is not True]
    return limits[0] if len(limits) == 1 else {"allOf": limits}


MERGED: dict[str, Callable[..., Any]] = {  # two values of a keyword; of others, two that differ are refused
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
    **dict.fromkeys(("items", "additionalProperties"), both),
    "type": lambda *lists: [kind for kind in OF_TYPE if all({kind, WIDER.get(kind)} & {*one} for one in lists)],
    "required": lambda one, other: [*dict.fromkeys((*one, *other))],
    "enum": lambda one, other: [
        *({repr(value): value for value in one if repr(value) in {*map(repr, other)}}).values()
    ],
    "allOf": lambda one, other: [*one, *other],
}


class Reading:
    """The way through a schema. If every text is invalid, a pattern becomes None."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.work = 0

    def refuse(self, at: Where, problem: str, advice: str) -> NoReturn:
        raise UnmaskError(f"the schema {problem} at {path(at)}; expected {advice}")

    def spend(self, work: int) -> None:
        self.work += work
        if self.work > MOST_WORK:
            raise UnmaskError(f"the schema needs over {MOST_WORK} steps to become a pattern; expected a smaller one")

    def pattern(self, form: Any, at: Where) -> str | None:
        """The regular expression of the texts of a part of the schema."""
        if len(at) > DEPTH:
            for part in at:
                if part.startswith("#") and at.count(part) > 1:
                    self.refuse(at[: at.index(part) + 1], f"refers to {cut(part)} within itself", ALONE)
            self.refuse(at[:9], f"is nested more than {DEPTH} deep", ALONE)
        choice = self.choice(self.checked(form, at), at)
        self.spend(len(choice or ""))
        return choice

    def checked(self, form: Any, at: Where) -> Form:
        """The keywords of a part that constrain it, in one form: a list of types, and `enum` for `const` and false."""
        form = fit(form, dict[str, Any] | bool, f"the schema at {path(at)}")
        if isinstance(form, bool):
            return {} if form else {"enum": []}

        self.spend(128 + 8 * _entries(form))
        limits: Form = {}
        for keyword, value in form.items():
            if keyword in NOTES or (keyword == "$id" and at == ("#",)):
                continue
            if keyword not in KEYWORDS:
                self.refuse(at, f"has {shown(keyword)}, which is not supported,", f"only {', '.join(KEYWORDS)}")
            limits[keyword] = fit(value, KEYWORDS[keyword], f"{keyword} of the schema at {path(at)}")

        if "const" in limits:
            limits = self.merged(limits, {"enum": [limits.pop("const")]}, at)
        if isinstance(limits.get("type"), str):
            limits["type"] = [limits["type"]]
        return limits

    def merged(self, one: Form, other: Form, at: Where) -> Form:
        """One part of a schema for two that hold together."""
        self.spend(_entries(one) + _entries(other))
        whole = other | one
        if "prefixItems" in whole and ("items" in one or "prefixItems" in one) and {"items", "prefixItems"} & {*other}:
            self.refuse(at, "has prefixItems and other items that hold together", "one list of them")

        # a key of one side is of the other side's named keys, or of its rest
        about = {"properties", "additionalProperties"}
        if "properties" in whole and about & one.keys() and about & other.keys():
            ones, others = one.get("properties", {}), other.get("properties", {})
            rest, other_rest = one.get("additionalProperties", True), other.get("additionalProperties", True)
            self.spend(16 * len(ones | others))
            whole["properties"] = {key: both(ones.get(key, rest), others.get(key, other_rest)) for key in ones | others}

        for keyword in (one.keys() & other.keys()) - {"properties"}:
            if keyword in MERGED:
                whole[keyword] = MERGED[keyword](one[keyword], other[keyword])
            elif keyword in ("$ref", "anyOf", "oneOf"):  # the second one is merged after the first
                whole["allOf"] = [*whole.get("allOf", ()), {keyword: other[keyword]}]
            elif one[keyword] != other[keyword]:
                self.refuse(at, f"has two of {keyword} that hold together", "one")
        return whole

    def choice(self, form: Form, at: Where) -> str | None:
        for keyword in ("anyOf", "oneOf"):
            if keyword in form:
                rest = without(form, [keyword])
                branches = [(branch, (*at, f"{keyword}/{number}")) for number, branch in enumerate(form[keyword])]
                return either(self.pattern(self.merged(rest, self.checked(*way), at), way[1]) for way in branches)

        if "$ref" in form:
            name = form.pop("$ref")
            there = (*at, name)
            return self.pattern(self.merged(form, self.checked(self.target(name, at), there), there), there)
        if "allOf" in form:
            for part in form.pop("allOf"):
                form = self.merged(form, self.checked(part, (*at, "allOf")), at)
            return self.pattern(form, (*at, "allOf"))
        if not form:
            return ANY

        about = [kind for kind, keywords in OF_TYPE.items() if keywords & form.keys()]
        kinds = form.get("type", about)
        if "enum" in form:
            if beside := form.keys() - {"enum", "type"}:
                self.refuse(at, f"has {min(beside)} beside enum or const", "only type beside them")
            values = [value for value in form["enum"] if "type" not in form or fits(value, kinds)]
            return either(self.constant(value, at) for value in values)

        ways = {"object": self.object, "array": self.array, "string": self.string, "number": self.number}
        kinds = [kind for kind in kinds if WIDER.get(kind) not in kinds]
        return either(ways.get(WIDER.get(kind, kind), self.fixed)(kind, form, at) for kind in kinds)

    def fixed(self, kind: str, form: Form, at: Where) -> str | None:
        """The values of a type without keywords."""
        return f"({TYPES[kind]})"

    def target(self, name: str, at: Where) -> Any:
        """The part of the schema that a reference leads to."""
        node = self.root
        if name != "#" and not name.startswith("#/"):
            self.refuse(at, f"refers to {shown(name)}", "a reference within the schema: #/$defs/..")
        for part in unquote(name).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(part) if isinstance(node, list) else part]
            except (LookupError, TypeError, ValueError):
                self.refuse(at, f"refers to {shown(name)}, which is not there,", "the name of a part")
        return node

    def constant(self, value: Any, at: Where) -> str | None:
        """A value, with or without spaces."""
        if isinstance(value, dict):
            keys = {name: {"const": inner} for name, inner in value.items()}
            return self.pattern({"type": "object", "properties": keys, "required": [*keys]}, (*at, "const"))
        if isinstance(value, list):
            items = [{"const": inner} for inner in value]
            return self.pattern({"prefixItems": items, "items": False, "minItems": len(items)}, (*at, "const"))
        text = _written(value)
        self.spend(8 * len(text))
        return text

    def object(self, kind: str, form: Form, at: Where) -> str | None:
        required = {*form.get("required", ())}
        named = form.get("properties", {})
        other = form.get("additionalProperties", True)
        pairs = []
        for key, value in (named | {key: other for key in form.get("required", ()) if key not in named}).items():
            text = self.pattern(value, (*at, f"properties/{key}"))
            if text is None and key in required:
                return None
            if text is not None:
                pairs.append((f"{_written(key)}: ?{text}", key in required))

        if "properties" not in form and not pairs:  # any keys
            text = self.pattern(other, (*at, "additionalProperties"))
            if text is not None:
                pair = f'"{CHARACTER}*": ?{text}'
                return rf"\{{({pair}(, ?{pair})*)?\}}"
        return rf"\{{{in_order(pairs)}\}}"

    def array(self, kind: str, form: Form, at: Where) -> str | None:
        least, most = form.get("minItems", 0), form.get("maxItems")
        first = form.get("prefixItems", [])[:most]
        texts = [self.pattern(item, (*at, f"prefixItems/{number}")) for number, item in enumerate(first)]
        more = self.pattern(form.get("items", not first or least > len(first)), (*at, "items"))

        if None in texts:
            more = None
            most = texts.index(None)
        elif more is None:
            most = len(texts)
        if most is not None and most < least:
            return None
        if not texts and more is not None and most != 0:
            texts = [more]
        texts = texts[:most]

        tail = ""
        if more is not None and texts:
            left = None if most is None else most - len(texts)
            tail = times(f"(, ?{more})", max(least - len(texts), 0), left)
        begins = (f"{'(' * (number >= least)}{', ?' * (number > 0)}{text}" for number, text in enumerate(texts))
        return rf"\[{''.join(begins)}{tail}{')?' * max(len(texts) - least, 0)}\]"

    def string(self, kind: str, form: Form, at: Where) -> str | None:
        least, most = form.get("minLength", 0), form.get("maxLength")
        wanted = form.get("pattern")
        if "format" in form:
            if form["format"] not in FORMATS or wanted is not None:
                problem = f"has the format {shown(form['format'])}"
                self.refuse(at, problem, f"{', '.join(FORMATS)}; or a pattern")
            wanted = FORMATS[form["format"]]

        if wanted is not None:
            inner = Quoted(wanted, self.spend).between(least, most)
        elif most is None or least <= most:
            inner = times(CHARACTER, least, most)
        else:
            return None
        return perhaps('"{}"'.format, inner)

    def number(self, kind: str, form: Form, at: Where) -> str | None:
        """Numbers by their bounds, with up to 6 digits after the point, or the number that the bounds have."""
        values = {keyword: Fraction(str(form[keyword])) for keyword in OF_TYPE["number"] & form.keys()}
        if not values:
            return self.fixed(kind, form, at)
        for keyword, value in values.items():
            if abs(value) >= 10**MOST_DIGITS or value * 10**MOST_DIGITS % 1 or (keyword == "multipleOf" and value <= 0):
                limit = f"at most {MOST_DIGITS} digits on each side of the point"
                self.refuse(at, f"has {keyword} {form[keyword]}", f"{limit}, and a positive multipleOf")

        low = _tightest(values, "minimum", "exclusiveMinimum")
        minus_high = _tightest(mapped(neg, values), "maximum", "exclusiveMaximum")
        step = values.get("multipleOf")
        places = 0
        if kind == "number":
            places = max(PLACES, *map(digits_behind, values.values())) if step is None else digits_behind(step)
        if step is None or not Fraction(1, 10**places) % step:
            return either(numbers(low, minus_high, places))

        first = least(low, places)
        minus_last = least(minus_high, places)
        unit = int(step * 10**places) if places else step.numerator
        if -minus_last - first > MOST_MULTIPLES * unit:
            expected = f"a power of ten, or a minimum and a maximum with {MOST_MULTIPLES} multiples between them"
            self.refuse(at, f"has multipleOf {form['multipleOf']}", expected)

        multiples = range(-(-int(first) // unit) * unit, 1 - int(minus_last), unit)
        return either("-" * (one < 0) + re.escape(written(abs(one), places)) for one in multiples)


def _entries(form: Form) -> int:
    """How much a part of a schema lists."""
    return sum(len(value) for value in form.values() if isinstance(value, list | dict))


def _tightest(values: dict[str, Fraction], inside: str, outside: str) -> Bound:
    """The largest of the limits that there are, and whether it is itself left out."""
    limits = [(values[name], name == outside) for name in (inside, outside) if name in values]
    return max(limits, default=None)


def fits(value: Any, kinds: list[str]) -> bool:
    """Whether a value has one of the types."""
    kind = KINDS.get(type(value), "null")
    return kind in kinds or WIDER.get(kind) in kinds


def in_order(pairs: list[tuple[str, bool]]) -> str:
    """Keys with their values, in order, and commas between those that are there."""
    first = next((number for number, (_, needed) in enumerate(pairs) if needed), None)
    if first is None:
        return f"({some([text for text, _ in pairs])})?" if pairs else ""

    texts = [f"({text}, ?)?" for text, _ in pairs[:first]]
    texts.append(pairs[first][0])
    for text, needed in pairs[first + 1 :]:
        texts.append(f"(, ?{text})" if needed else f"(, ?{text})?")
    return "".join(texts)


def some(texts: list[str]) -> str:
    """At least one of the texts, with commas: one of the first half and any others, or one of the second half."""
    if len(texts) == 1:
        return texts[0]
    middle = len(texts) // 2
    others = "".join(f"(, ?{text})?" for text in texts[middle:])
    return f"({some(texts[:middle])}{others}|{some(texts[middle:])})"
