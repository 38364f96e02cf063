"""JSON Schema against the JSON-Schema-Test-Suite: which schemas become a pattern, and which verdicts are right.

    python -m benchmarks.schemas DIR   DIR: a checkout or a bare mirror of json-schema-org/JSON-Schema-Test-Suite
    python -m benchmarks.schemas       the time and the length of a schema of 20 keys

The required tests of draft 2020-12. An instance is written by json.dumps, its keys in the order of the schema. A wrong
verdict is named by the rule of docs/joint-draws.md that it follows from; `no rule` would be a mistake.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.languages.patterns import regex
from unmask.languages.schemas import FORMATS, KINDS, LEVELS, OF_TYPE, PLACES, WIDER, Reading, json_schema

DRAFT = "tests/draft2020-12"
ASCII = tuple(map(chr, range(128)))


def files(root: Path) -> Iterator[tuple[str, Any]]:
    """(name, groups of tests) of each file."""
    if (root / DRAFT).is_dir():
        texts = {path.stem: path.read_text() for path in (root / DRAFT).glob("*.json")}
    else:
        git = ["git", "-C", str(root)]
        names = subprocess.run([*git, "ls-tree", "--name-only", "HEAD", f"{DRAFT}/"], check=True, capture_output=True)
        paths = [Path(name) for name in names.stdout.decode().split() if name.endswith(".json")]
        texts = {
            path.stem: subprocess.run([*git, "show", f"HEAD:{path}"], check=True, capture_output=True).stdout.decode()
            for path in paths
        }
    for name in sorted(texts):
        yield name, json.loads(texts[name])


def parts(value: Any) -> Iterator[Any]:
    """A value and all within it."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(inner)


def ordered(instance: Any, keys: list[str]) -> Any:
    """The instance, the keys of its objects in the order in which the schema names them."""
    if isinstance(instance, list):
        return [ordered(inner, keys) for inner in instance]
    if not isinstance(instance, dict):
        return instance
    places = sorted(instance, key=lambda key: keys.index(key) if key in keys else len(keys))
    return {key: ordered(instance[key], keys) for key in places}


def top(value: Any) -> Iterator[dict[str, Any]]:
    """A schema, or several, and those that hold for the same value."""
    forms = [value] if isinstance(value, dict) else value if not isinstance(value, bool | None) else ()
    for form in forms:
        if isinstance(form, dict):
            yield form
            for keyword in ("allOf", "anyOf", "oneOf"):
                yield from top(form.get(keyword, []))


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def rule(schema: Any, instance: Any, valid: bool) -> str:
    """The rule by which our verdict differs from that of the suite."""
    forms = [part for part in parts(schema) if isinstance(part, dict)]
    used = {keyword for form in forms for keyword in form}
    if not valid:
        return "oneOf is anyOf" if "oneOf" in used else "no rule"
    tops = [*top(schema), *(top(schema.get("$defs", {}).values()))]
    about = {kind for kind, keywords in OF_TYPE.items() for form in tops if keywords & form.keys()}
    about |= {kind for form in tops for kind in parts(form.get("type")) if isinstance(kind, str)}
    kind = KINDS.get(type(instance), "null")
    named = {key for form in forms for key in (*form.get("properties", ()), *form.get("required", ()))}
    floats = [part for part in (*parts(instance), *parts(schema)) if isinstance(part, float)]
    if about and not {kind, WIDER.get(kind)} & about:
        return "a type that no keyword is about"
    unnamed = any(isinstance(part, dict) and {*part} - named for part in parts(instance))
    if isinstance(instance, dict) and "properties" in used and (unnamed or "anyOf" in used):
        return "a key that is not named"
    if "prefixItems" in used and isinstance(instance, list):
        return "an item that is not named"
    if any("e" in repr(one) or one % 1 == 0 or len(repr(one).partition(".")[2]) > PLACES for one in floats):
        return "a number written in another way"
    if any(form.get("format") in FORMATS for form in forms):
        return "a format is a constraint"
    if str(schema.get("$schema")).startswith("http://localhost"):
        return "a vocabulary without limits"
    return "an any value too deep" if depth(instance) > LEVELS else "no rule"


def measure(root: Path) -> None:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for name, groups in files(root):
        for group in groups:
            schema, row = group["schema"], rows[name]
            row["schemas"] += 1
            try:
                pattern = Reading(schema).pattern(schema, ("#",))
            except UnmaskError as error:
                refused[reason(str(error))] += 1
                continue
            row["read"] += 1
            keys = [key for part in parts(schema) if isinstance(part, dict) for key in part]
            keys = [*dict.fromkeys(keys + [name for name in parts(schema) if isinstance(name, str)])]
            for test in group["tests"]:
                text = json.dumps(ordered(test["data"], keys), ensure_ascii=False)
                ours = pattern is not None and re.fullmatch(pattern, text) is not None
                row["verdicts"] += 1
                row["right"] += ours == test["valid"]
                row["wrongly accepted"] += ours and not test["valid"]
                if ours != test["valid"]:
                    rules[why := rule(schema, test["data"], test["valid"])] += 1
                    if why == "no rule":
                        print(f"no rule: {name}: {group['description']}: {test['description']}: {text}")
    columns = ("read", "schemas", "right", "verdicts", "wrongly accepted")
    print(f"| file | {' | '.join(columns)} |\n|{'---|' * 6}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(str(row[column]) for column in columns)} |")
    print(f"| all | {' | '.join(str(sum(row[column] for row in rows.values())) for column in columns)} |")
    for title, counts in (("Wrong verdicts", rules), ("Schemas that are refused", refused)):
        print(f"\n{title}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}")


def reason(message: str) -> str:
    """The keyword, or the first words of a refusal."""
    found = re.match(r"the schema has '([^']*)', which", message)
    return found[1] if found else " ".join(message.replace("the schema ", "").split()[:3])


def speed() -> None:
    kinds: list[Any] = [
        {"type": "integer", "minimum": 0, "maximum": 120},
        {"type": "string", "maxLength": 30},
        {"type": "array", "items": {"type": "number"}, "maxItems": 5},
        {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        {"enum": ["red", "green", "blue"]},
    ]
    properties = {f"key {number}": kinds[number % 5] for number in range(20)}
    for name, required in (("all required", [*properties]), ("all optional", [])):
        schema = {"type": "object", "properties": properties, "required": required}
        begin = time.process_time()
        pattern = json_schema(schema)
        middle = time.process_time()
        automaton = regex(pattern, len(ASCII), ASCII)
        end = time.process_time()
        print(
            f"20 keys, {name}: {middle - begin:.4f} s to a pattern of {len(pattern)} characters; "
            f"{end - middle:.2f} s to {automaton.states} states"
        )


if __name__ == "__main__":
    measure(Path(sys.argv[1])) if sys.argv[1:] else speed()
