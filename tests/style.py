"""The style of CONTRIBUTING.md as rules: words that are not used, and the longest sentence.

    python -m tests.style [PATH ..]    list the violations in these files; without a path, in all

The rules read text that people meet: docstrings, messages and help (found in the syntax tree), documents, pages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST = 35  # words in a sentence

WORDS = {  # pattern: write this instead. Patterns ignore case.
    r"\bluck\w*": "randomness, random numbers, random seed",
    r"(?<!power )(?<!scaling )(?<!Zipf's )\blaws?\b(?! of large)": "distribution",
    r"\byardsticks?\b": "metric",
    r"\b(?:an?|the|this|its|their|each|that|by|of|as|in|least|largest|smallest) shares?\b|\bshares? (?:of|that)\b": (
        "fraction, percentage"
    ),
    r"(?<!-)\brounds?\b(?! (?:trip|to|up|down|off|robin))": "step",
    r"\b(?:an?|one|the|each|every|per|of|no|more|many|last|first|another|same) looks?\b": "model call",
    r"\bevaluations\b": "model calls",
    r"\bdear(?:er|est|ly)?\b": "expensive",
    r"\b(?:says?|said|tells?|told)\b": "shows, prints, reports, means",
    r"\bstands?\b(?! for)": "is",
    r"\b(?:whoever|nobody|somebody|anybody|everybody)\b": "users, no user, a person",
    r"\bof (?:yours|ours|theirs|one's own|its own)\b": "your, our, their, its",
    r"\b(?:is|are|was|were) no\b(?<!there is no)(?<!there are no)(?<!there was no)(?<!there were no)": "is not",
    r"(?<!there )\b(?:is|are) none\b": "is not",
    r"\b(?:are others|other ones)\b": "differ; others",
    r"\bunless told otherwise\b": "(default: X)",
    r"\b(?:house|rooms?|front door)\b": "package, public API",
    r"\b(?:hold|held|holds|holding) (?:\w+ ){0,2}against\b": "compare with",
    r"\bnot told apart\b": "not distinguishable",
    r"\bso many\b|\bas many\b(?! \w+ as)(?! as)": "that number, the same number",
    r"\bone who\b|\bthose who\b|\bhe who\b": "users who",
    r"\bin the mean\b": "on average",
    r"\banew\b": "again",
    r"\bplaces?\b(?<!in place)(?<!takes place)(?<!take place)(?<!decimal places)(?<!in place of)": "position",
    r"\bhence\b|\bwhence\b": "so, therefore",
}
ANY = re.compile("|".join(WORDS), re.IGNORECASE)
WHAT = re.compile(r"\bwhat\b", re.IGNORECASE)  # in the place of a noun; questions may have it
OPENING = re.compile(r"(?:Of|As|Without|In place of|What) ")
SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) )")

EXCEPTIONS: dict[str, list[tuple[str, str]]] = {  # file (or "*"): fragments that are allowed there, with the reason
    "CONTRIBUTING.md": [
        (f" {words} ", "the glossary lists the words that are not used")
        for words in ("round, turn", "place", "law", "yardstick", "share", "luck, chance", "wrong, cannot stand")
    ]
    + [('"what"-clauses', "the rule itself"), ("problem. expected. what to do.", "the form of a message")],
    "src/unmask/models/open/probing.py": [
        ("asked him what he had bought. Bread, he said, and", "a test text for models"),
    ],
}


NAMES = {  # parts of identifiers that are not used, and whole names of variables: write this instead
    "luck": "rng",
    "law": "distribution",
    "laws": "distributions",
    "yardstick": "metric",
    "yardsticks": "metrics",
    "rounds": "steps",
    "house": "package",
}
PUBLIC = {"assert_law", "assert_same_law", "decoder_law"}  # short names of functions that users type
VAGUE = {"found", "said", "made", "kept", "told", "asked"}  # a variable says what it holds


class Text(NamedTuple):
    path: Path
    line: int
    text: str


class Violation(NamedTuple):
    path: Path
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.found!r}: write {self.instead}"


def files() -> list[Path]:
    source = ROOT / "src" / "unmask"
    found = [*source.rglob("*.py"), *source.rglob("*.html"), *source.rglob("*.js")]
    found += [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").glob("*.py")]
    found += (ROOT / "reproduction").glob("*.py")
    return sorted(path for path in found if "__pycache__" not in path.parts)  # where compiled drawings are cached


def texts(path: Path) -> Iterator[Text]:
    read = {".py": of_python, ".md": of_markdown, ".html": of_html, ".js": of_script}[path.suffix]
    for line, text in read(path.read_text("utf-8")):
        yield Text(path, line, text)


def of_python(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, and strings of three words or more, which are messages, help and labels."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    parts -= {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        code = id(node) not in docs and re.match(r"\s*(?:SELECT|INSERT|CREATE|import |[<{(\[^\\])", text)
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and not code:
            yield node.lineno, _without_code(text)


def of_markdown(source: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, headings, list items and cells of tables, without code."""
    source = re.sub(r"```.*?```|<!--.*?-->", lambda m: "\n" * m[0].count("\n"), source, flags=re.DOTALL)
    line = 1
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ))", source):
        for cell in re.split(r"(?<!\\)\|", block) if block.lstrip().startswith("|") else [block]:
            if cell.strip():
                yield line + (len(block) - len(block.lstrip("\n"))), _without_code(cell)
        line += block.count("\n")


