"""Every input that ever broke the promise, by its name, and others of its kind: short descriptions, no stored files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.promise import Case, Content
from tests.hostile.spoiling import (
    HUGE,
    STORE,
    array,
    beside,
    bytes_at,
    config,
    described,
    edited,
    facts,
    in_place,
    keyed,
    line,
    npy,
    setting,
    text_of,
)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**10)


DIGITS = "9" * 30
GENERATE = "generate --language interval-5 --length 20 --rows 10 --steps 4 --out o.npy"
TRAIN = "train --language paper-2gram --steps 2 --hidden 16 --heads 2 --length 8 --batch 4 --out n"
READ = "train --text t --steps 2 --layers 1 --hidden 16 --heads 2 --length 8 --batch 4 --out n"
TIME = "model time --preset quick --lengths 8 --batch 1 --steps 4 --repeats 1"
BOARD = (
    "board --rows 10 --samplers ancestral strided --languages interval-5 --lengths 8 --steps 2 4 --seeds 2 --out board"
)
BOMB = "&a [x, x, x, x, x, x, x, x, x, x]"


def _with(command: str, **options: Any) -> list[str]:
    """A command's words, an option of it with another value: that it has once."""
    words = command.split()
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
        words += [flag, str(value)]
    return words


def _samples() -> dict[str, Case]:
    describe_many = "(" * 4000 + ")" * 4000
    files: dict[str, Content] = {
        "hdr_deep": npy(describe_many),
        "hdr_str": npy(described(shape="ab")),
        "hdr_void": npy(described(descr="|V0")),
        "unsigned": array(np.full((2, 3), 2**64 - 1, np.uint64)),
        "nothing": b"",
        "directory": Path.mkdir,
        "zip": b"PK\3\4junk",
    }
    made = {
        f"score_{name}": Case(["score", "s.npy", "--language", "paper-2gram"], {"s.npy": content})
        for name, content in files.items()
    }
    lines = {
        "huge": "[1, " + "9" * 5000 + "]\n",
        "surrogate": '{"tokens": ["\\ud800"]}\n',
        "null": "[null, 1]\n",
        "utf16": "[1, 2]\n".encode("utf-16"),
    }
    made |= {
        f"lines_{name}": Case(["score", "s.jsonl", "--language", "paper-2gram"], {"s.jsonl": content})
        for name, content in lines.items()
    }
    made |= {
        f"given_{name}": Case([*GENERATE.split(), "--given", "s.jsonl"], {"s.jsonl": content})
        for name, content in lines.items()
    }
    for name, change in {
        "source": setting("source", to=[1]),
        "code": setting("origin", "code", to="[/red]"),
        "list": lambda content: [content],
    }.items():
        made[f"acct_{name}"] = Case(
            ["score", "samples.npy", "--language", "interval-5"],
            {"samples.npy": None, "samples.npy.json": ("samples.npy.json", edited("", change))},
        )
    made["acct_given"] = Case(
        ["score", "prompted.npy", "--language", "ngram.json"],
        {"prompted.npy": None, "prompted.npy.json": None, "prompted.given.npy": pipe, "ngram.json": None},
    )
    return made


def _languages() -> dict[str, Case]:
    brackets = {"kind": "brackets", "kinds": 2, "depth": 3, "stop": 0.5}
    hmm = {"kind": "hmm", "initial": [1, 0], "transition": [[0.5, 0.5], [1, 0]], "emission": [[1, 0], [0.5, 0.5]]}
    forms: dict[str, Any] = {
        "brk1": brackets | {"depth": 10**9},
        "brkstates": brackets | {"depth": 9},
        "width_float": {"kind": "interval", "width": 3.0},
        "namesnumbers": {"kind": "interval", "width": 3, "names": [1, 2, 3, 4]},
        "hmm_empty": hmm | {"initial": []},
        "kindnone": {"kind": None},
    }
    made = {
        f"show_{name}": Case(["show", "language", "l.json"], {"l.json": text_of(form)}) for name, form in forms.items()
    }
    plan = ["plan", "--language", "l.json", "--length", "16", "--target", "0.1", "--json"]
    made["plan_brk1"] = Case(plan, {"l.json": text_of(forms["brk1"])})
    made["show_l_pipe"] = Case(["show", "language", "l.json"], {"l.json": pipe})
    made["show_l_sparse"] = Case(["show", "language", "l.json"], {"l.json": sparse})
    made["show_l_deep"] = Case(["show", "language", "l.json"], {"l.json": "[" * 10**5})
    made["train_interval"] = Case(
        _with(TRAIN, language="l.json", steps=1), {"l.json": text_of({"kind": "interval", "width": 16})}
    )
    return made


