"""Files of every kind, changed with their structure in mind: whatever they hold, commands keep the promise."""

from __future__ import annotations

import json
import os
from inspect import Parameter, Signature, signature
from random import Random

import pytest

from tests.hostile import mutations
from tests.hostile.cases import BOARD, STORE_COMMANDS
from tests.hostile.oracle import Case, Server
from tests.hostile.seeds import LANGUAGES, RECIPE

EXAMPLES = int(os.environ.get("UNMASK_HOSTILE", "1"))  # times as many cases as usual


def cases(count: int):
    """So many cases with a generator each, always the same; `make test` tries a quarter of them."""

    def decorate(test):
        def tried(quarter: int, **given: object) -> None:
            for number in range(quarter, count * EXAMPLES, 4):
                test(random=Random(number), **given)

        names = ["quarter", *(name for name in signature(test).parameters if name != "random")]
        tried.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])
        return pytest.mark.rotates(4)(pytest.mark.parametrize("quarter", range(4))(tried))

    return decorate


def check(server: Server, case: Case) -> None:
    ran = server.run(case)
    assert not ran.wrong, f"{'; '.join(ran.wrong)}\n{case!r}\nexit {ran.code}\n{ran.err[-2000:]}"


@pytest.mark.parametrize("kind", LANGUAGES)
@cases(20)
def test_languages(server: Server, kind: str, random: Random):
    words = random.choice((
        "show language l.json --length 8",
        "show language l.json --length 6 --steps 2 --rows 5",
        "generate --language l.json --out o.npy --rows 3 --length 6 --steps 2",
        "generate --language l.json --out o.jsonl --rows 3 --length 6 --steps 2 --sampler left-to-right",
        "language new l.json --out o.json --normalise",
        "theory exact --language l.json --length 6 --steps 2",
    ))  # fmt: skip
    check(server, Case(words.split(), {"l.json": mutations.json_file(LANGUAGES[kind], random)}))


@cases(60)
def test_samples(server: Server, random: Random):
    name = random.choice(("samples.npy", "samples.jsonl"))
    whole = (server.seeds / name).read_bytes()
    made = mutations.npy_file(whole, random) if name.endswith("npy") else _lines(whole.decode(), random)
    words = random.choice((
        f"score {name} --language interval-5",
        f"score {name} --language ngram.json",
        f"audit {name} --language interval-5 --steps 4",
        f"generate --language interval-5 --length 8 --rows 2 --steps 2 --out o.npy --given {name}",
        f"score {name} --language interval-5 --given {name}",
    ))  # fmt: skip
    check(server, Case(words.split(), {name: made, f"{name}.json": None, "ngram.json": None}))


def _lines(whole: str, random: Random):
    if random.random() < 0.4:
        return mutations.text(whole, random)
    rows = mutations.plain([json.loads(line) for line in whole.splitlines()], random)
    return "\n".join(map(mutations.text_of, rows if isinstance(rows, list) else [rows])).encode()


@cases(25)
def test_traces(server: Server, random: Random):
    row = {"length": 4, "given": [[0, 3]], "events": [[1, 2, 1, 0.25], [2, 2, None, None], [2, 1, 0, 0.5]]}
    trace = {"format": "unmask-trace", "version": 1, "vocabulary": 4, "symbols": [*"abcd"], "rows": [row, row]}
    words = random.choice((
        "play t.json",
        "diff t.json t.json",
        "diff t.json --language interval.json",
        "play t.json --language interval.json",
        "play t.json --language interval.json --terminal",
        "play t.json --language interval.json --out o.html",
        "play t.json --language interval.json --out o.json --row 1",
    ))  # fmt: skip
    check(server, Case(words.split(), {"t.json": mutations.json_file(trace, random), "interval.json": None}))


@cases(30)
def test_accounts(server: Server, random: Random):
    name = random.choice(("samples.npy", "prompted.npy"))
    account = json.loads((server.seeds / f"{name}.json").read_text())
    changed = {f"{name}.json": mutations.json_file(account, random)}
    given = "prompted.given.npy"
    if random.random() < 0.3:
        changed = {f"{name}.json": None, given: mutations.npy_file((server.seeds / given).read_bytes(), random)}
    language = "interval-5" if name == "samples.npy" else "ngram.json"
    files = {name: None, "ngram.json": None, given: None} | changed
    check(server, Case(["score", name, "--language", language], files))


@cases(80)
def test_recipes(server: Server, random: Random):
    words = ["sweep", "run", "r.yaml", "--store", "st", "--dry-run"]
    check(server, Case(words, {"r.yaml": mutations.yaml_file(RECIPE, random)}))


@cases(80)
def test_networks(server: Server, random: Random):
    words = random.choice((
        "generate --model net --out o.npy --rows 3 --steps 2",
        "model learning net --rows 10 --contexts 5 --steps 2",
        "train --out net --resume",
        "train --out net --resume",
        "plan --model net --target 0.1 --metric ter",
    ))  # fmt: skip
    check(server, Case(words.split(), {"net": ("net", mutations.network(random))}))


@cases(20)
def test_autoregressive_networks(server: Server, random: Random):
    words = [
        "generate",
        "--model",
        "net",
        "--causal-model",
        "ar",
        "--sampler",
        "speculative",
        "--out",
        "o.npy",
        "--rows",
        "3",
        "--steps",
        "2",
    ]
    check(server, Case(words, {"net": None, "ar": ("ar", mutations.network(random))}))


@pytest.mark.parametrize("command", STORE_COMMANDS)
@cases(25)
def test_stores(server: Server, command: str, random: Random):
    files = {"st": ("store", mutations.store(random)), "tiny.yaml": None, "other": ("store", lambda path: None)}
    check(server, Case(STORE_COMMANDS[command].split(), files, changes=("st/",)))


@cases(15)
def test_kept_rows_of_boards(server: Server, random: Random):
    """What a board keeps of each cell beside its numbers."""

    def change(directory):
        if random.random() < 0.3:
            return mutations.store(random)(directory / "sweep")
        place = random.choice(sorted(directory.glob("sweep/files/*/*")))
        place.write_bytes(mutations.raw(place.read_bytes(), random))

    check(server, Case(BOARD.split(), {"board": ("board", change)}, changes=("board/",)))


@cases(30)
def test_settings_of_the_environment(server: Server, random: Random):
    names = ("UNMASK_THREADS", "WORLD_SIZE", "RANK", "LOCAL_RANK", "COLUMNS", "LINES", "TERM", "TMPDIR", "NO_COLOR")
    values = ("", "x", "0", "1", "-1", "1.5", "9" * 30, "9" * 5000, "٣", " 2", "nowhere", "[/red]", "1" * 19)
    environment = {random.choice(names): random.choice(values) for _ in range(random.choice((1, 1, 2)))}
    words = random.choice((
        "generate --language interval-5 --length 8 --rows 3 --steps 2 --out o.npy",
        "train --language paper-2gram --steps 1 --hidden 8 --heads 1 --layers 1 --length 4 --batch 2 --out n",
        "sweep run tiny.yaml --store st",
        "generate --help",
    ))  # fmt: skip
    check(server, Case(words.split(), {"tiny.yaml": None}, environment, changes=("st",)))  # whose cells then fail


@cases(15)
def test_texts(server: Server, random: Random):
    made = mutations.text((server.seeds / "text").read_text(), random)
    if random.random() < 0.3:
        made = mutations.raw(made, random)
    check(server, Case(["model", "fit", "t", "--out", "o.json", "--order", "2"], {"t": made}))
