"""JSON Schema as a regular expression: held against enumeration, and against the validator jsonschema."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import json
import re
import time
import uuid
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.needs import required
from unmask import UnmaskError
from unmask.languages.patterns import regex
from unmask.languages.schemas import json_schema, read_schema

with required("jsonschema"):
    from jsonschema import Draft202012Validator as Validator


def closed(keys, *required, **more):
    return {
        "type": "object",
        "properties": keys,
        "required": [*required],
        "additionalProperties": False,
    } | more


BIT, NULL = {"enum": [0, 1]}, {"type": "null"}
PAIR = {"prefixItems": [BIT, NULL], "items": False, "type": "array"}
OBJECT = ["{", "}", '"a":', '"b": ', '"c":', "0", "null", ",", ", "]
ARRAY = ["[", "]", ", ", ",", "0", "1", "null"]
SCHEMAS = {  # with the parts of texts
    "required": (closed({"a": BIT, "b": NULL, "c": BIT}, "b"), OBJECT),
    "optional": (closed({"a": BIT, "b": NULL, "c": BIT}), OBJECT),
    "both ends": (closed({"a": BIT, "b": NULL, "c": BIT}, "a", "c"), OBJECT),
    "impossible key": (closed({"a": False, "b": {"anyOf": [NULL, BIT]}}, "b"), OBJECT),
    "one of two": (closed({"a": BIT, "b": BIT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]), OBJECT),
    "two choices": ({"allOf": [{"anyOf": [BIT, NULL]}, {"anyOf": [{"const": 0}, NULL]}]}, OBJECT),
    "nested": (closed({"a": closed({"b": BIT}), "c": {"type": ["integer", "null"], "maximum": 0}}, "a"), OBJECT),
    "references": (
        {"$ref": "#/$defs/o", "required": ["a"], "$defs": {"o": closed({"a": {"$ref": "#/$defs/b"}}), "b": BIT}},
        OBJECT,
    ),
    "closed twice": ({"allOf": [closed({"a": BIT, "b": BIT}), closed({"b": BIT, "c": BIT})]}, OBJECT),
    "objects": ({"enum": [{"b": 0}, {"a": None}, 0, {}]}, OBJECT),
    "list": ({"type": "array", "items": BIT}, ARRAY),
    "few": ({"type": "array", "items": BIT, "minItems": 1, "maxItems": 2}, ARRAY),
    "pair": (PAIR, ARRAY),
    "long pair": ({"type": "array", "prefixItems": [BIT, NULL], "items": BIT, "minItems": 1, "maxItems": 3}, ARRAY),
    "three": ({"type": "array", "prefixItems": [BIT], "items": NULL, "minItems": 3}, ARRAY),
    "no second": (PAIR | {"prefixItems": [BIT, False, NULL]}, ARRAY),
    "lists": ({"const": [[0, None]]}, ARRAY),
    "mixed": ({"type": ["array", "integer"], "items": PAIR, "minimum": 1, "maxItems": 1}, ARRAY),
}


def once(pairs):
    """Keys in the order of the alphabet, each once."""
    assert sorted(dict(pairs)) == [key for key, _ in pairs]
    return dict(pairs)


def spelt(validator, text):
    """Whether a text is valid, with the keys in order, and no spaces but one behind a comma or a colon."""
    try:
        value = json.loads(text, object_pairs_hook=once)
    except (json.JSONDecodeError, AssertionError):
        return False
    return validator.is_valid(value) and json.dumps(value, separators=(",", ":")) == re.sub("([,:]) ", r"\1", text)


@pytest.mark.parametrize("name", SCHEMAS)
def test_all_short_texts(name):
    schema, signs = SCHEMAS[name]
    pattern, validator = re.compile(json_schema(schema)), Validator(schema)
    ours = {text for text in texts(signs) if pattern.fullmatch(text)}
    assert ours == {text for text in texts(signs) if spelt(validator, text)}
    assert ours


def texts(signs):
    """Rows of at most seven parts that begin and end alike."""
    inner = ["".join(row) for length in range(6) for row in itertools.product(signs[2:], repeat=length)]
    yield from (signs[0] + one + signs[1] for one in inner)
    yield from (f"{signs[0]}{key}{signs[0]}{one}{signs[1]}{signs[1]}" for one in inner[:700] for key in ('"a":', ""))
    yield from signs


def compiled(schema):
    """The pattern, or one without texts."""
    try:
        return re.compile(json_schema(schema))
    except UnmaskError as error:
        if "no JSON text" not in str(error):
            raise
        return re.compile("(?!)")


BOUNDS = {
    "minimum": Fraction.__ge__,
    "maximum": Fraction.__le__,
    "exclusiveMinimum": Fraction.__gt__,
    "exclusiveMaximum": Fraction.__lt__,
    "multipleOf": lambda number, step: number % step == 0,
}


def allowed(schema, number):
    return all(within(number, Fraction(str(schema[name]))) for name, within in BOUNDS.items() if name in schema)


@pytest.mark.parametrize("seed", range(80))
def test_numbers_between_bounds(seed):
    """Every whole number to 1200, or every decimal to 12.00 in each of its spellings."""
    g = np.random.default_rng(seed)
    digits = 2 * (seed % 2)
    names = [name for name in [*BOUNDS][:4] if g.random() < 0.6] or ["maximum"]
    schema = {"type": "number" if digits else "integer"}
    schema |= {name: round(float(g.uniform(-1, 1) * (14 if digits else 1300)), int(g.integers(3))) for name in names}
    if not digits and {"minimum", "maximum"} <= {*names}:
        schema["multipleOf"] = int(g.integers(3, 20))
    pattern = compiled(schema)
    for count in range(digits + 1):
        for unit in range(-1200, 1201):
            whole, rest = divmod(abs(unit), 10**count)
            text = "-" * (unit < 0) + str(whole) + (f".{rest:0{count}}" if count else "")
            assert (pattern.fullmatch(text) is not None) == allowed(schema, Fraction(unit, 10**count)), text
    assert not any(pattern.fullmatch(text) for text in ("-0", "-0.0", "01", "1.", "-", "", ".5", "+1", "00"))


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({"type": "number", "multipleOf": 0.01, "minimum": 1}, "1 1.5 1.55 2000.01 !1.555 !0.99 !-3"),
        ({"type": "number", "multipleOf": 0.5, "minimum": -1, "maximum": 0.7}, "-1.0 -0.5 0.0 0.5 !1.0 !0.25"),
        ({"type": "number", "maximum": -1e-7}, "-0.0000001 -1 -20.5 !0 !-0.00000001 !1"),
        ({"type": "integer", "multipleOf": 0.1}, "0 -7 123456789 !0.1"),
        ({"type": "integer", "minimum": 10**20}, "100000000000000000000 !99999999999999999999"),
        ({"type": "object", "additionalProperties": {"type": "null"}}, '{} {"b":null,"a":null} !{"a":1} !{a:null}'),
        ({"type": "object"}, '{} {"":[{"a":1}]} !{"a":[[[]]]} ![]'),
        ({"properties": {}}, '{} !{"a":1} !1'),
        ({"required": ["a"]}, '{"a":[[1]]} !{} !{"b":1} !1'),
        ({}, '1.5 "a\\n\\"" [[],{"a":1}] ![[[]]] !"\\x" !"\n" !'),
        ({"items": {"type": "boolean"}}, "[] [true,false] ![1] !true"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, "1 3 2.5 !1.5"),  # as anyOf
        ({"enum": [1, "1", True, None], "type": ["integer", "null"]}, '1 null !"1" !true'),
        ({"type": "number", "const": 3}, "3 !4"),
        ({"allOf": [{"enum": [1, True, 2]}, {"enum": [2, True, 1.0]}]}, "true 2 !1"),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, "null !1"),
        ({"format": "time", "type": "string"}, '"23:59:59Z" "00:00:00.25+01:30" !"24:00:00Z" !"23:59:59"'),
        ({"format": "date-time"}, '"2024-02-29T10:00:00-05:00" !"2023-02-29T10:00:00Z" !"2024-02-29"'),
    ],
)
def test_texts_of_a_schema(schema, texts):
    """A text behind ! does not match."""
    pattern = json_schema(schema)
    for text in texts.split(" "):
        assert (re.fullmatch(pattern, text.removeprefix("!")) is None) == text.startswith("!"), text


PATTERNS = ["a", "^a", "b$", "^a|b$", "^[^a]*$", '^(a|")+$', r"\\", "^.{2}$", r"\s", r"^\S+$", "[b-é]{2}", "^$", ""]
PATTERNS += ["a(b|\n)?$", "(^a|b)$", '^(?:ab?|[\\n"])*?$', "[^\\W]", r"[\s\S]a", "^((a|b$)|é)"]


@pytest.mark.parametrize("wanted", PATTERNS)
def test_patterns_of_strings(wanted):
    """All strings of six characters up to length 4, three of which JSON escapes."""
    pattern = re.compile(json_schema({"type": "string", "pattern": wanted}))
    search = re.compile(wanted.replace("$", r"\Z"), re.ASCII)
    for length in range(5):
        for row in itertools.product('ab"\\\né', repeat=length):
            text = json.dumps("".join(row), ensure_ascii=False)
            assert (pattern.fullmatch(text) is not None) == (search.search("".join(row)) is not None), text


@pytest.mark.parametrize("wanted", [None, "^[ab]*$", "^.{2,}$", "^(a|\n|é){0,3}$"])
def test_lengths_of_strings(wanted):
    """They count characters, not the signs that write them."""
    for least, most in ((0, 2), (1, None), (2, 2), (0, 0)):
        limits = {"minLength": least} | ({} if most is None else {"maxLength": most})
        schema = {"type": "string"} | limits | ({} if wanted is None else {"pattern": wanted})
        pattern = compiled(schema)
        for row in (row for length in range(4) for row in itertools.product('ab"\né', repeat=length)):
            expected = least <= len(row) <= (4 if most is None else most)
            expected &= wanted is None or re.search(wanted.replace("$", r"\Z"), "".join(row)) is not None
            assert (pattern.fullmatch(json.dumps("".join(row), ensure_ascii=False)) is not None) == expected


def reads(reader, text):
    try:
        return bool(reader(text))
    except ValueError:
        return False


def test_formats():
    pattern = re.compile(json_schema({"format": "date"}))
    for year, month, day in itertools.product((1, 1896, 1900, 2000, 2023, 2024, 2100), range(14), range(33)):
        text = f"{year:04}-{month:02}-{day:02}"
        assert (pattern.fullmatch(f'"{text}"') is not None) == reads(datetime.date.fromisoformat, text), text
    pattern = re.compile(json_schema({"format": "ipv4"}))
    for number in (*map(str, range(300)), "01", "", "-1"):
        for text in (f"{number}.0.255.1", f"1.2.3.{number}", f"1.2.{number}"):
            assert (pattern.fullmatch(f'"{text}"') is not None) == reads(ipaddress.IPv4Address, text), text
    pattern = re.compile(json_schema({"format": "uuid"}))
    assert pattern.fullmatch(f'"{uuid.UUID(int=2**127 + 12345)}"')
    assert not pattern.fullmatch(f'"{uuid.UUID(int=5).hex}"')


REFUSED = {  # with words of the message
    "unknown": (
        {"properties": {"a": {"uniqueItems": True}}},
        "'uniqueItems', which is not supported, at #/properties/a",
    ),
    "recursion": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}},
        "refers to #/\\$defs/n within",
    ),
    "root": ({"properties": {"a": {"$ref": "#"}}}, "refers to # within itself"),
    "far": ({"$ref": "http://a.b/c"}, "refers to 'http://a.b/c'"),
    "absent": ({"$ref": "#/$defs/a"}, "which is not there"),
    "no text": ({"properties": {"a": False}, "required": ["a"]}, "no JSON text"),
    "opposed types": ({"allOf": [{"type": "null"}, {"type": "string", "minLength": 1}]}, "no JSON text"),
    "kind": ({"minLength": "3"}, "minLength of the schema at #: it is a text"),
    "type": ({"type": "strin"}, "did you mean string"),
    "part": ({"properties": {"a": 3}}, "the schema at #/properties/a"),
    "format": ({"format": "email"}, "the format 'email' at #; expected date, time"),
    "multiples": ({"type": "integer", "multipleOf": 7}, "multipleOf 7 at #; expected a power of ten"),
    "zero": ({"type": "integer", "multipleOf": 0}, "positive multipleOf"),
    "digits": ({"type": "number", "minimum": 1e-300}, "at most 40 digits"),
    "length": ({"pattern": "^a|b$", "maxLength": 1}, "limits of the length"),
    "look": ({"pattern": "(?=a)b"}, "has assert"),
    "middle": ({"pattern": "a^b"}, "has at"),
    "flags": ({"pattern": "(?i)a"}, "has flags"),
    "control": ({"pattern": "[\\x00\\x01]"}, "a set without characters"),
    "broken": ({"pattern": "(a"}, "cannot be read"),
    "enum": ({"enum": ["a"], "minLength": 2}, "minLength beside enum"),
    "two patterns": ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "two of pattern"),
    "two lists": ({"allOf": [PAIR, {"items": NULL}]}, "prefixItems and other items"),
    "name": ({"properties": {"a": {"$id": "b"}}}, "'\\$id', which is not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_named(name):
    schema, words = REFUSED[name]
    with pytest.raises(UnmaskError, match=words):
        json_schema(schema)


def doubled(levels):
    """Each part twice within the one before it."""
    parts = {str(n): {"prefixItems": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/0", "$defs": parts | {str(levels): NULL}}


COSTLY = {
    "doubled": doubled(20),
    "keys": {"properties": {f"key {n}": NULL for n in range(50_000)}},
    "branches": {"allOf": [{"anyOf": [{"minimum": n}, {"maximum": n}]} for n in range(20)]},
    "merged": {"allOf": [{"properties": {f"key {n}": NULL}} for n in range(20_000)]},
    "sets": {"pattern": "".join(f"[{chr(19968 + n)}a]" for n in range(20_000))},
    "letters": {"enum": ["é" * 10 + str(n) for n in range(50_000)]},
    "any": {"properties": {f"{n}": True for n in range(2000)}},
    "digits": {"properties": {f"{n}": {"minimum": -1e39, "multipleOf": 1e-39} for n in range(1000)}},
}


@pytest.mark.parametrize("name", COSTLY)
def test_a_schema_is_limited_by_its_work(name):
    begin = time.process_time()
    with pytest.raises(UnmaskError, match=r"over 2097152 steps|than 64 deep"):
        json_schema(COSTLY[name])
    assert time.process_time() - begin < 2


def test_a_file_has_a_schema_or_a_template(tmp_path):
    """It is read by the tokens of an automaton, with spaces behind it."""
    for form, text in (
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "const": "é"}, '"é"'),
        ({"type": "object", "properties": {"type": {"pattern": "^é$"}}}, '{"type": "é"}'),
        ({"properties": "null", "const": ["object"]}, '{"properties": null, "const": "object"}'),
    ):
        (tmp_path / "s.json").write_text(json.dumps(form))
        signs = tuple(sorted({*text, "\\", " ", "\n", "u"}))
        automaton = regex(read_schema(tmp_path / "s.json"), len(signs), signs)
        for one, accepted in ((text, True), (text + " \n", True), (text[1:], False), (text + text, False)):
            assert automaton.accepts(torch.tensor([[signs.index(sign) for sign in one]]))[0] == accepted