def _recipes() -> dict[str, Case]:
    head = "name: r\njobs: [samples]\nfixed: {language: interval-5, length: 8}\nrows: 10\n"
    texts: dict[str, str | bytes] = {
        "bomb_grid": f"a: {BOMB}\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n"
        "g: &g [*f,*f,*f,*f,*f,*f,*f,*f]\ngrid: {steps: *g}\n" + head,
        "date": head + "grid: {steps: [2001-99-99]}\n",
        "binary": head + "grid: {steps: !!binary abc}\n",
        "nothing": b"",
        "seed70": head + f"seeds: [{2**70}]\n",
        "markup": head.replace("name: r", 'name: "[/red]\\e[31m"'),
    }
    made = {
        f"rec_{name}": Case(
            ["sweep", "run", "r.yaml", "--store", "st", "--workers", "1", "--dry-run"], {"r.yaml": text}
        )
        for name, text in texts.items()
    }
    for name, value in {
        "date": "rows=2001-99-99",
        "list": "steps=[1",
        "deep": "steps=" + "[" * 5000,
    }.items():
        made[f"sw_set{name}"] = Case(["sweep", "run", "tiny.yaml", "--set", value, "--dry-run"], {"tiny.yaml": None})
    return made


def _networks() -> dict[str, Case]:
    nets: dict[str, Content] = {
        "weightsfifo": ("net", in_place("model.safetensors", pipe)),
        "cfg_hidhuge": config(hidden=4 * 10**9),
        "cfg_zero": config(hidden=0),
        "tj_labelmark": ("net", edited("training.json", setting("origin", "configuration", "label", to="a[/red]"))),
    }
    made: dict[str, Case] = {}
    for name, net in nets.items():
        made[f"net_{name}_learning"] = Case(
            ["model", "learning", "net", "--rows", "20", "--contexts", "5", "--steps", "2", "--json"], {"net": net}
        )
        made[f"net_{name}_generate"] = Case(
            ["generate", "--model", "net", "--out", "o.npy", "--rows", "10", "--steps", "4"], {"net": net}
        )
    states: dict[str, Content] = {
        "meta_bad": facts(lambda said: "{bad"),
        "stephuge": facts(setting("step", to=2**62)),
        "journal": facts(setting("journal", to=[1])),
    }
    for name, net in states.items():
        made[f"net_state_{name}_resume"] = Case(["train", "--out", "net", "--resume"], {"net": net})
    made["train_steps_twice"] = Case(
        [*TRAIN.split()[:-1], "net"], {"net": ("net", in_place("state.safetensors", pipe))}
    )
    return made


def _texts() -> dict[str, Case]:
    texts: dict[str, Content] = {
        "fifo": pipe,
        "same": "twice\n\ntwice",
        "blank": " \n\n \n\n",
    }
    made = {f"text_{name}": Case(READ.split(), {"t": content}) for name, content in texts.items()}
    good = {"t": "\n\n".join(f"{number} cats" * 9 for number in range(9))}
    for name in (
        "bpe:1000000000000000",
        "bpe:-5",
        "gpt2:t",
        "[/red]",
        "os:system",
        "",
    ):
        made[f"text_tokenizer_{name}"] = Case([*READ.split(), "--tokenizer", name], good)
    tokenizers: dict[str, Any] = {
        "pipe": pipe,
        "deep": "[" * 100_000,
        "size": {"kind": "chars", "symbols": "ab"},
        "none": {"kind": "bpe", "name": "x", "symbols": [], "merges": [], "separator": 0, "split": "words"},
    }
    for name, content in tokenizers.items():
        make = content if callable(content) or isinstance(content, bytes | str) else text_of(content)
        for command in (
            "generate --model net --rows 2 --steps 2 --out o.txt",
            "generate --model net --prompt a --out o.npy",
        ):
            said = command.split()
            made[f"text_file_{name}_{said[3]}"] = Case(
                said, {"net": ("net", in_place("tokenizer.json", _written(make)))}
            )
    for prompt in ("\udcff", "x" * 10**5, "\0", ""):
        made[f"text_prompt_{prompt[:3]!r}"] = Case(
            ["generate", "--model", "net", "--prompt", prompt, "--out", "o.npy"], {"net": None}
        )
    return made