def of_html(source: str) -> Iterator[tuple[int, str]]:
    source = re.sub(r"<(script|style).*?</\1>", lambda m: "\n" * m[0].count("\n"), source, flags=re.DOTALL)
    source = re.sub(r"<code>.*?</code>|\{[^{}<>]*\}", "CODE", source, flags=re.DOTALL)  # {..}: a number of a view
    for match in re.finditer(r">([^<>]*[A-Za-z]{2}[^<>]*)<", source):
        yield source.count("\n", 0, match.start(1)) + 1, match[1]


def of_script(source: str) -> Iterator[tuple[int, str]]:
    source = re.sub(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", "", source, flags=re.DOTALL)
    for match in re.finditer(r'"([^"\n]*)"|`([^`]*)`', source):
        text = re.sub(r"\$\{[^}]*\}", "X", match[1] or match[2] or "")
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3:
            yield source.count("\n", 0, match.start()) + 1, text


def _without_code(text: str) -> str:
    text = re.sub(r"``.*?``|`[^`\n]*`", "CODE", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def violations(read: Text) -> Iterator[Violation]:
    name = str(read.path.relative_to(ROOT)) if read.path.is_relative_to(ROOT) else read.path.name
    allowed = [fragment for fragment, _ in EXCEPTIONS.get(name, ())]
    allowed += [fragment for fragment, _ in EXCEPTIONS.get("*", ())]
    text = read.text
    for fragment in allowed:
        text = text.replace(fragment, "ALLOWED")

    def fault(at: int, found: str, instead: str) -> Violation:
        return Violation(read.path, read.line + text.count("\n", 0, at), found, instead)

    for pattern, instead in WORDS.items() if ANY.search(text) else ():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield fault(match.start(), text[max(0, match.start() - 20) : match.end() + 20], instead)
    if (match := OPENING.match(text)) and not text.rstrip().endswith("?"):
        yield fault(0, text[:40], "the noun first: no beginning with Of, As, Without, What")
    at = 0
    for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", text):
        at = text.find(sentence, at)
        if not sentence.rstrip(" *_`").endswith("?") and (match := WHAT.search(sentence)):
            around = sentence[max(0, match.start() - 20) : match.end() + 20]
            yield fault(at + match.start(), around, "the noun that 'what ..' stands for")
        if "    " not in sentence and (count := len(re.findall(r"[A-Za-z][\w'-]*", sentence))) > LONGEST:
            yield fault(at, sentence[:40], f"two sentences: this one has {count} words")


def names(path: Path) -> Iterator[Violation]:
    """Identifiers of the source that hide what they hold, each once per file."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    seen: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = node.name
        else:
            continue
        if name in seen:
            continue
        seen.add(name)
        for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name):
            if (instead := NAMES.get(part.lower())) and name not in PUBLIC:
                yield Violation(path, node.lineno, name, instead)
        if name in VAGUE:
            yield Violation(path, node.lineno, name, "a name of the thing it holds")


def all_violations(paths: list[Path]) -> list[Violation]:
    found = [violation for path in paths for text in texts(path) for violation in violations(text)]
    return found + [violation for path in paths if path.suffix == ".py" for violation in names(path)]


if __name__ == "__main__":
    chosen = [Path(given).resolve() for given in sys.argv[1:]]
    inside = [path for path in files() if not chosen or any(path.is_relative_to(place) for place in chosen)]
    faults = all_violations(inside)
    print(*faults, f"{len(faults)} violations in {len(inside)} files", sep="\n")
    sys.exit(bool(faults))