def _written(content: Any) -> Any:
    """What makes a file of this content."""
    if callable(content):
        return content
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


STORE_COMMANDS = {
    "status": "sweep status st",
    "resume": "sweep resume st --workers 1",
    "export": "sweep export st --out t.csv",
    "run": "sweep run tiny.yaml --store st --workers 1",
    "report": "report st --out r",
}


def _without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def _stores() -> dict[str, Case]:
    stores: dict[str, Content] = {f"bytes{number}": bytes_at(number / 7) for number in range(7)} | {
        "fifo": beside(STORE, pipe),
        "dome": line("done", lambda done: done | {"type": "dome"}),
        "no_level": line("done", lambda done: done | {"records": [_without(one, "level") for one in done["records"]]}),
        "half": line("done", lambda done: done | {"records": [{"measure": "a", "value": 1, "\udcff": 2}]}),
        "version": line("run", lambda run: run | {"schema": 10**6}),
        "kind": line("done", lambda done: done | {"type": "x[/red]"}),
        "no_values": line("cell", lambda cell: keyed(cell | {"values": {}})),
        "records_int": line("done", lambda done: done | {"records": 3}),
        "tally": line("block", lambda block: block | {"tally": {"x": 1.5}}),
        "lock_deep": beside("lock", "[" * 4096),
    }
    made = {}
    for name, store in stores.items():
        for command, words in STORE_COMMANDS.items():
            files: dict[str, Content] = {"st": store}
            files |= {"tiny.yaml": None} if command == "run" else {}
            made[f"st_{name}_{command}"] = Case(words.split(), files, changes=("st/",))
    _, spoil = line("done", lambda done: done | {"records": [{"measure": "\udcff"}]})
    made["st_of_a_board"] = Case(
        BOARD.split(), {"board": ("board", lambda path: spoil(path / "sweep"))}, changes=("board/",)
    )
    return made


def _constraints() -> dict[str, Case]:
    """Patterns, templates and machines, which a draw reads."""
    draw = "generate --language interval-5 --length 10 --rows 2 --steps 2 --out o.npy --draw fitted(constraint={})"
    deep = '{"a": ' * 900 + '"null"' + "}" * 900
    patterns = ["(?u)0*", "(0{1,1000}){1,1000}", "(0|1|01|10|011){1,300}", "0" * 5000, "[[0]", "(" * 900 + ")" * 900]
    templates = {
        "deep": deep,
        "twice": '{"a": "null", "a": "null"}',
        "many": text_of({f"{n}": "null" for n in range(1000)}),
    }
    machines = {"far": {"vocabulary": 10**9}, "none": {"vocabulary": 0, "moves": [{"0": 0}]}, "neg": {"vocabulary": -1}}
    made = {
        f"draw_pattern_{number}": Case([*draw.format(f"regex(pattern='{pattern}')").split()])
        for number, pattern in enumerate(patterns)
    }
    made |= {
        f"draw_template_{name}": Case(draw.format("schema(file='t.json')").split(), {"t.json": text})
        for name, text in templates.items()
    }
    return made | {
        f"draw_machine_{name}": Case(
            draw.format("machine(file='m.json')").split(), {"m.json": text_of({"moves": [{}], "final": [0]} | form)}
        )
        for name, form in machines.items()
    }


def _logs() -> dict[str, Case]:
    """Logs of lm-eval."""
    line = {"doc_id": 0, "metrics": ["acc"], "acc": 1, "filter": "none", "doc_hash": "h"}
    name = "lm/samples_arc_2025-01-01T00-00-00.0.jsonl"
    results = name.replace("samples_arc", "results").removesuffix("l")
    made = {
        f"logs_{field}_{number}": Case(["eval", "show", "lm"], {name: text_of(line | {field: value})})
        for field in line
        for number, value in enumerate((None, [1], {"a": 1}, 2**70, "x", HUGE))
    }
    forms: list[Any] = [[], {"config": []}, {"config": {"model_args": [1]}}, {"config": {"model": {}}}]
    return made | {
        f"logs_results_{number}": Case(["eval", "show", "lm"], {name: text_of(line), results: text_of(form)})
        for number, form in enumerate(forms)
    }


def _numbers() -> dict[str, Case]:
    short = {"gen": GENERATE, "train": TRAIN, "time": TIME}
    asked: dict[str, dict[str, list[Any]]] = {
        "gen": {
            "length": [DIGITS, 2**63, 10**12], "steps": [DIGITS, 10**12], "rows": [10**9, DIGITS], "top-k": [2**64],
            "seed": [2**70, DIGITS], "first-row": [2**63 - 1, -1, DIGITS], "rows-per-prompt": [10**12],
            "temperature": ["nan", "inf", "1e308", "-1"], "top-p": ["nan", "0", "2"], "batch": [10**12],
            "out": ["a\nb.npy", "a\0b.npy", "x" * 240 + ".npy", "no/where.npy", "/dev/null", "/proc/x.npy", ".npy",
                "o.txt", "\udcff.npy"],
        },
        "train": {
            "steps": [10**12, DIGITS], "length": [DIGITS, 10**12], "layers": [10**12, DIGITS], "samples": [10**12,
                DIGITS],
            "threads": [DIGITS, 10**6], "hidden": [10**12, 0], "heads": [0, 7, DIGITS],
            "batch": [10**12], "rate": ["nan", "inf", "-1"], "average": ["2", "nan"], "accumulate": [10**12],
            "device": ["cuda:99", "x"], "precision": ["float1"], "preset": ["nope"], "model": ["nope"], "seed": [2**70],
        },
        "time": {"layers": [10**12], "threads": [10**12, DIGITS], "lengths": [10**12], "batch": [10**12],
                 "steps": [10**12], "repeats": [10**12], "vocabulary": [10**12, DIGITS], "hidden": [10**12]},
    }  # fmt: skip
    made = {}
    for command, options in asked.items():
        for option, values in options.items():
            for number, value in enumerate(values):
                words = _with(short[command], **{option: value})
                made[f"{command}_{option}_{number}"] = Case(words)
    others = {
        "th2_length": f"theory exact --language paper-2gram --length {DIGITS} --steps 4",
        "show_len": f"show language paper-2gram --length {DIGITS}",
        "fit_vocabulary": "model fit text --out o.json --max-vocabulary 0",
        "audit_order": "audit samples.npy --language interval-5 --steps 4 --order samples.npy",
        "markup": "generate [/red] \x1b[31m",
    }
    files: dict[str, Content] = {"text": None, "net": None, "samples.npy": None}
    made |= {name: Case(words.split(" "), files) for name, words in others.items()}
    for name, value in {
        "digits": "9" * 5000,
        "minus": "-1",
        "spaces": " 2 ",
    }.items():
        made[f"UT_{name}"] = Case(GENERATE.split(), environment={"UNMASK_THREADS": value})
    for name, value in {"word": "abc", "digits": "9" * 5000, "two": "2"}.items():
        made[f"WORLD_{name}"] = Case(TRAIN.split(), environment={"WORLD_SIZE": value})
    made["train_decay"] = Case(
        _with(TRAIN, steps=1, weight_decay=1e30), changes=("n",)
    )  # which keeps its first checkpoint
    made["RANK_word"] = Case(TRAIN.split(), environment={"WORLD_SIZE": "2", "RANK": "x"}, changes=("n",))
    return made


def cases() -> dict[str, Case]:
    return (
        _samples()
        | _constraints()
        | _logs()
        | _languages()
        | _recipes()
        | _networks()
        | _texts()
        | _stores()
        | _numbers()
    )
